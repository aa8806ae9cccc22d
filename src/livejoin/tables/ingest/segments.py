"""The rows of one table in segments of bounded size: their cells, which are alive, when they came.

A row's position is its place in arrays that all segments share; rows that die stay where they are
until their segment is compacted, so no change of a table costs more than one segment.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

SEGMENT_ROWS = 1 << 16  # compacting one takes about 10 ms
_SPARE = 10_000  # dead rows in an open segment that are not worth a compaction
_MANY_BATCHES = 128  # of a few rows each, before they are combined

OnMoved = Callable[[Sequence[str], Sequence[int]], None]


@dataclass
class Segment:
    """A run of rows in the order of their last change."""

    number: int  # its place in the shared arrays, in segments
    batches: list[pa.RecordBatch] = field(default_factory=list)
    combined: int = 0  # how many of the batches are large already
    used: int = 0
    sealed: bool = False

    def slices(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The cells of a range of its rows."""
        at = 0
        for batch in self.batches:
            first, last = max(start, at), min(stop, at + batch.num_rows)
            if first < last:
                yield batch.slice(first - at, last - first)
            at += batch.num_rows


class FrozenRows:
    """Rows as they are at one moment: taken at once, put together on any thread."""

    def __init__(
        self, schema: pa.Schema, parts: Sequence[tuple[list[pa.RecordBatch], np.ndarray]]
    ) -> None:
        self._schema = schema
        self._parts = parts

    def table(self) -> pa.Table:
        """The rows in the order of their last change."""
        found: list[pa.RecordBatch] = []
        for batches, mask in self._parts:
            if mask.all():
                found += batches
            elif mask.any():
                some = pa.Table.from_batches(batches, self._schema).filter(pa.array(mask))
                found += some.to_batches()
        return pa.Table.from_batches(found, self._schema).combine_chunks()


