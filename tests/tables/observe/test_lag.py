"""How far the shown rows are behind: what the changelog says was read, against the topics' ends."""

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
from livejoin.core.spec import Choice
from livejoin.core.state import State
from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import Topic
from livejoin.kafka.records import OffsetRange, PartitionId
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.read_progress import max_positions, positions_of, read_offsets
from livejoin.tables.observe import lag
from livejoin.tables.observe.lag import EndOffsetPoller, Lag, ServedGeneration
from tables.samples import chunk, reject, tombstone, user

READINGS = {
    "users": Reading("u", "id-u", {0: 0, 1: 100}, {}),
    "accounts": Reading("a", "id-a", {0: 0}, {}),
}
LIVE = Generation(1, Choice("u", "a"), 0.0, sources=READINGS, ready_at=0)
TIMED_OUT = KafkaError(KafkaError._TIMED_OUT)
NOTHING_READ = ServedGeneration(LIVE, {})


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


# --- what was read


def test_rows_rejects_and_tombstones_tell_how_far_a_source_was_read() -> None:
    found = chunk(1, 9, user(3), user(1), reject("users", 7), tombstone("accounts", 2)).read_offsets
    assert positions_of(found) == {"users": {0: 8}, "accounts": {0: 3}}


def test_joined_rows_tell_nothing() -> None:
    assert positions_of(read_offsets({"final_ui": ["0-1", "0-2+0-9"]})) == {}


PLACES = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 2**62)), min_size=1, max_size=20)


@given(PLACES)
def test_the_furthest_offset_of_each_partition_counts(places: list[tuple[int, int]]) -> None:
    expected: dict[int, int] = {}
    for partition, offset in places:
        expected[partition] = max(expected.get(partition, 0), offset + 1)
    ids = [f"{partition}-{offset}" for partition, offset in places]
    assert positions_of(read_offsets({"users_ui": ids})) == {"users": expected}
    half = len(ids) // 2
    parts = (positions_of(read_offsets({"users_ui": some})) for some in (ids[:half], ids[half:]))
    assert max_positions(*parts) == {"users": expected}


def test_a_host_tells_what_the_shown_generation_has_read() -> None:
    host = Catalog()
    assert host.served is None
    host.apply_state(State(live=LIVE))
    host.apply(chunk(1, 1, user(4)))
    host.apply(chunk(1, 2, user(2), tombstone("users", 9)))
    assert host.served == ServedGeneration(LIVE, {"users": {0: 10}})
    host.apply_state(State())
    assert host.served is None


# --- how far it is behind


def test_before_kafka_was_asked_nothing_is_known() -> None:
    assert Lag().by_source(NOTHING_READ) == {}


def test_a_partition_that_was_not_read_counts_from_its_start() -> None:
    one = Lag()
    one.record_ends(NOTHING_READ, {"users": {0: 5, 1: 103, 2: 2}, "accounts": {0: 0}})
    assert one.by_source(NOTHING_READ)["users"][0] == 5 + 3 + 2
    assert one.by_source(NOTHING_READ)["accounts"] == (0, 0.0)


def test_seconds_count_from_when_the_oldest_unread_record_was_first_seen() -> None:
    clock = Clock()
    one = Lag(clock)
    for end in (10, 20, 30):
        one.record_ends(NOTHING_READ, {"accounts": {0: end}})
        clock.now += 5
    assert one.by_source(NOTHING_READ)["accounts"] == (30, 15.0)
    assert one.by_source(ServedGeneration(LIVE, {"accounts": {0: 10}}))["accounts"] == (20, 10.0)
    assert one.by_source(ServedGeneration(LIVE, {"accounts": {0: 29}}))["accounts"] == (1, 5.0)
    assert one.by_source(ServedGeneration(LIVE, {"accounts": {0: 40}}))["accounts"] == (0, 0.0)


def test_a_source_that_was_read_to_its_end_starts_anew() -> None:
    clock = Clock()
    one = Lag(clock)
    one.record_ends(NOTHING_READ, {"accounts": {0: 10}})
    clock.now = 50
    one.record_ends(
        ServedGeneration(LIVE, {"accounts": {0: 8}}), {"accounts": {0: 8}}
    )  # 8 and 9 are markers
    clock.now = 60
    behind = ServedGeneration(LIVE, {"accounts": {0: 8}})
    one.record_ends(behind, {"accounts": {0: 12}})
    clock.now = 61
    assert one.by_source(behind)["accounts"] == (4, 1.0)


def test_however_long_it_stands_still_the_memory_is_bounded_and_the_oldest_stays() -> None:
    clock = Clock()
    one = Lag(clock)
    for end in range(1, 5 * lag._MAX_SAMPLES):
        one.record_ends(NOTHING_READ, {"accounts": {0: end}})
        clock.now += 5
    assert len(one._samples["accounts"]) <= lag._MAX_SAMPLES + 2
    assert one.by_source(NOTHING_READ)["accounts"] == (5 * lag._MAX_SAMPLES - 1, clock.now)


