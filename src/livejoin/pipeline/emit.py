"""What an event writes to the changelog, put together from the texts of the rows it meets."""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from livejoin.core import changelog_bundles, spec
from livejoin.pipeline.events import (
    VERSION_FIELDS,
    ColumnFunction,
    evaluate_once,
    has_join_key,
    is_from_source,
    position_text,
    stored_row,
)


def joined_with_latest(user: Column, account: Column) -> Column:
    """A users row with the latest account. Its version is the account's: only that may change."""
    ts = F.greatest(user["ts"], account["ts"])
    return _final_record(position_text(user), ts, _row_member(user, account), account)


def bundled_with_latest() -> Column:
    """The rows of a user that has very many, when an account comes."""
    users, account = F.col("users"), F.col("others")
    shared = [*_shared_members(account), F.lit(","), _version_member(account)]
    many = bundle_records(users, position_text, shared, growing=True)
    return F.when(is_from_source(spec.ACCOUNTS) & worth_bundling(users, _row_text(account)), many)


def joined_pairs(user: Column, accounts: Column, *, outer: bool) -> Column:
    """A users row with each account. An outer join shows it without one until there is one."""
    pairs = F.transform(accounts, lambda account: _pair_record(user, account))
    if not outer:
        return pairs
    gone = _unmatched_removal(user, accounts[0])
    alone = _final_record(position_text(user), user["ts"], _row_member(user))
    return F.when(F.size(accounts) == 0, F.array(alone)).otherwise(F.concat(pairs, F.array(gone)))


def bundled_pairs(*, outer: bool) -> Column:
    """The pairs of an event that meets very many records of the other source."""
    event, users, accounts = stored_row(), F.col("users"), F.col("others")
    of_account = bundle_records(users, lambda user: _pair_id(user, event), _shared_members(event))
    of_user = bundle_records(
        accounts, lambda account: _pair_id(event, account), _shared_members(event)
    )
    if outer:
        gone = [F.lit('"ts":'), event["ts"], F.lit(","), _version_member(event)]
        of_account = F.concat(of_account, bundle_records(users, position_text, gone, removed=True))
        of_user = F.concat(of_user, F.array(_unmatched_removal(event, accounts[0])))
    many = F.when(
        is_from_source(spec.ACCOUNTS) & worth_bundling(users, _row_text(event)),
        of_account,
    )
    return many.when(
        is_from_source(spec.USERS) & worth_bundling(accounts, _row_text(event)),
        of_user,
    )


def _unmatched_removal(user: Column, account: Column) -> Column:
    """The removal of the row without an account."""
    return _final_record(position_text(user), account["ts"], F.lit(""), account)


def _pair_record(user: Column, account: Column) -> Column:
    ts = F.greatest(user["ts"], account["ts"])
    return _final_record(_pair_id(user, account), ts, _row_member(user, account))


def _pair_id(user: Column, account: Column) -> Column:
    return F.concat(position_text(user), F.lit("+"), position_text(account))


def event_record() -> Column:
    """The event's own record, which is also its mark."""
    e = F.col("e")
    return _record(
        F.concat(e["into"], position_text(e)), e["ts"], F.coalesce(_row_member(e), F.lit(""))
    )


def _final_record(
    row_id: Column, ts: Column, row: Column, version_of: Column | None = None
) -> Column:
    return _record(F.concat(F.lit(f"{spec.FINAL}/"), row_id), ts, row, version_of)


def _row_member(first: Column, other: Column | None = None) -> Column:
    """The member `row`: the key and what the texts say; null where the first has none."""
    key = F.when(has_join_key(), F.col("group")).otherwise(F.lit(""))
    texts = [first["text"], *([] if other is None else [F.coalesce(other["text"], F.lit(""))])]
    return F.concat(F.lit('"row":{'), key, *texts, F.lit("},"))


def _shared_members(record: Column) -> list[Column]:
    """The cells that all rows of a bundle have, and their time."""
    return [F.lit('"row":{'), _row_text(record), F.lit('},"ts":'), record["ts"]]


def _row_text(record: Column) -> Column:
    return F.concat(F.col("group"), record["text"])


def _record(key: Column, ts: Column, row: Column, version_of: Column | None = None) -> Column:
    parts = [F.lit("{"), row, F.lit('"ts":'), ts]
    if version_of is not None:
        version = F.concat(F.lit(","), _version_member(version_of))
        parts.append(F.when(version_of.isNotNull(), version).otherwise(F.lit("")))
    return F.struct(key.alias("key"), F.concat(*parts, F.lit("}")).alias("value"))


def _version_member(record: Column) -> Column:
    numbers = F.concat_ws(",", *(record[name] for name in VERSION_FIELDS))
    return F.concat(F.lit('"version":['), numbers, F.lit("]"))


def worth_bundling(many: Column, shared: Column) -> Column:
    """Whether there are many, and all is small: what is shared is in each row that is shown."""
    small = F.forall(
        many, lambda one: F.octet_length(one["text"]) <= changelog_bundles.BUNDLE_MAX_PART_BYTES
    )
    one_is_small = F.octet_length(shared) <= changelog_bundles.BUNDLE_MAX_PART_BYTES
    return (F.size(many) > changelog_bundles.BUNDLE_MIN_ROWS) & one_is_small & small


def bundle_records(
    many: Column,
    row_id: ColumnFunction,
    shared: Sequence[Column],
    *,
    growing: bool = False,
    removed: bool = False,
) -> Column:
    """Bundles of rows. What they share is said first and once.

    Where the same rows come again and again, only ever more of them, the newest bundle is all that
    compaction has to keep. Elsewhere it must keep those with other rows as well.
    """

    def bundle(some: Column) -> Column:
        ids = F.concat_ws('","', F.transform(some, row_id))
        own = F.concat_ws(changelog_bundles.BUNDLE_NEXT, F.transform(some, _own_cells))
        end = (
            [F.lit("}")]
            if removed
            else [F.lit(changelog_bundles.BUNDLE_ROWS), own, F.lit(changelog_bundles.BUNDLE_END)]
        )
        value = F.concat(
            *(F.lit("{"), *shared),
            *(F.lit(f'{changelog_bundles.BUNDLE_IDS}["'), ids, F.lit('"]')),
            *end,
        )
        which = [] if growing else [F.lit("~"), F.hex(F.xxhash64(ids))]
        key = F.concat(
            F.lit(f"{changelog_bundles.BUNDLE_PREFIX}{spec.FINAL}/"), row_id(some[0]), *which
        )
        return F.struct(key.alias("key"), value.alias("value"))

    starts = F.sequence(F.lit(1), F.size(many), F.lit(changelog_bundles.BUNDLE_MAX_ROWS))
    return F.transform(
        starts,
        lambda at: evaluate_once(F.slice(many, at, changelog_bundles.BUNDLE_MAX_ROWS), bundle),
    )


def _own_cells(one: Column) -> Column:
    """The cells that a row has for itself, and their time."""
    return F.concat(F.lit('{"ts":'), one["ts"], one["text"], F.lit("}"))