class SegmentedRows:
    """All rows of one table, dead ones included until their segment is compacted."""

    _ARRAYS = ("alive", "inside", "at", "ts", "group", "hash", "known", "summed", "version")

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.alive = np.zeros(0, bool)
        self.inside = np.zeros(0, bool)  # whether viewers are shown it
        self.at = np.zeros(0, np.int64)  # where in the changelog it came
        self.ts = np.zeros(0, np.int64)
        self.group = np.zeros(0, np.int8)  # of rows that are capped together
        self.hash = np.zeros(0, np.uint64)
        self.known = np.zeros(0, bool)  # whether the hash is there
        self.summed = np.zeros(0, bool)  # whether it is in the table's sums
        self.version = np.zeros((0, 3), np.int64)
        self._segments: list[Segment] = []  # the last one is open
        self._free_numbers: list[int] = []
        self._alive_counts = np.zeros(0, np.int64)  # by segment number

    def append(self, batch: pa.RecordBatch, seq: int) -> np.ndarray:
        """Room for new rows, not alive yet: their positions."""
        positions = np.zeros(batch.num_rows, np.int64)
        done = 0
        while done < batch.num_rows:
            segment = self._open_segment()
            count = min(batch.num_rows - done, SEGMENT_ROWS - segment.used)
            base = segment.number * SEGMENT_ROWS + segment.used
            positions[done : done + count] = np.arange(base, base + count)
            segment.batches.append(batch.slice(done, count))
            segment.used += count
            done += count
        self.alive[positions] = self.inside[positions] = False
        self.known[positions] = self.summed[positions] = False
        self.at[positions] = seq
        return positions

    def mark_alive(self, positions: np.ndarray) -> None:
        """These rows are there now, and shown."""
        self.alive[positions] = self.inside[positions] = True
        self._adjust_counts(positions, 1)

    def mark_dead(self, positions: np.ndarray) -> None:
        """These rows are gone."""
        self.alive[positions] = self.inside[positions] = False
        self._adjust_counts(positions, -1)

    def positions_in(self, mask: np.ndarray, group: int | None = None) -> np.ndarray:
        """The positions of rows in a mask, of a group or of all."""
        return np.flatnonzero(mask if group is None else mask & (self.group == group))

    def ids_at(self, positions: np.ndarray) -> pa.Array:
        """The identities at these positions, in their order."""
        order = np.argsort(positions, kind="stable")
        numbers = positions[order] // SEGMENT_ROWS
        found = []
        for segment in sorted(self._segments, key=lambda one: one.number):
            some = positions[order[numbers == segment.number]] % SEGMENT_ROWS
            if len(some):
                column = pa.chunked_array([b.column("_id") for b in segment.batches], pa.string())
                found.append(column.combine_chunks().take(pa.array(some)))
        back = np.empty(len(positions), np.int64)
        back[order] = np.arange(len(positions))
        texts = pa.chunked_array(found, pa.string()).combine_chunks()
        return texts.take(pa.array(back))

    def rows_at(self, positions: np.ndarray) -> pa.Table:
        """The rows at ascending positions that were appended together."""
        found: list[pa.RecordBatch] = []
        for segment in self._segments:
            mine = positions[positions // SEGMENT_ROWS == segment.number] % SEGMENT_ROWS
            if len(mine):
                first, stop = int(mine[0]), int(mine[-1]) + 1
                some = pa.Table.from_batches(segment.slices(first, stop), self.schema)
                mask = np.zeros(stop - first, bool)
                mask[mine - first] = True
                found += some.filter(pa.array(mask)).to_batches()
        return pa.Table.from_batches(found, self.schema).combine_chunks()

    def freeze(self, mask: np.ndarray, since: int = -1) -> FrozenRows:
        """The rows in a mask that came after a point of the changelog, as they are now."""
        parts = []
        for segment in reversed(self._segments):
            here = self._range(segment)
            if self.at[here].max(initial=0) <= since:
                break  # and so are those before it
            chosen = mask[here] & (self.at[here] > since)
            parts.append((list(segment.batches), chosen))
        return FrozenRows(self.schema, parts[::-1])

    def segment_to_compact(self) -> Segment | None:
        """A segment that has as many dead rows as living ones, if any."""
        for segment in self._segments:
            living = int(self._alive_counts[segment.number])
            if not segment.sealed and segment.used > 2 * living + _SPARE:
                self._seal(segment)
            if segment.sealed and 2 * living <= segment.used:
                return segment
        return None

    def compact(self, segment: Segment, moved: OnMoved) -> None:
        """Forget a segment's dead rows, and the next one's if both then fit into one."""
        at = self._segments.index(segment)
        merged = [segment]
        living = int(self._alive_counts[segment.number])
        after = self._segments[at + 1] if at + 1 < len(self._segments) else None
        if after is not None and after.sealed:
            both = living + int(self._alive_counts[after.number])
            merged += [after] if both <= SEGMENT_ROWS else []
        old = np.concatenate([self._alive_positions(one) for one in merged])
        cells = FrozenRows(
            self.schema, [(one.batches, self.alive[self._range(one)]) for one in merged]
        ).table()
        self._segments[at : at + len(merged)] = []
        if not len(old):
            self._release(merged)
            return
        kept = {name: getattr(self, name)[old] for name in self._ARRAYS}
        self._release(merged)
        fresh = Segment(self._free_numbers.pop(), cells.to_batches(), used=len(old), sealed=True)
        self._segments.insert(at, fresh)
        here = self._range(fresh)
        for name, values in kept.items():
            getattr(self, name)[here] = values
        self._alive_counts[fresh.number] = len(old)
        moved(cells.column("_id").to_pylist(), range(here.start, here.stop))

    def _alive_positions(self, segment: Segment) -> np.ndarray:
        here = self._range(segment)
        living: np.ndarray = here.start + np.flatnonzero(self.alive[here])
        return living

    @staticmethod
    def _range(segment: Segment) -> slice:
        first = segment.number * SEGMENT_ROWS
        return slice(first, first + segment.used)

    def _adjust_counts(self, positions: np.ndarray, sign: int) -> None:
        counts = np.bincount(positions // SEGMENT_ROWS, minlength=len(self._alive_counts))
        self._alive_counts += sign * counts

    def _release(self, segments: Sequence[Segment]) -> None:
        for one in segments:
            here = slice(one.number * SEGMENT_ROWS, (one.number + 1) * SEGMENT_ROWS)
            self.alive[here] = self.inside[here] = False
            self._alive_counts[one.number] = 0
            self._free_numbers.append(one.number)

    def _open_segment(self) -> Segment:
        """The segment that takes new rows."""
        last = self._segments[-1] if self._segments else None
        if last is not None and not last.sealed:
            if len(last.batches) - last.combined > _MANY_BATCHES:
                self._combine(last, last.combined)
            if last.used < SEGMENT_ROWS:
                return last
            self._seal(last)
        if not self._free_numbers:
            self._grow()
        self._segments.append(Segment(self._free_numbers.pop()))
        return self._segments[-1]

    def _seal(self, segment: Segment) -> None:
        self._combine(segment, 0)
        segment.sealed = True

    def _combine(self, segment: Segment, first: int) -> None:
        some = pa.Table.from_batches(segment.batches[first:], self.schema).combine_chunks()
        segment.batches[first:] = some.to_batches()
        segment.combined = len(segment.batches)

    def _grow(self) -> None:
        """Room for more segments: twice as many."""
        before = len(self._alive_counts)
        count = max(1, 2 * before)
        self._free_numbers += range(count - 1, before - 1, -1)
        self._alive_counts = np.concatenate(
            [self._alive_counts, np.zeros(count - before, np.int64)]
        )
        for name in self._ARRAYS:
            old = getattr(self, name)
            new = np.zeros((count * SEGMENT_ROWS, *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)
