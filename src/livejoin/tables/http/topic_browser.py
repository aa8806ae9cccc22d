"""Lists the cluster's topics and reads messages of one.

Only topics that a control message may name and livejoin's own topics are listed.
"""

import asyncio
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from livejoin.core.control_messages import MessageRules, excerpt, is_topic_name
from livejoin.core.start_position import start_time
from livejoin.errors import KafkaUnavailable, RequestError
from livejoin.kafka.cluster import REQUEST_TIMEOUT_S, Kafka, Topic
from livejoin.kafka.clusters import Clusters
from livejoin.kafka.range_reader import ScanLimits
from livejoin.kafka.records import OffsetRange, PartitionId
from livejoin.kafka.scan import Wanted, scan_newer, scan_older
from livejoin.kafka.topic_errors import from_kafka_error, topic_not_authorized
from livejoin.tables.http.peek_request import PeekRequest, check_offset, check_partitions
from livejoin.tables.http.topic_rows import (
    TopicSize,
    peek_body,
    topic_kind,
    topic_row,
    unknown_topic,
)

MAX_TOPICS = 1000
LIMITS = ScanLimits(seconds=5, records=200_000, size=64 << 20)  # of one peek
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

    async def peek(
        self, topic: str, request: PeekRequest, cancelled: threading.Event
    ) -> dict[str, Any]:
        """Return messages of a topic. It stops soon after `cancelled` is set."""
        if not is_topic_name(topic):
            raise RequestError(
                f"{excerpt(topic)} is not a valid topic name",
                hint="Use 1 to 249 letters, digits, '.', '_' or '-', not starting with '__'.",
            )
        async with self._slots:
            if cancelled.is_set():  # while it waited
                raise RequestError("cancelled")
            return await asyncio.to_thread(self._peek, topic, request, cancelled)

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

    def _peek(self, name: str, request: PeekRequest, cancelled: threading.Event) -> dict[str, Any]:
        cluster, topic = self._readable(name)
        topic = replace(topic, partitions=check_partitions(request, name, topic.partitions))
        starts = cluster.offsets([topic], OffsetSpec.earliest())[name]
        ends = cluster.offsets([topic], OffsetSpec.latest())[name]
        retained = {p: OffsetRange(start, max(start, ends[p])) for p, start in starts.items()}
        ranges = _ranges(cluster, topic, request, retained)
        wanted = Wanted(request.count, LIMITS, request.matches, cancelled.is_set)
        scan = scan_older if request.reads_older else scan_newer
        consumer = cluster.reader(self._rules.names.group("peek"), fetch_wait_ms=1)
        try:
            result = scan(consumer, name, ranges, wanted)
        finally:
            consumer.close()
        return peek_body(name, retained, result)

    def _readable(self, name: str) -> tuple[Kafka, Topic]:
        """A topic and its cluster; raises if it is unknown, hidden or not authorized."""
        cluster = self._cluster_of(name) or self._clusters.data
        names = self._visible_names(cluster)
        topic = cluster.describe([name]).get(name) if name in names else None
        if topic is None:
            raise unknown_topic(name, names)
        if not topic.readable:
            raise topic_not_authorized(name)
        return cluster, topic


def _ranges(
    cluster: Kafka, topic: Topic, request: PeekRequest, retained: Mapping[int, OffsetRange]
) -> dict[int, OffsetRange]:
    """The offsets among which to look, by partition."""
    at: Mapping[int, int] = {p: offsets.end for p, offsets in retained.items()}
    if request.offset is not None:
        ((partition, offsets),) = retained.items()
        check_offset(request.offset, partition, topic.name, offsets)
        at = {partition: request.offset}
    elif not request.reads_older and request.time is not None:
        at = _offsets_at(cluster, topic, request.time, at)
    # a page's offsets may have been deleted since
    at = {**at, **(request.older or request.newer or {})}
    positions = {p: min(max(at[p], start), end) for p, (start, end) in retained.items()}
    if request.reads_older:
        return {p: OffsetRange(retained[p].start, position) for p, position in positions.items()}
    return {p: OffsetRange(position, retained[p].end) for p, position in positions.items()}


def _offsets_at(
    cluster: Kafka, topic: Topic, start: str, ends: Mapping[int, int]
) -> dict[int, int]:
    """Offsets of the first records at this time or later; the end where there are none."""
    at = start_time(start, time.time())
    position = OffsetSpec.earliest() if at is None else OffsetSpec.for_timestamp(int(at * 1000))
    found = cluster.offsets([topic], position)[topic.name]
    return {p: offset if offset >= 0 else ends[p] for p, offset in found.items()}


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
