"""A viewer that comes back is told what it misses, and one of a big table the newest rows."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest import decode, row_index
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.row_limits import Cap
from livejoin.tables.ingest.store import Delta, Store
from livejoin.tables.live import socket as live_socket
from tables.live_server import LIMIT_S, RunningServer, Viewer, run_server
from tables.samples import building, chunk, final, live, plain, user

TABLE = "final_ui"
SCHEMA = decode.SCHEMAS[TABLE]
Rows = dict[str, dict[str, Any]]
# few identities and versions, so that rows come again, go, and come back
CHANGES = st.builds(
    final,
    st.integers(0, 6),
    st.none() | st.sampled_from("abc"),
    st.integers(0, 5),
)
RUNS = st.lists(st.lists(CHANGES, min_size=1, max_size=5), min_size=1, max_size=8)
# in a changelog whatever takes a row's place ranks higher
LASTING = RUNS.map(lambda runs: [[one for one in run if one.row is not None] for run in runs])


def _apply(store: Store, run: list[ChangelogRecord], seq: int) -> Delta:
    return store.apply(
        decode.decode_records(TABLE, [c.id for c in run], [c.value() for c in run]), seq
    )


def _take(view: Rows, delta: Delta) -> None:
    view.update({row["_id"]: row for row in plain(delta.upserts)})
    for row_id in delta.removed:
        view.pop(row_id, None)


def _by_id(rows: Any) -> Rows:
    return {row["_id"]: row for row in plain(rows)}


def _hash(rows: Rows) -> str:
    fresh = Store(SCHEMA)
    if rows:
        changes = [
            ChangelogRecord(TABLE, i, {k: v for k, v in r.items() if k[0] != "_"}, r["_ts"])
            for i, r in rows.items()
        ]
        _apply(fresh, changes, 0)
    return fresh.hash


@given(RUNS)
def test_what_changed_since_any_point_brings_a_view_of_then_up_to_date(
    runs: list[list[ChangelogRecord]],
) -> None:
    store, views = Store(SCHEMA), [dict[str, Any]()]
    for seq, run in enumerate(runs, 1):
        _apply(store, run, seq)
        views.append(_by_id(store.snapshot()))
    told = 0
    for seq, view in enumerate(views):
        missed = store.changes_since(seq)
        if missed is None:  # as much as all of it
            continue
        told += 1
        assert missed.upserts.num_rows + len(missed.removed) < max(1, len(store))
        _take(view, missed)
        assert view == views[-1]
    assert told >= 1  # whoever has everything misses nothing


def test_the_changes_since_a_point_outlive_dead_rows_that_are_forgotten() -> None:
    store = Store(SCHEMA)
    _apply(store, [final(n, "old", 0) for n in range(1000)], 1)
    then = _by_id(store.snapshot())
    for seq in range(2, 25):  # enough dead rows for the store to be rebuilt
        _apply(store, [final(n, f"name {seq}", seq) for n in range(500)], seq)
    missed = store.changes_since(1)
    assert missed is not None
    assert missed.upserts.num_rows == 500
    _take(then, missed)
    assert then == _by_id(store.snapshot())


def test_a_resume_beyond_what_is_remembered_of_rows_that_left_gets_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_index, "_MAX_DEPARTURES", 2)
    store = Store(SCHEMA, Cap(5))
    for n in range(9):  # from the sixth on one leaves with each
        _apply(store, [final(n, "a", 0)], n + 1)
    assert store.changes_since(6) is None
    missed = store.changes_since(7)
    assert missed is not None
    assert missed.removed == ["0-3", "0-2"]


@given(LASTING, st.integers(1, 4), st.integers(0, 3))
def test_a_viewer_of_a_big_table_has_the_rows_of_the_highest_rank(
    runs: list[list[ChangelogRecord]], most: int, before: int
) -> None:
    store = Store(SCHEMA)
    for seq, run in enumerate(runs[:before], 1):
        _apply(store, run, seq)
    store.limit_viewers(most)  # from now on somebody looks
    view = _by_id(store.viewer_snapshot())
    for seq, run in enumerate(runs[before:], before + 1):
        _take(view, _apply(store, run, seq))
        assert view == _by_id(store.viewer_snapshot())
        assert len(view) <= most
        assert store.viewer_digest() == (len(view), _hash(view))
        everything = _by_id(store.snapshot())
        assert view.keys() == set(sorted(everything)[-most:]), "they all have one time"
        assert store.hash == _hash(everything)
        assert store.limited or view == everything


def test_a_run_that_is_longer_than_what_is_shown_is_cut() -> None:
    store = Store(SCHEMA)
    store.limit_viewers(10)
    delta = _apply(store, [final(n, "a", 0) for n in range(100)], 1)
    assert [row["_id"] for row in plain(delta.upserts)] == [f"0-{n}" for n in range(90, 100)]
    assert store.changes_since(0) is None  # which rows a viewer has let go is not known


# --- on the socket


@pytest.fixture
def shown() -> Iterator[RunningServer]:
    host = Catalog(logs_kept=100, rejects_kept=100)
    host.apply_state(live(1))
    host.apply(chunk(1, 12, *(final(n, f"name {n}", 0) for n in range(10)), user(0), user(1)))
    with run_server(host) as serving:
        yield serving


def _back(viewer: Viewer, before: Viewer, *tables: str, resume: tuple[int, int]) -> None:
    """Come back with what was kept."""
    viewer.view = before.view
    viewer.subscribe(*tables, resume=resume)


def test_who_comes_back_gets_only_what_was_missed(shown: RunningServer) -> None:
    with shown.viewer("final_ui", "users_ui", "orchestrator_status") as gone:
        gone.next_frame()
    shown.apply(1, 13, final(3, "changed", 1))
    shown.apply(1, 14, final(4, None, 1))
    shown.apply(1, 15, final(3, "changed again", 2))
    with shown.viewer() as viewer:
        _back(viewer, gone, "final_ui", "users_ui", "orchestrator_status", resume=(1, 12))
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
        shown.apply(1, 16, user(2))
        assert viewer.next_frame("data").kinds == [("users_ui", "upsert")]


def test_who_missed_nothing_gets_an_empty_frame(shown: RunningServer) -> None:
    with shown.viewer() as viewer:
        viewer.subscribe("final_ui", resume=(1, 12))
        frame = viewer.next_frame()
        assert (frame.header["resumed"], frame.parts) == (True, [])


def test_who_comes_back_after_a_swap_gets_the_cutover(shown: RunningServer) -> None:
    shown.follow(live(1, next_one=2))
    shown.apply(2, 1, final(7, "Grace"))
    shown.follow(live(2, ready_at=1))
    with shown.viewer() as viewer:
        viewer.subscribe("final_ui", resume=(1, 12))
        frame = viewer.next_frame()
        assert frame.header["type"] == "cutover"
        assert "resumed" not in frame.header
        assert [row["name"] for row in frame.rows("final_ui")] == ["Grace"]


def test_a_server_that_has_read_less_than_the_viewer_makes_it_wait(shown: RunningServer) -> None:
    with shown.viewer() as viewer:
        viewer.view = {"final_ui": {}}
        viewer.subscribe("final_ui", resume=(1, 14))
        shown.apply(1, 13, final(1, "old news", 1))
        shown.apply(1, 14, final(2, "old news", 1))
        shown.apply(1, 15, final(3, "news", 1))
        frame = viewer.next_frame("data")
        assert frame.header["seq"] >= 14
        # rows may come again, but never from before what was seen
        while frame.header["seq"] < 15:
            frame = viewer.next_frame("data")
        assert "news" in [row["name"] for row in frame.rows("final_ui")]


def test_a_server_that_stays_behind_sends_the_viewer_away(
    shown: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_socket, "_RESUME_WAIT_S", 0.05)
    with shown.viewer() as viewer:
        viewer.subscribe("final_ui", resume=(1, 10**15))
        with pytest.raises(ConnectionClosed) as closed:
            viewer.next_frame()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1013


def test_who_comes_back_to_a_server_that_has_just_started_keeps_its_rows() -> None:
    host = Catalog(logs_kept=100, rejects_kept=100)
    with run_server(host) as serving, serving.viewer() as viewer:
        viewer.view = {"final_ui": {f"0-{n}": {"_id": f"0-{n}"} for n in range(10)}}
        viewer.subscribe("final_ui", "orchestrator_status", resume=(1, 10))
        assert viewer.next_frame().kinds == [("orchestrator_status", "snapshot")]
        assert viewer.next_frame("heartbeat").header["generation"] is None
        serving.follow(building(1))
        serving.apply(1, 8, *(final(n, "a") for n in range(8)))
        # where a run ends is up to the server: rows of the run that was cut come again
        serving.apply(1, 11, final(8, "a"), final(9, "a"), final(10, "new"))
        serving.follow(live(1, ready_at=11))
        frame = viewer.next_frame("data", "cutover")
        assert frame.header["type"] == "data"
        assert frame.kinds == [("final_ui", "upsert"), ("orchestrator_status", "snapshot")]
        assert [row["name"] for row in frame.rows("final_ui")] == ["a", "a", "new"]


def test_a_new_subscription_starts_over(shown: RunningServer) -> None:
    with shown.viewer("final_ui") as viewer:
        viewer.next_frame()
        viewer.subscribe("final_ui", "users_ui")
        assert viewer.next_frame("data").kinds == [
            ("users_ui", "snapshot"),
            ("final_ui", "snapshot"),
        ]


def test_a_viewer_of_a_big_table_is_told_so_and_its_figures_are_those_of_its_rows() -> None:
    host = Catalog(logs_kept=100, rejects_kept=100, viewer_rows=4)
    host.apply_state(live(1))
    host.apply(chunk(1, 10, *(final(n, f"name {n}", 0) for n in range(10))))
    with run_server(host) as serving, serving.viewer("final_ui") as viewer:
        frame = viewer.next_frame()
        assert frame.header["limited"] == {"final_ui": {"total": 10}}
        assert [row["_id"] for row in frame.rows("final_ui")] == ["0-6", "0-7", "0-8", "0-9"]
        serving.apply(1, 11, final(10, "newer"))
        frame = viewer.next_frame("data")
        assert frame.kinds == [("final_ui", "upsert"), ("final_ui", "remove")]
        until = time.monotonic() + LIMIT_S
        while True:
            header = viewer.next_frame("heartbeat").header
            if header["seq"] == 11:
                break
            assert time.monotonic() < until
        view = viewer.view["final_ui"]
        assert header["tables"] == {"final_ui": {"rows": 4, "hash": _hash(view)}}
        assert header["limited"] == {"final_ui": {"total": 11}}
        assert len(serving.request("/api/v1/tables/final_ui").json()["rows"]) == 11
