"""`GET /metrics` of the real server: what it tells, and that it tells the truth."""

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
from tables.scraping import LIVE, TALLY, Sample, full, scraped


def of(found: dict[Sample, float], name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


@pytest.fixture
def serving() -> Iterator[RunningServer]:
    with run_server(full()) as one:
        yield one


def test_it_tells_what_is_live_and_how_it_came_about(serving: RunningServer) -> None:
    found = scraped(serving)
    assert of(found, "livejoin_build_info", version=__version__) == 1
    assert of(found, "livejoin_generation") == 7
    assert of(found, "livejoin_stale") == 0
    assert of(found, "livejoin_catch_up_seconds") == 2.5
    assert {s: of(found, "livejoin_state", state=s) for s in STATES} == {
        state: float(state == "live") for state in STATES
    }
    assert {o: of(found, "livejoin_swaps_total", outcome=o) for o in OUTCOMES} == {
        outcome: TALLY.get(outcome, 0) for outcome in OUTCOMES
    }
    assert of(found, "livejoin_restarts_total") == 4
    assert 0 <= of(found, "livejoin_leader_silence_seconds") < 60


def test_it_tells_what_became_of_the_records(serving: RunningServer) -> None:
    found = scraped(serving)
    for source, rows, rejects, tombstones in (("users", 2, 1, 0), ("accounts", 0, 0, 1)):
        counts = [
            of(found, f"livejoin_source_{what}_total", source=source)
            for what in ("read", "rows", "rejects", "tombstones")
        ]
        assert counts == [rows + rejects + tombstones, rows, rejects, tombstones]
    rows_of = {t: of(found, "livejoin_table_rows", table=t) for t in spec.TABLES}
    assert rows_of["users_ui"] == 2
    assert rows_of["orchestrator_status"] == 1
    assert of(found, "livejoin_freshness_seconds") > 1_000_000  # their time is of 1970


def test_it_tells_how_far_the_rows_are_behind(serving: RunningServer) -> None:
    found = scraped(serving)
    assert of(found, "livejoin_lag_known") == 1
    assert of(found, "livejoin_source_lag_records", source="users") == 10
    assert of(found, "livejoin_source_lag_seconds", source="users") > 0
    assert of(found, "livejoin_source_lag_records", source="accounts") == 0
    assert of(found, "livejoin_source_lag_seconds", source="accounts") == 0
    serving.run_on_loop(lambda host: host.lag.record_failure("no broker"))
    without = scraped(serving)
    assert of(without, "livejoin_lag_known") == 0
    assert not [name for name, _ in without if name.startswith("livejoin_source_lag")]


def test_viewers_and_their_frames_are_counted(serving: RunningServer) -> None:
    assert of(scraped(serving), "livejoin_viewers") == 0
    with serving.viewer("users_ui") as one, serving.viewer("final_ui") as other:
        one.next_frame()
        other.next_frame()
        serving.apply(7, 9, user(5))
        one.next_frame("data")
        one.next_frame("heartbeat")
        found = scraped(serving)
    assert of(found, "livejoin_viewers") == 2
    assert of(found, "livejoin_frame_age_seconds_count") == 1  # snapshots and heartbeats have none
    assert 0 < of(found, "livejoin_frame_age_seconds_sum") < 20
    assert of(found, "livejoin_frames_total") >= 4


@pytest.mark.skipif(sys.platform != "linux", reason="prometheus-client reads /proc")
def test_the_process_is_told(serving: RunningServer) -> None:
    found = scraped(serving)
    assert of(found, "process_resident_memory_bytes") > 1 << 20
    assert of(found, "process_cpu_seconds_total") > 0


def test_before_the_ledger_was_read_no_counter_is_there_that_would_jump() -> None:
    with run_server() as serving:
        before = scraped(serving)
        serving.follow(State(live=replace(LIVE, ready_at=2), tally=TALLY))
        unshown = scraped(serving)
    assert of(before, "livejoin_generation") == 0
    assert of(before, "livejoin_state", state="starting") == 1
    names = {name for name, _ in before}
    assert not names & {"livejoin_swaps_total", "livejoin_restarts_total"}
    assert of(unshown, "livejoin_swaps_total", outcome="live") == 3
    assert not [name for name, _ in unshown if name.startswith("livejoin_source_")]


def test_stale_rows_are_told(serving: RunningServer) -> None:
    serving.run_on_loop(lambda host: host.set_trouble("no broker"))
    assert of(scraped(serving), "livejoin_stale") == 1


def test_a_swap_starts_the_counts_of_its_own_records(serving: RunningServer) -> None:
    serving.follow(live(8))
    found = scraped(serving)
    assert of(found, "livejoin_generation") == 8
    assert of(found, "livejoin_source_read_total", source="users") == 0
    assert not [name for name, _ in found if name.startswith("livejoin_source_lag")]


def test_two_servers_in_one_process_share_nothing() -> None:
    with run_server(full()) as one, run_server() as other:
        assert of(scraped(one), "livejoin_generation") == 7
        assert of(scraped(other), "livejoin_generation") == 0


def test_the_histogram_counts_as_prometheus_does() -> None:
    sent = DeliveryStats()
    sent.record_frame()
    for waited in (0.0, 0.005, 0.006, 3.0, 99.0):
        sent.record_frame(waited)
    counts = dict(sent.buckets())
    assert [counts[bound] for bound in ("0.005", "0.01", "2.5", "5.0", "+Inf")] == [2, 3, 3, 4, 5]
    assert sent.frames == 6
    assert sent.total_wait_s == pytest.approx(102.011)
    assert len(counts) == len(BUCKETS_S) + 1
