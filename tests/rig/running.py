"""A real `livejoin run` or `serve` process: started, asked, killed in parts, started again."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from livejoin.kafka.cluster import Kafka
from livejoin.runtime import failpoints
from livejoin.runtime.broker import free_port

START_S = 180  # 12 s on a quiet machine, 55 s on one with five other busy processes
SAME_S = 120
# A short test runs code that is cold: what HotSpot's second compiler makes of it is hardly used,
# and takes a third of the processors' time. Whoever measures leaves it on.
COLD = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
conf: dict[str, str] = {}  # of Spark, for all that are started
LIVEJOIN = Path(sys.executable).with_name("livejoin")


def until(true: Callable[[], Any], what: str, limit_s: float = SAME_S) -> Any:
    """Wait for a condition, and fail with its name."""
    deadline = time.monotonic() + limit_s
    while True:
        found = true()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit_s} s: {what}")
        time.sleep(0.05)


class Running:
    """One livejoin over a folder; the same settings for every start."""

    def __init__(
        self,
        kafka: Kafka,
        folder: Path,
        *,
        command: str = "run",
        token: str = "",
        env: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self._env = {**(env or {})}
        # where one is asked for
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.folder = folder
        self.command = command
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self._process: subprocess.Popen[bytes] | None = None
        self.log = folder / "livejoin.log"
        folder.mkdir(parents=True, exist_ok=True)
        chosen = {
            "kafka": dict(kafka.properties),
            "checkpoints": str(folder / "checkpoints"),
            **settings,
            # who may do what is tried elsewhere
            "http": {"port": self.port, "insecure": True, **settings.get("http", {})},
        }
        spark = settings.get("spark", {})
        chosen["spark"] = {**spark, "conf": {**conf, **spark.get("conf", {})}}
        if "topics" in chosen:  # the broker is shared: each has a control topic of its own
            own = {"control": f"{settings['name']}.control"}
            chosen["topics"] = own | settings["topics"]
        (folder / "livejoin.yaml").write_text(yaml.safe_dump(chosen))

    def start(self, fail_at: str = "") -> None:
        """Start the process; it need not be ready yet. It dies at a fail point if one is named."""
        env = {**os.environ, **self._env, failpoints.VARIABLE: fail_at}
        with self.log.open("ab") as log:
            command = [str(LIVEJOIN), self.command, "-c", str(self.folder / "livejoin.yaml")]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=env)

    def wait_live(self, limit_s: float = START_S) -> None:
        """Wait until rows are served."""
        try:
            until(self._is_live, "live", limit_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log.read_text()[-3000:]}") from error

    def _is_live(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()[-3000:]
        with contextlib.suppress(AssertionError):
            self.ask("readyz")
            return bool(self.ask("api/v1/status")["state"] == "live")
        return False

    def ask(self, path: str, message: Any = None) -> Any:
        """GET, or POST a message; the answer as JSON, that of a rejection too."""
        body = None if message is None else json.dumps(message).encode()
        headers = {"content-type": "application/json", **self.headers}
        request = urllib.request.Request(self.url + path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code != 422:
                raise AssertionError(f"{path}: {error}") from error
            return json.load(error)
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            # also one that is killed while it answers
            raise AssertionError(f"{path}: {error}") from error

    def table(self, name: str) -> dict[str, dict[str, Any]]:
        """A table's rows by identity."""
        return {row["_id"]: row for row in self.ask(f"api/v1/tables/{name}")["rows"]}

    def read(self) -> int:
        """How many input records the live generation has read."""
        sources = self.ask("api/v1/status")["sources"].values()
        assert all(s["read"] == s["rows"] + s["rejected"] + s["tombstones"] for s in sources)
        return sum(source["read"] for source in sources)

    @property
    def pid(self) -> int:
        """The Python process."""
        assert self._process is not None
        return self._process.pid

    def jvms(self) -> list[int]:
        """Spark's JVM while this one leads, otherwise none."""
        return [pid for pid in descendants(self.pid) if is_java(pid)]

    def jvm(self) -> int:
        """Spark's JVM."""
        return self.jvms()[0]

    def kill(self, *pids: int) -> None:
        """kill -9, all at once, and wait for our own child."""
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        if self.pid in pids:
            assert self._process is not None
            self._process.wait(10)

    @property
    def ended(self) -> int | None:
        """The exit code, once there is one."""
        assert self._process is not None
        return self._process.poll()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop as a person or a service manager would; the exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(how)
        return self._process.wait(30)


@contextlib.contextmanager
def running(kafka: Kafka, folder: Path, **settings: Any) -> Iterator[Running]:
    """A started livejoin that is gone afterwards."""
    one = Running(kafka, folder, **settings)
    one.start()
    try:
        yield one
    finally:
        one.stop(signal.SIGKILL)


def memory_kib(pid: int, what: str = "VmRSS") -> int:
    """The resident size of a process, or its highest one (`VmHWM`)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{what}:")[2].split()[0])


def held_kib(jvm: int) -> int:
    """What a JVM holds: its heap after a collection, and all that is resident outside of it.

    The rest of the heap is garbage that nobody had a reason to collect.
    """
    _told(jvm, "GC.run")
    heap = _told(jvm, "GC.heap_info").partition("Metaspace")[0]
    used = sum(int(kib) for kib in re.findall(r"Gen\s+total \d+K, used (\d+)K", heap))
    assert used, f"another collector than ours: {heap}"
    places = [int(place, 16) for place in re.findall(r"0x[0-9a-f]+", heap)]
    outside, inside = 0, False
    for line in Path(f"/proc/{jvm}/smaps").read_text().splitlines():
        if start := re.match(r"([0-9a-f]+)-[0-9a-f]+ ", line):
            inside = min(places) <= int(start[1], 16) < max(places)
        elif line.startswith("Rss:") and not inside:
            outside += int(line.split()[1])
    return used + outside


def _told(jvm: int, command: str) -> str:
    done = subprocess.run(
        [Path(f"/proc/{jvm}/exe").resolve().with_name("jcmd"), str(jvm), command],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def descendants(pid: int) -> list[int]:
    """All processes below one."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    children = [int(line) for line in found.stdout.split()]
    return children + [below for child in children for below in descendants(child)]


def is_java(pid: int) -> bool:
    """Whether a process is a JVM that runs something of ours."""
    found = subprocess.run(
        ["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return bool(found.stdout) and "java" in found.stdout.split()[0]


def frozen(pid: int) -> bool:
    """Whether a process was stopped in its tracks."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return False  # it is gone


def alive(pid: int) -> bool:
    """Whether a process is there, zombies aside."""
    found = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return bool(found.stdout.strip()) and not found.stdout.startswith("Z")
