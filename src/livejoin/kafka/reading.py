"""Reading topics: records as they arrive, to the end, or just the last one of each partition."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import REQUEST_TIMEOUT_S, Kafka
from livejoin.kafka.errors import from_kafka_error

# What ends a partition's reading for good; all else librdkafka tries again by itself. Names with
# an underscore are librdkafka's own errors, not private.
_FATAL_ERRORS = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
)


_MAX_BATCH = 10_000
_POLL_S = 0.1
_GATHER_S = 0.04  # where nobody looks on
_GATHER_VISIBLE_S = 0.005  # where they do
_RATE_WINDOW_S = 0.1
_SPLIT_BYTES = 4 << 20  # 100,000 rows in bundles, or 10,000 with a record each several times
_HIGH_RATE_PER_S = 2000


class Record(NamedTuple):
    """A record that was read. A key or a value that is null is empty."""

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
    """Who is told, by topic, of what comes between records."""

    # it cannot be read any more; the answer says whether that is fine
    on_unreadable: Callable[[str], bool] = lambda _: False
    on_end: Callable[[str], object] = lambda _: None  # all that stood in it was read


_NO_EVENTS = ReaderEvents()


def poll_batch(
    consumer: Consumer,
    most: int,
    wait_s: float,
    events: ReaderEvents = _NO_EVENTS,
    *,
    gather_s: float = 0,
) -> list[Message]:
    """What has arrived, as soon as anything has, or a while after that. Events are left out."""
    # consume alone would wait for the whole number
    first = consumer.poll(wait_s)
    if first is None:
        return []
    messages = []
    for message in (first, *consumer.consume(most, gather_s)):
        error = message.error()
        if error is None:
            messages.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            events.on_end(message.topic() or "")
        elif error.code() in _FATAL_ERRORS and not events.on_unreadable(message.topic() or ""):
            raise from_kafka_error(KafkaException(error), message.topic() or "")
    return messages


class BatchReader:
    """Reads what arrives: at once while it is little, gathered while it is much.

    Each batch has a cost of its own, whatever its size.
    """

    def __init__(self, consumer: Consumer, events: ReaderEvents = _NO_EVENTS) -> None:
        self._consumer = consumer
        self._events = events
        self._high_rate = False
        self._since, self._count = time.monotonic(), 0

    def next_batch(self, *, shown: bool = False) -> list[Message]:
        """The next batch; empty where nothing has come for a moment.

        What is `shown` is waited for by people.
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
        if took_s > _RATE_WINDOW_S:  # two that come together are not much
            self._high_rate = self._count > _HIGH_RATE_PER_S * took_s
            self._since, self._count = time.monotonic(), 0
        return messages


def split_by_size(messages: list[Message]) -> Iterator[list[Message]]:
    """Messages in portions that do not take long: each may hold thousands of rows."""
    some: list[Message] = []
    size = 0
    for message in messages:
        size += len(message)  # of its value
        some.append(message)
        if size >= _SPLIT_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def last_readable(
    kafka: Kafka, group: str, within: Mapping[PartitionId, OffsetRange]
) -> dict[PartitionId, int]:
    """The last record in each span that a reader gets; places without one are left out.

    The end offset alone does not tell: below it may stand transaction markers and aborted records.
    """
    found: dict[PartitionId, int] = {}
    left = {place: span for place, span in within.items() if span.end > span.start}
    # brokers answer at once, also where nothing follows
    consumer = kafka.reader(group, fetch_wait_ms=1)
    try:
        step = 1
        while left:
            tails = {
                place: OffsetRange(max(span.start, span.end - step), span.end)
                for place, span in left.items()
            }
            found |= _last_offsets(consumer, tails)
            left = {
                place: span
                for place, span in left.items()
                if place not in found and tails[place].start > span.start
            }
            step *= 16
    finally:
        consumer.close()
    return found


def _last_offsets(
    consumer: Consumer, spans: Mapping[PartitionId, OffsetRange]
) -> dict[PartitionId, int]:
    """The last record of each span, all read together."""
    found: dict[PartitionId, int] = {}
    reading = set(spans)
    consumer.assign([TopicPartition(*place, span.start) for place, span in spans.items()])
    until = time.monotonic() + REQUEST_TIMEOUT_S
    while reading:
        message = consumer.poll(max(0.0, until - time.monotonic()))
        if message is None:
            topic = next(iter(reading)).topic
            raise KafkaUnavailable(
                f'topic "{topic}" was not read to its end within {REQUEST_TIMEOUT_S} s'
            )
        place = PartitionId(message.topic() or "", message.partition() or 0)
        error, offset = message.error(), message.offset() or 0
        if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
            raise from_kafka_error(KafkaException(error), place.topic)
        if place not in reading:
            continue
        end = spans[place].end
        if error is None and offset < end:
            found[place] = offset
        if error is not None or offset >= end - 1:
            reading.discard(place)
    return found


def existing_offsets(kafka: Kafka, group: str, place: PartitionId, within: range) -> Iterator[int]:
    """The offsets in a range that hold a record that a reader gets."""
    consumer = kafka.reader(group)
    try:
        consumer.assign([TopicPartition(*place, within.start)])
        for record in read_to_end(consumer, place.topic):
            if record.offset >= within.stop:
                return
            yield record.offset
    finally:
        consumer.close()


def read_to_end(consumer: Consumer, topic: str) -> Iterable[Record]:
    """What stands in the one partition that is assigned, up to its end."""
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
    raise KafkaUnavailable(f'topic "{topic}" gives no answer within {REQUEST_TIMEOUT_S} s')


def to_record(message: Message) -> Record:
    """A message without what few need."""
    # only the types doubt that what was read has a topic and an offset
    return Record(
        message.topic() or "", message.offset() or 0, message.key() or b"", message.value() or b""
    )
