"""Lag of the served rows: read positions of the changelog against end offsets of the topics."""

import random
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from livejoin.core.generation import Generation, Reading
from livejoin.core.names import Names
from livejoin.core.spec import DEFAULT
from livejoin.core.state import State
from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import Topic
from livejoin.kafka.records import OffsetRange, PartitionId
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.read_progress import max_positions, positions_of, read_offsets
from livejoin.tables.observe import end_offsets, lag
from livejoin.tables.observe.end_offsets import EndOffsetPoller
from livejoin.tables.observe.lag import Lag, PartitionLag, ServedGeneration
from tables.samples import chunk, reject, tombstone, user

READINGS = {
    "users": Reading("u", "id-u", {0: 0, 1: 100}, {}),
    "accounts": Reading("a", "id-a", {0: 0}, {}),
}
LIVE = Generation(1, DEFAULT.choice("u", "a"), 0.0, sources=READINGS, ready_at=0)
TIMED_OUT = KafkaError(KafkaError._TIMED_OUT)
NOTHING_READ = ServedGeneration(LIVE, {})


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


# --- read positions


def test_rows_rejects_and_tombstones_give_the_read_position_of_a_source() -> None:
    offsets = chunk(
        1, 9, user(3), user(1), reject("users", 7), tombstone("accounts", 2)
    ).read_offsets
    assert positions_of(offsets) == {"users": {0: 8}, "accounts": {0: 3}}


def test_joined_rows_give_no_read_position() -> None:
    assert (
        positions_of(read_offsets({"final_ui": ["0-1", "0-2+0-9"]}, DEFAULT.source_of_table)) == {}
    )


PLACES = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 2**62)), min_size=1, max_size=20)


@given(PLACES)
def test_the_highest_offset_of_each_partition_counts(places: list[tuple[int, int]]) -> None:
    expected: dict[int, int] = {}
    for partition, offset in places:
        expected[partition] = max(expected.get(partition, 0), offset + 1)
    ids = [f"{partition}-{offset}" for partition, offset in places]
    assert positions_of(read_offsets({"users_ui": ids}, DEFAULT.source_of_table)) == {
        "users": expected
    }
    half = len(ids) // 2
    parts = (
        positions_of(read_offsets({"users_ui": batch}, DEFAULT.source_of_table))
        for batch in (ids[:half], ids[half:])
    )
    assert max_positions(*parts) == {"users": expected}


def test_a_catalog_reports_the_read_positions_of_the_served_generation() -> None:
    catalog = Catalog()
    assert catalog.served is None
    catalog.apply_state(State(live=LIVE))
    catalog.apply(chunk(1, 1, user(4)))
    catalog.apply(chunk(1, 2, user(2), tombstone("users", 9)))
    assert catalog.served == ServedGeneration(LIVE, {"users": {0: 10}})
    catalog.apply_state(State())
    assert catalog.served is None


# --- lag


def test_before_the_first_poll_no_lag_is_known() -> None:
    assert Lag().by_source(NOTHING_READ) == {}


def test_an_unread_partition_counts_from_its_start_offset() -> None:
    tracker = Lag()
    tracker.record_ends(NOTHING_READ, {"users": {0: 5, 1: 103, 2: 2}, "accounts": {0: 0}})
    assert tracker.by_source(NOTHING_READ)["users"][0] == 5 + 3 + 2
    assert tracker.by_source(NOTHING_READ)["accounts"] == (0, 0.0)


def test_lag_seconds_count_from_the_first_poll_that_included_the_oldest_unread_record() -> None:
    clock = Clock()
    tracker = Lag(clock)
    for end in (10, 20, 30):
        tracker.record_ends(NOTHING_READ, {"accounts": {0: end}})
        clock.now += 5
    assert tracker.by_source(NOTHING_READ)["accounts"] == (30, 15.0)
    assert tracker.by_source(ServedGeneration(LIVE, {"accounts": {0: 10}}))["accounts"] == (
        20,
        10.0,
    )
    assert tracker.by_source(ServedGeneration(LIVE, {"accounts": {0: 29}}))["accounts"] == (1, 5.0)
    assert tracker.by_source(ServedGeneration(LIVE, {"accounts": {0: 40}}))["accounts"] == (0, 0.0)


