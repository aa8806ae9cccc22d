"""The join as one stateful aggregation: events of all sources by key in, changelog records out.

In Real-time Mode every event gives its own output, so an event emits what it changed and nothing
else. Its own record (row, reject or tombstone) comes last: a follower that has it has everything
the event caused.

Rows are written as JSON once, before they are kept: what is emitted is put together from texts.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from livejoin.core import rows, spec
from livejoin.pipeline import bundles, exact, parse

# Whoever changes what the state holds, or the shape of the query, counts on: a checkpoint made by
# another version is not taken over, its choice is built anew.
VERSION = 4

_AT = ("ts", "partition", "offset")  # in the order in which versions are compared
_RECORDS = "array<struct<key:string,value:string>>"

# Where records of the feed go: what history tells of a key leaves no record of its own.
HISTORY = "history/"
MARK = f"{rows.FEED}/"


def records(stream: DataFrame, source: spec.Source) -> DataFrame:
    """A Kafka stream as records of one source."""
    ts = F.unix_millis("timestamp").alias("ts")
    name = F.lit(source.name).alias("source")
    return stream.select(name, "topic", "value", "partition", "offset", ts)


def together(streams: Sequence[DataFrame]) -> DataFrame:
    """Records of several sources as one."""
    return functools.reduce(DataFrame.unionByName, streams)


def changes(read: DataFrame, choice: spec.Choice, fed: DataFrame | None = None) -> DataFrame:
    """Records of all sources as changelog records, `key` and `value`.

    What was there before them may come by a feed (see `history`), sooner or later.
    """
    it = _columns(read.sparkSession, choice.join, fed is not None)
    events = parse.parsed(read).select(*event(read.sparkSession))
    if fed is not None:
        nothing = F.lit(None).cast(fed.schema["kept"].dataType)
        events = events.withColumn("kept", nothing).unionByName(fed)
    return events.groupBy("group").agg(*it.state).select(it.records)


class _Columns(NamedTuple):
    state: tuple[Column, ...]
    records: Column


# one session has three joins, one of them also with a feed; a new one comes only after its JVM died
@functools.lru_cache(maxsize=4)
def _columns(_session: SparkSession, join: spec.Join, fed: bool) -> _Columns:  # noqa: FBT001 - cached
    """What is the same for all topics, made once, as in `parse`."""
    of_user, of_account = of(spec.USERS), of(spec.ACCOUNTS)
    if fed:
        of_user = F.coalesce(of_user, F.col("kept.user"))
        of_account = F.coalesce(of_account, F.col("kept.account"))
    others = F.max(of_account) if join == "left" else F.collect_list(of_account)
    # a new users row changes that row, a new account all rows of its user, anything else none
    touched = F.when(is_of(spec.USERS), F.array(row())).when(is_of(spec.ACCOUNTS), F.col("users"))
    if fed:
        touched = touched.when(_is_history(), _changed_since())
    if join == "left":
        changed = F.transform(touched, lambda user: with_latest(user, F.col("others")))
        changed = F.coalesce(_many_with_latest(), changed)
    else:
        new = F.when(is_of(spec.ACCOUNTS), F.array(row())).otherwise(F.col("others"))
        outer = join == "left_outer"
        changed = F.flatten(F.transform(touched, lambda user: _with_each(user, new, outer=outer)))
        changed = F.coalesce(_many_pairs(outer=outer), changed)
    nothing = F.array().cast(_RECORDS)
    mark = F.when(_is_history(), nothing).otherwise(F.array(own())) if fed else F.array(own())
    everything = F.concat(F.coalesce(changed, nothing), mark)
    return _Columns(
        (F.collect_list(of_user).alias("users"), others.alias("others"), F.last("e").alias("e")),
        F.inline(everything),
    )


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
    others = (row[c.name].alias(c.name) for c in exact.FIELDS if c.name != spec.KEY)
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

    def members(text: Column) -> Column:
        found = parse.inside(text)
        found = found if after is None else F.concat(after, found)
        return F.when(text == "{}", F.lit("")).otherwise(found)

    return bundles.once(F.to_json(F.struct(*fields)), members)


def _prefix(source: spec.Source) -> str:
    return f"{source.table}/"


def keyed() -> Column:
    """Whether the event has a key to be joined by."""
    return F.col("group").startswith('"')


def row() -> Column:
    """The event as it is kept."""
    return F.struct(*(F.col("e")[name] for name in (*_AT, "text")))


def of(source: spec.Source) -> Column:
    """The same where it is a row of this source, and has a key."""
    return F.when(is_of(source) & keyed(), row())


def event_of(source: spec.Source, row: Column) -> Column:
    """The event that `of` has such a row of."""
    return F.struct(F.lit(_prefix(source)).alias("into"), *(row[name] for name in (*_AT, "text")))


def is_of(source: spec.Source) -> Column:
    """Whether the event is a row of this source."""
    return F.col("e.into") == _prefix(source)


def _is_history() -> Column:
    return F.col("e.into") == HISTORY


def _changed_since() -> Column:
    """Which rows of its key are other ones than history alone gives, when a part of that comes.

    History has shown all of its own rows, and says how many they are and with which account. Where
    there are more, what came since did not know that account yet. Where there is a newer one, the
    row that has just come does not show it yet.
    """
    users, others, e = F.col("users"), F.col("others"), F.col("e")
    same = others["partition"].eqNullSafe(e["partition"]) & others["offset"].eqNullSafe(e["offset"])
    more = F.size(users) > e["text"].cast("int")
    return F.when(more, users).when(~same, F.slice(users, -1, 1))


def with_latest(user: Column, account: Column) -> Column:
    """A users row with the latest account. Its version is the account's: only that may change."""
    ts = F.greatest(user["ts"], account["ts"])
    return _final(_at(user), ts, _row(user, account), account)


