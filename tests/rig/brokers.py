"""The brokers of the tests; one that can be killed and started again; topics made anew.

With `FAULTS_AUTO_CREATE=1`, as `make faults AUTO_CREATE=1` sets it, all of them make the topics
that somebody names, which is Kafka's default.
"""

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from confluent_kafka.admin import NewPartitions

from livejoin.kafka.cluster import Kafka
from livejoin.runtime import broker as brokers
from rig.running import descendants, is_java, until

AUTO_CREATE = os.environ.get("FAULTS_AUTO_CREATE", "") == "1"
MAKES_TOPICS = {"auto.create.topics.enable": "true"}


@contextlib.contextmanager
def broker(
    folder: Path,
    port: int = 0,
    *,
    more: Mapping[str, str] | None = None,
    java_options: Sequence[str] = (),
) -> Iterator[Kafka]:
    """A broker with these settings, and with auto-creation where the run asks for it."""
    chosen = {**(MAKES_TOPICS if AUTO_CREATE else {}), **(more or {})}
    with brokers.embedded_broker(folder, port, more=chosen, java_options=java_options) as kafka:
        yield kafka


def delete(kafka: Kafka, topic: str) -> None:
    """Have a topic gone; a broker may have made another one of its name already."""
    old = kafka.describe([topic])[topic].id
    kafka.delete([topic])
    until(
        lambda: all(one.id != old for one in kafka.describe([topic]).values()), "the topic is gone"
    )


def make_again(kafka: Kafka, topic: str, partitions: int = 2) -> None:
    """Delete a topic and make it again, empty; a broker may make it first, with one partition."""
    delete(kafka, topic)
    kafka.create_topic(topic, partitions=partitions)
    if len(kafka.describe([topic])[topic].partitions) < partitions:
        more = NewPartitions(topic, partitions)
        for done in kafka.admin.create_partitions([more]).values():
            done.result(15)


class Broker:
    """Start it, kill it, start it again: it keeps its data."""

    def __init__(self, folder: Path, port: int, more: Mapping[str, str] | None = None) -> None:
        self._folder, self._port, self._more = folder, port, more
        self._running = contextlib.ExitStack()

    def start(self) -> Kafka:
        """Run it, and wait until it answers."""
        self._running.close()
        started = broker(self._folder, self._port, more=self._more)
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
