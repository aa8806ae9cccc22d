"""C1 and C2: many records for a long time, and very many for a short time; with figures.

`make faults CASE=C1 SECONDS=120` runs a short form.
"""

import io
import os
import statistics
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from livejoin import client
from livejoin.kafka.cluster import Kafka
from rig import load
from rig.figures import Figures
from rig.load import Load, PeriodicSampler
from rig.running import Running, jvm_memory_kib, memory_kib, running, until
from rig.stopwatch import Stopwatch

USERS = 100_000
NEW_USERS, ACCOUNTS = 50, 1950  # per second
WARM_S = 30  # compilers and caches; not measured
DRAINED_S = 180
READ_S = 300
LATE_S = 600  # for a server that reads eight million records first
AS_ASKED = 0.95  # of the rate; with less, the test fails
VIEWER_ROWS = 200_000
FULL = 500_000  # rows, in C9
CATCH_UPS, EACH = 10, 1_000_000  # in C10


def seconds(usual: int) -> int:
    return int(os.environ.get("FAULTS_SECONDS") or usual)


@dataclass
class LoadedLivejoin:
    """A livejoin with many users."""

    live: Running
    load: Load
    kafka: Kafka

    def records_read(self) -> int:
        return self.live.records_read()

    def expect_all(self, case: Figures, max_rows: int | None = None) -> None:
        """Check O1, O2 and O5: no row missing, no cell wrong, over HTTP and at a viewer."""
        count = self.load.acknowledged
        until(lambda: self.records_read() == count, f"all {count} records are read", READ_S)
        truth = self.load.expected_tables(max_rows)
        for name, expected in truth.items():
            self._expect(case, f"{name} over HTTP", self._table(name), expected)
        with client.connect(self.live.url) as viewer:
            viewer_rows = pl.from_arrow(viewer.table("final_ui").to_arrow())
            assert isinstance(viewer_rows, pl.DataFrame)
            expected = (
                self.load.expected_tables(min(max_rows, VIEWER_ROWS))["final_ui"]
                if max_rows
                else truth["final_ui"]
            )
            self._expect(case, "final_ui at a viewer", viewer_rows, expected)
            until(lambda: (viewer.heartbeat_age_s or 99) < 1, "a heartbeat", 10)
            assert viewer.mismatches == 0

    def _expect(
        self, case: Figures, what: str, found: pl.DataFrame, expected: pl.DataFrame
    ) -> None:
        lost, wrong, rows = load.differences(found, expected)
        case.checked(rows, rows * (expected.width - 1), lost, wrong)
        assert (lost, wrong) == (0, 0), f"{what}: {lost} rows lost, {wrong} cells wrong of {rows}"

    def _table(self, name: str) -> pl.DataFrame:
        address = f"{self.live.url}api/v1/tables/{name}?format=arrow"
        with urllib.request.urlopen(address, timeout=120) as answer:
            return pl.read_ipc_stream(io.BytesIO(answer.read()))


def _filled_topics(
    kafka: Kafka, name: str, users: int, accounts: int = 0
) -> tuple[Load, dict[str, str]]:
    topics = {source: f"{name}.{source}" for source in ("users", "accounts")}
    for topic in topics.values():
        kafka.create_topic(topic, partitions=2)
    one = Load(kafka, topics)
    one.fill(users, accounts)
    return one, topics


@pytest.fixture
def loaded(
    request: pytest.FixtureRequest, kafka: Kafka, tmp_path: Path
) -> Iterator[LoadedLivejoin]:
    name = request.node.name.split("_")[1]
    one, topics = _filled_topics(kafka, name, USERS)
    # the row limit is tested in C9
    with running(kafka, tmp_path, name=name, topics=topics, max_rows=10**8) as live:
        live.wait_live()
        yield LoadedLivejoin(live, one, kafka)


@pytest.mark.timeout(7200)
def test_c1_two_thousand_records_a_second(loaded: LoadedLivejoin, case: Figures) -> None:
    live, sent, duration_s = loaded.live, loaded.load, seconds(1800)
    with Stopwatch(live.url, sent.sent_at) as viewer:
        sent.send_at_rate(NEW_USERS, ACCOUNTS, WARM_S)
        before = _sizes(live)
        rows, behind = sent.acknowledged, PeriodicSampler(lambda: sent.acknowledged - viewer.read)
        viewer.reset()
        with behind:
            took = sent.send_at_rate(NEW_USERS, ACCOUNTS, duration_s)
        p50, p99, samples = viewer.percentile(50), viewer.percentile(99), viewer.samples
    new = sent.acknowledged - rows
    after = _sizes(live)
    growth = [(now - then) * 1024 / new for now, then in zip(after, before, strict=True)]
    quarter = len(behind.samples) // 4
    early = statistics.median(behind.samples[quarter : 2 * quarter])
    late = statistics.median(behind.samples[-quarter:])
    case.note(
        f"{new:,} records in {took:.0f} s ({new / took:,.0f}/s); to the viewer p50 {p50 * 1000:.0f}"
        f" ms, p99 {p99 * 1000:.0f} ms of {samples:,} samples; unread {early:,.0f} early,"
        f" {late:,.0f} late, {max(behind.samples):,} at most; memory per new record:"
        f" livejoin {growth[0]:,.0f} bytes, Spark's JVM {growth[1]:,.0f} bytes"
    )
    print(case.notes[-1])
    case.landed(records=new).viewers_dropped(viewer.dropped)
    assert new > AS_ASKED * (NEW_USERS + ACCOUNTS) * took, "the load was not reached"
    loaded.expect_all(case)
    assert viewer.dropped == 0
    assert late < early + NEW_USERS + ACCOUNTS, "it falls behind"
    assert p99 < 1
    assert growth[0] * new < PYTHON_BYTES * new + SLACK
    assert growth[1] * new < JVM_BYTES * new + SLACK


