"""Figures of the served tables: in every heartbeat, and in full over HTTP."""

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
from livejoin.tables.observe import health
from rig.running import until
from tables.live_server import LIMIT_S, RunningServer, run_server
from tables.samples import chunk, live, reject, tombstone, user


def account(offset: int, user_id: str | None) -> ChangelogRecord:
    return ChangelogRecord("accounts_ui", f"0-{offset}", {"userId": user_id}, 1000)


def sample_catalog() -> Catalog:
    """Two users with an account, one without, one without a userId."""
    catalog = Catalog(spark_ui="http://spark.example/")
    catalog.apply_state(live(1))
    people = [user(0), user(1), user(2), ChangelogRecord("users_ui", "0-3", {"name": "Eve"}, 1000)]
    accounts = [account(0, "u0"), account(1, "u0"), account(2, "u1"), account(3, None)]
    catalog.apply(chunk(1, 10, *people, *accounts, reject("users", 4), tombstone("accounts", 4)))
    return catalog


def figures(server: RunningServer) -> dict[str, Any]:
    body: dict[str, Any] = server.request("/api/v1/figures").json()
    return body


def test_users_with_and_without_an_account_are_counted() -> None:
    with run_server(sample_catalog()) as server:
        assert figures(server)["matched"] == {"users": 4, "matched": 2, "unmatched": 2}


def test_figures_reach_the_leader_even_without_viewers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "HEARTBEAT_S", 0.05)
    catalog = sample_catalog()
    with run_server(catalog):
        until(lambda: catalog.counted, "the figures are counted", LIMIT_S)
    figures = dict(catalog.counted[1].figures)
    sources = json.loads(str(figures.pop("sources")))
    assert figures == {"read": 10, "rejected": 1, "tombstones": 1, "rows": 0}
    assert sources == {
        "users": {"read": 5, "rows": 4, "rejected": 1, "tombstones": 0},
        "accounts": {"read": 5, "rows": 4, "rejected": 0, "tombstones": 1},
    }


def test_matches_are_counted_again_after_a_cutover() -> None:
    with run_server(sample_catalog()) as server:
        assert figures(server)["matched"]["users"] == 4
        server.follow(live(1, next_one=2))
        server.apply(2, 2, user(7), account(7, "u7"))
        server.follow(live(2, ready_at=2))
        assert figures(server)["matched"] == {"users": 1, "matched": 1, "unmatched": 0}


def test_a_source_reports_counts_and_its_lag_once_that_is_known() -> None:
    with run_server(sample_catalog()) as server:
        counted = {"read": 5, "rows": 4, "rejected": 1, "tombstones": 0}
        body = figures(server)
        assert body["sources"]["users"] == {**counted, "lag": None, "behind": None}
        assert body["lagTrouble"] == "not asked yet"

        def set_lag(catalog: Catalog) -> None:
            readings = {name: Reading(name, "", {0: 0}, {}) for name in ("users", "accounts")}
            generation = live(1).live
            assert generation is not None
            catalog.apply_state(replace(live(1), live=replace(generation, sources=readings)))
            assert catalog.served is not None
            catalog.lag.record_ends(catalog.served, {"users": {0: 8}, "accounts": {0: 5}})

        server.run_on_loop(set_lag)
        body = figures(server)
        assert body["sources"]["users"]["lag"] == 3
        assert body["sources"]["users"]["behind"] >= 0
        assert body["sources"]["accounts"]["lag"] == 0
        assert body["lagTrouble"] is None


def test_partitions_are_reported_by_source_and_bounded() -> None:
    def set_ends(catalog: Catalog) -> None:
        starts = {"users": dict.fromkeys(range(30), 0), "accounts": {0: 0}}
        readings = {name: Reading(f"{name}_a", "", starts[name], {}) for name in starts}
        generation = live(1).live
        assert generation is not None
        catalog.apply_state(replace(live(1), live=replace(generation, sources=readings)))
        assert catalog.served is not None
        catalog.lag.record_ends(
            catalog.served, {"users": {p: 100 * p for p in range(30)}, "accounts": {0: 5}}
        )

    with run_server(sample_catalog()) as server:
        assert figures(server)["partitions"] == {}, "the topics are not resolved"
        server.run_on_loop(set_ends)
        found = figures(server)["partitions"]
    assert {name: (one["topic"], one["count"]) for name, one in found.items()} == {
        "users": ("users_a", 30),
        "accounts": ("accounts_a", 1),
    }
    worst = found["users"]["worst"]
    assert [one["partition"] for one in worst] == list(range(29, 29 - health.MAX_PARTITIONS, -1))
    assert worst[0].pop("behind") >= 0
    assert worst[0] == {"partition": 29, "newestOffset": 2899, "nextOffset": 0, "lag": 2900}
    (accounts,) = found["accounts"]["worst"]
    assert (accounts["newestOffset"], accounts["nextOffset"], accounts["lag"]) == (4, 5, 0)


def test_a_source_whose_topic_is_empty_has_no_newest_offset() -> None:
    def set_ends(catalog: Catalog) -> None:
        generation = live(1).live
        assert generation is not None
        readings = {"accounts": Reading("accounts", "", {1: 0}, {})}
        catalog.apply_state(replace(live(1), live=replace(generation, sources=readings)))
        assert catalog.served is not None
        catalog.lag.record_ends(catalog.served, {"accounts": {1: 0}})

    catalog = Catalog()
    catalog.apply_state(live(1))
    with run_server(catalog) as server:
        server.run_on_loop(set_ends)
        (partition,) = figures(server)["partitions"]["accounts"]["worst"]
    assert partition == {
        "partition": 1,
        "newestOffset": None,
        "nextOffset": 0,
        "lag": 0,
        "behind": 0,
    }


def test_figures_include_the_rollback_deadline_and_the_spark_ui() -> None:
    with run_server(sample_catalog()) as server:
        before = figures(server)
        assert (before["standbyUntil"], before["standbySeconds"]) == (None, None)
        assert figures(server)["sparkUi"] == "http://spark.example/"
        swapped_at = time.time()
        with_standby = replace(live(1), standby=live(2).live, swapped_at=swapped_at)
        server.follow(with_standby)
        body = figures(server)
        assert body["standbyUntil"] == int((swapped_at + Limits().standby_s) * 1000)
        assert 0 < Limits().standby_s - body["standbySeconds"] < 60
        server.follow(replace(with_standby, swapped_at=swapped_at - 3600))
        assert figures(server)["standbySeconds"] == 0


def test_a_heartbeat_carries_viewers_and_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "HEARTBEAT_S", 0.05)
    with run_server(sample_catalog()) as server, server.viewer("final_ui") as viewer:
        header = viewer.next_frame("heartbeat").header
        assert header["viewers"] == 1
        assert header["sources"] == figures(server)["sources"]
