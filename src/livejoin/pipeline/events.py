"""Parsed records of all sources as events, each with the group whose state it updates.

A row is serialized to JSON members once, before it enters the state. Changelog records are
concatenated from these texts.
"""

import functools
from collections.abc import Callable

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from livejoin.core import changelog, spec
from livejoin.pipeline import parse, schema, strict_json

ColumnFunction = Callable[[Column], Column]


@functools.lru_cache(maxsize=1)
def event_columns(_session: SparkSession) -> tuple[Column, Column]:
    """The group of a parsed record, and the record as an event.

    The group is the join key as a member of a JSON object; the text of an event continues it. An
    event without a key gets a group name that no JSON member can have, and leaves no row in the
    state.
    """
    row, reason, source = F.col("row"), F.col("reason"), F.col("source")
    has_key = row[spec.JOIN_KEY].isNotNull()
    key = F.when(has_key, _json_members(row[spec.JOIN_KEY].alias(spec.JOIN_KEY)))
    keyless_group = F.concat(F.lit("-"), source, F.lit("-"), schema.PARTITION)
    raw_start = F.base64(F.substring("value", 1, parse.REJECT_RAW_BYTES))
    raw = F.translate(raw_start, "\r\n", "").alias("raw")  # Spark breaks base64 into lines
    position = (schema.PARTITION, schema.OFFSET, schema.TS)
    reject = _json_members("source", "topic", *position, "reason", raw)
    cells = (row[c.name].alias(c.name) for c in strict_json.FIELDS if c.name != spec.JOIN_KEY)
    comma = F.when(has_key, F.lit(",")).otherwise(F.lit(""))
    text = F.when(reason.isNotNull(), reject).when(
        row.isNotNull(), _json_members(*cells, before=comma)
    )
    prefix = F.when(reason.isNotNull(), F.concat(F.lit(f"{spec.REJECTS}/"), source, F.lit("/")))
    for one in spec.SOURCES:
        prefix = prefix.when(row.isNotNull() & (source == one.name), F.lit(_table_prefix(one)))
    prefix = prefix.otherwise(F.concat(F.lit(f"{changelog.TOMBSTONES}/"), source, F.lit("/")))
    event = F.struct(
        prefix.alias(schema.KEY_PREFIX), *schema.VERSION_FIELDS, text.alias(schema.TEXT)
    )
    return F.coalesce(key, keyless_group).alias(schema.GROUP), event.alias(schema.EVENT)


def _json_members(*fields: Column | str, before: Column | None = None) -> Column:
    """The members of a JSON object without its braces; an empty text where it has none."""

    def members(text: Column) -> Column:
        found = parse.strip_ends(text)
        found = found if before is None else F.concat(before, found)
        return F.when(text == "{}", F.lit("")).otherwise(found)

    return evaluate_once(F.to_json(F.struct(*fields)), members)


def _table_prefix(source: spec.Source) -> str:
    return f"{source.table}/"


def has_join_key() -> Column:
    """Whether the event has a join key."""
    return F.col(schema.GROUP).startswith('"')


def stored_row() -> Column:
    """The event as a row of the state."""
    return F.struct(*(F.col(schema.EVENT)[name] for name in schema.ROW_FIELDS))


def row_of_source(source: spec.Source) -> Column:
    """The event as a row of the state, if it is a row of this source with a key; else null."""
    return F.when(is_from_source(source) & has_join_key(), stored_row())


def event_from_row(source: spec.Source, row: Column) -> Column:
    """The event of which `row_of_source` returns this row."""
    prefix = F.lit(_table_prefix(source)).alias(schema.KEY_PREFIX)
    return F.struct(prefix, *(row[name] for name in schema.ROW_FIELDS))


def is_from_source(source: spec.Source) -> Column:
    """Whether the event is a row of this source, neither reject nor tombstone."""
    return key_prefix() == _table_prefix(source)


def key_prefix() -> Column:
    """The key prefix of the event's own changelog record."""
    return F.col(f"{schema.EVENT}.{schema.KEY_PREFIX}")


def position_text(record: Column) -> Column:
    """`partition-offset` of a record, as row ids contain it."""
    return F.concat(record[schema.PARTITION], F.lit("-"), record[schema.OFFSET])


def evaluate_once(value: Column, use: ColumnFunction) -> Column:
    """`use(value)`, with `value` bound in a lambda so that it is evaluated only once."""
    return F.transform(F.array(value), use)[0]
