"""Records of all sources as events, each with the group whose state it meets.

Rows are written as JSON once, before they are kept: what is emitted is put together from texts.
"""

import functools
from collections.abc import Callable

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from livejoin.core import changelog, spec
from livejoin.pipeline import parse, strict_json

VERSION_FIELDS = ("ts", "partition", "offset")  # in the order in which versions are compared

ColumnFunction = Callable[[Column], Column]


@functools.lru_cache(maxsize=1)
def event_columns(_session: SparkSession) -> tuple[Column, Column]:
    """The `group` whose state a record meets, and the record as an event `e`.

    A group is the key as a member of a JSON object, and the texts of its events go on from there.
    Events without a key meet under a name that no such text has, and leave nothing in the state.
    """
    row, reason, source = F.col("row"), F.col("reason"), F.col("source")
    has_key = row[spec.JOIN_KEY].isNotNull()
    key = F.when(has_key, _json_members(row[spec.JOIN_KEY].alias(spec.JOIN_KEY)))
    apart = F.concat(F.lit("-"), source, F.lit("-"), "partition")
    start = F.base64(F.substring("value", 1, parse.REJECT_RAW_BYTES))
    raw = F.translate(start, "\r\n", "").alias("raw")  # Spark breaks base64 into lines
    reject = _json_members("source", "topic", "partition", "offset", "ts", "reason", raw)
    others = (row[c.name].alias(c.name) for c in strict_json.FIELDS if c.name != spec.JOIN_KEY)
    comma = F.when(has_key, F.lit(",")).otherwise(F.lit(""))
    text = F.when(reason.isNotNull(), reject).when(
        row.isNotNull(), _json_members(*others, after=comma)
    )
    tables = F.when(reason.isNotNull(), F.concat(F.lit(f"{spec.REJECTS}/"), source, F.lit("/")))
    for one in spec.SOURCES:
        tables = tables.when(row.isNotNull() & (source == one.name), F.lit(_table_prefix(one)))
    tables = tables.otherwise(F.concat(F.lit(f"{changelog.TOMBSTONES}/"), source, F.lit("/")))
    e = F.struct(tables.alias("into"), *VERSION_FIELDS, text.alias("text"))
    return F.coalesce(key, apart).alias("group"), e.alias("e")


def _json_members(*fields: Column | str, after: Column | None = None) -> Column:
    """The members of a JSON object as text: what stands between its braces, if anything."""

    def members(text: Column) -> Column:
        found = parse.strip_ends(text)
        found = found if after is None else F.concat(after, found)
        return F.when(text == "{}", F.lit("")).otherwise(found)

    return evaluate_once(F.to_json(F.struct(*fields)), members)


def _table_prefix(source: spec.Source) -> str:
    return f"{source.table}/"


def has_join_key() -> Column:
    """Whether the event has a key to be joined by."""
    return F.col("group").startswith('"')


def stored_row() -> Column:
    """The event as it is kept."""
    return F.struct(*(F.col("e")[name] for name in (*VERSION_FIELDS, "text")))


def row_of_source(source: spec.Source) -> Column:
    """The same where it is a row of this source, and has a key."""
    return F.when(is_from_source(source) & has_join_key(), stored_row())


def event_from_row(source: spec.Source, row: Column) -> Column:
    """The event that `of` has such a row of."""
    return F.struct(
        F.lit(_table_prefix(source)).alias("into"),
        *(row[name] for name in (*VERSION_FIELDS, "text")),
    )


def is_from_source(source: spec.Source) -> Column:
    """Whether the event is a row of this source."""
    return F.col("e.into") == _table_prefix(source)


def position_text(record: Column) -> Column:
    """A record's position, as identities have it."""
    return F.concat(record["partition"], F.lit("-"), record["offset"])


def evaluate_once(value: Column, use: ColumnFunction) -> Column:
    """What is used more than once is made once, in a lambda."""
    return F.transform(F.array(value), use)[0]
