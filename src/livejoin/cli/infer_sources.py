"""The command `sources infer`: proposes a block of the settings from records of a topic."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from livejoin.cli.demo_settings import choose_settings
from livejoin.cli.options import Config, Output, help_text
from livejoin.cli.output import print_line
from livejoin.core.names import Names
from livejoin.core.source_inference import InferredField, InferredSource, infer_source

if TYPE_CHECKING:
    from livejoin.kafka.cluster import Kafka

_MAX_SECONDS = 10.0
_MAX_BYTES = 64 << 20
_NAME_COLUMN = 28  # width of `name: type` before the comments

sources = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@sources.callback()
def _group() -> None:
    """What is joined: declared sources."""


def infer(
    topic: Annotated[str, typer.Option("--topic", help="Topic to read samples of.")],
    name: Annotated[str, typer.Option(help="Name of the source; default: from the topic.")] = "",
    count: Annotated[int, typer.Option(min=1, max=100_000, help="Records to read.")] = 1000,
    config: Config = None,
    output: Output = "table",
) -> None:
    """Propose a block for `sources` from the newest records of a topic.

    Prints YAML, ready to paste: fields with types and nested paths, how many records have each, and
    the share of the records that fit. It reads from all partitions, writes nothing and changes
    nothing. Exits with code 1 if the topic has no JSON objects.

        livejoin sources infer --topic shop.orders -c livejoin.yaml
    """
    from livejoin.kafka.clusters import Clusters  # noqa: PLC0415 - slow to import

    chosen = choose_settings(config).load()
    cluster = Clusters.connect(chosen.kafka_blocks).data
    found = infer_source(_newest_values(cluster, Names(chosen.name), topic, count))
    if output == "json":
        print(json.dumps(_as_json(topic, name or _source_name(topic), found)))
    else:
        for line in _yaml_lines(topic, name or _source_name(topic), found):
            print_line(line)
    if not found.objects:
        raise typer.Exit(1)


sources.command(help=help_text(infer))(infer)


def _newest_values(cluster: "Kafka", names: Names, topic: str, count: int) -> Iterator[bytes]:
    """The values of the newest records, an equal share of each partition; tombstones left out."""
    from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415 - slow to import

    from livejoin.kafka.range_reader import RangeReader, ScanLimits  # noqa: PLC0415
    from livejoin.kafka.records import OffsetRange  # noqa: PLC0415
    from livejoin.kafka.topic_errors import (  # noqa: PLC0415
        topic_not_authorized,
        topic_not_found,
    )

    described = cluster.describe([topic]).get(topic)
    if described is None:
        raise topic_not_found(topic)
    if not described.readable:
        raise topic_not_authorized(topic)
    starts = cluster.offsets([described], OffsetSpec.earliest())[topic]
    ends = cluster.offsets([described], OffsetSpec.latest())[topic]
    share = -(-count // max(1, len(ends)))
    ranges = {
        p: OffsetRange(max(starts[p], end - share), end)
        for p, end in ends.items()
        if end > starts[p]
    }
    consumer = cluster.reader(names.group("peek"), fetch_wait_ms=1)
    try:
        limits = ScanLimits(_MAX_SECONDS, count, _MAX_BYTES)
        for record in RangeReader(consumer, topic, limits).read(ranges):
            if record.value is not None:
                yield record.value
    finally:
        consumer.close()


def _source_name(topic: str) -> str:
    """A name for the source: the last word of the topic's name."""
    words = re.findall(r"[A-Za-z][A-Za-z0-9_]*", topic)
    return words[-1][:40] if words else "source"


def _yaml_lines(topic: str, name: str, found: InferredSource) -> Iterator[str]:
    yield f"# {found.samples} records of {topic}: {found.objects} are JSON objects,"
    yield f"# {found.fits} fit the fields below ({100 * found.share:.1f} %)"
    for path in found.skipped:
        yield f"# left out, as its name cannot be a path or it is ambiguous: {path}"
    if not found.fields:
        return
    yield f"{name}:"
    yield f"  topic: {topic}"
    yield f"  key: {found.key}" if found.key else "  key:  # the field that is joined on"
    yield "  fields:"
    for field in found.fields:
        yield _field_line(field, found.objects)


def _field_line(field: InferredField, objects: int) -> str:
    column = field.column
    kind = f"{{path: {column.path}, type: {column.type}}}" if column.path else column.type
    notes = [] if field.present == objects else [f"in {field.present} of {objects}"]
    if field.misfits:
        notes.append(f"{field.misfits} do not fit, such as {field.example}")
    text = f"    {column.name}: {kind}"
    return f"{text:<{_NAME_COLUMN}}  # {'; '.join(notes)}" if notes else text


def _as_json(topic: str, name: str, found: InferredSource) -> dict[str, object]:
    return {
        "name": name,
        "topic": topic,
        "key": found.key or None,
        "samples": found.samples,
        "objects": found.objects,
        "fits": found.fits,
        "skipped": list(found.skipped),
        "fields": [
            {
                "name": field.column.name,
                "type": field.column.type,
                "path": field.column.path or None,
                "present": field.present,
                "misfits": field.misfits,
            }
            for field in found.fields
        ],
    }