def test_trouble_and_another_generation_leave_nothing_known() -> None:
    one = Lag()
    one.record_ends(NOTHING_READ, {"accounts": {0: 10}})
    one.record_failure("no broker")
    assert one.by_source(NOTHING_READ) == {}
    one.record_ends(NOTHING_READ, {"accounts": {0: 10}})
    assert one.by_source(NOTHING_READ)
    other = Generation(2, Choice("u", "a"), 0.0, sources=READINGS)
    assert one.by_source(ServedGeneration(other, {})) == {}


# --- asking


class Cluster:
    """What is asked of Kafka, and what a reader of it gets."""

    properties: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.ids = {"u": "id-u", "a": "id-a"}
        self.ends = {"u": {0: 0, 1: 100}, "a": {0: 0}}
        self.last: dict[PartitionId, int] = {}  # the last record that can be read
        self.asked: list[dict[PartitionId, OffsetRange]] = []
        self.error: Exception | None = None

    def describe(self, names: Iterable[str]) -> dict[str, Topic]:
        if self.error is not None:
            raise self.error
        there = [name for name in names if name in self.ids]
        return {name: Topic(name, self.ids[name], tuple(self.ends[name])) for name in there}

    def offsets(self, topics: Iterable[Topic], _spec: Any) -> dict[str, dict[int, int]]:
        return {topic.name: dict(self.ends[topic.name]) for topic in topics}

    def last_readable(
        self, _kafka: Any, _group: str, within: Mapping[PartitionId, OffsetRange]
    ) -> dict[PartitionId, int]:
        self.asked.append(dict(within))
        return {
            place: self.last[place]
            for place, span in within.items()
            if span.start <= self.last.get(place, -1) < span.end
        }


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    one = Cluster()
    monkeypatch.setattr(lag, "last_readable", one.last_readable)
    return one


@pytest.fixture
def host() -> Catalog:
    host = Catalog()
    host.apply_state(State(live=LIVE))
    return host


@pytest.fixture
def look(cluster: Cluster, host: Catalog) -> Callable[[], dict[str, int]]:
    kafka: Any = cluster
    ends = EndOffsetPoller(kafka, Names("x"), host, lambda work: work())

    def looking() -> dict[str, int]:
        shown = host.served
        assert shown is not None
        ends._poll(shown)
        return {source: left for source, (left, _) in host.lag.by_source(shown).items()}

    return looking


Look = Callable[[], dict[str, int]]


def test_the_ends_that_kafka_tells_are_compared(cluster: Cluster, look: Look) -> None:
    cluster.ends = {"u": {0: 7, 1: 101}, "a": {0: 0}}
    assert look() == {"users": 8, "accounts": 0}


def test_markers_of_transactions_are_no_records_and_looked_up_once(
    cluster: Cluster, host: Catalog, look: Look
) -> None:
    host.apply(chunk(1, 1, user(3)))
    cluster.ends["u"][0] = 5  # 4 is a marker
    cluster.last[PartitionId("u", 0)] = 3
    assert look() == {"users": 1, "accounts": 0}  # it may be on its way
    assert look() == look() == {"users": 0, "accounts": 0}
    assert cluster.asked == [{PartitionId("u", 0): OffsetRange(4, 5)}]
    cluster.ends["u"][0] = 7
    assert look() == {"users": 3, "accounts": 0}


def test_records_that_stay_unread_count_and_are_looked_up_once(
    cluster: Cluster, look: Look
) -> None:
    cluster.ends["a"][0] = 9
    cluster.last[PartitionId("a", 0)] = 7
    for _ in range(4):
        assert look() == {"users": 0, "accounts": 9}
    assert len(cluster.asked) == 1


@pytest.mark.parametrize(
    ("break_it", "why"),
    [
        (lambda one: setattr(one, "error", KafkaUnavailable("no broker")), "no broker"),
        (
            lambda one: setattr(one, "error", KafkaException(TIMED_OUT)),
            "KafkaError{code=_TIMED_OUT",
        ),
        (lambda one: one.ids.pop("u"), 'topic "u" does not exist'),
        (lambda one: one.ids.update(a="other"), 'topic "a" was deleted and recreated'),
    ],
)
def test_what_cannot_be_asked_is_named_and_asked_again(
    cluster: Cluster, host: Catalog, look: Look, break_it: Callable[[Cluster], Any], why: str
) -> None:
    look()
    before = dict(cluster.ids)
    break_it(cluster)
    assert look() == {}
    assert host.lag.trouble.startswith(why)
    cluster.error, cluster.ids = None, before
    assert look() == {"users": 0, "accounts": 0}
    assert host.lag.trouble == ""


def test_it_asks_until_told_to_stop(
    cluster: Cluster, host: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "_POLL_S", 0.001)
    stop, looks = threading.Event(), 0
    kafka: Any = cluster

    def post(work: Callable[[], None]) -> None:
        nonlocal looks
        work()
        looks += 1
        if looks == 3:
            stop.set()

    EndOffsetPoller(kafka, Names("x"), host, post).run(stop)
    assert (looks, host.lag.trouble) == (3, "")


def test_a_shuffled_changelog_is_read_to_the_same_end() -> None:
    ids = [f"{n % 3}-{n // 3}" for n in range(3000)]
    random.Random(1).shuffle(ids)
    assert positions_of(read_offsets({"accounts_ui": ids})) == {
        "accounts": {0: 1000, 1: 1000, 2: 1000}
    }
