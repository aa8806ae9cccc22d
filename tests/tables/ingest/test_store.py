"""The store, compared with the reference follower of `core.changelog`."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livejoin import row_hash
from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest import segments
from livejoin.tables.ingest.batches import ChangeBatch
from livejoin.tables.ingest.store import Delta, Store
from rig.reference_changelog import ReferenceFollower
from tables.samples import DECODER, SCHEMAS, final, plain, user

TABLE = "final_ui"
SCHEMA = SCHEMAS[TABLE]
# few versions and ids, so that repeats, old versions and ties are common
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


def _decoded(records: Sequence[ChangelogRecord]) -> ChangeBatch:
    return DECODER.tables[TABLE].decode_records(
        [c.id for c in records], [c.value() for c in records]
    )


def _store(*batches: Sequence[ChangelogRecord]) -> Store:
    store = Store(SCHEMA)
    for batch in batches:
        store.apply(_decoded(batch))
    return store


def _rows_by_id(store: Store) -> Rows:
    rows = plain(store.snapshot())
    by_id = {row["_id"]: row for row in rows}
    assert len(by_id) == len(rows), "duplicate id"
    return by_id


class Reference:
    """The tables of `ReferenceFollower`, as rows of the store."""

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


def _rows_in_memory(store: Store) -> int:
    """Number of rows in memory, including dead ones."""
    return sum(segment.used for segment in store._rows._segments)


def _fresh_hash(store: Store) -> str:
    """The hash of a new store filled with these rows only."""
    fresh = Store(SCHEMA)
    for batch in store.snapshot().to_batches():
        fresh.apply(ChangeBatch.from_rows(batch.column("_id").to_pylist(), batch, 0))
    return fresh.hash


def _apply_delta(viewer_rows: Rows, delta: Delta) -> None:
    """Apply a delta as a viewer does."""
    viewer_rows.update({row["_id"]: row for row in plain(delta.upserts)})
    for row_id in delta.removed:
        viewer_rows.pop(row_id, None)


@pytest.fixture(scope="module", params=[10_000, 0], ids=["dead rows kept", "dead rows dropped"])
def _segment_limits(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "_MIN_DEAD_ROWS", request.param)
        patch.setattr(segments, "_MANY_BATCHES", 3)
        patch.setattr(segments, "SEGMENT_ROWS", 5)
        yield


@pytest.mark.usefixtures("_segment_limits")
@settings(max_examples=40)
@given(BATCHES, st.data())
def test_a_store_matches_the_reference_however_records_are_batched(
    batches: list[list[ChangelogRecord]], data: st.DataObject
) -> None:
    store, reference, viewer_rows = Store(SCHEMA), Reference(), Rows()
    for batch in batches:
        _apply_delta(viewer_rows, store.apply(_decoded(batch)))
        if data.draw(st.booleans(), label="read the hash"):
            assert store.hash == _fresh_hash(store)
        expected = reference.apply(batch)
        assert _rows_by_id(store) == expected
        assert viewer_rows == expected
        assert len(store) == len(expected)
    assert store.hash == _fresh_hash(store)


@pytest.mark.usefixtures("_segment_limits")
@settings(max_examples=40)
@given(BATCHES, st.data())
def test_dropped_rows_are_gone_from_rows_length_and_hash(
    batches: list[list[ChangelogRecord]], data: st.DataObject
) -> None:
    store = Store(SCHEMA)
    for batch in batches:
        store.apply(_decoded(batch))
        before = _rows_by_id(store)
        dropped = {row_id for row_id in before if data.draw(st.booleans(), label=f"drop {row_id}")}
        if data.draw(st.booleans(), label="read the hash"):
            assert store.hash == _fresh_hash(store)
        store.drop(sorted(dropped))
        assert _rows_by_id(store) == {i: row for i, row in before.items() if i not in dropped}
        assert len(store) == len(before) - len(dropped)
        assert store.hash == _fresh_hash(store)


def test_a_dropped_row_is_not_remembered() -> None:
    store = _store([final(0, "new", 2)])
    store.drop(["0-0"])
    store.apply(_decoded([final(0, "old", 1)]))
    assert [row["name"] for row in plain(store.snapshot())] == ["old"]


def test_rows_are_in_the_order_of_their_last_change() -> None:
    store = _store(
        [final(0, "a"), final(1, "b"), final(2, "c")], [final(0, "a2", 1)], [final(1, "stale")]
    )
    assert [row["name"] for row in plain(store.snapshot())] == ["b", "c", "a2"]


def test_an_empty_store_has_no_rows_and_hash_zero() -> None:
    empty = Store(SCHEMA)
    assert len(empty) == 0
    assert plain(empty.snapshot()) == []
    assert empty.snapshot().schema == SCHEMA
    assert empty.hash == "0" * 16


def test_the_hash_does_not_depend_on_the_order_of_arrival() -> None:
    rows = [final(n, f"name {n}") for n in range(20)]
    assert _store(rows).hash == _store(rows[10:], rows[:10][::-1]).hash


def test_the_hash_differs_when_a_cell_does() -> None:
    assert _store([final(0, "a")]).hash != _store([final(0, "b")]).hash


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
        "a row replaced",
        "a repeat changes nothing",
        "a removal",
        "a row that came back",
        "the removal of an unknown row changes nothing",
    ],
)
def test_a_delta_holds_the_net_changes_of_a_batch(
    before: list[ChangelogRecord],
    batch: list[ChangelogRecord],
    upserts: list[str],
    removed: list[str],
) -> None:
    store = _store(before) if before else Store(SCHEMA)
    delta = store.apply(_decoded(batch))
    assert [row["name"] for row in plain(delta.upserts)] == upserts
    assert delta.removed == removed
    assert delta.empty is (not upserts and not removed)


def test_replaced_rows_do_not_accumulate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_MIN_DEAD_ROWS", 10)
    store = _store(*([final(n % 3, f"v{n}", n)] for n in range(200)))
    assert [row["name"] for row in plain(store.snapshot())] == ["v197", "v198", "v199"]
    assert _rows_in_memory(store) <= 2 * 3 + 10
    assert store.hash == _fresh_hash(store)


def test_a_removal_is_remembered_after_dead_rows_were_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(segments, "_MIN_DEAD_ROWS", 0)
    store = _store([final(0, "a", 1)], [final(0, None, 3)])
    assert _rows_in_memory(store) == 0
    store.apply(_decoded([final(0, "late", 2)]))
    assert len(store) == 0
    store.apply(_decoded([final(0, "new", 4)]))
    assert [row["name"] for row in plain(store.snapshot())] == ["new"]


def test_few_batches_wait_for_their_hash_until_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    powers: dict[int, np.ndarray] = {}
    monkeypatch.setattr(row_hash, "_powers_cache", powers)
    store = Store(SCHEMAS["users_ui"])
    for offset in range(5000):
        change = user(offset, "a name of thirty bytes or more")
        store.apply(
            DECODER.tables["users_ui"].decode_records([change.id], [change.value()]), offset + 1
        )
    assert len(store._limits.hash._pending) < 256
    store_hash = store.hash
    assert sum(power.nbytes for power in powers.values()) <= 1 << 19  # 256 rows, not all 5,000
    assert store_hash == row_hash.to_hex(
        sum(
            row_hash.sum_hashes(row_hash.hash_rows(batch))
            for batch in store.snapshot().to_batches()
        )
    )
