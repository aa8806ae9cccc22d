"""Parsed records of all sources as events, each with the group whose state it updates.

A row is serialized to JSON members once, before it enters the state. Changelog records are
concatenated from these texts.

The streaming query and the history job share the columns and struct fields that are named here. A
checkpoint's state is stored under these names and types. Renaming a column, or changing the order
or type of a field, changes the query: raise `join.VERSION` with it.
"""

import functools
from collections.abc import Callable

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from livejoin.core import changelog, spec
from livejoin.pipeline import parse
from livejoin.pipeline.latest_row import (
    OFFSET,
    PARTITION,
    ROW_FIELDS,
    ROW_TYPE,
    TEXT,
    TS,
    VERSION_FIELDS,
)
from livejoin.pipeline.text_slices import strip_ends

ColumnFunction = Callable[[Column], Column]

# Columns of the stream before the aggregation, and its grouping key.
GROUP = "group"  # the join key as a JSON member, or a name per source and partition without a key
EVENT = "e"  # the record as an event; in the state: the last event of the group
BOOTSTRAP_ROWS = "kept"  # rows that a record of the bootstrap topic adds to the state

# Further columns of the state: all driver rows of the group. Those of the lookups hold the latest
# row (left join) or all rows (other joins).
DRIVER = "driver"


# An event has the fields of a row in the state, and before them:
KEY_PREFIX = "into"  # of the event's own changelog record: `orders_ui/`, `rejects_ui/orders/`, …
# Fields of the bootstrap rows, and of the records that are written.
BOOTSTRAP_DRIVER, BOOTSTRAP_LOOKUP = "driver", "lookup"
BOOTSTRAP_TYPE = f"struct<{BOOTSTRAP_DRIVER}:{ROW_TYPE},{BOOTSTRAP_LOOKUP}:{ROW_TYPE}>"
RECORDS_TYPE = "array<struct<key:string,value:string>>"


def lookup_column(number: int) -> str:
    """The column of the state with the rows of a lookup."""
    return f"lookup{number}"


@functools.lru_cache(maxsize=4)
def event_columns(_session: SparkSession, joined: spec.JoinSpec) -> tuple[Column, Column]:
    """The group of a parsed record, and the record as an event.

    The group is the join key as a member of a JSON object; the text of an event continues it. An
    event without a key gets a group name that no JSON member can have, and leaves no row in the
    state.
    """
    row, reason, source = F.col("row"), F.col("reason"), F.col("source")
    join_key = row[joined.key.name]
    has_key = join_key.isNotNull()
    key = F.when(has_key, _json_members(join_key.alias(joined.key.name)))
    keyless_group = F.concat(F.lit("-"), source, F.lit("-"), PARTITION)
    raw_start = F.base64(F.substring("value", 1, parse.REJECT_RAW_BYTES))
    raw = F.translate(raw_start, "\r\n", "").alias("raw")  # Spark breaks base64 into lines
    position = (PARTITION, OFFSET, TS)
    reject = _json_members("source", "topic", *position, "reason", raw)
    cells = (row[c.name].alias(c.name) for c in joined.joined_columns if c.name != joined.key.name)
    comma = F.when(has_key, F.lit(",")).otherwise(F.lit(""))
    text = F.when(reason.isNotNull(), reject).when(
        row.isNotNull(), _json_members(*cells, before=comma)
    )
    prefix = F.when(reason.isNotNull(), F.concat(F.lit(f"{spec.REJECTS}/"), source, F.lit("/")))
    for one in joined.sources:
        prefix = prefix.when(row.isNotNull() & (source == one.name), F.lit(_table_prefix(one)))
    prefix = prefix.otherwise(F.concat(F.lit(f"{changelog.TOMBSTONES}/"), source, F.lit("/")))
    event = F.struct(prefix.alias(KEY_PREFIX), *VERSION_FIELDS, text.alias(TEXT))
    return F.coalesce(key, keyless_group).alias(GROUP), event.alias(EVENT)


def _json_members(*fields: Column | str, before: Column | None = None) -> Column:
    """The members of a JSON object without its braces; an empty text where it has none."""

    def members(text: Column) -> Column:
        found = strip_ends(text)
        found = found if before is None else F.concat(before, found)
        return F.when(text == "{}", F.lit("")).otherwise(found)

    return evaluate_once(F.to_json(F.struct(*fields)), members)


def _table_prefix(source: spec.Source) -> str:
    return f"{source.table}/"


def has_join_key() -> Column:
    """Whether the event has a join key."""
    return F.col(GROUP).startswith('"')


def stored_row() -> Column:
    """The event as a row of the state."""
    return F.struct(*(F.col(EVENT)[name] for name in ROW_FIELDS))


def row_of_source(source: spec.Source) -> Column:
    """The event as a row of the state, if it is a row of this source with a key; else null."""
    return F.when(is_from_source(source) & has_join_key(), stored_row())


def event_from_row(source: spec.Source, row: Column) -> Column:
    """The event of which `row_of_source` returns this row."""
    prefix = F.lit(_table_prefix(source)).alias(KEY_PREFIX)
    return F.struct(prefix, *(row[name] for name in ROW_FIELDS))


def is_from_source(*sources: spec.Source) -> Column:
    """Whether the event is a row of one of these sources, neither reject nor tombstone."""
    is_from = (key_prefix() == _table_prefix(source) for source in sources)
    return functools.reduce(Column.__or__, is_from)


def key_prefix() -> Column:
    """The key prefix of the event's own changelog record."""
    return F.col(f"{EVENT}.{KEY_PREFIX}")


def position_text(record: Column) -> Column:
    """`partition-offset` of a record, as row ids contain it."""
    return F.concat(record[PARTITION], F.lit("-"), record[OFFSET])


def evaluate_once(value: Column, use: ColumnFunction) -> Column:
    """`use(value)`, with `value` bound in a lambda so that it is evaluated only once."""
    return F.transform(F.array(value), use)[0]
