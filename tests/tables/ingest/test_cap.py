"""A table that holds only so many rows: which stay is the changelog's doing, not the server's."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest import decode, row_index, row_limits, segments, store
from livejoin.tables.ingest.row_limits import Cap, Rank, rank_of
from livejoin.tables.ingest.store import Store
from rig.reference_changelog import ReferenceFollower
from tables.samples import plain

TABLE = "final_ui"
SCHEMA = decode.SCHEMAS[TABLE]
Event = tuple[str, int, int]  # source, offset, time
One = TypeVar("One")


def _step(seen: list[Event], event: Event, join: str) -> list[ChangelogRecord]:
    """What an event writes, with one userId for all: the rows that it changes, then a removal."""
    users = sorted(e for e in seen if e[0] == "user")
    accounts = sorted((e for e in seen if e[0] == "account"), key=lambda e: (e[2], e[1]))
    touched = [event] if event[0] == "user" else users
    if join == "left":
        latest = accounts[-1] if accounts else None
        return [_joined(user, latest) for user in touched]
    written = []
    for user in touched:
        mine = [event] if event[0] == "account" else accounts
        written += [_pair(user, account) for account in mine]
        if mine:
            first = mine[0]
            at = (first[2], 1, first[1])
            written.append(ChangelogRecord(TABLE, f"0-{user[1]}", None, first[2], at))
        else:
            written.append(_joined(user, None))
    return written


def _joined(user: Event, account: Event | None) -> ChangelogRecord:
    version = None if account is None else (account[2], 1, account[1])
    ts = user[2] if account is None else max(user[2], account[2])
    return ChangelogRecord(TABLE, f"0-{user[1]}", {"name": f"{user}{account}"}, ts, version)


def _pair(user: Event, account: Event) -> ChangelogRecord:
    ts = max(user[2], account[2])
    return ChangelogRecord(TABLE, f"0-{user[1]}+1-{account[1]}", {"name": f"{user}{account}"}, ts)


@st.composite
def changelogs(draw: st.DrawFn, join: str) -> list[ChangelogRecord]:
    """Two runs over the same events, in another order; the first may be cut short."""
    count = draw(st.integers(1, 7))
    # few times: ties are common, and the identities decide
    events = [
        (draw(st.sampled_from(["user", "account"])), offset, draw(st.integers(-1, 3)))
        for offset in range(count)
    ]
    written: list[ChangelogRecord] = []
    first, second = draw(st.permutations(events)), draw(st.permutations(events))
    for run in (first[: draw(st.integers(0, count))], second):
        seen: list[Event] = []
        for event in run:
            seen.append(event)
            written += _step(seen, event, join)
    return written


def _ranked(change: ChangelogRecord) -> Rank:
    return rank_of(change.ts, change.id)


def _expected(written: Sequence[ChangelogRecord], most: int) -> set[str]:
    """The rows of the highest rank of all that a follower without a cap would have."""
    newest = ReferenceFollower()
    for change in written:
        newest.apply(change)
    rows = newest.table(TABLE)
    paired = {row_id.partition("+")[0] for row_id in rows if "+" in row_id}
    there = [c for c in newest._newest.values() if c.id in rows.keys() - paired]
    return {c.id for c in sorted(there, key=_ranked)[-most:]}


def _portions(data: st.DataObject, written: Sequence[One]) -> list[list[One]]:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(written)), max_size=len(written))))
    return [
        list(written[a:b]) for a, b in zip([0, *cuts], [*cuts, len(written)], strict=True) if a < b
    ]


def _compacted(written: Sequence[ChangelogRecord]) -> list[tuple[int, ChangelogRecord]]:
    """The last record of each key, in the order of the log, with where the log goes on."""
    last = {change.key(): place for place, change in enumerate(written)}
    return [(place + 1, written[place]) for place in sorted(last.values())]


def _records(some: Sequence[ChangelogRecord]) -> decode.ChangeBatch:
    return decode.decode_records(TABLE, [c.id for c in some], [c.value() for c in some])


class Viewer:
    """What somebody sees who takes every delta, and one who resumes from each point."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.past: list[tuple[int, dict[str, dict[str, Any]]]] = []

    def take(self, delta: store.Delta, seq: int) -> None:
        _apply(self.rows, delta)
        self.past.append((seq, dict(self.rows)))


def _apply(rows: dict[str, dict[str, Any]], delta: store.Delta) -> None:
    rows.update({row["_id"]: row for row in plain(delta.upserts)})
    for row_id in delta.removed:
        rows.pop(row_id, None)


