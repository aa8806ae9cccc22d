"""Reads and writes records.

Read: as they arrive, to the end, or only the last of each partition. Written: until acknowledged.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from livejoin.core.own_topics import MAX_RECORD_BYTES
from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import REQUEST_TIMEOUT_S, Kafka
from livejoin.kafka.topic_errors import from_kafka_error

# Errors after which a partition is not read any more; librdkafka retries all others itself. Names
# with an underscore are librdkafka's own errors, not private.
_FATAL_ERRORS = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
)

_MAX_BATCH = 10_000
_POLL_S = 0.1
_GATHER_S = 0.04  # of records that are not shown yet
_GATHER_VISIBLE_S = 0.005  # of records that viewers wait for
_RATE_WINDOW_S = 0.1
_SPLIT_BYTES = 4 << 20  # 100,000 rows in bundles, or several times 10,000 single records
_HIGH_RATE_PER_S = 2000
_QUEUE_POLL_S = 0.1  # while the queue of records to write is full

KeyValue = tuple[bytes, bytes | None]  # key and value


class Record(NamedTuple):
    """A record. A null key or value is empty."""

    topic: str
    offset: int
    key: bytes
    value: bytes


class PartitionId(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class OffsetRange(NamedTuple):
    """Offsets from `start` to below `end`."""

    start: int
    end: int


@dataclass(frozen=True)
class ReaderEvents:
    """Callbacks, by topic, for what a consumer reports besides records."""

    # the topic cannot be read any more; True if that is handled, else an error is raised
    on_unreadable: Callable[[str], bool] = lambda _: False
    # a partition was read to its end, which is at this offset
    on_end: Callable[[str, int], object] = lambda _topic, _offset: None


_NO_EVENTS = ReaderEvents()


def poll_batch(
    consumer: Consumer,
    max_messages: int,
    wait_s: float,
    events: ReaderEvents = _NO_EVENTS,
    *,
    gather_s: float = 0,
) -> list[Message]:
    """Messages that have arrived, as soon as there is one, or `gather_s` after it."""
    # consume alone would wait for the maximum number
    first = consumer.poll(wait_s)
    if first is None:
        return []
    messages = []
    for message in (first, *consumer.consume(max_messages, gather_s)):
        error = message.error()
        if error is None:
            messages.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            events.on_end(message.topic() or "", message.offset() or 0)
        elif error.code() in _FATAL_ERRORS and not events.on_unreadable(message.topic() or ""):
            raise from_kafka_error(KafkaException(error), message.topic() or "")
    return messages


class BatchReader:
    """Reads messages in batches: immediately at a low rate, gathered at a high one.

    A batch has a fixed cost, whatever its size.
    """

    def __init__(self, consumer: Consumer, events: ReaderEvents = _NO_EVENTS) -> None:
        self._consumer = consumer
        self._events = events
        self._high_rate = False
        self._since, self._count = time.monotonic(), 0

    def next_batch(self, *, shown: bool = False) -> list[Message]:
        """The next batch; empty if nothing arrives for a moment.

        Records that are `shown` are gathered for a shorter time, since viewers wait for them.
        """
        gather_s = _GATHER_VISIBLE_S if shown else _GATHER_S
        messages = poll_batch(
            self._consumer,
            _MAX_BATCH,
            _POLL_S,
            self._events,
            gather_s=gather_s if self._high_rate else 0,
        )
        self._count += len(messages)
        took_s = time.monotonic() - self._since
        if took_s > _RATE_WINDOW_S:  # two records at once are no high rate
            self._high_rate = self._count > _HIGH_RATE_PER_S * took_s
            self._since, self._count = time.monotonic(), 0
        return messages


def split_by_size(messages: list[Message]) -> Iterator[list[Message]]:
    """Split messages into parts of limited size, since each may contain thousands of rows."""
    part: list[Message] = []
    size = 0
    for message in messages:
        size += len(message)  # the length of its value
        part.append(message)
        if size >= _SPLIT_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def last_readable(
    kafka: Kafka, group: str, within: Mapping[PartitionId, OffsetRange]
) -> dict[PartitionId, int]:
    """Offset of the last readable record in each range; without partitions that have none.

    The end offset is not enough: transaction markers and aborted records may precede it.
    """
    found: dict[PartitionId, int] = {}
    left = {
        partition: offsets for partition, offsets in within.items() if offsets.end > offsets.start
    }
    # brokers answer at once, even at the end of a partition
    consumer = kafka.reader(group, fetch_wait_ms=1)
    try:
        step = 1
        while left:
            tails = {
                partition: OffsetRange(max(offsets.start, offsets.end - step), offsets.end)
                for partition, offsets in left.items()
            }
            found |= _last_offsets(consumer, tails)
            left = {
                partition: offsets
                for partition, offsets in left.items()
                if partition not in found and tails[partition].start > offsets.start
            }
            step *= 16
    finally:
        consumer.close()
    return found


def _last_offsets(
    consumer: Consumer, ranges: Mapping[PartitionId, OffsetRange]
) -> dict[PartitionId, int]:
    """Offset of the last readable record in each range, all read together."""
    found: dict[PartitionId, int] = {}
    unfinished = set(ranges)
    consumer.assign(
        [TopicPartition(*partition, offsets.start) for partition, offsets in ranges.items()]
    )
    until = time.monotonic() + REQUEST_TIMEOUT_S
    while unfinished:
        message = consumer.poll(max(0.0, until - time.monotonic()))
        if message is None:
            topic = next(iter(unfinished)).topic
            raise KafkaUnavailable(
                f'topic "{topic}" was not read to its end within {REQUEST_TIMEOUT_S} s'
            )
        partition = PartitionId(message.topic() or "", message.partition() or 0)
        error, offset = message.error(), message.offset() or 0
        if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
            raise from_kafka_error(KafkaException(error), partition.topic)
        if partition not in unfinished:
            continue
        end = ranges[partition].end
        if error is None and offset < end:
            found[partition] = offset
        if error is not None or offset >= end - 1:
            unfinished.discard(partition)
    return found


def existing_offsets(
    kafka: Kafka, group: str, partition: PartitionId, within: range
) -> Iterator[int]:
    """The offsets of a range that have a readable record."""
    consumer = kafka.reader(group)
    try:
        consumer.assign([TopicPartition(*partition, within.start)])
        for record in read_to_end(consumer, partition.topic):
            if record.offset >= within.stop:
                return
            yield record.offset
    finally:
        consumer.close()


def read_to_end(consumer: Consumer, topic: str) -> Iterable[Record]:
    """The records of the one assigned partition, up to its end."""
    until = time.monotonic() + REQUEST_TIMEOUT_S
    while time.monotonic() < until:
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is None:
            until = time.monotonic() + REQUEST_TIMEOUT_S
            yield to_record(message)
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            return
        else:
            raise from_kafka_error(KafkaException(error), topic)
    raise KafkaUnavailable(f'topic "{topic}": no answer within {REQUEST_TIMEOUT_S} s')


def to_record(message: Message) -> Record:
    """A message as a record."""
    # topic and offset are optional only in the type hints
    return Record(
        message.topic() or "", message.offset() or 0, message.key() or b"", message.value() or b""
    )


def write(kafka: Kafka, topic: str, records: Iterable[KeyValue], limit_s: float) -> None:
    """Write records in order; KafkaUnavailable unless all are acknowledged in time."""
    until = time.monotonic() + limit_s
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            errors.append(error)

    limits = {"message.timeout.ms": limit_s * 1000, "message.max.bytes": MAX_RECORD_BYTES}
    producer = kafka.producer(**limits)
    try:
        for key, value in records:
            while True:
                try:
                    producer.produce(topic, value, key, on_delivery=delivered)
                    break
                except BufferError:  # the queue is full
                    if time.monotonic() > until:
                        raise
                    producer.poll(_QUEUE_POLL_S)
        unanswered = producer.flush(max(0.0, until - time.monotonic()) + 1)
    except (KafkaException, BufferError) as error:
        raise KafkaUnavailable(f'topic "{topic}" cannot be written: {error}') from error
    if errors or unanswered:
        why = errors[0].str() if errors else "no answer"
        raise KafkaUnavailable(f'topic "{topic}" cannot be written: {why}')
