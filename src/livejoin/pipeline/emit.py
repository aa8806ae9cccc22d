"""Changelog records that an event writes, concatenated from the JSON texts of rows in the state.

A record has a fixed cost at the sink, the broker and each follower, whatever its size. An account
of a user with 10,000 rows would delay everything behind it, so many small rows go into bundles.
"""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from livejoin.core import changelog, spec
from livejoin.pipeline import events, latest_row
from livejoin.pipeline.events import (
    ColumnFunction,
    evaluate_once,
    has_join_key,
    is_from_source,
    position_text,
    stored_row,
)


def event_record() -> Column:
    """The event's own record: its row, reject or tombstone. It is also the event's mark."""
    event = F.col(events.EVENT)
    key = F.concat(event[events.KEY_PREFIX], position_text(event))
    return _record(key, event[latest_row.TS], F.coalesce(_row_member(event), F.lit("")))


# --- joined rows, one record each


def joined_with_latest(user: Column, account: Column) -> Column:
    """A users row joined with the latest account, whose version it has: only that may change."""
    ts = F.greatest(user[latest_row.TS], account[latest_row.TS])
    return _final_record(position_text(user), ts, _row_member(user, account), account)


def joined_pairs(user: Column, accounts: Column, *, outer: bool) -> Column:
    """A users row joined with each account; an outer join shows it alone until there is one."""
    pairs = F.transform(accounts, lambda account: _pair_record(user, account))
    if not outer:
        return pairs
    removal = _unmatched_removal(user, accounts[0])
    unmatched = _final_record(position_text(user), user[latest_row.TS], _row_member(user))
    return F.when(F.size(accounts) == 0, F.array(unmatched)).otherwise(
        F.concat(pairs, F.array(removal))
    )


def _unmatched_removal(user: Column, account: Column) -> Column:
    """The removal of the row without an account."""
    return _final_record(position_text(user), account[latest_row.TS], F.lit(""), account)


def _pair_record(user: Column, account: Column) -> Column:
    ts = F.greatest(user[latest_row.TS], account[latest_row.TS])
    return _final_record(_pair_id(user, account), ts, _row_member(user, account))


def _pair_id(user: Column, account: Column) -> Column:
    return F.concat(position_text(user), F.lit("+"), position_text(account))


# --- joined rows in bundles


def bundled_with_latest(max_rows: int) -> Column:
    """All rows of the event's user in bundles, if it is an account and bundling is worth it."""
    users, account = F.col(events.USERS), F.col(events.ACCOUNTS)
    shared = [*_shared_members(account), F.lit(","), _version_member(account)]
    bundles = bundle_records(users, position_text, shared, max_rows, growing=True)
    return F.when(
        is_from_source(spec.DEFAULT.lookups[0]) & worth_bundling(users, _row_text(account)), bundles
    )


def bundled_pairs(max_rows: int, *, outer: bool) -> Column:
    """The event's pairs with all rows of the other source in bundles, if that is worth it."""
    event, users, accounts = stored_row(), F.col(events.USERS), F.col(events.ACCOUNTS)
    of_account = bundle_records(
        users, lambda user: _pair_id(user, event), _shared_members(event), max_rows
    )
    of_user = bundle_records(
        accounts, lambda account: _pair_id(event, account), _shared_members(event), max_rows
    )
    if outer:
        removal = [F.lit('"ts":'), event[latest_row.TS], F.lit(","), _version_member(event)]
        of_account = F.concat(
            of_account, bundle_records(users, position_text, removal, max_rows, removed=True)
        )
        of_user = F.concat(of_user, F.array(_unmatched_removal(event, accounts[0])))
    return F.when(
        is_from_source(spec.DEFAULT.lookups[0]) & worth_bundling(users, _row_text(event)),
        of_account,
    ).when(
        is_from_source(spec.DEFAULT.driver) & worth_bundling(accounts, _row_text(event)), of_user
    )


