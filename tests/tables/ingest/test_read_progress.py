"""Which input records were read, kept as a compact set of offsets."""

import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livejoin.core.spec import DEFAULT
from livejoin.tables.ingest import read_progress as module
from livejoin.tables.ingest.read_progress import OffsetSet, RangeSet, ReadProgress, read_offsets

NUMBERS = st.lists(st.sets(st.integers(0, 40), min_size=1), max_size=12)


@given(NUMBERS)
def test_a_range_set_holds_what_a_set_would_and_returns_the_new_numbers(
    batches: list[set[int]],
) -> None:
    ranges, expected = RangeSet(), set[int]()
    for batch in batches:
        numbers = np.array(sorted(batch))
        assert set(numbers[ranges.add(numbers)].tolist()) == batch - expected
        expected |= batch
        stored = [n for a, b in zip(ranges.starts, ranges.ends, strict=True) for n in range(a, b)]
        assert stored == sorted(expected)
        gaps = zip(ranges.ends, ranges.starts[1:], strict=False)
        assert all(end < first for end, first in gaps), "two ranges touch"


@given(NUMBERS)
def test_an_offset_set_holds_what_a_set_would(batches: list[set[int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_OFFSETS", 8)
        offsets, expected = OffsetSet(), set[int]()
        for batch in batches:
            numbers = np.array(sorted(batch))
            assert set(numbers[offsets.add(numbers)].tolist()) == batch - expected
            expected |= batch
        full_blocks = {n for n in range(6) if expected.issuperset(range(8 * n, 8 * n + 8))}
        assert {n for n in range(6) if n in offsets.full_blocks} == full_blocks
        assert offsets.partial_blocks.keys() == {n // 8 for n in expected} - full_blocks


def test_a_million_records_without_a_gap_are_one_range() -> None:
    read, count = ReadProgress(DEFAULT.source_names), 1 << 20
    cuts = range(0, count + 1, 1 << 15)
    for start, stop in pairwise(cuts):
        ids = [f"0-{offset}" for offset in range(start, stop)]
        read.add(
            read_offsets(
                {"users_ui": ids[::2], "rejects_ui": [f"users/{i}" for i in ids[1::2]]},
                DEFAULT.source_of_table,
            )
        )
    half = count // 2
    counts = {"read": count, "rows": half, "rejected": half, "tombstones": 0}
    assert read.counts()["users"] == counts
    (offsets,) = read._offsets.values()
    assert offsets.partial_blocks == {}
    assert (offsets.full_blocks.starts, offsets.full_blocks.ends) == ([0], [count >> 16])


def test_gaps_after_every_record_cost_one_bit_each() -> None:
    """As in a topic where every record was written in a transaction of its own."""
    offsets, count = OffsetSet(), 1_000_000
    for start in range(0, count, 1000):
        assert offsets.add(2 * np.arange(start, start + 1000)).all()
    stored = sum(sys.getsizeof(bits) for bits in offsets.partial_blocks.values())
    assert stored < count / 2  # bytes
    assert offsets.full_blocks.starts == []


def test_a_repeated_record_counts_once() -> None:
    read = ReadProgress(DEFAULT.source_names)
    for _ in range(2):
        read.add(
            read_offsets(
                {"users_ui": ["0-1", "0-1", "1-1"], "tombstones": ["users/0-2"]},
                DEFAULT.source_of_table,
            )
        )
    counts = read.counts()["users"]
    assert counts == {"read": 3, "rows": 2, "rejected": 0, "tombstones": 1}
    assert read.positions == {"users": {0: 3, 1: 2}}
