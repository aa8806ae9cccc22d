"""Resolves the offsets at which a generation starts, and the pins that it must reach."""

import time
from collections.abc import Mapping

from confluent_kafka.admin import OffsetSpec

from livejoin.core import spec
from livejoin.core.generation import Offsets, Reading
from livejoin.core.names import Names
from livejoin.core.spec import start_time
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.kafka.errors import topic_not_authorized, topic_not_found
from livejoin.kafka.reading import OffsetRange, PartitionId, last_readable


def resolve(
    kafka: Kafka, names: Names, choice: spec.Choice, start: Mapping[str, str]
) -> dict[str, Reading]:
    """Topic id, start offsets and pins of each source; an error where a topic cannot be read."""
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
    """Offset of the last readable record after the start, by source and partition."""
    ranges = {
        PartitionId(topic.name, p): OffsetRange(starts[source][p], ends[topic.name][p])
        for source, topic in topics.items()
        for p in topic.partitions
    }
    last = last_readable(kafka, names.group("pins"), ranges)
    return {
        source: {
            p: last[partition]
            for p in topic.partitions
            if (partition := PartitionId(topic.name, p)) in last
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
    position = OffsetSpec.earliest() if at is None else OffsetSpec.for_timestamp(int(at * 1000))
    found = kafka.offsets([topic], position)[topic.name]
    # -1: no record is that new, so reading starts at the end
    return {p: offset if offset >= 0 else ends[p] for p, offset in found.items()}