def worth_bundling(rows: Column, shared: Column) -> Column:
    """Whether rows are many and small. The shared text counts: every shown row repeats it."""
    max_bytes = changelog.BUNDLE_MAX_PART_BYTES
    rows_are_small = F.forall(rows, lambda row: F.octet_length(row[latest_row.TEXT]) <= max_bytes)
    shared_is_small = F.octet_length(shared) <= max_bytes
    return (F.size(rows) > changelog.BUNDLE_MIN_ROWS) & shared_is_small & rows_are_small


def bundle_records(  # noqa: PLR0913 - what a bundle consists of
    rows: Column,
    row_id: ColumnFunction,
    shared: Sequence[Column],
    max_rows: int,
    *,
    growing: bool = False,
    removed: bool = False,
) -> Column:
    """Rows as bundles: the members they share once, then ids, then what each has of its own.

    Where rows are only ever added (`growing`), bundles of the same first row have the same key, and
    compaction keeps the newest. Elsewhere the key contains a hash of the ids, so bundles of other
    rows are kept too.
    """

    def bundle(some: Column) -> Column:
        ids = F.concat_ws('","', F.transform(some, row_id))
        own = F.concat_ws(changelog.BUNDLE_NEXT, F.transform(some, _own_members))
        end = (
            [F.lit("}")]
            if removed
            else [F.lit(changelog.BUNDLE_ROWS), own, F.lit(changelog.BUNDLE_END)]
        )
        value = F.concat(
            *(F.lit("{"), *shared),
            *(F.lit(f'{changelog.BUNDLE_IDS}["'), ids, F.lit('"]')),
            *end,
        )
        hashed_ids = [] if growing else [F.lit("~"), F.hex(F.xxhash64(ids))]
        prefix = F.lit(f"{changelog.BUNDLE_PREFIX}{spec.FINAL}/")
        key = F.concat(prefix, row_id(some[0]), *hashed_ids)
        return F.struct(key.alias("key"), value.alias("value"))

    starts = F.sequence(F.lit(1), F.size(rows), F.lit(max_rows))
    return F.transform(starts, lambda start: evaluate_once(F.slice(rows, start, max_rows), bundle))


def _own_members(row: Column) -> Column:
    """The members that a row does not share with its bundle, and its time."""
    return F.concat(F.lit('{"ts":'), row[latest_row.TS], row[latest_row.TEXT], F.lit("}"))


def _shared_members(record: Column) -> list[Column]:
    """The members `row` and `ts` that all rows of a bundle share."""
    return [F.lit('"row":{'), _row_text(record), F.lit('},"ts":'), record[latest_row.TS]]


def _row_text(record: Column) -> Column:
    return F.concat(F.col(events.GROUP), record[latest_row.TEXT])


# --- parts of a record


def _final_record(
    row_id: Column, ts: Column, row: Column, version_of: Column | None = None
) -> Column:
    return _record(F.concat(F.lit(f"{spec.FINAL}/"), row_id), ts, row, version_of)


def _record(key: Column, ts: Column, row: Column, version_of: Column | None = None) -> Column:
    parts = [F.lit("{"), row, F.lit('"ts":'), ts]
    if version_of is not None:
        version = F.concat(F.lit(","), _version_member(version_of))
        parts.append(F.when(version_of.isNotNull(), version).otherwise(F.lit("")))
    return F.struct(key.alias("key"), F.concat(*parts, F.lit("}")).alias("value"))


def _row_member(first: Column, other: Column | None = None) -> Column:
    """The member `row`: the key and the texts of both rows; null where the first has no text."""
    key = F.when(has_join_key(), F.col(events.GROUP)).otherwise(F.lit(""))
    other_texts = [] if other is None else [F.coalesce(other[latest_row.TEXT], F.lit(""))]
    return F.concat(F.lit('"row":{'), key, first[latest_row.TEXT], *other_texts, F.lit("},"))


def _version_member(record: Column) -> Column:
    numbers = F.concat_ws(",", *(record[name] for name in latest_row.VERSION_FIELDS))
    return F.concat(F.lit('"version":['), numbers, F.lit("]"))
