"""`GET /metrics` of the real server: which metrics it exports, and that their values are right."""

import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from livejoin import __version__
from livejoin.core import spec
from livejoin.core.state import State
from livejoin.tables.live.delivery import BUCKETS_S, DeliveryStats
from livejoin.tables.observe.metrics import OUTCOMES, STATES
from tables.live_server import RunningServer, run_server
from tables.samples import live, user
from tables.scraping import LIVE, TALLY, Sample, full_catalog, scrape


def value(samples: dict[Sample, float], name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with run_server(full_catalog()) as running_server:
        yield running_server


def test_the_live_generation_and_the_swaps_are_exported(server: RunningServer) -> None:
    samples = scrape(server)
    assert value(samples, "livejoin_build_info", version=__version__) == 1
    assert value(samples, "livejoin_generation") == 7
    assert value(samples, "livejoin_stale") == 0
    assert value(samples, "livejoin_catch_up_seconds") == 2.5
    assert {s: value(samples, "livejoin_state", state=s) for s in STATES} == {
        state: float(state == "live") for state in STATES
    }
    assert {o: value(samples, "livejoin_swaps_total", outcome=o) for o in OUTCOMES} == {
        outcome: TALLY.get(outcome, 0) for outcome in OUTCOMES
    }
    assert value(samples, "livejoin_restarts_total") == 4
    assert 0 <= value(samples, "livejoin_leader_silence_seconds") < 60


def test_the_records_by_outcome_are_exported(server: RunningServer) -> None:
    samples = scrape(server)
    for source, rows, rejects, tombstones in (("users", 2, 1, 0), ("accounts", 0, 0, 1)):
        counts = [
            value(samples, f"livejoin_source_{what}_total", source=source)
            for what in ("read", "rows", "rejects", "tombstones")
        ]
        assert counts == [rows + rejects + tombstones, rows, rejects, tombstones]
    rows_of = {t: value(samples, "livejoin_table_rows", table=t) for t in spec.DEFAULT.tables}
    assert rows_of["users_ui"] == 2
    assert rows_of["orchestrator_status"] == 1
    assert value(samples, "livejoin_freshness_seconds") > 1_000_000  # the rows have times of 1970


def test_the_lag_is_exported(server: RunningServer) -> None:
    samples = scrape(server)
    assert value(samples, "livejoin_lag_known") == 1
    assert value(samples, "livejoin_source_lag_records", source="users") == 10
    assert value(samples, "livejoin_source_lag_seconds", source="users") > 0
    assert value(samples, "livejoin_source_lag_records", source="accounts") == 0
    assert value(samples, "livejoin_source_lag_seconds", source="accounts") == 0
    server.run_on_loop(lambda catalog: catalog.lag.record_failure("no broker"))
    without = scrape(server)
    assert value(without, "livejoin_lag_known") == 0
    assert not [name for name, _ in without if name.startswith("livejoin_source_lag")]


def test_viewers_and_their_frames_are_counted(server: RunningServer) -> None:
    assert value(scrape(server), "livejoin_viewers") == 0
    with server.viewer("users_ui") as one, server.viewer("final_ui") as other:
        one.next_frame()
        other.next_frame()
        server.apply(7, 9, user(5))
        one.next_frame("data")
        one.next_frame("heartbeat")
        samples = scrape(server)
    assert value(samples, "livejoin_viewers") == 2
    assert (
        value(samples, "livejoin_frame_age_seconds_count") == 1
    )  # snapshots and heartbeats have none
    assert 0 < value(samples, "livejoin_frame_age_seconds_sum") < 20
    assert value(samples, "livejoin_frames_total") >= 4


@pytest.mark.skipif(sys.platform != "linux", reason="prometheus-client reads /proc")
def test_process_metrics_are_exported(server: RunningServer) -> None:
    samples = scrape(server)
    assert value(samples, "process_resident_memory_bytes") > 1 << 20
    assert value(samples, "process_cpu_seconds_total") > 0


def test_before_the_ledger_was_read_no_counter_is_exported_that_would_jump() -> None:
    with run_server() as server:
        before = scrape(server)
        server.follow(State(live=replace(LIVE, ready_at=2), tally=TALLY))
        not_served = scrape(server)
    assert value(before, "livejoin_generation") == 0
    assert value(before, "livejoin_state", state="starting") == 1
    names = {name for name, _ in before}
    assert not names & {"livejoin_swaps_total", "livejoin_restarts_total"}
    assert value(not_served, "livejoin_swaps_total", outcome="live") == 3
    assert not [name for name, _ in not_served if name.startswith("livejoin_source_")]


def test_stale_rows_are_exported(server: RunningServer) -> None:
    server.run_on_loop(lambda catalog: catalog.set_trouble("no broker"))
    assert value(scrape(server), "livejoin_stale") == 1


def test_a_swap_starts_the_record_counts_of_the_new_generation(server: RunningServer) -> None:
    server.follow(live(8))
    samples = scrape(server)
    assert value(samples, "livejoin_generation") == 8
    assert value(samples, "livejoin_source_read_total", source="users") == 0
    assert not [name for name, _ in samples if name.startswith("livejoin_source_lag")]


def test_two_servers_in_one_process_share_no_metrics() -> None:
    with run_server(full_catalog()) as one, run_server() as other:
        assert value(scrape(one), "livejoin_generation") == 7
        assert value(scrape(other), "livejoin_generation") == 0


def test_the_histogram_has_cumulative_buckets_as_in_prometheus() -> None:
    stats = DeliveryStats()
    stats.record_frame()
    for waited in (0.0, 0.005, 0.006, 3.0, 99.0):
        stats.record_frame(waited)
    counts = dict(stats.buckets())
    assert [counts[bound] for bound in ("0.005", "0.01", "2.5", "5.0", "+Inf")] == [2, 3, 3, 4, 5]
    assert stats.frames == 6
    assert stats.total_wait_s == pytest.approx(102.011)
    assert len(counts) == len(BUCKETS_S) + 1
