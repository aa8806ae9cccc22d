"""Capped tables: every server keeps the same rows, whatever batches it reads the changelog in."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest import row_index, row_limits, segments, store
from livejoin.tables.ingest.batches import ChangeBatch
from livejoin.tables.ingest.row_limits import Cap, Rank, rank_of
from livejoin.tables.ingest.store import Store
from rig.reference_changelog import ReferenceFollower
from tables.samples import DECODER, SCHEMAS, plain

TABLE = "final_ui"
SCHEMA = SCHEMAS[TABLE]
Event = tuple[str, int, int]  # source, offset, time
T = TypeVar("T")


def _written_records(past_events: list[Event], event: Event, join: str) -> list[ChangelogRecord]:
    """Records that an event writes if all events share one userId: upserts, then a removal."""
    users = sorted(e for e in past_events if e[0] == "user")
    accounts = sorted((e for e in past_events if e[0] == "account"), key=lambda e: (e[2], e[1]))
    touched = [event] if event[0] == "user" else users
    if join == "left":
        latest = accounts[-1] if accounts else None
        return [_left_join_record(user, latest) for user in touched]
    written = []
    for user in touched:
        matching = [event] if event[0] == "account" else accounts
        written += [_pair_record(user, account) for account in matching]
        if matching:
            first = matching[0]
            at = (first[2], 1, first[1])
            written.append(ChangelogRecord(TABLE, f"0-{user[1]}", None, first[2], at))
        else:
            written.append(_left_join_record(user, None))
    return written


def _left_join_record(user: Event, account: Event | None) -> ChangelogRecord:
    version = None if account is None else (account[2], 1, account[1])
    ts = user[2] if account is None else max(user[2], account[2])
    return ChangelogRecord(TABLE, f"0-{user[1]}", {"name": f"{user}{account}"}, ts, version)


def _pair_record(user: Event, account: Event) -> ChangelogRecord:
    ts = max(user[2], account[2])
    return ChangelogRecord(TABLE, f"0-{user[1]}+1-{account[1]}", {"name": f"{user}{account}"}, ts)


@st.composite
def changelogs(draw: st.DrawFn, join: str) -> list[ChangelogRecord]:
    """Two runs over the same events in different orders; the first may end early."""
    count = draw(st.integers(1, 7))
    # few distinct times, so that ties are common and ids decide
    events = [
        (draw(st.sampled_from(["user", "account"])), offset, draw(st.integers(-1, 3)))
        for offset in range(count)
    ]
    written: list[ChangelogRecord] = []
    first, second = draw(st.permutations(events)), draw(st.permutations(events))
    for order in (first[: draw(st.integers(0, count))], second):
        past_events: list[Event] = []
        for event in order:
            past_events.append(event)
            written += _written_records(past_events, event, join)
    return written


def _rank(change: ChangelogRecord) -> Rank:
    return rank_of(change.ts, change.id)


def _expected(written: Sequence[ChangelogRecord], max_rows: int) -> set[str]:
    """Ids of the highest-ranked rows that an uncapped follower would hold."""
    newest = ReferenceFollower()
    for change in written:
        newest.apply(change)
    rows = newest.table(TABLE)
    paired = {row_id.partition("+")[0] for row_id in rows if "+" in row_id}
    candidates = [c for c in newest._newest.values() if c.id in rows.keys() - paired]
    return {c.id for c in sorted(candidates, key=_rank)[-max_rows:]}


def _batches(data: st.DataObject, written: Sequence[T]) -> list[list[T]]:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(written)), max_size=len(written))))
    return [
        list(written[a:b]) for a, b in zip([0, *cuts], [*cuts, len(written)], strict=True) if a < b
    ]


def _compacted(written: Sequence[ChangelogRecord]) -> list[tuple[int, ChangelogRecord]]:
    """The last record of each key in log order, each with the offset after it."""
    last = {change.key(): place for place, change in enumerate(written)}
    return [(place + 1, written[place]) for place in sorted(last.values())]


def _decoded(records: Sequence[ChangelogRecord]) -> ChangeBatch:
    return DECODER.tables[TABLE].decode_records(
        [c.id for c in records], [c.value() for c in records]
    )


class Viewer:
    """Rows of a viewer that receives every delta, and its rows at each earlier seq."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.past: list[tuple[int, dict[str, dict[str, Any]]]] = []

    def on_delta(self, delta: store.Delta, seq: int) -> None:
        _apply(self.rows, delta)
        self.past.append((seq, dict(self.rows)))


