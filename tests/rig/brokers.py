"""Brokers for tests, one that can be killed and restarted, and topics deleted and recreated.

With `FAULTS_AUTO_CREATE=1`, which `make faults AUTO_CREATE=1` sets, all brokers create unknown
topics automatically, which is Kafka's default.
"""

import contextlib
import os
import random
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from confluent_kafka.admin import NewPartitions

from livejoin.kafka.cluster import Kafka
from livejoin.runtime import broker as brokers
from rig.running import descendants, is_java, until

AUTO_CREATE = os.environ.get("FAULTS_AUTO_CREATE", "") == "1"
AUTO_CREATION = {"auto.create.topics.enable": "true"}


@contextlib.contextmanager
def broker(
    folder: Path,
    port: int = 0,
    *,
    more: Mapping[str, str] | None = None,
    java_options: Sequence[str] = (),
    more_classes: Sequence[Path] = (),
) -> Iterator[Kafka]:
    """Run a broker with these settings, with topic auto-creation if the run asks for it."""
    chosen = {**(AUTO_CREATION if AUTO_CREATE else {}), **(more or {})}
    with brokers.embedded_broker(
        folder, port, more=chosen, java_options=java_options, more_classes=more_classes
    ) as kafka:
        yield kafka


def lasting_port() -> int:
    """A free port below those of outgoing connections.

    While a broker is away, a client that tries to connect again and again could get its port, even
    connect to itself by it, and the broker could not come back.
    """
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            port = random.randrange(20_000, 32_000)
            probe.bind(("127.0.0.1", port))
            return port


def delete(kafka: Kafka, topic: str) -> None:
    """Delete a topic and wait until it is gone; auto-creation may have recreated it already."""
    old_id = kafka.describe([topic])[topic].id
    kafka.delete([topic])
    until(
        lambda: all(one.id != old_id for one in kafka.describe([topic]).values()),
        "the topic is gone",
    )


def recreate(kafka: Kafka, topic: str, partitions: int = 2) -> None:
    """Delete and recreate a topic; auto-creation may recreate it first, with one partition."""
    delete(kafka, topic)
    kafka.create_topic(topic, partitions=partitions)
    if len(kafka.describe([topic])[topic].partitions) < partitions:
        more = NewPartitions(topic, partitions)
        for done in kafka.admin.create_partitions([more]).values():
            done.result(15)


class Broker:
    """A broker that can be killed and restarted with its data."""

    def __init__(self, folder: Path, port: int, more: Mapping[str, str] | None = None) -> None:
        self._folder, self.port, self._more = folder, port, more
        self._running = contextlib.ExitStack()

    def start(self) -> Kafka:
        """Start it, and wait until it answers."""
        self._running.close()
        started = broker(self._folder, self.port, more=self._more)
        kafka = self._running.enter_context(started)
        # among other JVMs that come and go
        (self.pid,) = [pid for pid in descendants(os.getpid()) if self._is_broker(pid)]
        return kafka

    def _is_broker(self, pid: int) -> bool:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except FileNotFoundError:
            return False  # it has just ended
        return str(self._folder / "server.properties").encode() in words and is_java(pid)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Stop it."""
        self._running.close()
