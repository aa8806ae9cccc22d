"""Reading topics: records as they arrive, to the end, or just the last one of each partition."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import ANSWER_S, Kafka
from livejoin.kafka.errors import named

# What ends a partition's reading for good; all else librdkafka tries again by itself. Names with
# an underscore are librdkafka's own errors, not private.
_GONE = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
)


_MOST = 10_000
_WAIT_S = 0.1
_GATHER_S = 0.04  # where nobody looks on
_GATHER_SHOWN_S = 0.005  # where they do
_MEASURED_S = 0.1
_PORTION_BYTES = 4 << 20  # 100,000 rows in bundles, or 10,000 with a record each several times
_MUCH_PER_S = 2000


class Record(NamedTuple):
    """A record that was read. A key or a value that is null is empty."""

    topic: str
    offset: int
    key: bytes
    value: bytes


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Span(NamedTuple):
    """Offsets from `start` to below `end`."""

    start: int
    end: int


@dataclass(frozen=True)
class Events:
    """Who is told, by topic, of what comes between records."""

    # it cannot be read any more; the answer says whether that is fine
    gone: Callable[[str], bool] = lambda _: False
    ended: Callable[[str], object] = lambda _: None  # all that stood in it was read


_NO_EVENTS = Events()


def arrived(
    consumer: Consumer,
    most: int,
    wait_s: float,
    events: Events = _NO_EVENTS,
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
            events.ended(message.topic() or "")
        elif error.code() in _GONE and not events.gone(message.topic() or ""):
            raise named(KafkaException(error), message.topic() or "")
    return messages


class Flow:
    """Reads what arrives: at once while it is little, gathered while it is much.

    Each batch has a cost of its own, whatever its size.
    """

    def __init__(self, consumer: Consumer, events: Events = _NO_EVENTS) -> None:
        self._consumer = consumer
        self._events = events
        self._much = False
        self._since, self._count = time.monotonic(), 0

    def next(self, *, shown: bool = False) -> list[Message]:
        """The next batch; empty where nothing has come for a moment.

        What is `shown` is waited for by people.
        """
        gather_s = _GATHER_SHOWN_S if shown else _GATHER_S
        messages = arrived(
            self._consumer, _MOST, _WAIT_S, self._events, gather_s=gather_s if self._much else 0
        )
        self._count += len(messages)
        took_s = time.monotonic() - self._since
        if took_s > _MEASURED_S:  # two that come together are not much
            self._much = self._count > _MUCH_PER_S * took_s
            self._since, self._count = time.monotonic(), 0
        return messages


def portions(messages: list[Message]) -> Iterator[list[Message]]:
    """Messages in portions that do not take long: each may hold thousands of rows."""
    some: list[Message] = []
    size = 0
    for message in messages:
        size += len(message)  # of its value
        some.append(message)
        if size >= _PORTION_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def last_readable(kafka: Kafka, group: str, within: Mapping[Place, Span]) -> dict[Place, int]:
    """The last record in each span that a reader gets; places without one are left out.

    The end offset alone does not tell: below it may stand transaction markers and aborted records.
    """
    found: dict[Place, int] = {}
    left = {place: span for place, span in within.items() if span.end > span.start}
    # brokers answer at once, also where nothing follows
    consumer = kafka.reader(group, fetch_wait_ms=1)
    try:
        step = 1
        while left:
            tails = {
                place: Span(max(span.start, span.end - step), span.end)
                for place, span in left.items()
            }
            found |= _last(consumer, tails)
            left = {
                place: span
                for place, span in left.items()
                if place not in found and tails[place].start > span.start
            }
            step *= 16
    finally:
        consumer.close()
    return found


def _last(consumer: Consumer, spans: Mapping[Place, Span]) -> dict[Place, int]:
    """The last record of each span, all read together."""
    found: dict[Place, int] = {}
    reading = set(spans)
    consumer.assign([TopicPartition(*place, span.start) for place, span in spans.items()])
    until = time.monotonic() + ANSWER_S
    while reading:
        message = consumer.poll(max(0.0, until - time.monotonic()))
        if message is None:
            topic = next(iter(reading)).topic
            raise KafkaUnavailable(f'topic "{topic}" was not read to its end within {ANSWER_S} s')
        place = Place(message.topic() or "", message.partition() or 0)
        error, offset = message.error(), message.offset() or 0
        if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
            raise named(KafkaException(error), place.topic)
        if place not in reading:
            continue
        end = spans[place].end
        if error is None and offset < end:
            found[place] = offset
        if error is not None or offset >= end - 1:
            reading.discard(place)
    return found


def there(kafka: Kafka, group: str, place: Place, within: range) -> Iterator[int]:
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
    until = time.monotonic() + ANSWER_S
    while time.monotonic() < until:
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is None:
            until = time.monotonic() + ANSWER_S
            yield plain(message)
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            return
        else:
            raise named(KafkaException(error), topic)
    raise KafkaUnavailable(f'topic "{topic}" gives no answer within {ANSWER_S} s')


def plain(message: Message) -> Record:
    """A message without what few need."""
    # only the types doubt that what was read has a topic and an offset
    return Record(
        message.topic() or "", message.offset() or 0, message.key() or b"", message.value() or b""
    )