PYTHON_BYTES = 500  # a row in two tables, its hash and its position
JVM_BYTES = 200  # the state is on disk
SLACK = 256 << 20  # caches and compiled code


def _sizes(live: Running) -> tuple[int, int]:
    """KiB of livejoin and of Spark's JVM."""
    return memory_kib(live.pid), jvm_memory_kib(live.jvm())


@pytest.mark.timeout(3600)
def test_c2_ten_times_the_rate(loaded: LoadedLivejoin, case: Figures) -> None:
    sent = loaded.load
    sent.send_at_rate(NEW_USERS, ACCOUNTS, WARM_S)
    rows = sent.acknowledged
    took = sent.send_at_rate(10 * NEW_USERS, 10 * ACCOUNTS, seconds(60))
    began, new = time.monotonic(), sent.acknowledged - rows
    assert new > AS_ASKED * 10 * (NEW_USERS + ACCOUNTS) * took, "the load was not reached"
    until(lambda: loaded.records_read() == sent.acknowledged, "all is read", DRAINED_S)
    drained = time.monotonic() - began
    case.landed(records=new).recovered(drained).note(
        f"{new:,} records in {took:.0f} s ({new / took:,.0f}/s), all read {drained:.0f} s later"
    )
    print(case.notes[-1])
    loaded.expect_all(case)


@pytest.mark.timeout(7200)
def test_c9_full_tables_stay_as_large_as_they_are(
    kafka: Kafka, tmp_path: Path, case: Figures
) -> None:
    duration_s = seconds(1800)
    max_rows = min(FULL, (NEW_USERS + ACCOUNTS) * duration_s // 3)
    # more users than the limit: a table below its limit would rightly grow
    sent, topics = _filled_topics(kafka, "c9", max_rows + max_rows // 4)
    config = {"name": "c9", "topics": topics, "max_rows": max_rows}
    early_folder, late_folder = tmp_path / "early", tmp_path / "late"
    with running(kafka, early_folder, **config) as live:
        live.wait_live()
        loaded = LoadedLivejoin(live, sent, kafka)
        while sent.accounts < max_rows + max_rows // 4:  # full, and evicting
            sent.send_at_rate(NEW_USERS, ACCOUNTS, 10)
        tables = {"users_ui", "accounts_ui", "final_ui"}
        until(
            lambda: live.request("api/v1/status")["capped"].keys() == tables, "all tables are full"
        )
        before = _sizes(live)
        rows = sent.acknowledged
        took = sent.send_at_rate(NEW_USERS, ACCOUNTS, duration_s)
        after, new = _sizes(live), sent.acknowledged - rows
        assert new > AS_ASKED * (NEW_USERS + ACCOUNTS) * took, "the load was not reached"
        growth = (after[0] - before[0]) / before[0]
        case.landed(records=new).note(
            f"{new:,} records beyond a cap of {max_rows:,}: livejoin {before[0] >> 10:,} MiB"
            f" before, {after[0] >> 10:,} MiB after; Spark's JVM {before[1] >> 10:,} and"
            f" {after[1] >> 10:,} MiB"
        )
        print(case.notes[-1])
        loaded.expect_all(case, max_rows)
        with running(kafka, late_folder, command="serve", **config) as late:
            late.wait_live(LATE_S)
            other = LoadedLivejoin(late, sent, kafka)
            until(
                lambda: other.records_read() == sent.acknowledged,
                "the late server has read all",
                READ_S,
            )
            other.expect_all(case, max_rows)
        assert growth < 0.1, "memory keeps growing"


@pytest.mark.timeout(7200)
def test_c10_memory_after_many_catch_ups(kafka: Kafka, tmp_path: Path, case: Figures) -> None:
    each = int(os.environ.get("FAULTS_ROWS") or EACH)
    sent, topics = _filled_topics(kafka, "c10", each, each)
    settings = {"max_rows": 4 * each, "standby_s": 0, "build_stall_s": 600}
    with running(kafka, tmp_path, name="c10", topics=topics, **settings) as live:
        live.wait_live(READ_S)
        sizes = []
        for number in range(1, CATCH_UPS + 1):
            until(lambda: live.records_read() == sent.acknowledged, "all is read", READ_S)
            sizes.append(_sizes(live))
            if number < CATCH_UPS:
                live.request("api/v1/control", {"start": "earliest"})  # the same choice again
                _wait_for(live, number + 1)
        LoadedLivejoin(live, sent, kafka).expect_all(case, 4 * each)
        case.landed(swaps=CATCH_UPS - 1).note(
            "MiB of livejoin and of Spark's JVM after each: "
            + ", ".join(f"{a >> 10:,} + {b >> 10:,}" for a, b in sizes)
        )
        print(case.notes[-1])


def _wait_for(live: Running, generation: int) -> None:
    def is_live() -> bool:
        status = live.request("api/v1/status")
        return bool((status["state"], status["generation"]) == ("live", generation))

    until(is_live, f"generation {generation} is live", READ_S)