def _apply(rows: dict[str, dict[str, Any]], delta: store.Delta) -> None:
    rows.update({row["_id"]: row for row in plain(delta.upserts)})
    for row_id in delta.removed:
        rows.pop(row_id, None)


@pytest.fixture(scope="module", autouse=True, params=["one at a time", "all at once"])
def _small_limits(request: pytest.FixtureRequest) -> Iterator[None]:
    """Shrink segments, heaps and bulk limits so that every code path runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "SEGMENT_ROWS", 5)
        patch.setattr(segments, "_MIN_DEAD_ROWS", 0)
        patch.setattr(segments, "_MANY_BATCHES", 2)
        patch.setattr(row_limits, "_HEAP_ROWS", 2)
        patch.setattr(row_limits, "_BULK_ROWS", 100 if request.param == "one at a time" else 0)
        patch.setattr(row_index, "_MIN_REMOVALS", 1)
        yield


@pytest.mark.parametrize("join", ["left", "inner", "left_outer"])
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_the_highest_ranked_rows_stay_on_every_server(join: str, data: st.DataObject) -> None:
    written = data.draw(changelogs(join).filter(len))
    if join == "inner":
        written = [c for c in written if "+" in c.id]
    max_rows, viewer_rows = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    cap = Cap(max_rows, null_rows=join == "left_outer")
    server_store, viewer = Store(SCHEMA, cap), Viewer()
    server_store.limit_viewers(viewer_rows)
    seq = 0
    snapshots: list[tuple[int, dict[str, dict[str, Any]]]] = []
    for batch in _batches(data, written) if written else []:
        seq += len(batch)
        viewer.on_delta(server_store.apply(_decoded(batch), seq), seq)
        snapshots.append((seq, dict(viewer.rows)))
        assert len(server_store) <= max_rows
        so_far = written[:seq]
        assert {row["_id"] for row in plain(server_store.snapshot())} == _expected(so_far, max_rows)
        assert viewer.rows.keys() == _expected(so_far, min(max_rows, viewer_rows))
        assert {row["_id"]: row for row in plain(server_store.viewer_snapshot())} == viewer.rows
        for resume_seq, held_rows in viewer.past:
            delta = server_store.changes_since(resume_seq)
            if delta is not None:
                _apply(held_rows, delta)
                assert held_rows == viewer.rows, f"resumed from {resume_seq} at {seq}"
                viewer.past[viewer.past.index((resume_seq, held_rows))] = (seq, held_rows)
    later_store = Store(SCHEMA, cap)
    for numbered in _batches(data, _compacted(written)) if written else []:
        later_store.apply(_decoded([change for _, change in numbered]), numbered[-1][0])
    later_store.limit_viewers(viewer_rows)
    assert later_store.hash == server_store.hash
    assert later_store.viewer_digest() == server_store.viewer_digest()
    for resume_seq, held_rows in snapshots:
        delta = later_store.changes_since(resume_seq)
        if delta is not None:
            _apply(held_rows, delta)
            assert held_rows == viewer.rows, f"resumed from {resume_seq} at a later server"
    assert server_store.capped_from == (
        min(row["_ts"] for row in plain(server_store.snapshot()))
        if server_store._limits.has_evicted
        else None
    )


def test_removals_are_forgotten_once_their_rows_rank_below_the_table() -> None:
    filled = Store(SCHEMA, Cap(2, null_rows=True))
    for n in range(20):
        user, account = ("user", n, 10 * n), ("account", n, 10 * n + 1)
        written = [
            _left_join_record(user, None),
            *_written_records([user, account], account, "left_outer"),
        ]
        filled.apply(_decoded(written), n)
        filled.apply(_decoded([_left_join_record(user, None)]), n)  # late, as after a crash
        assert all("+" in row["_id"] for row in plain(filled.snapshot()))
    assert len(filled) == 2
    assert len(filled._index.removals) <= 4


def test_a_late_row_whose_removal_is_forgotten_needs_no_rewrite() -> None:
    filled = Store(SCHEMA, Cap(2, null_rows=True))
    user, account = ("user", 0, 0), ("account", 0, 1)
    filled.apply(
        _decoded(
            [
                _left_join_record(user, None),
                *_written_records([user, account], account, "left_outer"),
            ]
        )
    )
    filled.apply(_decoded([_left_join_record(user, None)]))
    assert filled.needs_rewrite == {"0-0"}
    for n in range(1, 20):
        other_user, other_account = ("user", n, 10 * n), ("account", n, 10 * n + 1)
        filled.apply(
            _decoded(_written_records([other_user, other_account], other_account, "left_outer")), n
        )
    assert filled.needs_rewrite == set()
    assert filled.winning_records(TABLE, ["0-0"]) == []


def test_an_evicted_row_returns_complete_when_a_newer_account_raises_its_rank() -> None:
    filled = Store(SCHEMA, Cap(1))
    filled.apply(
        _decoded([_left_join_record(("user", 0, 1), None), _left_join_record(("user", 1, 2), None)])
    )
    assert [row["_id"] for row in plain(filled.snapshot())] == ["0-1"]
    filled.apply(_decoded([_left_join_record(("user", 0, 1), ("account", 5, 9))]))
    assert [(r["_id"], r["_ts"]) for r in plain(filled.snapshot())] == [("0-0", 9)]
    filled.apply(
        _decoded([_left_join_record(("user", 0, 1), None)])
    )  # written again, as after a crash
    assert [(r["_id"], r["_ts"]) for r in plain(filled.snapshot())] == [("0-0", 9)]


def test_a_late_record_needs_a_rewrite_until_the_winner_follows_it() -> None:
    """Compaction keeps the last record of a key, so the winner must be written after it."""
    user, old, new = ("user", 0, 1), ("account", 5, 2), ("account", 6, 3)
    filled = Store(SCHEMA, Cap(10))
    filled.apply(_decoded([_left_join_record(user, new)]))
    filled.apply(_decoded([_left_join_record(user, old)]))
    assert filled.needs_rewrite == {"0-0"}
    filled.apply(_decoded([_left_join_record(user, new)]))
    assert filled.needs_rewrite == set()
    outer = Store(SCHEMA, Cap(10, null_rows=True))
    outer.apply(_decoded(_written_records([user, old], old, "left_outer")))
    outer.apply(_decoded([_left_join_record(user, None)]))
    assert outer.needs_rewrite == {"0-0"}
    outer.apply(_decoded(_written_records([user, old], old, "left_outer")))
    assert outer.needs_rewrite == set()


def test_rejects_are_capped_per_source() -> None:
    schema = SCHEMAS["rejects_ui"]
    filled = Store(schema, Cap(2, groups=("users", "accounts")))
    for n in range(6):
        for source in ("users", "accounts")[: 1 + n % 2]:
            change = ChangelogRecord(
                "rejects_ui", f"{source}/0-{n}", {"source": source, "raw": "e30="}, n
            )
            values = [change.value()]
            filled.apply(DECODER.tables["rejects_ui"].decode_records([change.id], values), n)
    assert {row["_id"] for row in plain(filled.snapshot())} == {
        "users/0-4",
        "users/0-5",
        "accounts/0-3",
        "accounts/0-5",
    }
