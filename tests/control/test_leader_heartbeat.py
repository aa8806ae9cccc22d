"""The leader's heartbeats: at a fixed interval, and without blocking."""

import json
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from livejoin.control.leadership import LeaderHeartbeat
from livejoin.core.names import Names
from livejoin.core.state import HEARTBEAT_S, LEADER_KEY
from livejoin.kafka.cluster import Kafka


class FakeKafka:
    """Fake of Kafka and of its producer."""

    def __init__(self) -> None:
        self.records: list[tuple[str, Any, bytes]] = []
        self.options: list[dict[str, Any]] = []
        self.error: Exception | None = None

    def producer(self, **options: Any) -> "FakeKafka":
        self.options.append(options)
        return self

    def produce(self, topic: str, value: bytes, key: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.records.append((topic, json.loads(value), key))

    def poll(self, timeout: float) -> int:
        assert timeout == 0
        return 0


def test_heartbeats_are_sent_at_once_and_then_at_a_fixed_interval() -> None:
    topic: Any = FakeKafka()
    now, counts = 1000.0, []
    heartbeat = LeaderHeartbeat(topic, Names("x"), lambda: now)
    for elapsed in (
        0.0,
        0.1,
        HEARTBEAT_S - 0.01,
        HEARTBEAT_S,
        HEARTBEAT_S + 1,
        2 * HEARTBEAT_S,
        60.0,
    ):
        now = 1000.0 + elapsed
        heartbeat.send_if_due()
        counts.append(len(topic.records))
    assert counts == [1, 1, 1, 2, 2, 3, 4]
    assert topic.options == [{"message.timeout.ms": 3000, "enable.idempotence": False}]
    name, value, key = topic.records[-1]
    assert (name, key) == ("x.leader", LEADER_KEY)
    assert abs(value["at"] / 1000 - time.time()) < 60


@pytest.mark.parametrize(
    "error", [KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC)), BufferError("full")]
)
def test_a_failed_heartbeat_is_followed_by_the_next(error: Exception) -> None:
    topic: Any = FakeKafka()
    now = 0.0
    heartbeat = LeaderHeartbeat(topic, Names("x"), lambda: now)
    topic.error = error
    heartbeat.send_if_due()
    topic.error, now = None, HEARTBEAT_S
    heartbeat.send_if_due()
    assert len(topic.records) == 1


def test_an_unreachable_broker_does_not_block() -> None:
    unreachable = Kafka({"bootstrap.servers": "127.0.0.1:1"})
    heartbeat = LeaderHeartbeat(unreachable, Names("x"))
    started = time.monotonic()
    heartbeat.send_if_due()
    assert time.monotonic() - started < 1
