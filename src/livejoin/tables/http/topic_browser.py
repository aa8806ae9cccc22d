"""Asks the cluster about topics: what is there, what they hold, the newest messages of one.

Only topics that a control message may name are shown, and livejoin's own, marked as such.
"""

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from livejoin.core.control_messages import TopicRules, excerpt, is_topic_name
from livejoin.errors import AskError, KafkaUnavailable
from livejoin.kafka.cluster import REQUEST_TIMEOUT_S, Kafka, Topic
from livejoin.kafka.errors import from_kafka_error, topic_not_authorized
from livejoin.kafka.reading import OffsetRange, PartitionId
from livejoin.tables.http.topic_rows import (
    PeekedMessage,
    TopicSize,
    message_row,
    newest_first,
    topic_kind,
    topic_row,
    unknown_topic,
)

MOST_TOPICS = 1000
MAX_MESSAGES = 100
_PEEK_S = 5
_PEEK_BYTES = 64 << 20
_MAX_CONCURRENT = 2  # a peek is a client of its own, and its threads are shared with requests


class TopicBrowser:
    """Asks the users' Kafka about topics, a few questions at once."""

    def __init__(self, kafka: Kafka, rules: TopicRules) -> None:
        self._kafka = kafka
        self._rules = rules
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)

    async def list_topics(self) -> dict[str, Any]:
        """All topics that are shown, by name."""
        async with self._slots:
            return await asyncio.to_thread(self._list)

    async def peek(self, topic: str, count: int) -> dict[str, Any]:
        """The newest messages of a topic."""
        if not is_topic_name(topic):
            raise AskError(
                f"{excerpt(topic)} is no topic name",
                hint="It has 1 to 249 letters, digits, '.', '_' or '-', and no '__' first.",
            )
        async with self._slots:
            return await asyncio.to_thread(self._peek, topic, count)

    def _visible_names(self) -> list[str]:
        return [name for name in self._kafka.topics() if topic_kind(name, self._rules)]

    def _list(self) -> dict[str, Any]:
        names = self._visible_names()
        found = self._kafka.describe(names[:MOST_TOPICS]) if names else {}
        topics = [found[name] for name in sorted(found)]
        measured = measure(self._kafka, topics)
        rows = [topic_row(topic, measured[topic.name], self._rules) for topic in topics]
        return {"total": len(names), "topics": rows}

    def _peek(self, name: str, count: int) -> dict[str, Any]:
        names = self._visible_names()
        topic = self._kafka.describe([name]).get(name) if name in names else None
        if topic is None:
            raise unknown_topic(name, names)
        if not topic.readable:
            raise topic_not_authorized(name)
        starts = self._kafka.offsets([topic], OffsetSpec.earliest())[name]
        ends = self._kafka.offsets([topic], OffsetSpec.latest())[name]
        spans = {p: OffsetRange(start, ends[p]) for p, start in starts.items() if ends[p] > start}
        consumer = self._kafka.reader(self._rules.names.group("peek"), fetch_wait_ms=1)
        try:
            tails, complete = read_tails(consumer, name, spans, count)
        finally:
            consumer.close()
        messages = [message_row(seen) for seen in newest_first(tails.values(), count)]
        return {"topic": name, "complete": complete, "messages": messages}


def measure(kafka: Kafka, topics: Iterable[Topic]) -> dict[str, TopicSize]:
    """What each topic holds. One that cannot be asked does not keep the others from answering."""
    topics = list(topics)
    places = [PartitionId(topic.name, p) for topic in topics for p in topic.partitions]
    trouble: dict[str, str] = {}
    starts, ends, newest = (
        _list_offsets(kafka, places, spec, trouble)
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.max_timestamp())
    )
    found = {}
    for topic in topics:
        if topic.name in trouble:
            found[topic.name] = TopicSize(None, None, trouble[topic.name])
            continue
        own = [PartitionId(topic.name, p) for p in topic.partitions]
        times = [newest[place][1] for place in own if newest[place][1] >= 0]
        records = sum(ends[place][0] - starts[place][0] for place in own)
        found[topic.name] = TopicSize(records, max(times, default=None))
    return found


def _list_offsets(
    kafka: Kafka, places: list[PartitionId], spec: OffsetSpec, trouble: dict[str, str]
) -> dict[PartitionId, tuple[int, int]]:
    """By place an offset and its time; what goes wrong is added to `trouble`, by topic."""
    if not places:
        return {}
    futures = kafka.admin.list_offsets(
        {TopicPartition(*place): spec for place in places},
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=REQUEST_TIMEOUT_S,
    )
    found = {}
    for at, future in futures.items():
        try:
            info = future.result(REQUEST_TIMEOUT_S)
        except KafkaException as error:
            trouble[at.topic] = from_kafka_error(error, at.topic).message
        except TimeoutError as error:
            raise KafkaUnavailable(f"Kafka gives no answer within {REQUEST_TIMEOUT_S} s") from error
        else:
            found[PartitionId(at.topic, at.partition)] = info.offset, info.timestamp
    return found


def read_tails(
    consumer: Consumer, topic: str, spans: Mapping[int, OffsetRange], count: int
) -> tuple[dict[int, deque[PeekedMessage]], bool]:
    """The last messages of each partition, and whether there was time for all of them.

    Of the last `count` offsets some may hold nothing that a reader gets: then more are read.
    """
    until = time.monotonic() + _PEEK_S
    tails: dict[int, deque[PeekedMessage]] = {}
    left, step, complete = dict(spans), count, True
    while left and complete:
        asked = {
            p: OffsetRange(max(span.start, span.end - step), span.end) for p, span in left.items()
        }
        tails |= {p: deque(maxlen=count) for p in asked}
        complete = _read_spans(consumer, topic, asked, tails, until)
        left = {
            p: span
            for p, span in left.items()
            if len(tails[p]) < count and asked[p].start > span.start
        }
        step *= 16
    return tails, complete


def _read_spans(
    consumer: Consumer,
    topic: str,
    spans: Mapping[int, OffsetRange],
    into: Mapping[int, deque[PeekedMessage]],
    until: float,
) -> bool:
    """Read spans, all together; False: time or room was over first."""
    reading, room = set(spans), _PEEK_BYTES
    consumer.assign([TopicPartition(topic, p, span.start) for p, span in spans.items()])
    while reading:
        wait_s = until - time.monotonic()
        message = consumer.poll(wait_s) if wait_s > 0 and room > 0 else None
        if message is None:
            return False
        error, p, offset = message.error(), message.partition() or 0, message.offset() or 0
        if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - theirs
            raise from_kafka_error(KafkaException(error), topic)
        if p not in reading:
            continue
        if error is None and offset < spans[p].end:
            what, at = message.timestamp()
            key, value = message.key(), message.value()
            room -= len(key or b"") + len(value or b"")
            time_ms = None if what == TIMESTAMP_NOT_AVAILABLE else at
            into[p].append(PeekedMessage(p, offset, time_ms, key, value))
        if error is not None or offset >= spans[p].end - 1:
            reading.discard(p)
    return True
