"""A leader says that it leads, at a steady pace, and waits for nobody."""

import json
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from livejoin.control.leadership import LeaderHeartbeat
from livejoin.core.names import Names
from livejoin.core.state import HEARTBEAT_S, LEADER_KEY
from livejoin.kafka.cluster import Kafka


class Topic:
    """Stands for Kafka and for its producer."""

    def __init__(self) -> None:
        self.records: list[tuple[str, Any, bytes]] = []
        self.options: list[dict[str, Any]] = []
        self.error: Exception | None = None

    def producer(self, **options: Any) -> "Topic":
        self.options.append(options)
        return self

    def produce(self, topic: str, value: bytes, key: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.records.append((topic, json.loads(value), key))

    def poll(self, timeout: float) -> int:
        assert timeout == 0
        return 0


def test_it_beats_at_once_and_then_every_few_seconds() -> None:
    topic: Any = Topic()
    now, counts = 1000.0, []
    beat = LeaderHeartbeat(topic, Names("x"), lambda: now)
    for after in (
        0.0,
        0.1,
        HEARTBEAT_S - 0.01,
        HEARTBEAT_S,
        HEARTBEAT_S + 1,
        2 * HEARTBEAT_S,
        60.0,
    ):
        now = 1000.0 + after
        beat.send_if_due()
        counts.append(len(topic.records))
    assert counts == [1, 1, 1, 2, 2, 3, 4]
    assert topic.options == [{"message.timeout.ms": 3000, "enable.idempotence": False}]
    where, said, key = topic.records[-1]
    assert (where, key) == ("x.leader", LEADER_KEY)
    assert abs(said["at"] / 1000 - time.time()) < 60


@pytest.mark.parametrize(
    "error", [KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC)), BufferError("full")]
)
def test_a_beat_that_cannot_be_said_is_followed_by_the_next(error: Exception) -> None:
    topic: Any = Topic()
    now = 0.0
    beat = LeaderHeartbeat(topic, Names("x"), lambda: now)
    topic.error = error
    beat.send_if_due()
    topic.error, now = None, HEARTBEAT_S
    beat.send_if_due()
    assert len(topic.records) == 1


def test_a_broker_that_is_away_holds_nobody_up() -> None:
    nowhere = Kafka({"bootstrap.servers": "127.0.0.1:1"})
    beat = LeaderHeartbeat(nowhere, Names("x"))
    began = time.monotonic()
    beat.send_if_due()
    assert time.monotonic() - began < 1
