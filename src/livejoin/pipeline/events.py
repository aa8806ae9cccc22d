"""Records of all sources as events, each with the group whose state it meets.

Rows are written as JSON once, before they are kept: what is emitted is put together from texts.
"""

import functools
from collections.abc import Callable

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from livejoin.core import changelog, spec
from livejoin.pipeline import parse, strict_json

AT = ("ts", "partition", "offset")  # in the order in which versions are compared

Part = Callable[[Column], Column]


@functools.lru_cache(maxsize=1)
def event(_session: SparkSession) -> tuple[Column, Column]:
    """The `group` whose state a record meets, and the record as an event `e`.

    A group is the key as a member of a JSON object, and the texts of its events go on from there.
    Events without a key meet under a name that no such text has, and leave nothing in the state.
    """
    row, reason, source = F.col("row"), F.col("reason"), F.col("source")
    has_key = row[spec.KEY].isNotNull()
    key = F.when(has_key, _members(row[spec.KEY].alias(spec.KEY)))
    apart = F.concat(F.lit("-"), source, F.lit("-"), "partition")
    start = F.base64(F.substring("value", 1, parse.RAW_BYTES))
    raw = F.translate(start, "\r\n", "").alias("raw")  # Spark breaks base64 into lines
    reject = _members("source", "topic", "partition", "offset", "ts", "reason", raw)
    others = (row[c.name].alias(c.name) for c in strict_json.FIELDS if c.name != spec.KEY)
    comma = F.when(has_key, F.lit(",")).otherwise(F.lit(""))
    text = F.when(reason.isNotNull(), reject).when(row.isNotNull(), _members(*others, after=comma))
    tables = F.when(reason.isNotNull(), F.concat(F.lit(f"{spec.REJECTS}/"), source, F.lit("/")))
    for one in spec.SOURCES:
        tables = tables.when(row.isNotNull() & (source == one.name), F.lit(_prefix(one)))
    tables = tables.otherwise(F.concat(F.lit(f"{changelog.TOMBSTONES}/"), source, F.lit("/")))
    e = F.struct(tables.alias("into"), *AT, text.alias("text"))
    return F.coalesce(key, apart).alias("group"), e.alias("e")


def _members(*fields: Column | str, after: Column | None = None) -> Column:
    """The members of a JSON object as text: what stands between its braces, if anything."""

    def members(text: Column) -> Column:
        found = parse.inside(text)
        found = found if after is None else F.concat(after, found)
        return F.when(text == "{}", F.lit("")).otherwise(found)

    return once(F.to_json(F.struct(*fields)), members)


def _prefix(source: spec.Source) -> str:
    return f"{source.table}/"


def keyed() -> Column:
    """Whether the event has a key to be joined by."""
    return F.col("group").startswith('"')


def row() -> Column:
    """The event as it is kept."""
    return F.struct(*(F.col("e")[name] for name in (*AT, "text")))


def of(source: spec.Source) -> Column:
    """The same where it is a row of this source, and has a key."""
    return F.when(is_of(source) & keyed(), row())


def event_of(source: spec.Source, row: Column) -> Column:
    """The event that `of` has such a row of."""
    return F.struct(F.lit(_prefix(source)).alias("into"), *(row[name] for name in (*AT, "text")))


def is_of(source: spec.Source) -> Column:
    """Whether the event is a row of this source."""
    return F.col("e.into") == _prefix(source)


def at(record: Column) -> Column:
    """A record's position, as identities have it."""
    return F.concat(record["partition"], F.lit("-"), record["offset"])


def once(value: Column, use: Part) -> Column:
    """What is used more than once is made once, in a lambda."""
    return F.transform(F.array(value), use)[0]
