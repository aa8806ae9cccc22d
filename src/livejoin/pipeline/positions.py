"""Where a generation starts to read and what it must reach: offsets, resolved once and kept."""

from typing import Literal

from confluent_kafka.admin import OffsetSpec

from livejoin.core import spec
from livejoin.core.generation import Reading
from livejoin.core.names import Names
from livejoin.kafka import Kafka, last_readable, missing


def resolve(
    kafka: Kafka, names: Names, choice: spec.Choice, start: Literal["earliest", "latest"]
) -> dict[str, Reading]:
    """Ask Kafka for each source's topic id, start and last records, or say what is missing."""
    topics = {source.name: choice.topic(source.name) for source in spec.SOURCES}
    found = kafka.describe(topics.values())
    where = OffsetSpec.latest() if start == "latest" else OffsetSpec.earliest()
    readings = {}
    for source, name in topics.items():
        if name not in found:
            raise missing(name)
        starts = kafka.offsets(found[name], where)
        last = last_readable(kafka, names.group("pins"), found[name])
        pins = {p: offset for p, offset in last.items() if offset >= starts[p]}
        readings[source] = Reading(name, found[name].id, starts, pins)
    return readings
