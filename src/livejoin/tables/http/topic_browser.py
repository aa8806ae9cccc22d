"""Lists the cluster's topics and peeks at their newest messages.

Only topics that a control message may name and livejoin's own topics are listed.
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

from livejoin.core.control_messages import MessageRules, excerpt, is_topic_name
from livejoin.errors import AskError, KafkaUnavailable
from livejoin.kafka.cluster import REQUEST_TIMEOUT_S, Kafka, Topic
from livejoin.kafka.clusters import Clusters
from livejoin.kafka.records import OffsetRange, PartitionId
from livejoin.kafka.topic_errors import from_kafka_error, topic_not_authorized
from livejoin.tables.http.topic_rows import (
    PeekedMessage,
    TopicSize,
    message_row,
    newest_first,
    topic_kind,
    topic_row,
    unknown_topic,
)

MAX_TOPICS = 1000
MAX_MESSAGES = 100
_PEEK_S = 5
_PEEK_BYTES = 64 << 20
_MAX_CONCURRENT = 2  # a peek creates a Kafka consumer and occupies a worker thread


class TopicBrowser:
    """Queries Kafka about topics, with limited concurrency."""

    def __init__(self, clusters: Clusters, rules: MessageRules) -> None:
        self._clusters = clusters
        self._rules = rules
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)

    async def list_topics(self) -> dict[str, Any]:
        """Return all visible topics, sorted by name."""
        async with self._slots:
            return await asyncio.to_thread(self._list)

    async def peek(self, topic: str, count: int) -> dict[str, Any]:
        """Return the newest messages of a topic."""
        if not is_topic_name(topic):
            raise AskError(
                f"{excerpt(topic)} is not a valid topic name",
                hint="Use 1 to 249 letters, digits, '.', '_' or '-', not starting with '__'.",
            )
        async with self._slots:
            return await asyncio.to_thread(self._peek, topic, count)

    def _cluster_of(self, name: str) -> Kafka | None:
        """The cluster that a topic is read from; None if it is hidden."""
        match topic_kind(name, self._rules):
            case "data":
                return self._clusters.data
            case "control":
                return self._clusters.control
            case "livejoin":
                is_reply = name == self._rules.names.replies
                return self._clusters.control if is_reply else self._clusters.own
            case None:
                return None

    def _visible_names(self, cluster: Kafka) -> list[str]:
        return [name for name in cluster.topics() if self._cluster_of(name) is cluster]

    def _list(self) -> dict[str, Any]:
        rows: list[dict[str, Any]] = []
        total = 0
        for cluster in self._clusters.each:
            names = self._visible_names(cluster)
            result = cluster.describe(names[: MAX_TOPICS - len(rows)]) if names else {}
            sizes = measure(cluster, result.values())
            rows += [topic_row(topic, sizes[name], self._rules) for name, topic in result.items()]
            total += len(names)
        return {"total": total, "topics": sorted(rows, key=lambda row: str(row["name"]))}

    def _peek(self, name: str, count: int) -> dict[str, Any]:
        cluster = self._cluster_of(name) or self._clusters.data
        names = self._visible_names(cluster)
        topic = cluster.describe([name]).get(name) if name in names else None
        if topic is None:
            raise unknown_topic(name, names)
        if not topic.readable:
            raise topic_not_authorized(name)
        starts = cluster.offsets([topic], OffsetSpec.earliest())[name]
        ends = cluster.offsets([topic], OffsetSpec.latest())[name]
        spans = {p: OffsetRange(start, ends[p]) for p, start in starts.items() if ends[p] > start}
        consumer = cluster.reader(self._rules.names.group("peek"), fetch_wait_ms=1)
        try:
            tails, complete = read_tails(consumer, name, spans, count)
        finally:
            consumer.close()
        messages = [message_row(message) for message in newest_first(tails.values(), count)]
        return {"topic": name, "complete": complete, "messages": messages}


def measure(kafka: Kafka, topics: Iterable[Topic]) -> dict[str, TopicSize]:
    """Return each topic's size; an error on one topic does not affect the others."""
    topics = list(topics)
    partitions = [PartitionId(topic.name, p) for topic in topics for p in topic.partitions]
    errors: dict[str, str] = {}
    starts, ends, newest = (
        _list_offsets(kafka, partitions, spec, errors)
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.max_timestamp())
    )
    result = {}
    for topic in topics:
        if topic.name in errors:
            result[topic.name] = TopicSize(None, None, errors[topic.name])
            continue
        own = [PartitionId(topic.name, p) for p in topic.partitions]
        timestamps = [newest[partition][1] for partition in own if newest[partition][1] >= 0]
        records = sum(ends[partition][0] - starts[partition][0] for partition in own)
        result[topic.name] = TopicSize(records, max(timestamps, default=None))
    return result


