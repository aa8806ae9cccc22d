"""An in-memory Kafka for tests of topic lists and peeks."""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import ListOffsetsResultInfo, OffsetSpec
from confluent_kafka.admin._listoffsets import TimestampSpec

from livejoin.kafka.cluster import Kafka, Topic


@dataclass(frozen=True)
class Message:
    """A message, or an end-of-partition event."""

    in_partition: int
    at_offset: int
    raw: bytes | None = b"{}"
    timestamp_ms: int = 0
    eof: bool = False
    raw_key: bytes | None = None
    raw_headers: tuple[tuple[str, bytes | None], ...] = ()

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self.eof else None

    def partition(self) -> int:
        return self.in_partition

    def offset(self) -> int:
        return self.at_offset

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_CREATE_TIME, self.timestamp_ms

    def key(self) -> bytes | None:
        return self.raw_key

    def value(self) -> bytes | None:
        return self.raw

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return list(self.raw_headers) or None


Partitions = Mapping[int, list[Message]]


@dataclass
class FakeConsumer:
    """Reads partitions, whose offsets may have gaps as after compaction or transactions."""

    topics: Mapping[str, Partitions]
    ends: Mapping[int, int] = field(
        default_factory=dict
    )  # end offsets, where they are not last offset + 1
    silent: bool = False
    closed: bool = False
    read: list[tuple[int, int]] = field(default_factory=list)
    _pending: list[Message] = field(default_factory=list)

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self._pending = []
        for place in places:
            messages = self.topics[place.topic][place.partition]
            self._pending += [one for one in messages if one.at_offset >= place.offset]
            end = self.ends.get(place.partition, messages[-1].at_offset + 1 if messages else 0)
            self._pending.append(Message(place.partition, end, eof=True))

    def incremental_unassign(self, places: Iterable[TopicPartition]) -> None:
        gone = {place.partition for place in places}
        self._pending = [one for one in self._pending if one.in_partition not in gone]

    def poll(self, wait_s: float) -> Message | None:
        if self.silent or not self._pending:
            time.sleep(wait_s)  # as a consumer does
            return None
        message = self._pending.pop(0)
        if not message.eof:
            self.read.append((message.in_partition, message.at_offset))
        return message

    def close(self) -> None:
        self._pending = []
        self.closed = True


class FakeKafka(Kafka):
    """Serves the given topics.

    Those in `broken` have no leader, `unreadable` ones no READ; where it is `silent`, nothing can
    be read of any.
    """

    def __init__(
        self,
        topics: Mapping[str, Partitions],
        broken: Iterable[str] = (),
        unreadable: Iterable[str] = (),
        *,
        silent: bool = False,
    ) -> None:
        super().__init__({"bootstrap.servers": "nowhere"})
        self._topics = topics
        self._broken = set(broken)
        self._unreadable = set(unreadable)
        self.silent = silent
        self.readers: list[FakeConsumer] = []

    def add_topic(self, topic: str, partitions: Partitions) -> None:
        """Add a topic, or replace it."""
        self._topics = {**self._topics, topic: partitions}

    def append(self, topic: str, *messages: Message) -> None:
        """Add messages to partition 0 of a topic."""
        self._topics[topic][0].extend(messages)

    def topics(self) -> list[str]:
        return sorted(self._topics)

    def describe(self, names: Iterable[str]) -> dict[str, Topic]:
        return {
            name: Topic(name, "id", tuple(self._topics[name]), name not in self._unreadable)
            for name in names
            if name in self._topics
        }

    def offsets(self, topics: Iterable[Topic], spec: OffsetSpec) -> dict[str, dict[int, int]]:
        return {
            topic.name: {p: self._offset(topic.name, p, spec).offset for p in topic.partitions}
            for topic in topics
        }

    def reader(self, *_given: Any, **_options: Any) -> Any:
        self.readers.append(FakeConsumer(self._topics, silent=self.silent))
        return self.readers[-1]

    @property
    def admin(self) -> Any:
        return self

    def list_offsets(self, specs: Mapping[TopicPartition, OffsetSpec], **_options: Any) -> Any:
        futures: dict[TopicPartition, Future[ListOffsetsResultInfo]] = {}
        for place, spec in specs.items():
            future = futures[place] = Future()
            if place.topic in self._broken:
                error = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
                future.set_exception(KafkaException(error))
            else:
                future.set_result(self._offset(place.topic, place.partition, spec))
        return futures

    def _offset(self, topic: str, partition: int, spec: OffsetSpec) -> ListOffsetsResultInfo:
        messages = self._topics[topic][partition]
        if not messages:
            return ListOffsetsResultInfo(0, -1, -1)
        if isinstance(spec, type(OffsetSpec.earliest())):
            return ListOffsetsResultInfo(messages[0].at_offset, -1, -1)
        if isinstance(spec, type(OffsetSpec.latest())):
            return ListOffsetsResultInfo(messages[-1].at_offset + 1, -1, -1)
        if isinstance(spec, TimestampSpec):
            later = (one for one in messages if one.timestamp_ms >= spec.timestamp)
            return ListOffsetsResultInfo(next((one.at_offset for one in later), -1), -1, -1)
        newest = max(messages, key=Message.timestamp)
        return ListOffsetsResultInfo(newest.at_offset, newest.timestamp_ms, -1)
