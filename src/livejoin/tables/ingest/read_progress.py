"""Which input records a generation has read, and what became of each.

Every input record leaves one record of its own in the changelog: a row, a reject or a tombstone.
After a crash it may come again; it counts once.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livejoin.core import changelog, spec

KINDS = ("rows", "rejected", "tombstones")
SourceOffsets = Mapping[str, Mapping[int, int]]  # next offsets, by source and partition

# an index of KINDS; these tables hold records of several sources
_KIND_OF_TABLE = {spec.REJECTS: 1, changelog.TOMBSTONES: 2}


class SourcePartition(NamedTuple):
    """A partition of a source."""

    source: str
    partition: int


class ReadOffsets(NamedTuple):
    """The offsets read of one partition, ascending and distinct, and the kind of each record."""

    offsets: np.ndarray
    kinds: np.ndarray


def read_offsets(
    ids: Mapping[str, Sequence[str]], source_of_table: Mapping[str, str]
) -> dict[SourcePartition, ReadOffsets]:
    """The input offsets that changelog records stand for, from their row IDs by table."""
    by_source: dict[str, list[tuple[list[str], int]]] = {}
    for table, row_ids in ids.items():
        if table in source_of_table:
            by_source.setdefault(source_of_table[table], []).append((list(row_ids), 0))
        elif table in _KIND_OF_TABLE:
            mixed: dict[str, list[str]] = {}
            for row_id in row_ids:
                source, _, position = row_id.partition("/")
                mixed.setdefault(source, []).append(position)
            for source, positions in mixed.items():
                by_source.setdefault(source, []).append((positions, _KIND_OF_TABLE[table]))
    return {
        SourcePartition(source, partition): offsets
        for source, groups in by_source.items()
        for partition, offsets in _group_by_partition(groups).items()
    }


def _group_by_partition(groups: Sequence[tuple[list[str], int]]) -> dict[int, ReadOffsets]:
    """Split `<partition>-<offset>` texts by partition, without a Python object per record."""
    texts = pa.array([text for texts, _kind in groups for text in texts], pa.string())
    kinds = np.repeat([kind for _, kind in groups], [len(texts) for texts, _ in groups])
    pairs = pc.split_pattern(texts, "-").flatten().cast(pa.int64()).to_numpy().reshape(-1, 2)
    by_partition = {}
    for partition in np.unique(pairs[:, 0]).tolist():
        chosen = pairs[:, 0] == partition
        offsets, first = np.unique(pairs[chosen, 1], return_index=True)
        by_partition[partition] = ReadOffsets(offsets, kinds[chosen][first])
    return by_partition


def positions_of(read: Mapping[SourcePartition, ReadOffsets]) -> dict[str, dict[int, int]]:
    """The next offset after those read, by source and partition."""
    positions: dict[str, dict[int, int]] = {}
    for (source, partition), offsets in read.items():
        positions.setdefault(source, {})[partition] = int(offsets.offsets[-1]) + 1
    return positions


@dataclass
class RangeSet:
    """A set of integers as ascending, disjoint ranges that do not touch; ends are exclusive."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def __contains__(self, number: int) -> bool:
        index = bisect_right(self.starts, number)
        return index > 0 and number < self.ends[index - 1]

    def add(self, numbers: np.ndarray) -> np.ndarray:
        """Add ascending, distinct numbers; returns a mask of those that are new."""
        first = bisect_left(self.ends, int(numbers[0]))  # earlier ranges are not affected
        stop = bisect_right(self.starts, int(numbers[-1]) + 1)
        starts, ends = np.array(self.starts[first:stop]), np.array(self.ends[first:stop])
        if len(starts):
            before = np.searchsorted(starts, numbers, side="right") - 1
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
            ranges = [*zip(self.starts[first:stop], self.ends[first:stop], strict=True), *runs]
            self.starts[first:stop], self.ends[first:stop] = _merge(ranges)
        return new


def _merge(ranges: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    starts: list[int] = []
    ends: list[int] = []
    for start, end in sorted(ranges):
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    return starts, ends


_BLOCK_OFFSETS = 1 << 16
_FULL_BYTE = 0xFF


class OffsetSet:
    """A set of offsets: complete blocks as ranges, the others as bitmaps.

    Topics have gaps where transactions ended or compaction removed records. As ranges alone, a
    topic with a gap after every record took 210 bytes per record.
    """

    def __init__(self) -> None:
        self.full_blocks = RangeSet()  # block numbers
        self.partial_blocks: dict[int, np.ndarray] = {}  # bitmaps of 8 KiB by block number

    def add(self, offsets: np.ndarray) -> np.ndarray:
        """Add ascending, distinct offsets; returns a mask of those that are new."""
        new = np.zeros(len(offsets), bool)
        blocks = offsets // _BLOCK_OFFSETS
        starts = np.flatnonzero(np.diff(blocks, prepend=-1))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(blocks)], strict=True):
            new[start:stop] = self._add(int(blocks[start]), offsets[start:stop] % _BLOCK_OFFSETS)
        return new

    def _add(self, block: int, indices: np.ndarray) -> np.ndarray | bool:
        if block in self.full_blocks:
            return False
        bitmap = self.partial_blocks.get(block)
        if bitmap is None:
            bitmap = self.partial_blocks[block] = np.zeros(_BLOCK_OFFSETS // 8, np.uint8)
        byte, bit = indices // 8, np.uint8(1) << (indices % 8).astype(np.uint8)
        new: np.ndarray = bitmap[byte] & bit == 0
        np.bitwise_or.at(bitmap, byte, bit)
        if bitmap[0] == bitmap[-1] == _FULL_BYTE and (bitmap == _FULL_BYTE).all():
            del self.partial_blocks[block]
            self.full_blocks.add(np.array([block]))
        return new


class ReadProgress:
    """All records that a generation has read, counted by source and kind."""

    def __init__(self, sources: Iterable[str]) -> None:
        self._offsets: dict[SourcePartition, OffsetSet] = {}
        self._counts = {source: np.zeros(len(KINDS), np.int64) for source in sources}
        self.positions: SourceOffsets = {}  # replaced as a whole: other threads read it

    def add(self, read: Mapping[SourcePartition, ReadOffsets]) -> None:
        """Count the records that were not counted before."""
        for partition, (offsets, kinds) in read.items():
            new = self._offsets.setdefault(partition, OffsetSet()).add(offsets)
            self._counts[partition.source] += np.bincount(kinds[new], minlength=len(KINDS))
        if read:
            self.positions = max_positions(self.positions, positions_of(read))

    def counts(self) -> dict[str, dict[str, int]]:
        """The number of records read by source, in total and by kind."""
        return {
            source: {"read": int(counts.sum()), **dict(zip(KINDS, counts.tolist(), strict=True))}
            for source, counts in self._counts.items()
        }


def max_positions(first: SourceOffsets, second: SourceOffsets) -> dict[str, dict[int, int]]:
    """The further position of each partition."""
    merged = {source: dict(offsets) for source, offsets in first.items()}
    for source, offsets in second.items():
        partitions = merged.setdefault(source, {})
        for partition, offset in offsets.items():
            partitions[partition] = max(offset, partitions.get(partition, 0))
    return merged