def test_a_source_that_caught_up_starts_counting_again() -> None:
    clock = Clock()
    tracker = Lag(clock)
    tracker.record_ends(NOTHING_READ, {"accounts": {0: 10}})
    clock.now = 50
    tracker.record_ends(
        ServedGeneration(LIVE, {"accounts": {0: 8}}), {"accounts": {0: 8}}
    )  # offsets 8 and 9 are transaction markers
    clock.now = 60
    behind = ServedGeneration(LIVE, {"accounts": {0: 8}})
    tracker.record_ends(behind, {"accounts": {0: 12}})
    clock.now = 61
    assert tracker.by_source(behind)["accounts"] == (4, 1.0)


def test_samples_are_bounded_and_the_oldest_is_kept_however_long_reading_stops() -> None:
    clock = Clock()
    tracker = Lag(clock)
    for end in range(1, 5 * lag._MAX_SAMPLES):
        tracker.record_ends(NOTHING_READ, {"accounts": {0: end}})
        clock.now += 5
    assert len(tracker._samples["accounts"]) <= lag._MAX_SAMPLES + 2
    assert tracker.by_source(NOTHING_READ)["accounts"] == (5 * lag._MAX_SAMPLES - 1, clock.now)


def test_partitions_are_listed_from_the_most_unread_records_on() -> None:
    clock = Clock()
    tracker = Lag(clock)
    served = ServedGeneration(LIVE, {"users": {0: 4, 2: 7}})
    tracker.record_ends(served, {"users": {0: 4, 1: 101, 2: 7}})
    clock.now = 5
    tracker.record_ends(served, {"users": {0: 9, 1: 101, 2: 7}})
    clock.now = 6
    assert tracker.worst_partitions(served, "users", 5) == [
        PartitionLag(partition=0, next_offset=4, end_offset=9, unread=5, behind_s=1),
        PartitionLag(partition=1, next_offset=100, end_offset=101, unread=1, behind_s=6),
        PartitionLag(partition=2, next_offset=7, end_offset=7, unread=0, behind_s=0),
    ]
    assert [it.partition for it in tracker.worst_partitions(served, "users", 2)] == [0, 1]
    assert tracker.partitions(served, "users") == {0, 1, 2}


def test_a_partition_ends_no_earlier_than_it_was_read() -> None:
    tracker = Lag()
    tracker.record_ends(NOTHING_READ, {"accounts": {0: 10}})
    since = ServedGeneration(LIVE, {"accounts": {0: 12}})
    assert tracker.worst_partitions(since, "accounts", 1) == [PartitionLag(0, 12, 12, 0, 0.0)]


def test_partitions_are_listed_while_their_ends_are_unknown() -> None:
    tracker = Lag()
    unknown = [PartitionLag(0, 0, None, None, None), PartitionLag(1, 100, None, None, None)]
    assert tracker.worst_partitions(NOTHING_READ, "users", 5) == unknown
    tracker.record_ends(NOTHING_READ, {"users": {0: 1, 1: 100, 2: 0}})
    assert len(tracker.worst_partitions(NOTHING_READ, "users", 5)) == 3
    tracker.record_failure("no broker")
    assert tracker.worst_partitions(NOTHING_READ, "users", 5) == unknown


def test_after_a_failure_or_a_cutover_no_lag_is_known() -> None:
    tracker = Lag()
    tracker.record_ends(NOTHING_READ, {"accounts": {0: 10}})
    tracker.record_failure("no broker")
    assert tracker.by_source(NOTHING_READ) == {}
    tracker.record_ends(NOTHING_READ, {"accounts": {0: 10}})
    assert tracker.by_source(NOTHING_READ)
    other = Generation(2, DEFAULT.choice("u", "a"), 0.0, sources=READINGS)
    assert tracker.by_source(ServedGeneration(other, {})) == {}


# --- polling


class Cluster:
    """Stands for Kafka's admin interface and for a reader of its last records."""

    properties: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.ids = {"u": "id-u", "a": "id-a"}
        self.ends = {"u": {0: 0, 1: 100}, "a": {0: 0}}
        self.last: dict[PartitionId, int] = {}  # the last readable record
        self.lookups: list[dict[PartitionId, OffsetRange]] = []
        self.error: Exception | None = None

    def describe(self, names: Iterable[str]) -> dict[str, Topic]:
        if self.error is not None:
            raise self.error
        existing = [name for name in names if name in self.ids]
        return {name: Topic(name, self.ids[name], tuple(self.ends[name])) for name in existing}

    def offsets(self, topics: Iterable[Topic], _spec: Any) -> dict[str, dict[int, int]]:
        return {topic.name: dict(self.ends[topic.name]) for topic in topics}

    def last_readable(
        self, _kafka: Any, _group: str, within: Mapping[PartitionId, OffsetRange]
    ) -> dict[PartitionId, int]:
        self.lookups.append(dict(within))
        return {
            place: self.last[place]
            for place, span in within.items()
            if span.start <= self.last.get(place, -1) < span.end
        }


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    tracker = Cluster()
    monkeypatch.setattr(end_offsets, "last_readable", tracker.last_readable)
    return tracker


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog()
    catalog.apply_state(State(live=LIVE))
    return catalog


