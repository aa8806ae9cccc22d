"""Figures of what is shown: in every heartbeat, and in full over HTTP."""

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from livejoin.core.changelog import ChangelogRecord
from livejoin.core.generation import Reading
from livejoin.core.state import Limits
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.live import socket
from rig.running import until
from tables.live_server import LIMIT_S, RunningServer, run_server
from tables.samples import chunk, live, reject, tombstone, user


def account(offset: int, user_id: str | None) -> ChangelogRecord:
    return ChangelogRecord("accounts_ui", f"0-{offset}", {"userId": user_id}, 1000)


def shown() -> Catalog:
    """Two users that match, one that does not, one without an identity."""
    host = Catalog(spark_ui="http://spark.example/")
    host.apply_state(live(1))
    people = [user(0), user(1), user(2), ChangelogRecord("users_ui", "0-3", {"name": "Eve"}, 1000)]
    accounts = [account(0, "u0"), account(1, "u0"), account(2, "u1"), account(3, None)]
    host.apply(chunk(1, 10, *people, *accounts, reject("users", 4), tombstone("accounts", 4)))
    return host


def figures(serving: RunningServer) -> dict[str, Any]:
    found: dict[str, Any] = serving.request("/api/v1/figures").json()
    return found


def test_users_with_and_without_an_account_are_counted() -> None:
    with run_server(shown()) as serving:
        assert figures(serving)["matched"] == {"users": 4, "matched": 2, "unmatched": 2}


def test_a_leader_is_told_figures_also_while_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "HEARTBEAT_S", 0.05)
    host = shown()
    with run_server(host):
        until(lambda: host.counted, "they are counted", LIMIT_S)
    figures = dict(host.counted[1].figures)
    sources = json.loads(str(figures.pop("sources")))
    assert figures == {"read": 10, "rejected": 1, "tombstones": 1, "rows": 0}
    assert sources == {
        "users": {"read": 5, "rows": 4, "rejected": 1, "tombstones": 0},
        "accounts": {"read": 5, "rows": 4, "rejected": 0, "tombstones": 1},
    }


def test_matching_is_done_again_when_another_generation_is_shown() -> None:
    with run_server(shown()) as serving:
        assert figures(serving)["matched"]["users"] == 4
        serving.follow(live(1, next_one=2))
        serving.apply(2, 2, user(7), account(7, "u7"))
        serving.follow(live(2, ready_at=2))
        assert figures(serving)["matched"] == {"users": 1, "matched": 1, "unmatched": 0}


def test_a_source_tells_what_became_of_its_records_and_its_lag_once_that_is_known() -> None:
    with run_server(shown()) as serving:
        counted = {"read": 5, "rows": 4, "rejected": 1, "tombstones": 0}
        found = figures(serving)
        assert found["sources"]["users"] == {**counted, "lag": None, "behind": None}
        assert found["lagTrouble"] == "not asked yet"

        def look(host: Catalog) -> None:
            readings = {name: Reading(name, "", {0: 0}, {}) for name in ("users", "accounts")}
            now = live(1).live
            assert now is not None
            host.apply_state(replace(live(1), live=replace(now, sources=readings)))
            assert host.served is not None
            host.lag.record_ends(host.served, {"users": {0: 8}, "accounts": {0: 5}})

        serving.run_on_loop(look)
        found = figures(serving)
        assert found["sources"]["users"]["lag"] == 3
        assert found["sources"]["users"]["behind"] >= 0
        assert found["sources"]["accounts"]["lag"] == 0
        assert found["lagTrouble"] is None


def test_it_tells_how_long_there_is_a_way_back_and_where_spark_is() -> None:
    with run_server(shown()) as serving:
        none = figures(serving)
        assert (none["standbyUntil"], none["standbySeconds"]) == (None, None)
        assert figures(serving)["sparkUi"] == "http://spark.example/"
        moved_at = time.time()
        both = replace(live(1), standby=live(2).live, swapped_at=moved_at)
        serving.follow(both)
        found = figures(serving)
        assert found["standbyUntil"] == int((moved_at + Limits().standby_s) * 1000)
        assert 0 < Limits().standby_s - found["standbySeconds"] < 60
        serving.follow(replace(both, swapped_at=moved_at - 3600))
        assert figures(serving)["standbySeconds"] == 0


def test_a_heartbeat_tells_viewers_and_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "HEARTBEAT_S", 0.05)
    with run_server(shown()) as serving, serving.viewer("final_ui") as viewer:
        header = viewer.next_frame("heartbeat").header
        assert header["viewers"] == 1
        assert header["sources"] == figures(serving)["sources"]