def _list_offsets(
    kafka: Kafka, partitions: list[PartitionId], spec: OffsetSpec, errors: dict[str, str]
) -> dict[PartitionId, tuple[int, int]]:
    """Return offset and timestamp by partition; errors are added to `errors`, by topic."""
    if not partitions:
        return {}
    futures = kafka.admin.list_offsets(
        {TopicPartition(*partition): spec for partition in partitions},
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=REQUEST_TIMEOUT_S,
    )
    result = {}
    for partition, future in futures.items():
        try:
            info = future.result(REQUEST_TIMEOUT_S)
        except KafkaException as error:
            errors[partition.topic] = from_kafka_error(error, partition.topic).message
        except TimeoutError as error:
            raise KafkaUnavailable(f"Kafka did not answer within {REQUEST_TIMEOUT_S} s") from error
        else:
            result[PartitionId(partition.topic, partition.partition)] = info.offset, info.timestamp
    return result


def read_tails(
    consumer: Consumer, topic: str, spans: Mapping[int, OffsetRange], count: int
) -> tuple[dict[int, deque[PeekedMessage]], bool]:
    """Return the last messages of each partition, and whether all were read in time.

    Some of the last `count` offsets may hold no record (compaction, transactions); then the range
    is extended.
    """
    deadline = time.monotonic() + _PEEK_S
    tails: dict[int, deque[PeekedMessage]] = {}
    remaining, step, complete = dict(spans), count, True
    while remaining and complete:
        requested = {
            p: OffsetRange(max(span.start, span.end - step), span.end)
            for p, span in remaining.items()
        }
        tails |= {p: deque(maxlen=count) for p in requested}
        complete = _read_spans(consumer, topic, requested, tails, deadline)
        remaining = {
            p: span
            for p, span in remaining.items()
            if len(tails[p]) < count and requested[p].start > span.start
        }
        step *= 16
    return tails, complete


def _read_spans(
    consumer: Consumer,
    topic: str,
    spans: Mapping[int, OffsetRange],
    tails: Mapping[int, deque[PeekedMessage]],
    deadline: float,
) -> bool:
    """Read the spans of all partitions; False if the time or byte limit was reached first."""
    unfinished, bytes_left = set(spans), _PEEK_BYTES
    consumer.assign([TopicPartition(topic, p, span.start) for p, span in spans.items()])
    while unfinished:
        wait_s = deadline - time.monotonic()
        message = consumer.poll(wait_s) if wait_s > 0 and bytes_left > 0 else None
        if message is None:
            return False
        error, p, offset = message.error(), message.partition() or 0, message.offset() or 0
        if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - documented
            raise from_kafka_error(KafkaException(error), topic)
        if p not in unfinished:
            continue
        if error is None and offset < spans[p].end:
            timestamp_type, timestamp = message.timestamp()
            key, value = message.key(), message.value()
            bytes_left -= len(key or b"") + len(value or b"")
            timestamp_ms = None if timestamp_type == TIMESTAMP_NOT_AVAILABLE else timestamp
            tails[p].append(PeekedMessage(p, offset, timestamp_ms, key, value))
        if error is not None or offset >= spans[p].end - 1:
            unfinished.discard(p)
    return True
