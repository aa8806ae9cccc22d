"""A standalone Spark cluster on this machine, run by the scripts of pyspark."""

import contextlib
import os
import secrets
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyspark

from livejoin.runtime.broker import free_port
from rig.running import descendants, until

_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
_PACKAGE = "org.apache.spark.deploy"


class Cluster:
    """A master, and workers that can be killed with all their executors."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.secret = secrets.token_urlsafe()
        self._properties = folder / "spark.conf"
        self._properties.touch(mode=0o600)
        self._properties.write_text(
            f"spark.authenticate true\nspark.authenticate.secret {self.secret}\n"
            "spark.network.crypto.enabled true\n"
        )
        self._processes: list[subprocess.Popen[bytes]] = []
        port, page = free_port(), free_port()
        self.master = f"spark://127.0.0.1:{port}"
        self._page = f"http://127.0.0.1:{page}/"
        self._start("master", "master.Master", "--port", str(port), "--webui-port", str(page))
        until(self._answers, "the master responds")

    def _start(self, name: str, what: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [_CLASS, f"{_PACKAGE}.{what}", "--host", "127.0.0.1"]
        command += ["--properties-file", str(self._properties), *arguments]
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
        with (self._folder / f"{name}.log").open("ab") as log:
            one = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        self._processes.append(one)
        return one

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(self._page, timeout=5).close()
            return True
        return False

    def worker(self, name: str, cores: int) -> subprocess.Popen[bytes]:
        """Start a worker, and wait until the master has registered it."""
        before = self._workers()
        one = self._start(
            name,
            "worker.Worker",
            *("--cores", str(cores), "--memory", "1g", "--webui-port", str(free_port())),
            *("--work-dir", str(self._folder / name), self.master),
        )
        until(lambda: self._workers() > before, f"{name} is known")
        return one

    def _workers(self) -> int:
        with urllib.request.urlopen(f"{self._page}json/", timeout=5) as answer:
            return int(answer.read().count(b'"ALIVE"'))

    def command_lines(self) -> str:
        """Return all command lines, of executors too: any local user can read them."""
        own_pids = [process.pid for process in self._processes if process.poll() is None]
        pids = [*own_pids, *(descendant for pid in own_pids for descendant in descendants(pid))]
        command = ["ps", "-ww", "-o", "args=", "-p", ",".join(map(str, pids))]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def close(self) -> None:
        """Stop all processes, the master last."""
        for process in reversed(self._processes):
            kill(process)


def kill(worker: subprocess.Popen[bytes]) -> None:
    """Kill a worker and its executors with SIGKILL."""
    if worker.poll() is None:
        for pid in (worker.pid, *descendants(worker.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    worker.wait(10)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Run a master; stop it and its workers at the end of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    one = Cluster(folder)
    try:
        yield one
    finally:
        one.close()