@pytest.fixture(scope="module", autouse=True, params=["one at a time", "all at once"])
def _small(request: pytest.FixtureRequest) -> Iterator[None]:
    """Segments, heaps and bulks so small that each is met."""
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
def test_the_rows_of_the_highest_rank_stay_on_every_server(join: str, data: st.DataObject) -> None:
    written = data.draw(changelogs(join).filter(len))
    if join == "inner":
        written = [c for c in written if "+" in c.id]
    most, shown = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    cap = Cap(most, null_rows=join == "left_outer")
    early, viewer = Store(SCHEMA, cap), Viewer()
    early.limit_viewers(shown)
    seq = 0
    seen: list[tuple[int, dict[str, dict[str, Any]]]] = []
    for portion in _portions(data, written) if written else []:
        seq += len(portion)
        viewer.take(early.apply(_records(portion), seq), seq)
        seen.append((seq, dict(viewer.rows)))
        assert len(early) <= most
        so_far = written[:seq]
        assert {row["_id"] for row in plain(early.snapshot())} == _expected(so_far, most)
        assert viewer.rows.keys() == _expected(so_far, min(most, shown))
        assert {row["_id"]: row for row in plain(early.viewer_snapshot())} == viewer.rows
        for point, had in viewer.past:
            missed = early.changes_since(point)
            if missed is not None:
                _apply(had, missed)
                assert had == viewer.rows, f"resumed from {point} at {seq}"
                viewer.past[viewer.past.index((point, had))] = (seq, had)
    late = Store(SCHEMA, cap)
    for some in _portions(data, _compacted(written)) if written else []:
        late.apply(_records([change for _, change in some]), some[-1][0])
    late.limit_viewers(shown)
    assert late.hash == early.hash
    assert late.viewer_digest() == early.viewer_digest()
    for point, had in seen:
        missed = late.changes_since(point)
        if missed is not None:
            _apply(had, missed)
            assert had == viewer.rows, f"resumed from {point} at a server that came later"
    assert early.capped_from == (
        min(row["_ts"] for row in plain(early.snapshot())) if early._limits.has_evicted else None
    )


def test_removals_are_forgotten_once_their_rows_rank_below_the_table() -> None:
    filled = Store(SCHEMA, Cap(2, null_rows=True))
    for n in range(20):
        user, account = ("user", n, 10 * n), ("account", n, 10 * n + 1)
        written = [_joined(user, None), *_step([user, account], account, "left_outer")]
        filled.apply(_records(written), n)
        filled.apply(_records([_joined(user, None)]), n)  # late, as after a crash
        assert all("+" in row["_id"] for row in plain(filled.snapshot()))
    assert len(filled) == 2
    assert len(filled._index.removals) <= 4


def test_a_late_row_whose_removal_is_forgotten_needs_no_winner() -> None:
    filled = Store(SCHEMA, Cap(2, null_rows=True))
    user, account = ("user", 0, 0), ("account", 0, 1)
    filled.apply(_records([_joined(user, None), *_step([user, account], account, "left_outer")]))
    filled.apply(_records([_joined(user, None)]))
    assert filled.needs_rewrite == {"0-0"}
    for n in range(1, 20):
        other, its = ("user", n, 10 * n), ("account", n, 10 * n + 1)
        filled.apply(_records(_step([other, its], its, "left_outer")), n)
    assert filled.needs_rewrite == set()
    assert filled.winning_records(TABLE, ["0-0"]) == []


def test_a_row_that_left_comes_back_whole_when_a_newer_account_lifts_it() -> None:
    filled = Store(SCHEMA, Cap(1))
    filled.apply(_records([_joined(("user", 0, 1), None), _joined(("user", 1, 2), None)]))
    assert [row["_id"] for row in plain(filled.snapshot())] == ["0-1"]
    filled.apply(_records([_joined(("user", 0, 1), ("account", 5, 9))]))
    assert [(r["_id"], r["_ts"]) for r in plain(filled.snapshot())] == [("0-0", 9)]
    filled.apply(_records([_joined(("user", 0, 1), None)]))  # again, after a crash
    assert [(r["_id"], r["_ts"]) for r in plain(filled.snapshot())] == [("0-0", 9)]


def test_a_record_that_comes_late_is_named_until_the_winner_follows_it() -> None:
    """Compaction keeps the last record of a key: the winner must be written behind it."""
    user, old, new = ("user", 0, 1), ("account", 5, 2), ("account", 6, 3)
    filled = Store(SCHEMA, Cap(10))
    filled.apply(_records([_joined(user, new)]))
    filled.apply(_records([_joined(user, old)]))
    assert filled.needs_rewrite == {"0-0"}
    filled.apply(_records([_joined(user, new)]))
    assert filled.needs_rewrite == set()
    outer = Store(SCHEMA, Cap(10, null_rows=True))
    outer.apply(_records(_step([user, old], old, "left_outer")))
    outer.apply(_records([_joined(user, None)]))
    assert outer.needs_rewrite == {"0-0"}
    outer.apply(_records(_step([user, old], old, "left_outer")))
    assert outer.needs_rewrite == set()


def test_rejects_are_capped_by_source() -> None:
    schema = decode.SCHEMAS["rejects_ui"]
    filled = Store(schema, Cap(2, groups=("users", "accounts")))
    for n in range(6):
        for source in ("users", "accounts")[: 1 + n % 2]:
            change = ChangelogRecord(
                "rejects_ui", f"{source}/0-{n}", {"source": source, "raw": "e30="}, n
            )
            values = [change.value()]
            filled.apply(decode.decode_records("rejects_ui", [change.id], values), n)
    assert {row["_id"] for row in plain(filled.snapshot())} == {
        "users/0-4",
        "users/0-5",
        "accounts/0-3",
        "accounts/0-5",
    }
