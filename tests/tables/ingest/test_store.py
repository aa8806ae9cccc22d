"""The store, against the rule that every follower keeps."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livejoin import row_hash
from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest import decode, segments
from livejoin.tables.ingest.store import Delta, Store
from rig.reference_changelog import ReferenceFollower
from tables.samples import final, plain, user

TABLE = "final_ui"
SCHEMA = decode.SCHEMAS[TABLE]
# few versions and few identities: repeats, old versions and ties are common
VERSIONS = st.none() | st.tuples(st.integers(0, 2), st.integers(0, 1), st.just(0))
CHANGES = st.builds(
    ChangelogRecord,
    st.just(TABLE),
    st.sampled_from(["0-0", "0-1", "0-0+0-0", "1-0"]),
    st.none() | st.fixed_dictionaries({"name": st.none() | st.sampled_from(["", "a", "ä"])}),
    st.integers(0, 9),
    VERSIONS,
)
BATCHES = st.lists(st.lists(CHANGES, min_size=1, max_size=6), max_size=5)
Rows = dict[str, dict[str, Any]]


def _records(some: Sequence[ChangelogRecord]) -> decode.ChangeBatch:
    return decode.decode_records(TABLE, [c.id for c in some], [c.value() for c in some])


def _filled(*batches: Sequence[ChangelogRecord]) -> Store:
    filled = Store(SCHEMA)
    for batch in batches:
        filled.apply(_records(batch))
    return filled


def _shown(shown: Store) -> Rows:
    rows = plain(shown.snapshot())
    by_id = {row["_id"]: row for row in rows}
    assert len(by_id) == len(rows), "an identity is shown twice"
    return by_id


class Reference:
    """What `core.rows.Follower` shows, as rows of the table."""

    def __init__(self) -> None:
        self._follower = ReferenceFollower()
        self._ts: dict[str, int] = {}

    def apply(self, batch: Sequence[ChangelogRecord]) -> Rows:
        for change in batch:
            before = self._follower.table(TABLE).get(change.id)
            self._follower.apply(change)
            if self._follower.table(TABLE).get(change.id) is not before:
                self._ts[change.id] = change.ts
        names = [name for name in SCHEMA.names if name not in ("_id", "_ts")]
        return {
            row_id: {name: row.get(name) for name in names}
            | {"_id": row_id, "_ts": self._ts[row_id]}
            for row_id, row in self._follower.table(TABLE).items()
        }


def _held(of: Store) -> int:
    """How many rows are in memory, dead ones included."""
    return sum(segment.used for segment in of._rows._segments)


def _fresh_hash(of: Store) -> str:
    """The hash of a store that never held anything but these rows."""
    fresh = Store(SCHEMA)
    for batch in of.snapshot().to_batches():
        fresh.apply(decode.ChangeBatch.from_rows(batch.column("_id").to_pylist(), batch, 0))
    return fresh.hash


def _taken(view: Rows, delta: Delta) -> None:
    """What a viewer does with a delta."""
    view.update({row["_id"]: row for row in plain(delta.upserts)})
    for row_id in delta.removed:
        view.pop(row_id, None)


@pytest.fixture(scope="module", params=[10_000, 0], ids=["dead rows stay", "dead rows go"])
def _spare(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "_MIN_DEAD_ROWS", request.param)
        patch.setattr(segments, "_MANY_BATCHES", 3)
        patch.setattr(segments, "SEGMENT_ROWS", 5)
        yield


@pytest.mark.usefixtures("_spare")
@settings(max_examples=40)
@given(BATCHES, st.data())
def test_a_store_shows_what_a_follower_shows_however_records_are_split(
    batches: list[list[ChangelogRecord]], data: st.DataObject
) -> None:
    filled, reference, view = Store(SCHEMA), Reference(), Rows()
    for batch in batches:
        _taken(view, filled.apply(_records(batch)))
        if data.draw(st.booleans(), label="somebody asks for the hash"):
            assert filled.hash == _fresh_hash(filled)
        expected = reference.apply(batch)
        assert _shown(filled) == expected
        assert view == expected
        assert len(filled) == len(expected)
    assert filled.hash == _fresh_hash(filled)


@pytest.mark.usefixtures("_spare")
@settings(max_examples=40)
@given(BATCHES, st.data())
def test_dropped_rows_are_gone_from_rows_length_and_hash(
    batches: list[list[ChangelogRecord]], data: st.DataObject
) -> None:
    filled = Store(SCHEMA)
    for batch in batches:
        filled.apply(_records(batch))
        before = _shown(filled)
        gone = {row_id for row_id in before if data.draw(st.booleans(), label=f"drop {row_id}")}
        if data.draw(st.booleans(), label="somebody asks for the hash"):
            assert filled.hash == _fresh_hash(filled)
        filled.drop(sorted(gone))
        assert _shown(filled) == {i: row for i, row in before.items() if i not in gone}
        assert len(filled) == len(before) - len(gone)
        assert filled.hash == _fresh_hash(filled)


def test_a_dropped_row_is_not_remembered() -> None:
    filled = _filled([final(0, "new", 2)])
    filled.drop(["0-0"])
    filled.apply(_records([final(0, "old", 1)]))
    assert [row["name"] for row in plain(filled.snapshot())] == ["old"]


def test_rows_stand_in_the_order_of_their_last_change() -> None:
    filled = _filled(
        [final(0, "a"), final(1, "b"), final(2, "c")], [final(0, "a2", 1)], [final(1, "stale")]
    )
    assert [row["name"] for row in plain(filled.snapshot())] == ["b", "c", "a2"]


def test_an_empty_store_has_no_rows_and_hash_zero() -> None:
    empty = Store(SCHEMA)
    assert len(empty) == 0
    assert plain(empty.snapshot()) == []
    assert empty.snapshot().schema == SCHEMA
    assert empty.hash == "0" * 16


def test_the_hash_does_not_depend_on_the_order_of_arrival() -> None:
    rows = [final(n, f"name {n}") for n in range(20)]
    assert _filled(rows).hash == _filled(rows[10:], rows[:10][::-1]).hash


def test_the_hash_differs_when_a_cell_does() -> None:
    assert _filled([final(0, "a")]).hash != _filled([final(0, "b")]).hash


@pytest.mark.parametrize(
    ("before", "batch", "upserts", "removed"),
    [
        ([], [final(0, "a")], ["a"], []),
        ([], [final(0, "a"), final(0, "b", 1)], ["b"], []),
        ([final(0, "a")], [final(0, "b", 1)], ["b"], []),
        ([final(0, "a")], [final(0, "a")], [], []),
        ([final(0, "a")], [final(0, None, 1)], [], ["0-0"]),
        ([final(0, "a")], [final(0, None, 1), final(0, "b", 2)], ["b"], []),
        ([], [final(0, None, 1)], [], []),
    ],
    ids=[
        "a new row",
        "the last of two versions",
        "a row in its place",
        "a repeat is nothing",
        "a removal",
        "a row that came back",
        "the removal of nothing is nothing",
    ],
)
def test_a_delta_holds_what_viewers_have_to_learn(
    before: list[ChangelogRecord],
    batch: list[ChangelogRecord],
    upserts: list[str],
    removed: list[str],
) -> None:
    filled = _filled(before) if before else Store(SCHEMA)
    delta = filled.apply(_records(batch))
    assert [row["name"] for row in plain(delta.upserts)] == upserts
    assert delta.removed == removed
    assert delta.empty is (not upserts and not removed)


def test_many_replacements_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_MIN_DEAD_ROWS", 10)
    filled = _filled(*([final(n % 3, f"v{n}", n)] for n in range(200)))
    assert [row["name"] for row in plain(filled.snapshot())] == ["v197", "v198", "v199"]
    assert _held(filled) <= 2 * 3 + 10
    assert filled.hash == _fresh_hash(filled)


def test_a_removal_is_remembered_after_dead_rows_have_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_MIN_DEAD_ROWS", 0)
    filled = _filled([final(0, "a", 1)], [final(0, None, 3)])
    assert _held(filled) == 0
    filled.apply(_records([final(0, "late", 2)]))
    assert len(filled) == 0
    filled.apply(_records([final(0, "new", 4)]))
    assert [row["name"] for row in plain(filled.snapshot())] == ["new"]


def test_few_batches_wait_for_their_hash_while_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    powers: dict[int, np.ndarray] = {}
    monkeypatch.setattr(row_hash, "_powers_cache", powers)
    store = Store(decode.SCHEMAS["users_ui"])
    for offset in range(5000):
        change = user(offset, "a name of thirty bytes or more")
        store.apply(decode.decode_records("users_ui", [change.id], [change.value()]), offset + 1)
    assert len(store._limits.hash._pending) < 256
    said = store.hash
    assert sum(one.nbytes for one in powers.values()) <= 1 << 19  # 256 rows, not all 5,000
    assert said == row_hash.to_hex(
        sum(row_hash.sum_hashes(row_hash.hash_rows(one)) for one in store.snapshot().to_batches())
    )
