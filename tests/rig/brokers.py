"""A broker over one folder and port that can be killed and started again."""

import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from livejoin import broker
from livejoin.kafka import Kafka
from rig.running import descendants, is_java


class Broker:
    """Start it, kill it, start it again: it keeps its data."""

    def __init__(self, folder: Path, port: int, more: Mapping[str, str] | None = None) -> None:
        self._folder, self._port, self._more = folder, port, more
        self._running = contextlib.ExitStack()

    def start(self) -> Kafka:
        """Run it, and wait until it answers."""
        self._running.close()
        started = broker.broker(self._folder, self._port, more=self._more)
        kafka = self._running.enter_context(started)
        # other JVMs come and go as well
        (self.pid,) = [pid for pid in descendants(os.getpid()) if self._is_it(pid)]
        return kafka

    def _is_it(self, pid: int) -> bool:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except FileNotFoundError:
            return False  # one that has just ended
        return str(self._folder / "server.properties").encode() in words and is_java(pid)

    def kill(self) -> None:
        """As by kill -9."""
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Stop it."""
        self._running.close()