def _with_each(user: Column, accounts: Column, *, outer: bool) -> Column:
    """A users row with each account. An outer join shows it without one until there is one."""
    pairs = F.transform(accounts, lambda account: _pair(user, account))
    if not outer:
        return pairs
    gone = _gone(user, accounts[0])
    alone = _final(_at(user), user["ts"], _row(user))
    return F.when(F.size(accounts) == 0, F.array(alone)).otherwise(F.concat(pairs, F.array(gone)))


def _gone(user: Column, account: Column) -> Column:
    """The removal of the row without an account."""
    return _final(_at(user), account["ts"], F.lit(""), account)


def _pair(user: Column, account: Column) -> Column:
    ts = F.greatest(user["ts"], account["ts"])
    return _final(_pair_id(user, account), ts, _row(user, account))


def _pair_id(user: Column, account: Column) -> Column:
    return F.concat(_at(user), F.lit("+"), _at(account))


def _many_with_latest() -> Column:
    """The rows of a user that has very many, when an account comes."""
    users, account = F.col("users"), F.col("others")
    shared = [*_shared(account), F.lit(","), _version(account)]
    many = bundles.records(users, _at, shared)
    return F.when(is_of(spec.ACCOUNTS) & bundles.worth(users), many)


def _many_pairs(*, outer: bool) -> Column:
    """The pairs of an event that meets very many records of the other source."""
    event, users, accounts = row(), F.col("users"), F.col("others")
    of_account = bundles.records(users, lambda user: _pair_id(user, event), _shared(event))
    of_user = bundles.records(accounts, lambda account: _pair_id(event, account), _shared(event))
    if outer:
        gone = [F.lit('"ts":'), event["ts"], F.lit(","), _version(event)]
        of_account = F.concat(of_account, bundles.records(users, _at, gone, removed=True))
        of_user = F.concat(of_user, F.array(_gone(event, accounts[0])))
    many = F.when(is_of(spec.ACCOUNTS) & bundles.worth(users), of_account)
    return many.when(is_of(spec.USERS) & bundles.worth(accounts), of_user)


def _shared(record: Column) -> list[Column]:
    """The cells that all rows of a bundle have, and their time."""
    return [
        *(F.lit('"row":{'), F.col("group"), record["text"]),
        *(F.lit('},"ts":'), record["ts"]),
    ]


def own() -> Column:
    """The event's own record, which is also its mark."""
    e = F.col("e")
    return _record(F.concat(e["into"], _at(e)), e["ts"], F.coalesce(_row(e), F.lit("")))


def _final(row_id: Column, ts: Column, row: Column, version_of: Column | None = None) -> Column:
    return _record(F.concat(F.lit(f"{spec.FINAL}/"), row_id), ts, row, version_of)


def _row(first: Column, other: Column | None = None) -> Column:
    """The member `row`: the key and what the texts say; null where the first has none."""
    key = F.when(keyed(), F.col("group")).otherwise(F.lit(""))
    texts = [first["text"], *([] if other is None else [F.coalesce(other["text"], F.lit(""))])]
    return F.concat(F.lit('"row":{'), key, *texts, F.lit("},"))


def _record(key: Column, ts: Column, row: Column, version_of: Column | None = None) -> Column:
    parts = [F.lit("{"), row, F.lit('"ts":'), ts]
    if version_of is not None:
        version = F.concat(F.lit(","), _version(version_of))
        parts.append(F.when(version_of.isNotNull(), version).otherwise(F.lit("")))
    return F.struct(key.alias("key"), F.concat(*parts, F.lit("}")).alias("value"))


def _version(record: Column) -> Column:
    numbers = F.concat_ws(",", *(record[name] for name in _AT))
    return F.concat(F.lit('"version":['), numbers, F.lit("]"))


def _at(record: Column) -> Column:
    return F.concat(record["partition"], F.lit("-"), record["offset"])
