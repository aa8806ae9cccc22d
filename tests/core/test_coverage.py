from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livejoin.core.changelog import Position
from livejoin.core.coverage import BootstrapCoverage, Coverage

Place = tuple[str, int]
Span = tuple[int, int]  # first and last required offset; empty if the last is smaller


def _coverage(spans: dict[Place, Span]) -> Coverage:
    starts: dict[str, dict[int, int]] = {}
    pins: dict[str, dict[int, int]] = {}
    for (source, partition), (start, pin) in spans.items():
        starts.setdefault(source, {})[partition] = start
        pins.setdefault(source, {})[partition] = pin
    return Coverage(starts, pins)


def _required(spans: dict[Place, Span]) -> set[Position]:
    return {
        Position(source, partition, offset)
        for (source, partition), (start, pin) in spans.items()
        for offset in range(start, pin + 1)
    }


def _users_coverage(start: int, pin: int, marks: Iterable[int] = ()) -> Coverage:
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
def _spans_and_marks(draw: st.DrawFn) -> tuple[dict[Place, Span], list[Position]]:
    """Spans, and marks in any order: most of the required ones, duplicates and unrelated ones."""
    spans = draw(SPANS)
    required = sorted(_required(spans), key=str)
    omitted = draw(st.sets(st.sampled_from(required), max_size=1)) if required else set()
    present = [mark for mark in required if mark not in omitted]
    return spans, draw(st.permutations(present + draw(st.lists(MARKS, max_size=10))))


@given(_spans_and_marks())
def test_coverage_is_complete_once_all_required_offsets_are_marked(
    spans_and_marks: tuple[dict[Place, Span], list[Position]],
) -> None:
    spans, marks = spans_and_marks
    coverage, missing = _coverage(spans), _required(spans)
    total = len(missing)
    assert coverage.complete is (not missing)
    for mark in marks:
        coverage.add(mark.source, mark.partition, [mark.offset])
        missing.discard(mark)
        assert coverage.complete is (not missing)
        assert (coverage.done, coverage.total) == (total - len(missing), total)


def test_empty_coverage_is_complete() -> None:
    coverage = _coverage({})
    assert coverage.complete
    assert (coverage.done, coverage.total) == (0, 0)


def test_a_partition_that_starts_after_its_pin_is_complete() -> None:
    assert _users_coverage(5, 4).complete


@pytest.mark.parametrize("count", [0, 1, 199, 200])
def test_done_is_the_number_of_covered_offsets(count: int) -> None:
    coverage = _users_coverage(0, 199, range(count))
    assert (coverage.done, coverage.total) == (count, 200)


def test_absent_offsets_close_gaps() -> None:
    coverage = _users_coverage(0, 4, [0, 2, 4])
    assert coverage.gaps() == {("users", 0): range(1, 4)}
    coverage.add_absent("users", 0, [1, 3])
    assert coverage.complete
    assert coverage.gaps() == {}


def test_there_are_no_gaps_before_the_pin_is_marked() -> None:
    assert _users_coverage(0, 4, [0, 2, 3]).gaps() == {}


@pytest.mark.parametrize(("source", "partition"), [("users", 1), ("accounts", 0)])
def test_absent_offsets_of_other_partitions_cover_nothing(source: str, partition: int) -> None:
    coverage = _users_coverage(0, 4, [0, 1])
    coverage.add_absent(source, partition, [2, 3])
    assert coverage.done == 2


EVENTS = st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 12))))


@given(STARTS, st.integers(0, 9), EVENTS)
def test_marks_and_absent_offsets_together_complete_the_coverage(
    start: int, pin: int, events: list[tuple[bool, set[int]]]
) -> None:
    coverage, missing, marked = _users_coverage(start, pin), set(range(start, pin + 1)), set[int]()
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


# --- bootstrap topics


def test_a_bootstrap_is_complete_once_all_its_end_records_are_marked() -> None:
    coverage = BootstrapCoverage(100, range(998, 1000))
    assert (coverage.done, coverage.total, coverage.complete) == (0, 900, False)
    coverage.add([500, 200])
    assert (coverage.done, coverage.complete) == (400, False)
    coverage.add([999])
    assert not coverage.complete
    coverage.add([500, 998])
    assert (coverage.done, coverage.complete) == (900, True)


def test_marks_beyond_the_end_do_not_complete_a_bootstrap() -> None:
    coverage = BootstrapCoverage(0, range(8, 10))
    coverage.add([5000])
    assert (coverage.done, coverage.total, coverage.complete) == (10, 10, False)


@pytest.mark.parametrize("start", [10, 11])
def test_a_bootstrap_read_to_its_end_is_complete(start: int) -> None:
    coverage = BootstrapCoverage(start, range(8, 10))
    assert (coverage.done, coverage.total, coverage.complete) == (0, 0, True)


def test_end_records_read_by_a_committed_batch_are_not_required() -> None:
    coverage = BootstrapCoverage(9, range(8, 11))  # a committed batch has read the end record at 8
    assert (coverage.done, coverage.total, coverage.complete) == (0, 2, False)
    coverage.add([9, 10])
    assert (coverage.done, coverage.complete) == (2, True)


def test_coverage_without_a_bootstrap_is_complete() -> None:
    assert BootstrapCoverage(0, range(0)).complete
