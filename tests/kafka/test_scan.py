"""Scans towards older and newer records: what they find, what they read, where others go on.

The calls to Kafka itself are tested with a real broker, in tests/scenarios/test_topics.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livejoin.kafka import scan
from livejoin.kafka.range_reader import ScanLimits, ScannedRecord
from livejoin.kafka.records import OffsetRange
from livejoin.kafka.scan import ScanResult, Wanted
from tables.fake_kafka import FakeConsumer, Message

LIMITS = ScanLimits(seconds=20, records=100_000, size=64 << 20)
Positions = Mapping[int, int]


def topic(
    offsets: Mapping[int, Sequence[int]], ends: Mapping[int, int] | None = None
) -> FakeConsumer:
    """A topic with these offsets by partition. A record is as old as its offset is low."""
    partitions = {
        p: [Message(p, at, timestamp_ms=at) for at in each] for p, each in offsets.items()
    }
    return FakeConsumer({"t": partitions}, ends or {})


def older(
    consumer: FakeConsumer, ranges: Mapping[int, tuple[int, int]], wanted: Wanted | int
) -> ScanResult:
    return _scan(scan.scan_older, consumer, ranges, wanted)


def newer(
    consumer: FakeConsumer, ranges: Mapping[int, tuple[int, int]], wanted: Wanted | int
) -> ScanResult:
    return _scan(scan.scan_newer, consumer, ranges, wanted)


def _scan(
    how: Any, consumer: Any, ranges: Mapping[int, tuple[int, int]], wanted: Wanted | int
) -> ScanResult:
    wanted = Wanted(wanted, LIMITS) if isinstance(wanted, int) else wanted
    result = how(consumer, "t", {p: OffsetRange(*r) for p, r in ranges.items()}, wanted)
    assert isinstance(result, ScanResult)
    return result


def positions(result: ScanResult) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in result.found]


# --- towards older records


def test_only_the_last_records_of_each_partition_are_read() -> None:
    consumer = topic({0: range(1000), 1: range(5, 8)}, {0: 1000, 1: 8})
    result = older(consumer, {0: (0, 1000), 1: (5, 8)}, 4)
    assert positions(result) == [(0, 999), (0, 998), (0, 997), (0, 996)]
    assert result.complete
    assert result.covered == {0: (996, 1000), 1: (8, 8)}, "partition 1 is older: left for later"
    assert len(consumer.read) == 7


def test_gaps_are_read_across() -> None:
    consumer = topic({0: [0, 1, 2, 500], 1: []}, {0: 1000, 1: 100})
    result = older(consumer, {0: (0, 1000), 1: (0, 100)}, 3)
    assert positions(result) == [(0, 500), (0, 2), (0, 1)]
    assert result.covered == {0: (1, 1000), 1: (0, 100)}


def test_records_after_the_end_are_skipped() -> None:
    result = older(topic({0: range(20)}, {0: 20}), {0: (0, 10)}, 2)
    assert positions(result) == [(0, 9), (0, 8)]


def test_records_of_all_partitions_are_in_the_order_of_time() -> None:
    """A record that is older than those before it does not hide them."""
    partitions = {
        0: [Message(0, 0, timestamp_ms=10), Message(0, 1, timestamp_ms=30)],
        1: [Message(1, 7, timestamp_ms=20), Message(1, 8, timestamp_ms=2)],
    }
    result = older(FakeConsumer({"t": partitions}), {0: (0, 2), 1: (7, 9)}, 3)
    assert positions(result) == [(0, 1), (1, 8), (1, 7)]
    assert result.covered == {0: (1, 2), 1: (7, 9)}


def test_a_silent_broker_makes_a_scan_incomplete() -> None:
    consumer = replace(topic({0: [0]}), silent=True)
    wanted = Wanted(1, replace(LIMITS, seconds=0.01))
    for each in (older, newer):
        result = each(consumer, {0: (0, 1)}, wanted)
        assert (result.found, result.complete) == ([], False)


def test_of_large_records_fewer_are_read() -> None:
    """Those next to the position, so that nothing is left out."""
    consumer = topic({0: range(100)})
    wanted = Wanted(50, replace(LIMITS, size=8))  # four records
    result = older(consumer, {0: (0, 100)}, wanted)
    assert (positions(result), result.complete) == ([(0, 99), (0, 98), (0, 97)], False)
    assert result.covered == {0: (97, 100)}


def test_a_search_reads_back_until_it_has_found_enough() -> None:
    consumer = topic({0: range(10_000)})
    wanted = Wanted(3, LIMITS, lambda record: record.offset % 1000 == 0)
    result = older(consumer, {0: (0, 10_000)}, wanted)
    assert positions(result) == [(0, 9000), (0, 8000), (0, 7000)]
    assert result.covered[0] == (7000, 10_000), "another search goes on there"


def test_a_search_ends_where_older_partitions_have_nothing_newer() -> None:
    old = [Message(1, at, timestamp_ms=at - 10_000) for at in range(5000)]
    recent = [Message(0, at, timestamp_ms=at) for at in range(5000)]
    consumer = FakeConsumer({"t": {0: recent, 1: old}})
    wanted = Wanted(3, LIMITS, lambda record: record.partition == 0)
    result = older(consumer, {0: (0, 5000), 1: (0, 5000)}, wanted)
    assert positions(result) == [(0, 4999), (0, 4998), (0, 4997)]
    assert len(consumer.read) < 100


def test_a_search_is_limited_and_says_how_far_it_got() -> None:
    consumer = topic({0: range(10_000)})
    limits = replace(LIMITS, records=2000)
    result = older(consumer, {0: (0, 10_000)}, Wanted(3, limits, lambda _: False))
    assert (result.found, result.complete) == ([], False)
    assert 500 < result.scanned <= 2000
    start, end = result.covered[0]
    assert end - start <= result.scanned
    assert (end, result.reached_ms) == (10_000, start)


def test_a_search_through_everything_is_complete() -> None:
    result = older(topic({0: range(500)}), {0: (0, 500)}, Wanted(3, LIMITS, lambda _: False))
    assert (result.complete, result.covered, result.reached_ms) == (True, {0: (0, 500)}, None)


# --- towards newer records


def test_records_from_a_position_on_are_read_oldest_first() -> None:
    consumer = topic({0: range(100), 1: range(50, 200)})
    result = newer(consumer, {0: (40, 100), 1: (60, 200)}, 3)
    assert positions(result) == [(0, 40), (0, 41), (0, 42)]
    assert result.covered == {0: (40, 43), 1: (60, 60)}
    assert result.complete


def test_the_end_of_the_topic_ends_a_scan() -> None:
    consumer = topic({0: [0, 1], 1: [], 2: [3]}, {0: 5, 1: 0, 2: 4})
    result = newer(consumer, {0: (1, 5), 1: (0, 0), 2: (4, 4)}, 10)
    assert (positions(result), result.complete) == ([(0, 1)], True)
    assert result.covered == {0: (1, 5), 1: (0, 0), 2: (4, 4)}


def test_a_search_for_newer_records_is_limited() -> None:
    limits = replace(LIMITS, records=70)
    result = newer(topic({0: range(100)}), {0: (0, 100)}, Wanted(3, limits, lambda _: False))
    assert (result.covered, result.reached_ms) == ({0: (0, 70)}, 69)
    assert not result.complete


# --- page by page


@pytest.mark.parametrize("how", [older, newer])
@given(data=st.data())
def test_pages_show_each_record_once(how: Any, data: st.DataObject) -> None:
    """Whatever the timestamps, gaps and limits, forwards and backwards."""
    offsets = st.lists(st.integers(0, 60), unique=True, max_size=30).map(sorted)
    times = st.integers(0, 1000)
    partitions = {
        p: [Message(p, at, timestamp_ms=data.draw(times)) for at in data.draw(offsets)]
        for p in range(data.draw(st.integers(1, 3)))
    }
    size = data.draw(st.sampled_from([4, 40, 1 << 20]))
    wanted = Wanted(
        data.draw(st.integers(1, 7)),
        replace(LIMITS, size=size),
        data.draw(st.sampled_from([lambda _: True, lambda record: record.offset % 3 == 0])),
    )
    consumer = FakeConsumer({"t": partitions}, dict.fromkeys(partitions, 61))
    ranges = dict.fromkeys(partitions, (0, 61))
    seen: list[tuple[int, int]] = []
    while any(end > start for start, end in ranges.values()):
        result = how(consumer, ranges, wanted)
        seen += positions(result)
        before = ranges
        if how is older:
            ranges = {p: (0, result.covered[p].start) for p in ranges}
        else:
            ranges = {p: (result.covered[p].end, 61) for p in ranges}
        assert ranges != before, "each page gets on"
    expected = [
        (p, one.at_offset)
        for p, messages in partitions.items()
        for one in messages
        if wanted.matches(_to_record(one))
    ]
    assert sorted(seen) == sorted(expected)
    for p in partitions:
        of_one = [offset for partition, offset in seen if partition == p]
        assert of_one == sorted(of_one, reverse=how is older)


def _to_record(message: Message) -> ScannedRecord:
    return ScannedRecord(
        message.in_partition, message.at_offset, message.timestamp_ms, None, message.raw
    )
