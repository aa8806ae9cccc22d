"""Where a generation starts to read and what it must reach: offsets, resolved once and kept."""

import time
from collections.abc import Mapping

from confluent_kafka.admin import OffsetSpec

from livejoin.core import spec
from livejoin.core.generation import Reading
from livejoin.core.names import Names
from livejoin.core.start import since
from livejoin.kafka import Kafka, last_readable, missing


def resolve(
    kafka: Kafka, names: Names, choice: spec.Choice, start: Mapping[str, str]
) -> dict[str, Reading]:
    """Ask Kafka for each source's topic id, start and last records, or say what is missing."""
    topics = {source.name: choice.topic(source.name) for source in spec.SOURCES}
    found = kafka.describe(topics.values())
    readings = {}
    for source, name in topics.items():
        if name not in found:
            raise missing(name)
        starts = kafka.offsets(found[name], _where(start[source]))
        last = last_readable(kafka, names.group("pins"), found[name])
        pins = {p: offset for p, offset in last.items() if offset >= starts[p]}
        readings[source] = Reading(name, found[name].id, starts, pins)
    return readings


def _where(start: str) -> OffsetSpec:
    at = since(start, time.time())
    found: OffsetSpec = OffsetSpec.latest() if start == "latest" else OffsetSpec.earliest()
    return found if at is None else OffsetSpec.for_timestamp(int(at * 1000))
