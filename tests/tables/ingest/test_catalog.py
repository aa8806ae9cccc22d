from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livejoin.core import spec
from livejoin.core.changelog import ChangelogRecord
from livejoin.core.state import State
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.store import Delta
from rig.reference_changelog import read_record
from tables.samples import (
    DATA_TABLES,
    building,
    chunk,
    final,
    line,
    live,
    plain,
    reject,
    tombstone,
    user,
)

SYSTEM = tuple(name for name, table in spec.DEFAULT.tables.items() if not table.data)


class RecordingListener:
    """A listener that rebuilds the tables from snapshots and deltas alone."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.events: list[str] = []
        self.rows: dict[str, dict[str, dict[str, Any]]] = {}
        self._load_snapshots(DATA_TABLES + SYSTEM)
        catalog.listeners.append(self)

    def on_change(self, table: str, delta: Delta) -> None:
        self.events.append(table)
        rows = self.rows[table]
        rows.update({row["_id"]: row for row in plain(delta.upserts)})
        for row_id in delta.removed:
            rows.pop(row_id, None)

    def on_cutover(self, _replaced: Collection[str]) -> None:
        self.events.append("cut over")
        self._load_snapshots(DATA_TABLES)

    def _load_snapshots(self, tables: Sequence[str]) -> None:
        for table in tables:
            self.rows[table] = {row["_id"]: row for row in _rows(self._catalog, table)}

    def is_up_to_date(self) -> bool:
        return all(
            self.rows[table] == {row["_id"]: row for row in _rows(self._catalog, table)}
            for table in DATA_TABLES + SYSTEM
        )


def _catalog(*, logs_kept: int = 100, rejects_kept: int = 100) -> Catalog:
    return Catalog(logs_kept=logs_kept, rejects_kept=rejects_kept)


def _rows(catalog: Catalog, table: str) -> list[dict[str, Any]]:
    return plain(catalog.store(table).snapshot())


def _ids(catalog: Catalog, table: str) -> list[str]:
    return [row["_id"] for row in _rows(catalog, table)]


# --- the served generation


def test_before_the_first_generation_is_live_tables_are_empty_and_the_status_is_starting() -> None:
    catalog = _catalog()
    assert catalog.generation is None
    assert catalog.newest_ts is None
    assert all(_rows(catalog, table) == [] for table in DATA_TABLES)
    assert [row["state"] for row in _rows(catalog, "orchestrator_status")] == ["starting"]


def test_a_building_generation_is_not_served() -> None:
    catalog = _catalog()
    listener = RecordingListener(catalog)
    catalog.apply_state(building(1))
    catalog.apply(chunk(1, 1, user(0)))
    assert catalog.generation is None
    assert _rows(catalog, "users_ui") == []
    assert catalog.counts()["users"]["read"] == 0
    assert listener.events == []


def test_a_generation_is_served_once_the_changelog_is_read_up_to_ready_at() -> None:
    catalog = _catalog()
    listener = RecordingListener(catalog)
    catalog.apply_state(live(1, ready_at=3))
    catalog.apply(chunk(1, 2, user(0), final(0, "Ada")))
    assert (catalog.generation, listener.events) == (None, [])
    catalog.apply(chunk(1, 3, user(1)))
    assert (catalog.generation, catalog.seq, listener.events) == (1, 3, ["cut over"])
    assert _ids(catalog, "users_ui") == ["0-0", "0-1"]
    assert _ids(catalog, "final_ui") == ["0-0"]


def test_a_generation_that_is_read_already_is_served_as_soon_as_it_is_live() -> None:
    catalog = _catalog()
    catalog.apply_state(building(1))
    catalog.apply(chunk(1, 3, user(0)))
    catalog.apply_state(live(1, ready_at=3))
    assert catalog.generation == 1


def test_a_generation_with_nothing_to_read_is_served_at_once() -> None:
    catalog = _catalog()
    catalog.apply_state(live(1, ready_at=0))
    assert catalog.generation == 1


def test_during_a_swap_the_old_rows_are_served_until_the_new_ones_are_complete() -> None:
    catalog = _catalog()
    catalog.apply_state(live(1, next_one=2))
    catalog.apply(chunk(1, 1, user(0, name="old")))
    listener = RecordingListener(catalog)
    catalog.apply(chunk(2, 1, user(0, name="new")))
    catalog.apply_state(live(2, ready_at=2))
    assert [row["name"] for row in _rows(catalog, "users_ui")] == ["old"]
    assert listener.events == []
    catalog.apply(chunk(2, 2, user(1, name="new")))
    assert catalog.generation == 2
    assert [row["name"] for row in _rows(catalog, "users_ui")] == ["new", "new"]
    assert listener.events == ["cut over"]


def test_the_old_generation_is_updated_until_the_cutover() -> None:
    catalog = _catalog()
    catalog.apply_state(live(1))
    catalog.apply_state(live(2, ready_at=9))
    catalog.apply(chunk(1, 1, user(0)))
    assert (catalog.generation, _ids(catalog, "users_ui")) == (1, ["0-0"])


def test_listeners_get_the_deltas_of_the_served_generation() -> None:
    catalog = _catalog()
    catalog.apply_state(live(1))
    listener = RecordingListener(catalog)
    catalog.apply(chunk(1, 2, user(0), final(0, "Ada")))
    assert listener.events == ["users_ui", "final_ui"]
    assert listener.is_up_to_date()


def test_a_repeated_record_notifies_no_listener() -> None:
    catalog = _catalog()
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 1, user(0)))
    listener = RecordingListener(catalog)
    catalog.apply(chunk(1, 2, user(0)))
    assert listener.events == []


def test_reading_a_changelog_again_from_its_beginning_never_moves_seq_back() -> None:
    catalog = Catalog()
    catalog.apply_state(live(1))
    chunks = [chunk(1, end, *(user(n) for n in range(end - 10, end))) for end in range(10, 60, 10)]
    for batch in chunks[:4]:
        catalog.apply(batch)
    for batch in chunks:  # the last one is new
        catalog.apply(batch)
        assert catalog.seq >= 40
    delta = catalog.store("users_ui").changes_since(30)
    assert delta is not None
    assert {row["_id"] for row in plain(delta.upserts)} == {f"0-{n}" for n in range(30, 50)}


def test_records_of_an_unknown_generation_are_ignored() -> None:
    catalog = _catalog()
    catalog.apply_state(live(1))
    catalog.apply(chunk(2, 1, user(0)))
    assert _rows(catalog, "users_ui") == []


def test_an_empty_ledger_state_leaves_the_served_generation_in_place() -> None:
    catalog = _catalog()
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 1, user(0)))
    catalog.apply_state(State())
    assert (catalog.generation, _ids(catalog, "users_ui")) == (1, ["0-0"])


def test_a_generation_that_the_ledger_no_longer_names_is_dropped() -> None:
    catalog = _catalog()
    catalog.apply_state(live(1, next_one=2))
    catalog.apply_state(live(1))
    catalog.apply(chunk(2, 1, user(0)))
    catalog.apply_state(live(2, ready_at=1))
    assert catalog.generation == 1  # the records of generation 2 were dropped with it


def test_newest_ts_is_the_newest_source_time_served() -> None:
    catalog = _catalog()
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 2, user(0, ts=9000), user(1, ts=8000)))
    assert catalog.newest_ts == 9000
    catalog.apply(chunk(1, 3, user(2, ts=7000)))
    assert catalog.newest_ts == 9000


# --- rejects and counts


def test_the_newest_rejects_of_each_source_are_kept_and_all_are_counted() -> None:
    catalog = _catalog(rejects_kept=2)
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 6, *(reject("users", n) for n in range(5)), reject("accounts", 0)))
    assert _ids(catalog, "rejects_ui") == ["users/0-3", "users/0-4", "accounts/0-0"]
    assert catalog.counts()["users"]["rejected"] == 5
    assert catalog.counts()["accounts"]["rejected"] == 1


def test_an_evicted_reject_does_not_return_when_it_is_written_again() -> None:
    catalog = _catalog(rejects_kept=2)
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 3, *(reject("users", n) for n in range(3))))
    listener = RecordingListener(catalog)
    catalog.apply(chunk(1, 5, reject("users", 0), reject("users", 2)))
    assert _ids(catalog, "rejects_ui") == ["users/0-1", "users/0-2"]
    assert catalog.counts()["users"]["rejected"] == 3
    assert listener.is_up_to_date()


REJECTS = st.builds(reject, st.sampled_from(["users", "accounts"]), st.integers(0, 6))
# each offset has one kind: row, reject or tombstone
OTHERS = st.builds(user, st.integers(10, 16)) | st.builds(
    tombstone, st.sampled_from(["users", "accounts"]), st.integers(7, 9)
)
BATCHES = st.lists(st.lists(REJECTS | OTHERS, min_size=1, max_size=6), max_size=6)


@given(BATCHES, st.integers(1, 4))
def test_counts_are_exact_and_the_newest_rejects_are_kept_after_repeated_reads(
    batches: list[list[ChangelogRecord]], kept: int
) -> None:
    catalog = _catalog(rejects_kept=kept)
    catalog.apply_state(live(1))
    listener = RecordingListener(catalog)
    read_keys: set[str] = set()
    for number, batch in enumerate(batches, start=1):
        catalog.apply(chunk(1, 10 * number, *batch))
        read_keys |= {change.key().decode() for change in batch}
        counts = catalog.counts()
        for source in ("users", "accounts"):
            rejects = [key for key in read_keys if key.startswith(f"rejects_ui/{source}/")]
            tombstones = [key for key in read_keys if key.startswith(f"tombstones/{source}/")]
            rows = [key for key in read_keys if key.startswith(f"{source}_ui/")]
            assert counts[source] == {
                "read": len(rows) + len(rejects) + len(tombstones),
                "rows": len(rows),
                "rejected": len(rejects),
                "tombstones": len(tombstones),
            }
            shown = [f"rejects_ui/{row_id}" for row_id in _ids(catalog, "rejects_ui")]
            of_source = sorted(key for key in shown if f"/{source}/" in key)
            assert of_source == sorted(rejects)[-kept:], "all rejects have the same time"
        assert listener.is_up_to_date()


# --- status and logs


def test_the_status_is_one_row_updated_in_place() -> None:
    catalog = _catalog()
    listener = RecordingListener(catalog)
    for progress in range(50):
        catalog.set_status({"state": "building", "progress": progress, "message": "…"})
        assert [row["progress"] for row in _rows(catalog, "orchestrator_status")] == [progress]
        assert listener.is_up_to_date()
    assert listener.events == ["orchestrator_status"] * 50


@pytest.mark.parametrize(
    ("reported", "trouble", "stale"),
    [
        ("", "", ""),
        ("its query died", "", "its query died"),
        ("", "no broker", "no broker"),
        ("its query died", "no broker", "no broker"),
    ],
)
def test_rows_are_stale_while_the_query_or_the_connection_to_kafka_is_down(
    reported: str, trouble: str, stale: str
) -> None:
    catalog = _catalog()
    catalog.set_status({"state": "live", "progress": 100, "message": "m", "stale": reported})
    catalog.set_trouble(trouble)
    assert catalog.stale_reason == stale


def test_the_newest_log_lines_are_kept() -> None:
    catalog = _catalog(logs_kept=3)
    catalog.system.add_log_lines([line(n) for n in range(5)])
    catalog.system.add_log_lines([line(5)])
    assert _ids(catalog, "orchestrator_logs") == [line(n)["_id"] for n in (3, 4, 5)]


@given(st.lists(st.integers(1, 5), max_size=8), st.integers(1, 6), st.integers(0, 6))
def test_listeners_hold_the_kept_log_lines_after_repeated_reads(
    sizes: list[int], kept: int, repeated: int
) -> None:
    catalog, published = _catalog(logs_kept=kept), 0
    listener = RecordingListener(catalog)
    for size in sizes:
        before = [{**row, "ts": 1000} for row in _rows(catalog, "orchestrator_logs")]
        catalog.system.add_log_lines(
            [*before[len(before) - repeated :], *(line(published + n) for n in range(size))]
        )
        published += size
        expected = [line(n)["_id"] for n in range(published)][-kept:]
        assert _ids(catalog, "orchestrator_logs") == expected
        assert listener.is_up_to_date()


def test_known_log_lines_notify_no_listener() -> None:
    catalog = _catalog()
    catalog.system.add_log_lines([line(1)])
    listener = RecordingListener(catalog)
    catalog.system.add_log_lines([line(1)])
    assert listener.events == []


def test_a_log_line_published_twice_is_one_row() -> None:
    # The control loop publishes a line again if another fact arrives before the acknowledgement.
    catalog = _catalog(logs_kept=2)
    catalog.system.add_log_lines([line(1), line(1)])
    catalog.system.add_log_lines([line(2), line(3)])
    catalog.system.add_log_lines([line(4)])
    assert _ids(catalog, "orchestrator_logs") == [line(3)["_id"], line(4)["_id"]]


# --- reset, after the ledger was replaced


def test_after_a_reset_all_tables_are_built_anew() -> None:
    catalog = _catalog()
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 1, user(0, name="old")))
    listener = RecordingListener(catalog)
    catalog.reset()
    assert catalog.generation is None
    assert all(_rows(catalog, table) == [] for table in DATA_TABLES)
    assert catalog.counts()["users"]["read"] == 0
    assert listener.events == ["cut over"]
    catalog.apply_state(live(1, ready_at=1))
    assert catalog.generation is None
    catalog.apply(chunk(1, 1, user(5, name="new")))
    assert [row["name"] for row in _rows(catalog, "users_ui")] == ["new"]


def test_after_a_reset_the_new_ledgers_log_lines_are_shown() -> None:
    catalog = _catalog()
    catalog.system.add_log_lines([line(1, "from the old ledger")])
    catalog.reset()
    catalog.system.add_log_lines([line(1, "from the new ledger")])
    assert [row["msg"] for row in _rows(catalog, "orchestrator_logs")] == ["from the new ledger"]


def test_a_starting_server_serves_a_generation_only_after_reading_to_its_end() -> None:
    catalog = _catalog()
    catalog.apply_state(live(1, ready_at=1), {1: 3})
    served = []
    for batch in (chunk(1, 1, final(0, "a")), chunk(1, 3, final(1, "b"), final(2, "c"))):
        catalog.apply(batch)
        served.append((catalog.generation, len(catalog.store("final_ui"))))
    assert served == [(None, 0), (1, 3)]


def test_a_winner_followed_by_an_older_record_is_offered_for_rewrite_if_that_lasts() -> None:
    catalog = _catalog()
    catalog.apply_state(live(1))
    winner = ChangelogRecord("final_ui", "0-0", {"userId": "u0", "age": 5}, 1000, (7, 0, 0))
    catalog.apply(chunk(1, 2, winner, final(0, "old", 3)))
    for _ in range(2):
        catalog.find_rewrites()
        assert catalog.pending_rewrites == {}, "no rewrite was requested"
    assert catalog.request_rewrites(frozenset({1, 7})) == {}
    catalog.find_rewrites()
    assert catalog.pending_rewrites == {}, "the winner may follow in a moment"
    catalog.find_rewrites()
    ((number, changes),) = catalog.pending_rewrites.items()
    (change,) = changes
    assert number == 1
    assert change.key() == winner.key()
    assert read_record(change.key(), change.value()) == winner
    catalog.apply(chunk(1, 3, change))
    catalog.find_rewrites()
    assert catalog.pending_rewrites == {}


def test_rewrites_are_offered_only_after_the_changelog_was_read_to_its_end() -> None:
    catalog = _catalog()
    catalog.apply_state(live(1), {1: 4})
    catalog.request_rewrites(frozenset({1}))
    older = ChangelogRecord("final_ui", "0-0", {"userId": "u0", "age": 5}, 1000, (7, 0, 0))
    catalog.apply(chunk(1, 2, older, final(0, "old", 3)))
    for _ in range(2):
        catalog.find_rewrites()
        assert catalog.pending_rewrites == {}, "a newer record may follow"
    newer = ChangelogRecord("final_ui", "0-0", {"userId": "u0", "age": 6}, 1000, (8, 0, 0))
    catalog.apply(chunk(1, 4, newer, older))
    for _ in range(2):
        catalog.find_rewrites()
    ((change,),) = catalog.pending_rewrites.values()
    assert change.version == (8, 0, 0)
    assert change.row is not None
    assert change.row["age"] == 6


def test_many_rewrites_are_offered_in_batches() -> None:
    catalog, count = _catalog(), 2500
    catalog.apply_state(live(1))
    catalog.request_rewrites(frozenset({1}))
    winners = [
        ChangelogRecord("final_ui", f"0-{n}", {"userId": f"u{n}"}, 1000 + n, (7, 0, n))
        for n in range(count)
    ]
    older = [
        ChangelogRecord("final_ui", f"0-{n}", {"userId": "old"}, 1, (6, 0, n)) for n in range(count)
    ]
    catalog.apply(chunk(1, 2 * count, *winners, *older))
    offered: dict[str, ChangelogRecord] = {}
    seq = 2 * count
    catalog.find_rewrites()
    while not offered.keys() >= {change.id for change in winners}:
        catalog.find_rewrites()
        (batch,) = catalog.pending_rewrites.values()
        assert 0 < len(batch) <= 1000
        offered |= {change.id: change for change in batch}
        seq += len(batch)
        catalog.apply(chunk(1, seq, *batch))
    assert all(read_record(offered[w.id].key(), offered[w.id].value()) == w for w in winners)
