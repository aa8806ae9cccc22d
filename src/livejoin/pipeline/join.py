"""The join as one stateful aggregation: events of all sources by key in, changelog records out.

In Real-time Mode every event gives its own output, so an event emits what it changed and nothing
else. Its own record (row, reject or tombstone) comes last: a follower that has it has everything
the event caused.

Rows are written as JSON once, before they are kept: what is emitted is put together from texts.
"""

import functools
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from livejoin.core import rows, spec
from livejoin.pipeline import parse

# Whoever changes what the state holds, or the shape of the query, counts on: a checkpoint made by
# another version is not taken over, its choice is built anew.
VERSION = 3

_AT = ("ts", "partition", "offset")  # in the order in which versions are compared
_RECORDS = "array<struct<key:string,value:string>>"


def records(stream: DataFrame, source: spec.Source) -> DataFrame:
    """A Kafka stream as records of one source."""
    ts = F.unix_millis("timestamp").alias("ts")
    name = F.lit(source.name).alias("source")
    return stream.select(name, "topic", "value", "partition", "offset", ts)


def changes(read: DataFrame, choice: spec.Choice) -> DataFrame:
    """Records of all sources as changelog records, `key` and `value`."""
    it = _columns(read.sparkSession, choice.join)
    events = parse.parsed(read).select(it.group, it.event)
    return events.groupBy("group").agg(*it.state).select(it.records)


class _Columns(NamedTuple):
    group: Column
    event: Column
    state: tuple[Column, ...]
    records: Column


# one session has three joins; a new one comes only after its JVM has died
@functools.lru_cache(maxsize=3)
def _columns(_session: SparkSession, join: spec.Join) -> _Columns:
    """What is the same for all topics, made once, as in `parse`."""
    row = F.struct(*(F.col("e")[name] for name in (*_AT, "text")))
    of_user = F.when(_is_of(spec.USERS) & _keyed(), row)
    of_account = F.when(_is_of(spec.ACCOUNTS) & _keyed(), row)
    others = F.max(of_account) if join == "left" else F.collect_list(of_account)
    # a new users row changes that row, a new account all rows of its user, anything else none
    touched = F.when(_is_of(spec.USERS), F.array(row)).when(_is_of(spec.ACCOUNTS), F.col("users"))
    if join == "left":
        changed = F.transform(touched, lambda user: _with_latest(user, F.col("others")))
    else:
        new = F.when(_is_of(spec.ACCOUNTS), F.array(row)).otherwise(F.col("others"))
        outer = join == "left_outer"
        changed = F.flatten(F.transform(touched, lambda user: _with_each(user, new, outer=outer)))
    nothing = F.array().cast(_RECORDS)
    everything = F.concat(F.coalesce(changed, nothing), F.array(_own()))
    return _Columns(
        *_event(),
        (F.collect_list(of_user).alias("users"), others.alias("others"), F.last("e").alias("e")),
        F.inline(everything),
    )


def _event() -> tuple[Column, Column]:
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
    others = (row[c.name].alias(c.name) for c in parse.FIELDS if c.name != spec.KEY)
    comma = F.when(has_key, F.lit(",")).otherwise(F.lit(""))
    text = F.when(reason.isNotNull(), reject).when(row.isNotNull(), _members(*others, after=comma))
    tables = F.when(reason.isNotNull(), F.concat(F.lit(f"{spec.REJECTS}/"), source, F.lit("/")))
    for one in spec.SOURCES:
        tables = tables.when(row.isNotNull() & (source == one.name), F.lit(_prefix(one)))
    tables = tables.otherwise(F.concat(F.lit(f"{rows.TOMBSTONES}/"), source, F.lit("/")))
    e = F.struct(tables.alias("into"), *_AT, text.alias("text"))
    return F.coalesce(key, apart).alias("group"), e.alias("e")


def _members(*fields: Column | str, after: Column | None = None) -> Column:
    """The members of a JSON object as text: what stands between its braces, if anything."""

    def inside(text: Column) -> Column:
        members = F.substr(text, F.lit(2), F.length(text) - 2)
        members = members if after is None else F.concat(after, members)
        return F.when(text == "{}", F.lit("")).otherwise(members)

    # in a lambda the text is made once; trimming the braces away takes twice as long as this
    return F.transform(F.array(F.to_json(F.struct(*fields))), inside)[0]


def _prefix(source: spec.Source) -> str:
    return f"{source.table}/"


def _keyed() -> Column:
    return F.col("group").startswith('"')


def _is_of(source: spec.Source) -> Column:
    """Whether the event is a row of this source."""
    return F.col("e.into") == _prefix(source)


def _with_latest(user: Column, account: Column) -> Column:
    """A users row with the latest account. Its version is the account's: only that may change."""
    ts = F.greatest(user["ts"], account["ts"])
    return _final(_at(user), ts, _row(user, account), account)


def _with_each(user: Column, accounts: Column, *, outer: bool) -> Column:
    """A users row with each account. An outer join shows it without one until there is one."""
    pairs = F.transform(accounts, lambda account: _pair(user, account))
    if not outer:
        return pairs
    gone = _final(_at(user), accounts[0]["ts"], F.lit(""), accounts[0])
    alone = _final(_at(user), user["ts"], _row(user))
    return F.when(F.size(accounts) == 0, F.array(alone)).otherwise(F.concat(pairs, F.array(gone)))


def _pair(user: Column, account: Column) -> Column:
    row_id = F.concat(_at(user), F.lit("+"), _at(account))
    return _final(row_id, F.greatest(user["ts"], account["ts"]), _row(user, account))


def _own() -> Column:
    """The event's own record, which is also its mark."""
    e = F.col("e")
    return _record(F.concat(e["into"], _at(e)), e["ts"], F.coalesce(_row(e), F.lit("")))


def _final(row_id: Column, ts: Column, row: Column, version_of: Column | None = None) -> Column:
    return _record(F.concat(F.lit(f"{spec.FINAL}/"), row_id), ts, row, version_of)


def _row(first: Column, other: Column | None = None) -> Column:
    """The member `row`: the key and what the texts say; null where the first has none."""
    key = F.when(_keyed(), F.col("group")).otherwise(F.lit(""))
    texts = [first["text"], *([] if other is None else [F.coalesce(other["text"], F.lit(""))])]
    return F.concat(F.lit('"row":{'), key, *texts, F.lit("},"))


def _record(key: Column, ts: Column, row: Column, version_of: Column | None = None) -> Column:
    parts = [F.lit("{"), row, F.lit('"ts":'), ts]
    if version_of is not None:
        numbers = F.concat_ws(",", *(version_of[name] for name in _AT))
        version = F.concat(F.lit(',"version":['), numbers, F.lit("]"))
        parts.append(F.when(version_of.isNotNull(), version).otherwise(F.lit("")))
    return F.struct(key.alias("key"), F.concat(*parts, F.lit("}")).alias("value"))


def _at(record: Column) -> Column:
    return F.concat(record["partition"], F.lit("-"), record["offset"])
