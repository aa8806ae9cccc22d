"""Which input records a generation has read, and what became of them, in ranges of offsets.

Every input record leaves a mark, its own record in the changelog, perhaps again after a crash; it
counts once.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livejoin.core import changelog, spec

KINDS = ("rows", "rejected", "tombstones")
SourceOffsets = Mapping[
    str, Mapping[int, int]
]  # the offset after the last one, by source and partition

_SOURCE_OF_TABLE = {source.table: source.name for source in spec.SOURCES}
_KIND_OF_TABLE = {
    spec.REJECTS: 1,
    changelog.TOMBSTONES: 2,
}  # tables of several sources, and their kind


class SourcePartition(NamedTuple):
    """A partition of a source."""

    source: str
    partition: int


class ReadOffsets(NamedTuple):
    """Marks of one partition: offsets, ascending, each once, and the kind of each."""

    offsets: np.ndarray
    kinds: np.ndarray


def read_offsets(ids: Mapping[str, Sequence[str]]) -> dict[SourcePartition, ReadOffsets]:
    """The marks among the records of each table."""
    found: dict[str, list[tuple[list[str], int]]] = {}
    for table, some in ids.items():
        if table in _SOURCE_OF_TABLE:
            found.setdefault(_SOURCE_OF_TABLE[table], []).append((list(some), 0))
        elif table in _KIND_OF_TABLE:
            by_source: dict[str, list[str]] = {}
            for row_id in some:
                source, _, place = row_id.partition("/")
                by_source.setdefault(source, []).append(place)
            for source, places in by_source.items():
                found.setdefault(source, []).append((places, _KIND_OF_TABLE[table]))
    return {
        SourcePartition(source, partition): one
        for source, some in found.items()
        for partition, one in _group_by_partition(some).items()
    }


def _group_by_partition(some: Sequence[tuple[list[str], int]]) -> dict[int, ReadOffsets]:
    """Nearly every record passes here: no Python object per record."""
    places = pa.array([place for places, _kind in some for place in places], pa.string())
    kinds = np.repeat([kind for _, kind in some], [len(places) for places, _ in some])
    pairs = pc.split_pattern(places, "-").flatten().cast(pa.int64()).to_numpy().reshape(-1, 2)
    found = {}
    for partition in np.unique(pairs[:, 0]).tolist():
        mine = pairs[:, 0] == partition
        offsets, first = np.unique(pairs[mine, 1], return_index=True)
        found[partition] = ReadOffsets(offsets, kinds[mine][first])
    return found


def positions_of(found: Mapping[SourcePartition, ReadOffsets]) -> dict[str, dict[int, int]]:
    """How far these marks go."""
    ends: dict[str, dict[int, int]] = {}
    for place, one in found.items():
        ends.setdefault(place.source, {})[place.partition] = int(one.offsets[-1]) + 1
    return ends


@dataclass
class RangeSet:
    """A set of integers as ranges that do not touch, ascending; ends are not part of them."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self.starts, number)
        return at > 0 and number < self.ends[at - 1]

    def add(self, numbers: np.ndarray) -> np.ndarray:
        """Put in numbers, ascending, each once: which of them are new."""
        at = bisect_left(self.ends, int(numbers[0]))  # ranges before it stay as they are
        upto = bisect_right(self.starts, int(numbers[-1]) + 1)
        firsts, ends = np.array(self.starts[at:upto]), np.array(self.ends[at:upto])
        if len(firsts):
            before = np.searchsorted(firsts, numbers, side="right") - 1
            new = (before < 0) | (numbers >= ends[before])
        else:
            new = np.ones(len(numbers), bool)
        if new.any():
            cuts = np.flatnonzero(np.diff(numbers) > 1)
            runs = zip(
                numbers[np.r_[0, cuts + 1]].tolist(),
                (numbers[np.r_[cuts, len(numbers) - 1]] + 1).tolist(),
                strict=True,
            )
            both = [*zip(self.starts[at:upto], self.ends[at:upto], strict=True), *runs]
            self.starts[at:upto], self.ends[at:upto] = _merge(both)
        return new


def _merge(ranges: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    firsts: list[int] = []
    ends: list[int] = []
    for first, end in sorted(ranges):
        if ends and first <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            firsts.append(first)
            ends.append(end)
    return firsts, ends


_BITS = 1 << 16  # offsets of a block
_FULL = 0xFF  # a byte of it, all of whose offsets are there


class OffsetSet:
    """A set of offsets: blocks that are whole as ranges, the others bit by bit.

    Topics have holes where transactions ended or compaction took records away. As ranges of single
    offsets, a topic with a hole behind every record took 210 bytes a record.
    """

    def __init__(self) -> None:
        self.full_blocks = RangeSet()  # numbers of blocks
        self.partial_blocks: dict[int, np.ndarray] = {}  # 8 KiB each, by the number of the block

    def add(self, offsets: np.ndarray) -> np.ndarray:
        """Put in offsets, ascending, each once: which of them are new."""
        new = np.zeros(len(offsets), bool)
        blocks = offsets // _BITS
        starts = np.flatnonzero(np.diff(blocks, prepend=-1))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(blocks)], strict=True):
            new[start:stop] = self._add(int(blocks[start]), offsets[start:stop] % _BITS)
        return new

    def _add(self, block: int, places: np.ndarray) -> np.ndarray | bool:
        if block in self.full_blocks:
            return False
        bits = self.partial_blocks.get(block)
        if bits is None:
            bits = self.partial_blocks[block] = np.zeros(_BITS // 8, np.uint8)
        byte, bit = places // 8, np.uint8(1) << (places % 8).astype(np.uint8)
        new: np.ndarray = bits[byte] & bit == 0
        np.bitwise_or.at(bits, byte, bit)
        if bits[0] == bits[-1] == _FULL and (bits == _FULL).all():
            del self.partial_blocks[block]
            self.full_blocks.add(np.array([block]))
        return new


class ReadProgress:
    """All records that a generation has read, counted by source and kind."""

    def __init__(self) -> None:
        self._offsets: dict[SourcePartition, OffsetSet] = {}
        self._counts = {source.name: np.zeros(len(KINDS), np.int64) for source in spec.SOURCES}
        self.positions: SourceOffsets = {}  # replaced whole: other threads read it

    def add(self, found: Mapping[SourcePartition, ReadOffsets]) -> None:
        """These marks were seen."""
        for place, one in found.items():
            new = self._offsets.setdefault(place, OffsetSet()).add(one.offsets)
            self._counts[place.source] += np.bincount(one.kinds[new], minlength=len(KINDS))
        if found:
            self.positions = max_positions(self.positions, positions_of(found))

    def counts(self) -> dict[str, dict[str, int]]:
        """By source how many records were read, and what became of them, be it shown or not."""
        return {
            source: {"read": int(counts.sum()), **dict(zip(KINDS, counts.tolist(), strict=True))}
            for source, counts in self._counts.items()
        }


def max_positions(one: SourceOffsets, other: SourceOffsets) -> dict[str, dict[int, int]]:
    """What both together have reached."""
    found = {source: dict(offsets) for source, offsets in one.items()}
    for source, offsets in other.items():
        mine = found.setdefault(source, {})
        for partition, offset in offsets.items():
            mine[partition] = max(offset, mine.get(partition, 0))
    return found
