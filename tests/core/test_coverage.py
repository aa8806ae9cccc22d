from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livejoin.core.changelog import Position
from livejoin.core.coverage import BootstrapCoverage, Coverage

Place = tuple[str, int]
Span = tuple[int, int]  # the first and the last offset that count; empty when the last comes first


def _coverage(spans: dict[Place, Span]) -> Coverage:
    starts: dict[str, dict[int, int]] = {}
    pins: dict[str, dict[int, int]] = {}
    for (source, partition), (start, pin) in spans.items():
        starts.setdefault(source, {})[partition] = start
        pins.setdefault(source, {})[partition] = pin
    return Coverage(starts, pins)


def _wanted(spans: dict[Place, Span]) -> set[Position]:
    return {
        Position(source, partition, offset)
        for (source, partition), (start, pin) in spans.items()
        for offset in range(start, pin + 1)
    }


def _of_users(start: int, pin: int, marks: Iterable[int] = ()) -> Coverage:
    coverage = _coverage({("users", 0): (start, pin)})
    coverage.add("users", 0, marks)
    return coverage


PLACES = st.tuples(st.sampled_from(["users", "accounts"]), st.integers(0, 2))
STARTS = st.integers(0, 5)
SPANS = st.dictionaries(
    PLACES, STARTS.flatmap(lambda start: st.tuples(st.just(start), st.integers(start - 1, 9)))
)
MARKS = st.builds(
    Position, st.sampled_from(["users", "accounts"]), st.integers(0, 3), st.integers(0, 12)
)


@st.composite
def _seen(draw: st.DrawFn) -> tuple[dict[Place, Span], list[Position]]:
    """Pins, and marks in any order: most of what is wanted, repeats, and what nobody waits for."""
    spans = draw(SPANS)
    wanted = sorted(_wanted(spans), key=str)
    left_out = draw(st.sets(st.sampled_from(wanted), max_size=1)) if wanted else set()
    some = [mark for mark in wanted if mark not in left_out]
    return spans, draw(st.permutations(some + draw(st.lists(MARKS, max_size=10))))


@given(_seen())
def test_marks_in_any_order_with_repeats_complete_exactly_when_all_are_there(
    seen: tuple[dict[Place, Span], list[Position]],
) -> None:
    spans, marks = seen
    coverage, missing = _coverage(spans), _wanted(spans)
    total = len(missing)
    assert coverage.complete is (not missing)
    for mark in marks:
        coverage.add(mark.source, mark.partition, [mark.offset])
        missing.discard(mark)
        assert coverage.complete is (not missing)
        assert (coverage.done, coverage.total) == (total - len(missing), total)


def test_nothing_to_wait_for_is_complete_at_once() -> None:
    coverage = _coverage({})
    assert coverage.complete
    assert (coverage.done, coverage.total) == (0, 0)


def test_a_partition_that_starts_past_its_pin_is_not_waited_for() -> None:
    assert _of_users(5, 4).complete


@pytest.mark.parametrize("count", [0, 1, 199, 200])
def test_what_is_done_is_counted_up_to_the_total(count: int) -> None:
    coverage = _of_users(0, 199, range(count))
    assert (coverage.done, coverage.total) == (count, 200)


def test_offsets_without_a_record_are_no_gap_once_that_is_known() -> None:
    coverage = _of_users(0, 4, [0, 2, 4])
    assert coverage.gaps() == {("users", 0): range(1, 4)}
    coverage.add_absent("users", 0, [1, 3])
    assert coverage.complete
    assert coverage.gaps() == {}


def test_there_is_no_gap_before_the_mark_of_the_pin() -> None:
    assert _of_users(0, 4, [0, 2, 3]).gaps() == {}


@pytest.mark.parametrize(("source", "partition"), [("users", 1), ("accounts", 0)])
def test_what_is_absent_elsewhere_covers_nothing(source: str, partition: int) -> None:
    coverage = _of_users(0, 4, [0, 1])
    coverage.add_absent(source, partition, [2, 3])
    assert coverage.done == 2


EVENTS = st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 12))))


@given(STARTS, st.integers(0, 9), EVENTS)
def test_marks_and_absent_offsets_complete_exactly_when_all_is_covered(
    start: int, pin: int, events: list[tuple[bool, set[int]]]
) -> None:
    coverage, missing, marked = _of_users(start, pin), set(range(start, pin + 1)), set[int]()
    for absent, offsets in events:
        if absent:
            coverage.add_absent("users", 0, offsets)
        else:
            for offset in offsets:
                coverage.add("users", 0, [offset])
        marked |= offsets
        missing -= offsets
        assert coverage.complete is (not missing)
        gaps = coverage.gaps().get(("users", 0), range(0))
        assert missing <= set(gaps) or pin not in marked


# --- a feed


def test_a_feed_is_through_when_all_of_its_last_records_left_a_mark() -> None:
    feeding = BootstrapCoverage(100, range(998, 1000))
    assert (feeding.done, feeding.total, feeding.complete) == (0, 900, False)
    feeding.add([500, 200])
    assert (feeding.done, feeding.complete) == (400, False)
    feeding.add([999])
    assert not feeding.complete
    feeding.add([500, 998])
    assert (feeding.done, feeding.complete) == (900, True)


def test_marks_beyond_a_feed_are_of_another_one() -> None:
    feeding = BootstrapCoverage(0, range(8, 10))
    feeding.add([5000])
    assert (feeding.done, feeding.total, feeding.complete) == (10, 10, False)


@pytest.mark.parametrize("start", [10, 11])
def test_of_a_feed_that_was_read_to_its_end_nothing_is_waited_for(start: int) -> None:
    feeding = BootstrapCoverage(start, range(8, 10))
    assert (feeding.done, feeding.total, feeding.complete) == (0, 0, True)


def test_ends_that_a_committed_batch_has_read_are_not_waited_for() -> None:
    feeding = BootstrapCoverage(
        9, range(8, 11)
    )  # the end at 8 was read by a batch that was committed
    assert (feeding.done, feeding.total, feeding.complete) == (0, 2, False)
    feeding.add([9, 10])
    assert (feeding.done, feeding.complete) == (2, True)


def test_without_a_feed_nothing_is_waited_for() -> None:
    assert BootstrapCoverage(0, range(0)).complete
