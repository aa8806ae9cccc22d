"""Which input records were read, kept as ranges of offsets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from livejoin.tables.marks import Ranges, Read, marks

NUMBERS = st.lists(st.sets(st.integers(0, 40), min_size=1), max_size=12)


@given(NUMBERS)
def test_ranges_hold_what_a_set_would_and_tell_what_is_new(portions: list[set[int]]) -> None:
    ranges, expected = Ranges(), set[int]()
    for some in portions:
        numbers = np.array(sorted(some))
        assert set(numbers[ranges.add(numbers)].tolist()) == some - expected
        expected |= some
        held = [n for a, b in zip(ranges.firsts, ranges.ends, strict=True) for n in range(a, b)]
        assert held == sorted(expected)
        gaps = zip(ranges.ends, ranges.firsts[1:], strict=False)
        assert all(end < first for end, first in gaps), "two ranges touch"


def test_a_million_records_without_a_hole_are_one_range() -> None:
    read = Read()
    for start in range(0, 1_000_000, 50_000):
        ids = [f"0-{offset}" for offset in range(start, start + 50_000)]
        read.add(marks({"users_ui": ids[::2], "rejects_ui": [f"users/{i}" for i in ids[1::2]]}))
    assert read.counts()["users"] == {
        "read": 1_000_000,
        "rows": 500_000,
        "rejected": 500_000,
        "tombstones": 0,
    }
    (ranges,) = read._ranges.values()
    assert (ranges.firsts, ranges.ends) == ([0], [1_000_000])


def test_a_record_that_comes_again_counts_once() -> None:
    read = Read()
    for _ in range(2):
        read.add(marks({"users_ui": ["0-1", "0-1", "1-1"], "tombstones": ["users/0-2"]}))
    counts = read.counts()["users"]
    assert counts == {"read": 3, "rows": 2, "rejected": 0, "tombstones": 1}
    assert read.reached == {"users": {0: 3, 1: 2}}
