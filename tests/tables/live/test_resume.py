"""Resumes send only what changed since; a viewer of a big table gets its newest rows."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest import row_index
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.row_limits import Cap
from livejoin.tables.ingest.store import Delta, Store
from livejoin.tables.live import socket as live_socket
from tables.live_server import LIMIT_S, RunningServer, Viewer, run_server
from tables.samples import DECODER, SCHEMAS, building, chunk, final, live, plain, user

TABLE = "final_ui"
SCHEMA = SCHEMAS[TABLE]
Rows = dict[str, dict[str, Any]]
# few ids and versions, so that rows are replaced, removed and added again
CHANGES = st.builds(
    final,
    st.integers(0, 6),
    st.none() | st.sampled_from("abc"),
    st.integers(0, 5),
)
BATCHES = st.lists(st.lists(CHANGES, min_size=1, max_size=5), min_size=1, max_size=8)
# in a changelog, a replacing record always ranks higher
RISING_BATCHES = BATCHES.map(
    lambda batches: [[change for change in batch if change.row is not None] for batch in batches]
)


def _apply_batch(store: Store, batch: list[ChangelogRecord], seq: int) -> Delta:
    return store.apply(
        DECODER.tables[TABLE].decode_records([c.id for c in batch], [c.value() for c in batch]), seq
    )


def _apply_delta(viewer_rows_by_id: Rows, delta: Delta) -> None:
    viewer_rows_by_id.update({row["_id"]: row for row in plain(delta.upserts)})
    for row_id in delta.removed:
        viewer_rows_by_id.pop(row_id, None)


def _by_id(rows: Any) -> Rows:
    return {row["_id"]: row for row in plain(rows)}


def _hash(rows: Rows) -> str:
    fresh = Store(SCHEMA)
    if rows:
        changes = [
            ChangelogRecord(TABLE, i, {k: v for k, v in r.items() if k[0] != "_"}, r["_ts"])
            for i, r in rows.items()
        ]
        _apply_batch(fresh, changes, 0)
    return fresh.hash


@given(BATCHES)
def test_the_changes_since_any_seq_bring_the_rows_of_that_seq_up_to_date(
    batches: list[list[ChangelogRecord]],
) -> None:
    store, views = Store(SCHEMA), [dict[str, Any]()]
    for seq, batch in enumerate(batches, 1):
        _apply_batch(store, batch, seq)
        views.append(_by_id(store.snapshot()))
    deltas = 0
    for seq, viewer_rows_by_id in enumerate(views):
        delta = store.changes_since(seq)
        if delta is None:  # the delta would be as large as a snapshot
            continue
        deltas += 1
        assert delta.upserts.num_rows + len(delta.removed) < max(1, len(store))
        _apply_delta(viewer_rows_by_id, delta)
        assert viewer_rows_by_id == views[-1]
    assert deltas >= 1  # at least the current seq has an empty delta


def test_changes_since_a_seq_survive_the_removal_of_dead_rows() -> None:
    store = Store(SCHEMA)
    _apply_batch(store, [final(n, "old", 0) for n in range(1000)], 1)
    old_rows = _by_id(store.snapshot())
    for seq in range(2, 25):  # enough dead rows for the store to be rebuilt
        _apply_batch(store, [final(n, f"name {seq}", seq) for n in range(500)], seq)
    delta = store.changes_since(1)
    assert delta is not None
    assert delta.upserts.num_rows == 500
    _apply_delta(old_rows, delta)
    assert old_rows == _by_id(store.snapshot())


def test_a_resume_older_than_the_remembered_departures_gets_a_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_index, "_MAX_DEPARTURES", 2)
    store = Store(SCHEMA, Cap(5))
    for n in range(9):  # from the sixth row on, each evicts one
        _apply_batch(store, [final(n, "a", 0)], n + 1)
    assert store.changes_since(6) is None
    delta = store.changes_since(7)
    assert delta is not None
    assert delta.removed == ["0-3", "0-2"]


@given(RISING_BATCHES, st.integers(1, 4), st.integers(0, 3))
def test_a_viewer_of_a_big_table_has_the_highest_ranked_rows(
    batches: list[list[ChangelogRecord]], viewer_rows: int, before: int
) -> None:
    store = Store(SCHEMA)
    for seq, batch in enumerate(batches[:before], 1):
        _apply_batch(store, batch, seq)
    store.limit_viewers(viewer_rows)  # from here on a viewer subscribes
    viewer_rows_by_id = _by_id(store.viewer_snapshot())
    for seq, batch in enumerate(batches[before:], before + 1):
        _apply_delta(viewer_rows_by_id, _apply_batch(store, batch, seq))
        assert viewer_rows_by_id == _by_id(store.viewer_snapshot())
        assert len(viewer_rows_by_id) <= viewer_rows
        assert store.viewer_digest() == (len(viewer_rows_by_id), _hash(viewer_rows_by_id))
        all_rows = _by_id(store.snapshot())
        assert viewer_rows_by_id.keys() == set(sorted(all_rows)[-viewer_rows:]), (
            "all rows have the same time"
        )
        assert store.hash == _hash(all_rows)
        assert store.limited or viewer_rows_by_id == all_rows


def test_a_delta_longer_than_the_viewer_limit_is_truncated() -> None:
    store = Store(SCHEMA)
    store.limit_viewers(10)
    delta = _apply_batch(store, [final(n, "a", 0) for n in range(100)], 1)
    assert [row["_id"] for row in plain(delta.upserts)] == [f"0-{n}" for n in range(90, 100)]
    assert store.changes_since(0) is None  # the rows that a viewer has evicted are unknown


# --- on the socket


@pytest.fixture
def server() -> Iterator[RunningServer]:
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 12, *(final(n, f"name {n}", 0) for n in range(10)), user(0), user(1)))
    with run_server(catalog) as server:
        yield server


def _resume(viewer: Viewer, before: Viewer, *tables: str, resume: tuple[int, int]) -> None:
    """Resume with the rows of an earlier connection."""
    viewer.view = before.view
    viewer.subscribe(*tables, resume=resume)


def test_a_resumed_viewer_gets_only_the_changes_since(server: RunningServer) -> None:
    with server.viewer("final_ui", "users_ui", "orchestrator_status") as earlier:
        earlier.next_frame()
    server.apply(1, 13, final(3, "changed", 1))
    server.apply(1, 14, final(4, None, 1))
    server.apply(1, 15, final(3, "changed again", 2))
    with server.viewer() as viewer:
        _resume(viewer, earlier, "final_ui", "users_ui", "orchestrator_status", resume=(1, 12))
        frame = viewer.next_frame()
        assert frame.header["type"] == "data"
        assert frame.header["resumed"] is True
        assert frame.kinds == [
            ("final_ui", "upsert"),
            ("final_ui", "remove"),
            ("orchestrator_status", "snapshot"),
        ]
        assert [row["name"] for row in frame.rows("final_ui")] == ["changed again"]
        assert len(viewer.view["final_ui"]) == 9
        server.apply(1, 16, user(2))
        assert viewer.next_frame("data").kinds == [("users_ui", "upsert")]


def test_a_resumed_viewer_that_is_up_to_date_gets_an_empty_frame(server: RunningServer) -> None:
    with server.viewer() as viewer:
        viewer.subscribe("final_ui", resume=(1, 12))
        frame = viewer.next_frame()
        assert (frame.header["resumed"], frame.parts) == (True, [])


def test_a_resume_after_a_swap_gets_the_cutover(server: RunningServer) -> None:
    server.follow(live(1, next_one=2))
    server.apply(2, 1, final(7, "Grace"))
    server.follow(live(2, ready_at=1))
    with server.viewer() as viewer:
        viewer.subscribe("final_ui", resume=(1, 12))
        frame = viewer.next_frame()
        assert frame.header["type"] == "cutover"
        assert "resumed" not in frame.header
        assert [row["name"] for row in frame.rows("final_ui")] == ["Grace"]


def test_a_server_behind_the_resume_position_makes_the_viewer_wait(server: RunningServer) -> None:
    with server.viewer() as viewer:
        viewer.view = {"final_ui": {}}
        viewer.subscribe("final_ui", resume=(1, 14))
        server.apply(1, 13, final(1, "old news", 1))
        server.apply(1, 14, final(2, "old news", 1))
        server.apply(1, 15, final(3, "news", 1))
        frame = viewer.next_frame("data")
        assert frame.header["seq"] >= 14
        # rows may be repeated, but never from before the viewer's position
        while frame.header["seq"] < 15:
            frame = viewer.next_frame("data")
        assert "news" in [row["name"] for row in frame.rows("final_ui")]


def test_a_server_that_stays_behind_the_resume_position_closes_the_socket(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_socket, "_RESUME_WAIT_S", 0.05)
    with server.viewer() as viewer:
        viewer.subscribe("final_ui", resume=(1, 10**15))
        with pytest.raises(ConnectionClosed) as closed:
            viewer.next_frame()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1013


def test_a_viewer_that_resumes_at_a_starting_server_keeps_its_rows() -> None:
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    with run_server(catalog) as server, server.viewer() as viewer:
        viewer.view = {"final_ui": {f"0-{n}": {"_id": f"0-{n}"} for n in range(10)}}
        viewer.subscribe("final_ui", "orchestrator_status", resume=(1, 10))
        assert viewer.next_frame().kinds == [("orchestrator_status", "snapshot")]
        assert viewer.next_frame("heartbeat").header["generation"] is None
        server.follow(building(1))
        server.apply(1, 8, *(final(n, "a") for n in range(8)))
        # chunk boundaries differ between servers, so rows may be repeated
        server.apply(1, 11, final(8, "a"), final(9, "a"), final(10, "new"))
        server.follow(live(1, ready_at=11))
        frame = viewer.next_frame("data", "cutover")
        assert frame.header["type"] == "data"
        assert frame.kinds == [("final_ui", "upsert"), ("orchestrator_status", "snapshot")]
        assert [row["name"] for row in frame.rows("final_ui")] == ["a", "a", "new"]


def test_a_new_subscription_gets_snapshots(server: RunningServer) -> None:
    with server.viewer("final_ui") as viewer:
        viewer.next_frame()
        viewer.subscribe("final_ui", "users_ui")
        assert viewer.next_frame("data").kinds == [
            ("users_ui", "snapshot"),
            ("final_ui", "snapshot"),
        ]


def test_a_viewer_of_a_big_table_learns_the_total_and_its_hash_covers_its_own_rows() -> None:
    catalog = Catalog(logs_kept=100, rejects_kept=100, viewer_rows=4)
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 10, *(final(n, f"name {n}", 0) for n in range(10))))
    with run_server(catalog) as server, server.viewer("final_ui") as viewer:
        frame = viewer.next_frame()
        assert frame.header["limited"] == {"final_ui": {"total": 10}}
        assert [row["_id"] for row in frame.rows("final_ui")] == ["0-6", "0-7", "0-8", "0-9"]
        server.apply(1, 11, final(10, "newer"))
        frame = viewer.next_frame("data")
        assert frame.kinds == [("final_ui", "upsert"), ("final_ui", "remove")]
        until = time.monotonic() + LIMIT_S
        while True:
            header = viewer.next_frame("heartbeat").header
            if header["seq"] == 11:
                break
            assert time.monotonic() < until
        viewer_rows_by_id = viewer.view["final_ui"]
        assert header["tables"] == {"final_ui": {"rows": 4, "hash": _hash(viewer_rows_by_id)}}
        assert header["limited"] == {"final_ui": {"total": 11}}
        assert len(server.request("/api/v1/tables/final_ui").json()["rows"]) == 11
