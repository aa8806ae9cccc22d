"""Changelog records that an event writes, concatenated from the JSON texts of rows in the state.

A record has a fixed cost at the sink, the broker and each follower, whatever its size. A lookup
record of a key with 10,000 rows would delay everything behind it, so many small rows go into
bundles.
"""

import functools
import json
from collections.abc import Mapping, Sequence

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

LatestRows = Mapping[str, Column]  # by lookup: its latest row of the group


def event_record() -> Column:
    """The event's own record: its row, reject or tombstone. It is also the event's mark."""
    event = F.col(events.EVENT)
    key = F.concat(event[events.KEY_PREFIX], position_text(event))
    return _record(key, event[latest_row.TS], F.coalesce(_row_member(event), F.lit("")))


# --- joined rows, one record each


def joined_with_latest(row: Column, latest: LatestRows) -> Column:
    """A driver row joined with the latest row of each lookup; only those may change."""
    ts = F.greatest(row[latest_row.TS], *(one[latest_row.TS] for one in latest.values()))
    member = _row_member(row, *latest.values())
    return _final_record(position_text(row), ts, member, _version_if_any(latest))


def joined_pairs(row: Column, others: Column, *, outer: bool) -> Column:
    """A driver row joined with each lookup row; an outer join shows it alone until there is one."""
    pairs = F.transform(others, lambda other: _pair_record(row, other))
    if not outer:
        return pairs
    removal = _unmatched_removal(row, others[0])
    unmatched = _final_record(position_text(row), row[latest_row.TS], _row_member(row))
    return F.when(F.size(others) == 0, F.array(unmatched)).otherwise(
        F.concat(pairs, F.array(removal))
    )


def _unmatched_removal(row: Column, other: Column) -> Column:
    """The removal of the row without a match."""
    version = F.when(other.isNotNull(), F.concat(F.lit(","), _version_member(other)))
    ts, no_row = other[latest_row.TS], F.lit("")
    return _final_record(position_text(row), ts, no_row, version.otherwise(F.lit("")))


def _pair_record(row: Column, other: Column) -> Column:
    ts = F.greatest(row[latest_row.TS], other[latest_row.TS])
    return _final_record(_pair_id(row, other), ts, _row_member(row, other))


def _pair_id(row: Column, other: Column) -> Column:
    return F.concat(position_text(row), F.lit("+"), position_text(other))


# --- joined rows in bundles


def bundled_with_latest(max_rows: int, latest: LatestRows, joined: spec.JoinSpec) -> Column:
    """All driver rows of the event's key in bundles, if it is a lookup row and it is worth it."""
    rows, others = F.col(events.DRIVER), list(latest.values())
    times = [one[latest_row.TS] for one in others]
    ts = F.greatest(*times) if len(times) > 1 else times[0]
    text = _row_text(*others)
    shared = [F.lit('"row":{'), text, F.lit('},"ts":'), ts, _version_if_any(latest)]
    bundles = bundle_records(rows, position_text, shared, max_rows, growing=True)
    return F.when(is_from_source(*joined.lookups) & worth_bundling(rows, text), bundles)


def bundled_pairs(max_rows: int, joined: spec.JoinSpec, *, outer: bool) -> Column:
    """The event's pairs with all rows of the other source in bundles, if that is worth it."""
    event, rows, others = stored_row(), F.col(events.DRIVER), F.col(events.lookup_column(0))
    of_lookup = bundle_records(
        rows, lambda row: _pair_id(row, event), _shared_members(event), max_rows
    )
    of_driver = bundle_records(
        others, lambda other: _pair_id(event, other), _shared_members(event), max_rows
    )
    if outer:
        removal = [F.lit('"ts":'), event[latest_row.TS], F.lit(","), _version_member(event)]
        of_lookup = F.concat(
            of_lookup, bundle_records(rows, position_text, removal, max_rows, removed=True)
        )
        of_driver = F.concat(of_driver, F.array(_unmatched_removal(event, others[0])))
    (lookup,) = joined.lookups
    return F.when(
        is_from_source(lookup) & worth_bundling(rows, _row_text(event)),
        of_lookup,
    ).when(is_from_source(joined.driver) & worth_bundling(others, _row_text(event)), of_driver)


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


def _row_text(*records: Column) -> Column:
    """The key and the texts of rows, without those that are null."""
    first, *others = records
    if not others:
        return F.concat(F.col(events.GROUP), first[latest_row.TEXT])
    texts = (F.coalesce(record[latest_row.TEXT], F.lit("")) for record in records)
    return F.concat(F.col(events.GROUP), *texts)


# --- parts of a record


def _final_record(row_id: Column, ts: Column, row: Column, version: Column | None = None) -> Column:
    return _record(F.concat(F.lit(f"{spec.FINAL}/"), row_id), ts, row, version)


def _record(key: Column, ts: Column, row: Column, version: Column | None = None) -> Column:
    """A record; `version` is its member with the comma before it, or an empty text."""
    members = [F.lit("{"), row, F.lit('"ts":'), ts, *([] if version is None else [version])]
    return F.struct(key.alias("key"), F.concat(*members, F.lit("}")).alias("value"))


def _row_member(first: Column, *others: Column) -> Column:
    """The member `row`: the key and the texts of all rows; null where the first has no text."""
    key = F.when(has_join_key(), F.col(events.GROUP)).otherwise(F.lit(""))
    other_texts = (F.coalesce(other[latest_row.TEXT], F.lit("")) for other in others)
    return F.concat(F.lit('"row":{'), key, first[latest_row.TEXT], *other_texts, F.lit("},"))


def _version_if_any(latest: LatestRows) -> Column:
    """The comma and the member with the version of each lookup; empty where there is no row.

    A single lookup has the member `version`, several have `versions`.
    """
    rows = list(latest.values())
    if len(rows) == 1:
        member = _version_member(rows[0])
    else:
        named = (
            F.when(row.isNotNull(), F.concat(F.lit(f"{json.dumps(name)}:"), _version(row)))
            for name, row in latest.items()
        )
        member = F.concat(F.lit('"versions":{'), F.concat_ws(",", *named), F.lit("}"))
    has_rows = functools.reduce(Column.__or__, (row.isNotNull() for row in rows))
    return F.when(has_rows, F.concat(F.lit(","), member)).otherwise(F.lit(""))


def _version_member(record: Column) -> Column:
    return F.concat(F.lit('"version":'), _version(record))


def _version(record: Column) -> Column:
    numbers = F.concat_ws(",", *(record[name] for name in latest_row.VERSION_FIELDS))
    return F.concat(F.lit("["), numbers, F.lit("]"))
