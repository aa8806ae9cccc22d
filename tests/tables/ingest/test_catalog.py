from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livejoin.core import spec
from livejoin.core.changelog import ChangelogRecord
from livejoin.core.state import State
from livejoin.tables.ingest.catalog import DATA_TABLES, Catalog
from livejoin.tables.ingest.store import Delta
from rig.reference_changelog import read_record
from tables.samples import (
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

SYSTEM = tuple(name for name, table in spec.TABLES.items() if not table.data)


class Watcher:
    """Somebody who knows the tables from what is told alone."""

    def __init__(self, host: Catalog) -> None:
        self._host = host
        self.heard: list[str] = []
        self.rows: dict[str, dict[str, dict[str, Any]]] = {}
        self._look(DATA_TABLES + SYSTEM)
        host.listeners.append(self)

    def on_change(self, table: str, delta: Delta) -> None:
        self.heard.append(table)
        rows = self.rows[table]
        rows.update({row["_id"]: row for row in plain(delta.upserts)})
        for row_id in delta.removed:
            rows.pop(row_id, None)

    def on_cutover(self) -> None:
        self.heard.append("cut over")
        self._look(DATA_TABLES)

    def _look(self, tables: Sequence[str]) -> None:
        for table in tables:
            self.rows[table] = {row["_id"]: row for row in _rows(self._host, table)}

    def knows_all(self) -> bool:
        return all(
            self.rows[table] == {row["_id"]: row for row in _rows(self._host, table)}
            for table in DATA_TABLES + SYSTEM
        )


def _host(*, logs_kept: int = 100, rejects_kept: int = 100) -> Catalog:
    return Catalog(logs_kept=logs_kept, rejects_kept=rejects_kept)


def _rows(host: Catalog, table: str) -> list[dict[str, Any]]:
    return plain(host.store(table).snapshot())


def _ids(host: Catalog, table: str) -> list[str]:
    return [row["_id"] for row in _rows(host, table)]


# --- which generation is shown


def test_before_anything_is_live_tables_are_empty_and_the_status_says_starting() -> None:
    host = _host()
    assert host.generation is None
    assert host.newest_ts is None
    assert all(_rows(host, table) == [] for table in DATA_TABLES)
    assert [row["state"] for row in _rows(host, "orchestrator_status")] == ["starting"]


def test_a_building_generation_is_not_shown() -> None:
    host = _host()
    watcher = Watcher(host)
    host.apply_state(building(1))
    host.apply(chunk(1, 1, user(0)))
    assert host.generation is None
    assert _rows(host, "users_ui") == []
    assert host.counts()["users"]["read"] == 0
    assert watcher.heard == []


def test_the_names_move_once_the_changelog_is_read_to_where_it_is_complete() -> None:
    host = _host()
    watcher = Watcher(host)
    host.apply_state(live(1, ready_at=3))
    host.apply(chunk(1, 2, user(0), final(0, "Ada")))
    assert (host.generation, watcher.heard) == (None, [])
    host.apply(chunk(1, 3, user(1)))
    assert (host.generation, host.seq, watcher.heard) == (1, 3, ["cut over"])
    assert _ids(host, "users_ui") == ["0-0", "0-1"]
    assert _ids(host, "final_ui") == ["0-0"]


def test_the_names_move_when_the_ledger_says_that_enough_was_read_already() -> None:
    host = _host()
    host.apply_state(building(1))
    host.apply(chunk(1, 3, user(0)))
    host.apply_state(live(1, ready_at=3))
    assert host.generation == 1


def test_a_generation_that_has_nothing_to_read_is_shown_at_once() -> None:
    host = _host()
    host.apply_state(live(1, ready_at=0))
    assert host.generation == 1


def test_a_swap_shows_the_old_rows_until_the_new_ones_are_complete() -> None:
    host = _host()
    host.apply_state(live(1, next_one=2))
    host.apply(chunk(1, 1, user(0, name="old")))
    watcher = Watcher(host)
    host.apply(chunk(2, 1, user(0, name="new")))
    host.apply_state(live(2, ready_at=2))
    assert [row["name"] for row in _rows(host, "users_ui")] == ["old"]
    assert watcher.heard == []
    host.apply(chunk(2, 2, user(1, name="new")))
    assert host.generation == 2
    assert [row["name"] for row in _rows(host, "users_ui")] == ["new", "new"]
    assert watcher.heard == ["cut over"]


def test_the_old_generation_goes_on_being_updated_until_the_swap() -> None:
    host = _host()
    host.apply_state(live(1))
    host.apply_state(live(2, ready_at=9))
    host.apply(chunk(1, 1, user(0)))
    assert (host.generation, _ids(host, "users_ui")) == (1, ["0-0"])


def test_changes_of_what_is_shown_are_told() -> None:
    host = _host()
    host.apply_state(live(1))
    watcher = Watcher(host)
    host.apply(chunk(1, 2, user(0), final(0, "Ada")))
    assert watcher.heard == ["users_ui", "final_ui"]
    assert watcher.knows_all()


def test_a_repeat_is_not_told() -> None:
    host = _host()
    host.apply_state(live(1))
    host.apply(chunk(1, 1, user(0)))
    watcher = Watcher(host)
    host.apply(chunk(1, 2, user(0)))
    assert watcher.heard == []


def test_a_changelog_that_is_read_again_from_its_beginning_moves_nothing_back() -> None:
    host = Catalog()
    host.apply_state(live(1))
    runs = [chunk(1, end, *(user(n) for n in range(end - 10, end))) for end in range(10, 60, 10)]
    for run in runs[:4]:
        host.apply(run)
    for run in runs:  # and then one that is new
        host.apply(run)
        assert host.seq >= 40
    delta = host.store("users_ui").changes_since(30)
    assert delta is not None
    assert {row["_id"] for row in plain(delta.upserts)} == {f"0-{n}" for n in range(30, 50)}


def test_a_changelog_that_nobody_asked_for_is_ignored() -> None:
    host = _host()
    host.apply_state(live(1))
    host.apply(chunk(2, 1, user(0)))
    assert _rows(host, "users_ui") == []


def test_what_is_shown_stays_when_the_ledger_names_nothing() -> None:
    host = _host()
    host.apply_state(live(1))
    host.apply(chunk(1, 1, user(0)))
    host.apply_state(State())
    assert (host.generation, _ids(host, "users_ui")) == (1, ["0-0"])


def test_a_generation_that_is_not_wanted_any_more_is_let_go() -> None:
    host = _host()
    host.apply_state(live(1, next_one=2))
    host.apply_state(live(1))
    host.apply(chunk(2, 1, user(0)))
    host.apply_state(live(2, ready_at=1))
    assert host.generation == 1  # what was read of 2 is gone with it


def test_newest_is_the_newest_source_time_shown() -> None:
    host = _host()
    host.apply_state(live(1))
    host.apply(chunk(1, 2, user(0, ts=9000), user(1, ts=8000)))
    assert host.newest_ts == 9000
    host.apply(chunk(1, 3, user(2, ts=7000)))
    assert host.newest_ts == 9000


# --- rejects and counts


def test_the_newest_rejects_of_each_source_are_kept_and_all_of_them_counted() -> None:
    host = _host(rejects_kept=2)
    host.apply_state(live(1))
    host.apply(chunk(1, 6, *(reject("users", n) for n in range(5)), reject("accounts", 0)))
    assert _ids(host, "rejects_ui") == ["users/0-3", "users/0-4", "accounts/0-0"]
    assert host.counts()["users"]["rejected"] == 5
    assert host.counts()["accounts"]["rejected"] == 1


def test_a_reject_that_was_let_go_does_not_come_back_when_it_is_written_again() -> None:
    host = _host(rejects_kept=2)
    host.apply_state(live(1))
    host.apply(chunk(1, 3, *(reject("users", n) for n in range(3))))
    watcher = Watcher(host)
    host.apply(chunk(1, 5, reject("users", 0), reject("users", 2)))
    assert _ids(host, "rejects_ui") == ["users/0-1", "users/0-2"]
    assert host.counts()["users"]["rejected"] == 3
    assert watcher.knows_all()


REJECTS = st.builds(reject, st.sampled_from(["users", "accounts"]), st.integers(0, 6))
# no offset is of two kinds: a record is a row, a reject or a tombstone
OTHERS = st.builds(user, st.integers(10, 16)) | st.builds(
    tombstone, st.sampled_from(["users", "accounts"]), st.integers(7, 9)
)
BATCHES = st.lists(st.lists(REJECTS | OTHERS, min_size=1, max_size=6), max_size=6)


@given(BATCHES, st.integers(1, 4))
def test_whatever_is_read_again_the_counts_are_exact_and_the_newest_rejects_are_shown(
    batches: list[list[ChangelogRecord]], kept: int
) -> None:
    host = _host(rejects_kept=kept)
    host.apply_state(live(1))
    watcher = Watcher(host)
    seen: set[str] = set()
    for number, batch in enumerate(batches, start=1):
        host.apply(chunk(1, 10 * number, *batch))
        seen |= {change.key().decode() for change in batch}
        counts = host.counts()
        for source in ("users", "accounts"):
            rejects = [key for key in seen if key.startswith(f"rejects_ui/{source}/")]
            tombstones = [key for key in seen if key.startswith(f"tombstones/{source}/")]
            rows = [key for key in seen if key.startswith(f"{source}_ui/")]
            assert counts[source] == {
                "read": len(rows) + len(rejects) + len(tombstones),
                "rows": len(rows),
                "rejected": len(rejects),
                "tombstones": len(tombstones),
            }
            shown = [f"rejects_ui/{row_id}" for row_id in _ids(host, "rejects_ui")]
            mine = sorted(key for key in shown if f"/{source}/" in key)
            assert mine == sorted(rejects)[-kept:], "they all have one time"
        assert watcher.knows_all()


# --- status and logs


def test_the_status_is_one_row_that_changes_in_place() -> None:
    host = _host()
    watcher = Watcher(host)
    for progress in range(50):
        host.set_status({"state": "building", "progress": progress, "message": "…"})
        assert [row["progress"] for row in _rows(host, "orchestrator_status")] == [progress]
        assert watcher.knows_all()
    assert watcher.heard == ["orchestrator_status"] * 50


@pytest.mark.parametrize(
    ("said", "trouble", "stale"),
    [
        ("", "", ""),
        ("its query died", "", "its query died"),
        ("", "no broker", "no broker"),
        ("its query died", "no broker", "no broker"),
    ],
)
def test_rows_are_stale_while_the_query_or_the_way_to_kafka_is_down(
    said: str, trouble: str, stale: str
) -> None:
    host = _host()
    host.set_status({"state": "live", "progress": 100, "message": "m", "stale": said})
    host.set_trouble(trouble)
    assert host.stale_reason == stale


def test_the_newest_lines_are_kept() -> None:
    host = _host(logs_kept=3)
    host.system.add_log_lines([line(n) for n in range(5)])
    host.system.add_log_lines([line(5)])
    assert _ids(host, "orchestrator_logs") == [line(n)["_id"] for n in (3, 4, 5)]


@given(st.lists(st.integers(1, 5), max_size=8), st.integers(1, 6), st.integers(0, 6))
def test_viewers_see_the_log_as_it_is_kept_whatever_is_read_again(
    sizes: list[int], kept: int, again: int
) -> None:
    host, told = _host(logs_kept=kept), 0
    watcher = Watcher(host)
    for size in sizes:
        before = [{**row, "ts": 1000} for row in _rows(host, "orchestrator_logs")]
        host.system.add_log_lines(
            [*before[len(before) - again :], *(line(told + n) for n in range(size))]
        )
        told += size
        expected = [line(n)["_id"] for n in range(told)][-kept:]
        assert _ids(host, "orchestrator_logs") == expected
        assert watcher.knows_all()


def test_lines_that_are_all_known_are_not_told_again() -> None:
    host = _host()
    host.system.add_log_lines([line(1)])
    watcher = Watcher(host)
    host.system.add_log_lines([line(1)])
    assert watcher.heard == []


def test_a_line_that_was_published_twice_is_one_line() -> None:
    # the control loop tells a line again when another fact comes before it hears that it was told
    host = _host(logs_kept=2)
    host.system.add_log_lines([line(1), line(1)])
    host.system.add_log_lines([line(2), line(3)])
    host.system.add_log_lines([line(4)])
    assert _ids(host, "orchestrator_logs") == [line(3)["_id"], line(4)["_id"]]


# --- another ledger


def test_after_another_ledger_has_come_everything_is_followed_anew() -> None:
    host = _host()
    host.apply_state(live(1))
    host.apply(chunk(1, 1, user(0, name="old")))
    watcher = Watcher(host)
    host.reset()
    assert host.generation is None
    assert all(_rows(host, table) == [] for table in DATA_TABLES)
    assert host.counts()["users"]["read"] == 0
    assert watcher.heard == ["cut over"]
    host.apply_state(live(1, ready_at=1))
    assert host.generation is None
    host.apply(chunk(1, 1, user(5, name="new")))
    assert [row["name"] for row in _rows(host, "users_ui")] == ["new"]


def test_after_another_ledger_has_come_its_lines_are_shown() -> None:
    host = _host()
    host.system.add_log_lines([line(1, "from the old ledger")])
    host.reset()
    host.system.add_log_lines([line(1, "from the new ledger")])
    assert [row["msg"] for row in _rows(host, "orchestrator_logs")] == ["from the new ledger"]


def test_a_server_that_starts_shows_a_generation_once_it_has_read_all_that_there_was() -> None:
    host = _host()
    host.apply_state(live(1, ready_at=1), {1: 3})
    shown = []
    for run in (chunk(1, 1, final(0, "a")), chunk(1, 3, final(1, "b"), final(2, "c"))):
        host.apply(run)
        shown.append((host.generation, len(host.store("final_ui"))))
    assert shown == [(None, 0), (1, 3)]


def test_a_winner_that_an_older_record_follows_is_named_once_that_lasts() -> None:
    host = _host()
    host.apply_state(live(1))
    winner = ChangelogRecord("final_ui", "0-0", {"userId": "u0", "age": 5}, 1000, (7, 0, 0))
    host.apply(chunk(1, 2, winner, final(0, "old", 3)))
    for _ in range(2):
        host.find_rewrites()
        assert host.pending_rewrites == {}, "nobody would write it"
    assert host.request_rewrites(frozenset({1, 7})) == {}
    host.find_rewrites()
    assert host.pending_rewrites == {}, "it may be followed by the winner in a moment"
    host.find_rewrites()
    ((number, changes),) = host.pending_rewrites.items()
    (change,) = changes
    assert number == 1
    assert change.key() == winner.key()
    assert read_record(change.key(), change.value()) == winner
    host.apply(chunk(1, 3, change))
    host.find_rewrites()
    assert host.pending_rewrites == {}


def test_winners_are_named_only_once_the_changelog_was_read_to_its_end() -> None:
    host = _host()
    host.apply_state(live(1), {1: 4})
    host.request_rewrites(frozenset({1}))
    so_far = ChangelogRecord("final_ui", "0-0", {"userId": "u0", "age": 5}, 1000, (7, 0, 0))
    host.apply(chunk(1, 2, so_far, final(0, "old", 3)))
    for _ in range(2):
        host.find_rewrites()
        assert host.pending_rewrites == {}, "a newer one may follow"
    newer = ChangelogRecord("final_ui", "0-0", {"userId": "u0", "age": 6}, 1000, (8, 0, 0))
    host.apply(chunk(1, 4, newer, so_far))
    for _ in range(2):
        host.find_rewrites()
    ((change,),) = host.pending_rewrites.values()
    assert change.version == (8, 0, 0)
    assert change.row is not None
    assert change.row["age"] == 6


def test_many_winners_are_named_in_portions() -> None:
    host, count = _host(), 2500
    host.apply_state(live(1))
    host.request_rewrites(frozenset({1}))
    winners = [
        ChangelogRecord("final_ui", f"0-{n}", {"userId": f"u{n}"}, 1000 + n, (7, 0, n))
        for n in range(count)
    ]
    older = [
        ChangelogRecord("final_ui", f"0-{n}", {"userId": "old"}, 1, (6, 0, n)) for n in range(count)
    ]
    host.apply(chunk(1, 2 * count, *winners, *older))
    named: dict[str, ChangelogRecord] = {}
    seq = 2 * count
    host.find_rewrites()
    while not named.keys() >= {one.id for one in winners}:
        host.find_rewrites()
        (some,) = host.pending_rewrites.values()
        assert 0 < len(some) <= 1000
        named |= {one.id: one for one in some}
        seq += len(some)
        host.apply(chunk(1, seq, *some))
    assert all(read_record(named[w.id].key(), named[w.id].value()) == w for w in winners)
