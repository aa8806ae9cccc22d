"""The join as one stateful aggregation: events of all sources by key in, changelog records out.

In Real-time Mode every event gives its own output, so an event emits what it changed and nothing
else. Its own record (row, reject or tombstone) comes last: a follower that has it has everything
the event caused.
"""

import functools
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from livejoin.core import rows, spec
from livejoin.pipeline import parse

# Whoever changes what the state holds, or the shape of the query, counts on: a checkpoint made by
# another version is not taken over, its choice is built anew.
VERSION = 1

_AT = ("partition", "offset", "ts")
_RECORDS = "array<struct<key:string,value:string>>"


def records(stream: DataFrame, source: spec.Source) -> DataFrame:
    """A Kafka stream as records of one source."""
    ts = F.unix_millis("timestamp").alias("ts")
    return stream.select(F.lit(source.name).alias("source"), "value", "partition", "offset", ts)


def changes(read: DataFrame, choice: spec.Choice) -> DataFrame:
    """Records of all sources as changelog records, `key` and `value`."""
    it = _columns(read.sparkSession, choice.join)
    topics = (F.lit(choice.topic(s.name)).alias(_topic(s)) for s in spec.SOURCES)
    return (
        parse.parsed(read)
        .select(it.group, it.event)
        .groupBy("group")
        .agg(*it.state, *topics)
        .select(it.records)
    )


class _Columns(NamedTuple):
    group: Column
    event: Column
    state: tuple[Column, ...]
    records: Column


# one session has three joins; a new one comes only after its JVM has died
@functools.lru_cache(maxsize=3)
def _columns(_session: SparkSession, join: spec.Join) -> _Columns:
    """What is the same for all topics, made once, as in `parse`."""
    users, accounts, e = _kept(spec.USERS), _kept(spec.ACCOUNTS), F.col("e")
    of_user = F.when(_is_row(spec.USERS) & _key().isNotNull(), users)
    of_account = F.when(_is_row(spec.ACCOUNTS) & _key().isNotNull(), accounts)
    newest = F.when(of_account.isNotNull(), F.struct(e["ts"], e["partition"], e["offset"]))
    others = F.max_by(accounts, newest) if join == "left" else F.collect_list(of_account)
    # a new users row changes that row, a new account all rows of its user, anything else none
    touched = F.when(_is_row(spec.USERS), F.array(users)).when(
        of_account.isNotNull(), F.col("users")
    )
    if join == "left":
        changed = F.transform(touched, lambda user: _with_latest(user, F.col("others")))
    else:
        new = F.when(of_account.isNotNull(), F.array(accounts)).otherwise(F.col("others"))
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
    """The `group` whose state a record meets, and the record as an event `e`."""
    start = F.base64(F.substring("value", 1, parse.RAW_BYTES))
    # Spark breaks base64 into lines
    raw = F.when(F.col("reason").isNotNull(), F.translate(start, "\r\n", "")).alias("raw")
    e = F.struct("source", *_AT, "row", "reason", raw)
    # Events without a key meet under a name that no userId has, and leave nothing in the state.
    key = F.concat(F.lit("="), F.col("row")[spec.KEY])
    apart = F.concat(F.lit("-"), "source", F.lit("-"), "partition")
    return F.coalesce(key, apart).alias("group"), e.alias("e")


def _topic(source: spec.Source) -> str:
    """The column beside the state that names a source's topic."""
    return f"topic_of_{source.name}"


def _is_row(source: spec.Source) -> Column:
    return (F.col("e.source") == source.name) & F.col("e.row").isNotNull()


def _key() -> Column:
    return F.col("e.row")[spec.KEY]


def _kept(source: spec.Source) -> Column:
    """What the state keeps of a source's row."""
    e = F.col("e")
    at = (e[name].alias(name) for name in _AT)
    return F.struct(*at, *(e["row"][c.name].alias(c.name) for c in source.fields))


def _with_latest(user: Column, account: Column) -> Column:
    """A users row with the latest account. Its version is the account's: only that may change."""
    ts = F.greatest(user["ts"], account["ts"])
    return _record(spec.FINAL, _at(user), _final(user, account), ts, _version(account))


def _with_each(user: Column, accounts: Column, *, outer: bool) -> Column:
    """A users row with each account. An outer join shows it without one until there is one."""
    pairs = F.transform(accounts, lambda account: _pair(user, account))
    if not outer:
        return pairs
    gone = _record(spec.FINAL, _at(user), None, accounts[0]["ts"], _version(accounts[0]))
    return F.when(F.size(accounts) == 0, F.array(_without(user))).otherwise(
        F.concat(pairs, F.array(gone))
    )


def _pair(user: Column, account: Column) -> Column:
    row_id = F.concat(_at(user), F.lit("+"), _at(account))
    return _record(spec.FINAL, row_id, _final(user, account), F.greatest(user["ts"], account["ts"]))


def _without(user: Column) -> Column:
    return _record(spec.FINAL, _at(user), _final(user, None), user["ts"])


def _final(user: Column, account: Column | None) -> Column:
    mine = [user[c.name].alias(c.name) for c in spec.USERS.fields]
    others = (
        [] if account is None else [account[c.name].alias(c.name) for c in spec.ACCOUNTS.fields[1:]]
    )
    return F.struct(*mine, *others)


def _version(account: Column) -> Column:
    parts = (account[name].cast("bigint") for name in ("ts", "partition", "offset"))
    return F.when(account.isNotNull(), F.array(*parts))


def _own() -> Column:
    """The event's own record, which is also its mark."""
    e = F.col("e")
    where = _at(e)
    apart = F.concat(e["source"], F.lit("/"), where)
    users, accounts = (F.col(_topic(source)) for source in spec.SOURCES)
    topic = F.when(e["source"] == spec.USERS.name, users).otherwise(accounts)
    reject = F.struct(
        e["source"], topic.alias("topic"), *(e[name] for name in (*_AT, "reason", "raw"))
    )
    record = F.when(e["reason"].isNotNull(), _record(spec.REJECTS, apart, reject, e["ts"]))
    for source in spec.SOURCES:
        row = F.struct(*(e["row"][c.name].alias(c.name) for c in source.fields))
        record = record.when(_is_row(source), _record(source.table, where, row, e["ts"]))
    return record.otherwise(_record(rows.TOMBSTONES, apart, None, e["ts"]))


def _record(
    table: str, row_id: Column, row: Column | None, ts: Column, version: Column | None = None
) -> Column:
    fields = {"row": row, "ts": ts, "version": version}
    value = F.to_json(
        F.struct(*(field.alias(name) for name, field in fields.items() if field is not None))
    )
    return F.struct(F.concat(F.lit(f"{table}/"), row_id).alias("key"), value.alias("value"))


def _at(record: Column) -> Column:
    return F.concat(record["partition"], F.lit("-"), record["offset"])
