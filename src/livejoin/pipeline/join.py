"""The join as one stateful aggregation: events of all sources by key, what each of them changes, in changelog records.

In Real-time Mode every event gives its own output, so an event emits what it changed and nothing else. Its own
record (row, reject or tombstone) comes last: a follower that has it has everything the event caused.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from livejoin.core import rows, spec
from livejoin.pipeline import parse

_AT = ("partition", "offset", "ts")
_SQL = {"string": "string", "int64": "bigint", "double": "double", "timestamp": "bigint"}
_RECORDS = "array<struct<key:string,value:string>>"


def events(records: DataFrame, source: spec.Source, topic: str) -> DataFrame:
    """Records of one topic as events: where they stand, their group, and a row or a reason or neither.

    Each source has a column of its own in which the state keeps the row; an event fills only its source's.
    """
    at = records.select("value", "partition", "offset", F.unix_millis("timestamp").alias("ts"))
    read = parse.parsed(at, source)
    key = F.col("row")[spec.KEY]
    raw = F.when(F.col("reason").isNotNull(), F.base64(F.substring("value", 1, parse.RAW_BYTES)))
    # Events without a key meet under a name that no userId can have, and leave nothing in the state.
    group = F.coalesce(F.concat(F.lit("="), key), F.concat(F.lit(f"-{source.name}-"), "partition"))
    kept = F.when(key.isNotNull(), F.struct(*_AT, "row.*"))
    own = F.struct(F.lit(source.name).alias("source"), F.lit(topic).alias("topic"), *_AT, "reason", raw.alias("raw"))
    return read.select(
        group.alias("group"),
        own.alias("event"),
        *(_only(source, s, F.col("row"), _row_type(s)).alias(f"{s.name}_row") for s in spec.SOURCES),
        *(_only(source, s, kept, _kept_type(s)).alias(s.name) for s in spec.SOURCES),
    )


def changes(stream: DataFrame, join: spec.Join) -> DataFrame:
    """Events of all sources as changelog records, `key` and `value`."""
    newest = F.struct("accounts.ts", "accounts.partition", "accounts.offset")
    latest = F.max_by("accounts", F.when(F.col("accounts").isNotNull(), newest))
    state = stream.groupBy("group").agg(
        F.collect_list("users").alias("users"),
        latest.alias("latest") if join == "left" else F.collect_list("accounts").alias("accounts"),
        F.last(F.struct("event.*", "users_row", "accounts_row", "users", "accounts")).alias("e"),
    )
    user, account = F.col("e.users"), F.col("e.accounts")
    # a new users row changes that row, a new account all rows of its user, anything else none
    touched = F.when(user.isNotNull(), F.array(user)).when(account.isNotNull(), F.col("users"))
    # a users row without a key joins nothing, yet the left joins show it
    alone = F.when(
        F.col("e.users_row").isNotNull() & user.isNull(),
        F.array(F.struct(*(F.col("e")[name].alias(name) for name in _AT), F.col("e.users_row.*"))),
    )
    if join == "left":
        latest = F.col("latest")
        changed = F.transform(F.coalesce(touched, alone), lambda row: _with_latest(row, latest))
    else:
        others = F.when(account.isNotNull(), F.array(account)).otherwise(F.col("accounts"))
        outer = join == "left_outer"
        pairs = F.transform(touched, lambda row: _with_each(row, others, outer=outer))
        single = F.transform(alone, lambda row: F.array(_without(row))) if outer else F.lit(None)
        changed = F.flatten(F.coalesce(pairs, single))
    nothing = F.array().cast(_RECORDS)
    everything = F.concat(F.coalesce(changed, nothing), F.array(_own(F.col("e"))))
    return state.select(F.explode(everything).alias("r")).select("r.key", "r.value")


def _with_latest(user: Column, account: Column) -> Column:
    """A users row with the latest account. Its version is the account's: the only part of it that may change."""
    ts = F.greatest(user["ts"], account["ts"])
    return _record(spec.FINAL, _at(user), _final(user, account), ts, _version(account))


def _with_each(user: Column, accounts: Column, *, outer: bool) -> Column:
    """A users row with each account. In an outer join its row without one is shown until then, and gone after."""
    pairs = F.transform(accounts, lambda account: _pair(user, account))
    if not outer:
        return pairs
    gone = _record(spec.FINAL, _at(user), None, accounts[0]["ts"], _version(accounts[0]))
    return F.when(F.size(accounts) == 0, F.array(_without(user))).otherwise(F.concat(pairs, F.array(gone)))


def _pair(user: Column, account: Column) -> Column:
    row_id = F.concat(_at(user), F.lit("+"), _at(account))
    return _record(spec.FINAL, row_id, _final(user, account), F.greatest(user["ts"], account["ts"]))


def _without(user: Column) -> Column:
    return _record(spec.FINAL, _at(user), _final(user, None), user["ts"])


def _final(user: Column, account: Column | None) -> Column:
    mine = [user[c.name].alias(c.name) for c in spec.USERS.fields]
    others = [] if account is None else [account[c.name].alias(c.name) for c in spec.ACCOUNTS.fields[1:]]
    return F.struct(*mine, *others)


def _version(account: Column) -> Column:
    parts = (account[name].cast("bigint") for name in ("ts", "partition", "offset"))
    return F.when(account.isNotNull(), F.array(*parts))


def _own(event: Column) -> Column:
    """The event's own record, which is also its mark."""
    where = _at(event)
    apart = F.concat(event["source"], F.lit("/"), where)
    reject = F.struct(*(event[name] for name in ("source", "topic", *_AT, "reason", "raw")))
    record = F.when(event["reason"].isNotNull(), _record(spec.REJECTS, apart, reject, event["ts"]))
    for source in spec.SOURCES:
        row = event[f"{source.name}_row"]
        record = record.when(row.isNotNull(), _record(source.table, where, row, event["ts"]))
    return record.otherwise(_record(rows.TOMBSTONES, apart, None, event["ts"]))


def _record(table: str, row_id: Column, row: Column | None, ts: Column, version: Column | None = None) -> Column:
    fields = {"row": row, "ts": ts, "version": version}
    value = F.to_json(F.struct(*(field.alias(name) for name, field in fields.items() if field is not None)))
    return F.struct(F.concat(F.lit(f"{table}/"), row_id).alias("key"), value.alias("value"))


def _at(record: Column) -> Column:
    return F.concat(record["partition"], F.lit("-"), record["offset"])


def _only(mine: spec.Source, source: spec.Source, column: Column, sql_type: str) -> Column:
    return column if source is mine else F.lit(None).cast(sql_type)


def _row_type(source: spec.Source) -> str:
    return f"struct<{','.join(f'{c.name}:{_SQL[c.type]}' for c in source.fields)}>"


def _kept_type(source: spec.Source) -> str:
    return _row_type(source).replace("struct<", "struct<partition:int,offset:bigint,ts:bigint,", 1)
