"""Offsets at which a generation starts or continues to read, and its pins."""

import json
import time
from collections.abc import Mapping

from confluent_kafka.admin import OffsetSpec

from livejoin.core import spec
from livejoin.core.generation import Generation, Offsets, Reading
from livejoin.core.names import Names
from livejoin.core.start_position import start_time
from livejoin.errors import GenerationUnrecoverable
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.kafka.records import (
    OffsetRange,
    PartitionId,
    last_readable,
)
from livejoin.kafka.topic_errors import topic_not_authorized, topic_not_found
from livejoin.pipeline.checkpoints import CommittedOffsets


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


def resume_offsets(
    kafka: Kafka,
    generation: Generation,
    topics: Mapping[str, Topic],
    committed: CommittedOffsets | None,
) -> dict[str, dict[int, int]]:
    """Offsets at which its query continues, by source; an error if records after them are lost."""
    if committed is None and generation.ready_at is not None:
        raise GenerationUnrecoverable("its checkpoint is missing")
    first = kafka.offsets(topics.values(), OffsetSpec.earliest())
    starts = {}
    for source, reading in generation.sources.items():
        committed_ends = (committed or {}).get(reading.topic, {})
        # new partitions are read from their beginning
        at = {p: committed_ends.get(p, reading.start.get(p, 0)) for p in topics[source].partitions}
        for partition, offset in first[reading.topic].items():
            if offset > at[partition]:
                lost = f"{at[partition]} to {offset - 1}"
                where = f'partition {partition} of topic "{reading.topic}"'
                raise GenerationUnrecoverable(
                    f"records {lost} of {where} were deleted before they were read"
                )
        starts[source] = at
    return starts


def offsets_json(topic: str, by_partition: Offsets) -> str:
    """Offsets of one topic as the connector's JSON."""
    return json.dumps({topic: {str(p): offset for p, offset in by_partition.items()}})


def _describe_sources(kafka: Kafka, choice: spec.Choice) -> dict[str, Topic]:
    found = kafka.describe(choice.topics.values())
    for name in choice.topics.values():
        if name not in found:
            raise topic_not_found(name)
        if not found[name].readable:
            raise topic_not_authorized(name)
    return {source: found[name] for source, name in choice.topics.items()}


def _start_offsets(kafka: Kafka, topic: Topic, start: str, ends: Offsets) -> dict[int, int]:
    if start == "latest":
        return dict(ends)
    at = start_time(start, time.time())
    position = OffsetSpec.earliest() if at is None else OffsetSpec.for_timestamp(int(at * 1000))
    found = kafka.offsets([topic], position)[topic.name]
    # -1: no record is that new, so reading starts at the end
    return {p: offset if offset >= 0 else ends[p] for p, offset in found.items()}
