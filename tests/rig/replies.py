"""Replies to control messages as their senders read them, compared with the rows of the log.

Each outcome is a row of the log and a reply, written in the same order. Replies on another cluster
than the log may be repeated, with the same headers.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from livejoin.core import spec
from livejoin.core.names import Names
from livejoin.core.state import REPLY_KEY
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import read_to_end
from rig.running import SAME_S, until
from rig.world import World

_READ_S = 60


@dataclass(frozen=True)
class ReceivedReply:
    """A record of the replies topic."""

    line: int
    partition: int
    offset: int
    key: str
    outcome: str


@dataclass(frozen=True)
class ExpectReplies:
    """Every outcome so far has arrived at least once, in order, on the control cluster."""

    limit_s: float = SAME_S

    def do(self, world: World) -> None:
        names = Names(world.name)
        outcomes = logged_outcomes(world.clusters.own, names)
        found: list[ReceivedReply] = []

        def complete() -> bool:
            found[:] = received(world.clusters.control, names.replies)
            return len({one.line for one in found}) >= len(outcomes)

        until(complete, f"{len(outcomes)} replies", self.limit_s)
        first = list(dict.fromkeys(found))  # without those that were repeated
        lines = [one.line for one in first]
        assert lines == list(range(lines[0], lines[0] + len(lines))), found
        replied = [(one.partition, one.offset, one.outcome) for one in first]
        assert replied[: len(outcomes)] == outcomes


def logged_outcomes(kafka: Kafka, names: Names) -> list[tuple[int, int, str]]:
    """Partition, offset and outcome of each row of `control_raw` in the log, in order."""
    consumer = kafka.reader("test")
    try:
        consumer.assign([TopicPartition(names.logs, 0, 0)])
        rows: list[dict[str, Any]] = [
            json.loads(record.value)
            for record in read_to_end(consumer, names.logs)
            if record.key.startswith(f"{spec.CONTROL}/".encode())
        ]
    finally:
        consumer.close()
    return [(row["partition"], row["offset"], row["outcome"]) for row in rows]


def kept_in_ledger(kafka: Kafka, names: Names) -> list[int]:
    """Return the lines of the replies that the ledger still holds."""
    consumer = kafka.reader("test")
    try:
        consumer.assign([TopicPartition(names.ledger, 0, 0)])
        newest = {record.key: record.value for record in read_to_end(consumer, names.ledger)}
    finally:
        consumer.close()
    found = (key for key, value in newest.items() if key.startswith(REPLY_KEY) and value)
    return sorted(int(key.removeprefix(REPLY_KEY)) for key in found)


def received(kafka: Kafka, topic: str) -> list[ReceivedReply]:
    """Return all replies, partition by partition."""
    found = kafka.describe([topic])
    if not found:
        return []
    consumer = kafka.reader("test")
    try:
        return [
            one
            for partition in found[topic].partitions
            for one in _read(consumer, TopicPartition(topic, partition, 0))
        ]
    finally:
        consumer.close()


def _read(consumer: Consumer, start: TopicPartition) -> Iterator[ReceivedReply]:
    consumer.assign([start])
    while True:
        message = consumer.poll(_READ_S)
        assert message is not None
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            return
        headers: dict[str, Any] = dict(message.headers() or ())
        line, partition, offset = (
            int(headers[f"livejoin-{name}"]) for name in ("line", "partition", "offset")
        )
        value, key = json.loads(message.value() or b""), (message.key() or b"").decode()
        assert (value["partition"], value["offset"]) == (partition, offset)
        assert key in (value["id"], f"{partition}-{offset}")
        yield ReceivedReply(line, partition, offset, key, value["outcome"])