@pytest.fixture
def poll(cluster: Cluster, catalog: Catalog) -> Callable[[], dict[str, int]]:
    kafka: Any = cluster
    ends = EndOffsetPoller(kafka, Names("x"), catalog, lambda work: work())

    def poll_once() -> dict[str, int]:
        served = catalog.served
        assert served is not None
        ends._poll(served)
        return {
            source: lag_records
            for source, (lag_records, _) in catalog.lag.by_source(served).items()
        }

    return poll_once


Poll = Callable[[], dict[str, int]]


def test_the_end_offsets_are_compared_with_the_read_positions(cluster: Cluster, poll: Poll) -> None:
    cluster.ends = {"u": {0: 7, 1: 101}, "a": {0: 0}}
    assert poll() == {"users": 8, "accounts": 0}


def test_transaction_markers_are_no_lag_and_are_looked_up_once(
    cluster: Cluster, catalog: Catalog, poll: Poll
) -> None:
    catalog.apply(chunk(1, 1, user(3)))
    cluster.ends["u"][0] = 5  # offset 4 is a transaction marker
    cluster.last[PartitionId("u", 0)] = 3
    assert poll() == {"users": 1, "accounts": 0}  # the record may still be on its way
    assert poll() == poll() == {"users": 0, "accounts": 0}
    assert cluster.lookups == [{PartitionId("u", 0): OffsetRange(4, 5)}]
    served = catalog.served
    assert served is not None
    marker_at_the_end = PartitionLag(0, 4, 5, 0, 0.0)
    assert catalog.lag.worst_partitions(served, "users", 1) == [marker_at_the_end]
    cluster.ends["u"][0] = 7
    assert poll() == {"users": 3, "accounts": 0}


def test_records_that_stay_unread_count_and_are_looked_up_once(
    cluster: Cluster, poll: Poll
) -> None:
    cluster.ends["a"][0] = 9
    cluster.last[PartitionId("a", 0)] = 7
    for _ in range(4):
        assert poll() == {"users": 0, "accounts": 9}
    assert len(cluster.lookups) == 1


@pytest.mark.parametrize(
    ("break_it", "why"),
    [
        (lambda tracker: setattr(tracker, "error", KafkaUnavailable("no broker")), "no broker"),
        (
            lambda tracker: setattr(tracker, "error", KafkaException(TIMED_OUT)),
            "KafkaError{code=_TIMED_OUT",
        ),
        (lambda tracker: tracker.ids.pop("u"), 'topic "u" does not exist'),
        (lambda tracker: tracker.ids.update(a="other"), 'topic "a" was deleted and recreated'),
    ],
)
def test_a_failed_poll_is_reported_and_retried(
    cluster: Cluster, catalog: Catalog, poll: Poll, break_it: Callable[[Cluster], Any], why: str
) -> None:
    poll()
    before = dict(cluster.ids)
    break_it(cluster)
    assert poll() == {}
    assert catalog.lag.trouble.startswith(why)
    cluster.error, cluster.ids = None, before
    assert poll() == {"users": 0, "accounts": 0}
    assert catalog.lag.trouble == ""


def test_the_poller_runs_until_stopped(
    cluster: Cluster, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end_offsets, "_POLL_S", 0.001)
    stop, polls = threading.Event(), 0
    kafka: Any = cluster

    def post(work: Callable[[], None]) -> None:
        nonlocal polls
        work()
        polls += 1
        if polls == 3:
            stop.set()

    EndOffsetPoller(kafka, Names("x"), catalog, post).run(stop)
    assert (polls, catalog.lag.trouble) == (3, "")


def test_a_shuffled_changelog_gives_the_same_positions() -> None:
    ids = [f"{n % 3}-{n // 3}" for n in range(3000)]
    random.Random(1).shuffle(ids)
    assert positions_of(read_offsets({"accounts_ui": ids}, DEFAULT.source_of_table)) == {
        "accounts": {0: 1000, 1: 1000, 2: 1000}
    }
