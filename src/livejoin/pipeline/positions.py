"""Where a generation starts to read and what it must reach: offsets, resolved once and kept."""

from typing import Literal

from confluent_kafka.admin import OffsetSpec

from livejoin.core import spec
from livejoin.core.generation import Reading
from livejoin.core.names import Names
from livejoin.kafka import Kafka, Place, Span, last_readable, missing


def resolve(
    kafka: Kafka, names: Names, choice: spec.Choice, start: Literal["earliest", "latest"]
) -> dict[str, Reading]:
    """Ask Kafka for each source's topic id, start and last records, or say what is missing."""
    names_of = {source.name: choice.topic(source.name) for source in spec.SOURCES}
    topics = kafka.describe(names_of.values())
    for name in names_of.values():
        if name not in topics:
            raise missing(name)
    where = OffsetSpec.latest() if start == "latest" else OffsetSpec.earliest()
    starts = kafka.offsets(topics.values(), where)
    ends = kafka.offsets(topics.values(), OffsetSpec.latest())
    spans = {
        Place(name, partition): Span(at, ends[name][partition])
        for name, offsets in starts.items()
        for partition, at in offsets.items()
    }
    last = last_readable(kafka, names.group("pins"), spans)
    return {
        source: Reading(
            name,
            topics[name].id,
            starts[name],
            {p: last[Place(name, p)] for p in topics[name].partitions if Place(name, p) in last},
        )
        for source, name in names_of.items()
    }
