"""A real `livejoin run` or `serve` process: start, request, kill in parts, restart."""

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

START_S = 180  # 12 s on an idle machine, 55 s on one with five other busy processes
SAME_S = 120
# In a short test, code compiled by HotSpot's second compiler is hardly used, and the compilation
# takes a third of the CPU time. Measurements leave it enabled.
COLD = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
conf: dict[str, str] = {}  # Spark settings for all processes started
LIVEJOIN = Path(sys.executable).with_name("livejoin")


def until(condition: Callable[[], Any], what: str, limit_s: float = SAME_S) -> Any:
    """Wait for a condition; on timeout, fail with its description."""
    deadline = time.monotonic() + limit_s
    while True:
        output = condition()
        if output:
            return output
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit_s} s: {what}")
        time.sleep(0.05)


class Running:
    """A livejoin in a folder, with the same settings for every start."""

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
        # where a token is required
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.folder = folder
        self.command = command
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self._process: subprocess.Popen[bytes] | None = None
        self.log = folder / "livejoin.log"
        folder.mkdir(parents=True, exist_ok=True)
        config = {
            "kafka": dict(kafka.properties),
            "checkpoints": str(folder / "checkpoints"),
            **settings,
            # access rights are tested elsewhere
            "http": {"port": self.port, "insecure": True, **settings.get("http", {})},
        }
        spark = settings.get("spark", {})
        config["spark"] = {**spark, "conf": {**conf, **spark.get("conf", {})}}
        if "topics" in config:  # the broker is shared, so each livejoin has its own control topic
            own = {"control": f"{settings['name']}.control"}
            config["topics"] = own | settings["topics"]
        (folder / "livejoin.yaml").write_text(yaml.safe_dump(config))

    def start(self, fail_at: str = "") -> None:
        """Start the process, but do not wait until it is ready. It dies at the fail point."""
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
            self.request("readyz")
            return bool(self.request("api/v1/status")["state"] == "live")
        return False

    def request(self, path: str, message: Any = None) -> Any:
        """GET, or POST a message; returns the JSON of the response, also of a rejection."""
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
        """Return the rows of a table by id."""
        return {row["_id"]: row for row in self.request(f"api/v1/tables/{name}")["rows"]}

    def records_read(self) -> int:
        """Return the number of input records that the live generation has read."""
        sources = self.request("api/v1/status")["sources"].values()
        assert all(s["read"] == s["rows"] + s["rejected"] + s["tombstones"] for s in sources)
        return sum(source["read"] for source in sources)

    @property
    def pid(self) -> int:
        """The Python process."""
        assert self._process is not None
        return self._process.pid

    def jvms(self) -> list[int]:
        """Spark's JVM if this process leads, otherwise none."""
        return [pid for pid in descendants(self.pid) if is_spark(pid)]

    def jvm(self) -> int:
        """Spark's JVM."""
        return self.jvms()[0]

    def kill(self, *pids: int) -> None:
        """Kill all of these processes at once with SIGKILL, and wait for the child process."""
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        if self.pid in pids:
            assert self._process is not None
            self._process.wait(10)

    @property
    def exit_code(self) -> int | None:
        """The exit code, once there is one."""
        assert self._process is not None
        return self._process.poll()

    def handles_sigterm(self) -> bool:
        """Whether it has installed its handler; a process that is just starting ends at once."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        return bool(caught >> (signal.SIGTERM - 1) & 1)

    def stop(self, stop_signal: signal.Signals = signal.SIGTERM) -> int:
        """Stop it as a person or a service manager would; returns the exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(stop_signal)
        return self._process.wait(30)


@contextlib.contextmanager
def running(kafka: Kafka, folder: Path, **settings: Any) -> Iterator[Running]:
    """Run a livejoin until the end of the block."""
    one = Running(kafka, folder, **settings)
    one.start()
    try:
        yield one
    finally:
        one.stop(signal.SIGKILL)


def memory_kib(pid: int, what: str = "VmRSS") -> int:
    """Resident memory of a process, or its peak (`VmHWM`)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{what}:")[2].split()[0])


def jvm_memory_kib(jvm: int) -> int:
    """Memory in use by a JVM: its heap after a collection, and all memory outside the heap.

    The rest of the heap is uncollected garbage.
    """
    _jcmd(jvm, "GC.run")
    heap = _jcmd(jvm, "GC.heap_info").partition("Metaspace")[0]
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


def _jcmd(jvm: int, command: str) -> str:
    done = subprocess.run(
        [Path(f"/proc/{jvm}/exe").resolve().with_name("jcmd"), str(jvm), command],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def descendants(pid: int) -> list[int]:
    """All descendants of a process."""
    output = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    children = [int(line) for line in output.stdout.split()]
    return children + [descendant for child in children for descendant in descendants(child)]


def is_java(pid: int) -> bool:
    """Whether a process is a JVM."""
    output = subprocess.run(
        ["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return bool(output.stdout) and "java" in output.stdout.split()[0]


def is_spark(pid: int) -> bool:
    """Whether a process is Spark's JVM: neither `java -version` nor Spark's launcher, which end."""
    output = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    words = output.stdout.split()
    is_launcher = "org.apache.spark.launcher.Main" in words
    return "org.apache.spark.deploy.SparkSubmit" in words and not is_launcher and is_java(pid)


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped (SIGSTOP)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return False  # it has ended


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    output = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return bool(output.stdout.strip()) and not output.stdout.startswith("Z")
