"""Reads ranges of offsets of a topic's partitions, up to limits of time, records and bytes."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from livejoin.kafka.records import OffsetRange
from livejoin.kafka.topic_errors import from_kafka_error

_POLL_S = 0.2  # after which a reader notices that nobody waits for it any more

Header = tuple[str, bytes | None]


class ScannedRecord(NamedTuple):
    """A record of the scanned topic; the timestamp is None where it has none."""

    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()

    @property
    def time(self) -> int:
        """Its timestamp, for comparisons."""
        return -1 if self.timestamp_ms is None else self.timestamp_ms


@dataclass(frozen=True)
class ScanLimits:
    """What a scan may use at most. Towards older records it plans with half of it."""

    seconds: float
    records: int
    size: int  # of keys and values, in bytes


class RangeReader:
    """Reads ranges of offsets of several partitions, until a limit is reached."""

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        limits: ScanLimits,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._limits, self._cancelled = limits, cancelled
        self._max_records, self._max_size = limits.records, limits.size
        self._since = time.monotonic()
        self._size = 0
        self.scanned = 0
        self.unfinished: set[int] = set()  # partitions of the ranges that are being read
        self.at_end: set[int] = set()  # partitions that were read to the end of their ranges

    def read(self, ranges: Mapping[int, OffsetRange]) -> Iterator[ScannedRecord]:
        """Yield the records of the ranges; ends early at a limit, and leaves some `unfinished`."""
        self.unfinished, self.at_end = set(ranges), set()
        self._consumer.assign([TopicPartition(self._topic, p, r.start) for p, r in ranges.items()])
        while self.unfinished and (message := self._poll()) is not None:
            error, p, offset = message.error(), message.partition() or 0, message.offset() or 0
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                raise from_kafka_error(KafkaException(error), self._topic)
            if p not in self.unfinished:
                continue
            if error is None and offset < ranges[p].end:
                record = _to_record(message)
                self.scanned += 1
                self._size += len(record.key or b"") + len(record.value or b"")
                yield record
            if p in self.unfinished and (error is not None or offset >= ranges[p].end - 1):
                self.at_end.add(p)
                self.finish(p)

    def finish(self, partition: int) -> None:
        """Read no more of a partition."""
        self.unfinished.discard(partition)
        if self.unfinished:  # else the next assignment replaces this one
            self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])

    def retry(self) -> bool:
        """Allow as much again, if there is time left."""
        self._max_records = self.scanned + self._limits.records
        self._max_size = self._size + self._limits.size
        return not self._cancelled() and self._seconds_left() > 0

    def remaining_share(self) -> float:
        """How many times as much as so far can be read, with half of the limits in reserve."""
        seconds_left = self._seconds_left()
        return min(
            (self._limits.records / 2 - self.scanned) / max(1, self.scanned),
            (self._limits.size / 2 - self._size) / max(1, self._size),
            seconds_left / 2 / max(1e-3, self._limits.seconds - seconds_left),
        )

    def _seconds_left(self) -> float:
        return self._limits.seconds - (time.monotonic() - self._since)

    def _poll(self) -> Message | None:
        """The next message; None once a limit is reached or nobody waits for it."""
        while self.scanned < self._max_records and self._size < self._max_size:
            left_s = self._seconds_left()
            if left_s <= 0 or self._cancelled():
                break
            message = self._consumer.poll(min(left_s, _POLL_S))
            if message is not None:
                return message
        return None


def _to_record(message: Message) -> ScannedRecord:
    kind, timestamp = message.timestamp()
    headers: Any = message.headers()  # pairs of str and bytes; the type hints allow more
    # partition and offset are optional only in the type hints
    return ScannedRecord(
        message.partition() or 0,
        message.offset() or 0,
        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
        message.key(),
        message.value(),
        headers or (),
    )
