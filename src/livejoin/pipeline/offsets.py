"""Where a generation starts to read and what it must reach: offsets, resolved once and kept."""

import time
from collections.abc import Mapping

from confluent_kafka.admin import OffsetSpec

from livejoin.core import spec
from livejoin.core.generation import Offsets, Reading
from livejoin.core.names import Names
from livejoin.core.start_position import start_time
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.kafka.errors import topic_not_authorized, topic_not_found
from livejoin.kafka.reading import OffsetRange, PartitionId, last_readable


def resolve(
    kafka: Kafka, names: Names, choice: spec.Choice, start: Mapping[str, str]
) -> dict[str, Reading]:
    """Ask Kafka for each source's topic id, start and last records, or say what is missing."""
    topics = _describe_sources(kafka, choice)
    ends = kafka.offsets(topics.values(), OffsetSpec.latest())
    starts = {
        source: _start_offsets(kafka, topic, start[source], ends[topic.name])
        for source, topic in topics.items()
    }
    last = find_pins(kafka, names, topics, starts, ends)
    return {
        source: Reading(topic.name, topic.id, starts[source], last[source])
        for source, topic in topics.items()
    }


def find_pins(
    kafka: Kafka,
    names: Names,
    topics: Mapping[str, Topic],
    starts: Mapping[str, Offsets],
    ends: Mapping[str, Offsets],
) -> dict[str, dict[int, int]]:
    """By source and partition the last record from the start on, where there is one."""
    spans = {
        PartitionId(topic.name, p): OffsetRange(starts[source][p], ends[topic.name][p])
        for source, topic in topics.items()
        for p in topic.partitions
    }
    last = last_readable(kafka, names.group("pins"), spans)
    return {
        source: {
            p: last[at] for p in topic.partitions if (at := PartitionId(topic.name, p)) in last
        }
        for source, topic in topics.items()
    }


def _describe_sources(kafka: Kafka, choice: spec.Choice) -> dict[str, Topic]:
    names = {source.name: choice.topic(source.name) for source in spec.SOURCES}
    found = kafka.describe(names.values())
    for name in names.values():
        if name not in found:
            raise topic_not_found(name)
        if not found[name].readable:
            raise topic_not_authorized(name)
    return {source: found[name] for source, name in names.items()}


def _start_offsets(kafka: Kafka, topic: Topic, start: str, ends: Offsets) -> dict[int, int]:
    if start == "latest":
        return dict(ends)
    at = start_time(start, time.time())
    where = OffsetSpec.earliest() if at is None else OffsetSpec.for_timestamp(int(at * 1000))
    found = kafka.offsets([topic], where)[topic.name]
    # there is no record of that time or later: what comes next is the first
    return {p: offset if offset >= 0 else ends[p] for p, offset in found.items()}
