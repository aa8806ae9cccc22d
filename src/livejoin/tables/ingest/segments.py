"""The rows of one table in segments of bounded size, with their metadata in shared arrays.

A row's position is its index in the arrays that all segments share. Dead rows stay in place until
their segment is compacted, so no change costs more than rewriting one segment. The hashes of rows
are in these arrays too; the hash of the table, their sum, is kept up to date with them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from livejoin import row_hash
from livejoin.tables.ingest.batches import VERSION_PARTS

SEGMENT_ROWS = 1 << 16  # compacting one takes about 10 ms
_MIN_DEAD_ROWS = 10_000  # fewer in an open segment are not worth a compaction
_MANY_BATCHES = 128  # small batches in a segment before they are combined

OnMoved = Callable[[Sequence[str], Sequence[int]], None]  # row IDs and their new positions


@dataclass
class Segment:
    """A run of rows in the order of their last change."""

    number: int  # its index in the shared arrays, in segments
    batches: list[pa.RecordBatch] = field(default_factory=list)
    combined: int = 0  # how many leading batches are combined already
    used: int = 0  # rows, dead ones included
    sealed: bool = False

    def slices(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """A range of its rows, batch by batch."""
        offset = 0
        for batch in self.batches:
            first, last = max(start, offset), min(stop, offset + batch.num_rows)
            if first < last:
                yield batch.slice(first - offset, last - first)
            offset += batch.num_rows


class FrozenRows:
    """Rows as of one moment: captured at once, built into a table on any thread."""

    def __init__(
        self, schema: pa.Schema, parts: Sequence[tuple[list[pa.RecordBatch], np.ndarray]]
    ) -> None:
        self._schema = schema
        self._parts = parts  # batches, and a mask over their rows

    def table(self) -> pa.Table:
        """The rows in the order of their last change."""
        chosen: list[pa.RecordBatch] = []
        for batches, mask in self._parts:
            if mask.all():
                chosen += batches
            elif mask.any():
                filtered = pa.Table.from_batches(batches, self._schema).filter(pa.array(mask))
                chosen += filtered.to_batches()
        return pa.Table.from_batches(chosen, self._schema).combine_chunks()


class SegmentedRows:
    """All rows of one table, including dead ones until their segment is compacted."""

    _ARRAYS = ("alive", "visible", "seq", "ts", "group", "hash", "hashed", "summed", "version")

    def __init__(self, schema: pa.Schema, version_width: int = VERSION_PARTS) -> None:
        self.schema = schema
        self.alive = np.zeros(0, bool)
        self.visible = np.zeros(0, bool)  # to viewers
        self.seq = np.zeros(0, np.int64)  # the changelog offset after its batch
        self.ts = np.zeros(0, np.int64)
        self.group = np.zeros(0, np.int8)  # rows of one group are capped together
        self.hash = np.zeros(0, np.uint64)
        self.hashed = np.zeros(0, bool)  # whether `hash` is computed
        self.summed = np.zeros(0, bool)  # whether `hash` is part of the table's hash
        self.version = np.zeros((0, version_width), np.int64)
        self._segments: list[Segment] = []  # the last one is open
        self._free_numbers: list[int] = []
        self._alive_counts = np.zeros(0, np.int64)  # by segment number

    def append(self, batch: pa.RecordBatch, seq: int) -> np.ndarray:
        """Store new rows, not alive yet; returns their positions."""
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
        self.alive[positions] = self.visible[positions] = False
        self.hashed[positions] = self.summed[positions] = False
        self.seq[positions] = seq
        return positions

    def mark_alive(self, positions: np.ndarray) -> None:
        """Make rows alive and visible."""
        self.alive[positions] = self.visible[positions] = True
        self._adjust_counts(positions, 1)

    def mark_dead(self, positions: np.ndarray) -> None:
        """Mark rows as removed."""
        self.alive[positions] = self.visible[positions] = False
        self._adjust_counts(positions, -1)

    def positions_in(self, mask: np.ndarray, group: int | None = None) -> np.ndarray:
        """The positions set in a mask, of one group or of all."""
        return np.flatnonzero(mask if group is None else mask & (self.group == group))

    def ids_at(self, positions: np.ndarray) -> pa.Array:
        """The row IDs at these positions, in the same order."""
        order = np.argsort(positions, kind="stable")
        numbers = positions[order] // SEGMENT_ROWS
        chunks = []
        for segment in sorted(self._segments, key=lambda segment: segment.number):
            indices = positions[order[numbers == segment.number]] % SEGMENT_ROWS
            if len(indices):
                column = pa.chunked_array([b.column("_id") for b in segment.batches], pa.string())
                chunks.append(column.combine_chunks().take(pa.array(indices)))
        inverse = np.empty(len(positions), np.int64)
        inverse[order] = np.arange(len(positions))
        ids = pa.chunked_array(chunks, pa.string()).combine_chunks()
        return ids.take(pa.array(inverse))

    def rows_at(self, positions: np.ndarray) -> pa.Table:
        """The rows at these positions in segment order; positions ascend within each segment."""
        chosen: list[pa.RecordBatch] = []
        for segment in self._segments:
            indices = positions[positions // SEGMENT_ROWS == segment.number] % SEGMENT_ROWS
            if len(indices):
                first, stop = int(indices[0]), int(indices[-1]) + 1
                candidates = pa.Table.from_batches(segment.slices(first, stop), self.schema)
                mask = np.zeros(stop - first, bool)
                mask[indices - first] = True
                chosen += candidates.filter(pa.array(mask)).to_batches()
        return pa.Table.from_batches(chosen, self.schema).combine_chunks()

    def freeze(self, mask: np.ndarray, since: int = -1) -> FrozenRows:
        """The rows set in a mask that were written after a changelog offset, as of now."""
        parts = []
        for segment in reversed(self._segments):
            here = self._range(segment)
            if self.seq[here].max(initial=0) <= since:
                break  # earlier segments are older still
            chosen = mask[here] & (self.seq[here] > since)
            parts.append((list(segment.batches), chosen))
        return FrozenRows(self.schema, parts[::-1])

    def segment_to_compact(self) -> Segment | None:
        """A segment with at least as many dead rows as alive ones, if any."""
        for segment in self._segments:
            alive = int(self._alive_counts[segment.number])
            if not segment.sealed and segment.used > 2 * alive + _MIN_DEAD_ROWS:
                self._seal(segment)
            if segment.sealed and 2 * alive <= segment.used:
                return segment
        return None

    def compact(self, segment: Segment, on_moved: OnMoved) -> None:
        """Drop a segment's dead rows; merges it with the next one if both fit into one."""
        index = self._segments.index(segment)
        merged = [segment]
        alive = int(self._alive_counts[segment.number])
        following = self._segments[index + 1] if index + 1 < len(self._segments) else None
        if following is not None and following.sealed:
            both = alive + int(self._alive_counts[following.number])
            merged += [following] if both <= SEGMENT_ROWS else []
        kept = np.concatenate([self._alive_positions(old) for old in merged])
        cells = FrozenRows(
            self.schema, [(old.batches, self.alive[self._range(old)]) for old in merged]
        ).table()
        self._segments[index : index + len(merged)] = []
        if not len(kept):
            self._release(merged)
            return
        metadata = {name: getattr(self, name)[kept] for name in self._ARRAYS}
        self._release(merged)
        fresh = Segment(self._free_numbers.pop(), cells.to_batches(), used=len(kept), sealed=True)
        self._segments.insert(index, fresh)
        here = self._range(fresh)
        for name, values in metadata.items():
            getattr(self, name)[here] = values
        self._alive_counts[fresh.number] = len(kept)
        on_moved(cells.column("_id").to_pylist(), range(here.start, here.stop))

    def _alive_positions(self, segment: Segment) -> np.ndarray:
        here = self._range(segment)
        positions: np.ndarray = here.start + np.flatnonzero(self.alive[here])
        return positions

    @staticmethod
    def _range(segment: Segment) -> slice:
        first = segment.number * SEGMENT_ROWS
        return slice(first, first + segment.used)

    def _adjust_counts(self, positions: np.ndarray, sign: int) -> None:
        counts = np.bincount(positions // SEGMENT_ROWS, minlength=len(self._alive_counts))
        self._alive_counts += sign * counts

    def _release(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            here = slice(segment.number * SEGMENT_ROWS, (segment.number + 1) * SEGMENT_ROWS)
            self.alive[here] = self.visible[here] = False
            self._alive_counts[segment.number] = 0
            self._free_numbers.append(segment.number)

    def _open_segment(self) -> Segment:
        """The segment to append to."""
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
        combined = pa.Table.from_batches(segment.batches[first:], self.schema).combine_chunks()
        segment.batches[first:] = combined.to_batches()
        segment.combined = len(segment.batches)

    def _grow(self) -> None:
        """Double the capacity of the shared arrays."""
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


# Batches of at most 32 rows come without hashes, and without viewers nobody asks for the hash. All
# at once they would block the event loop, and leave tables of powers of that size behind.
_MAX_PENDING = 256


class TableHash:
    """The sum of row hashes over the alive rows, and over the visible ones.

    Rows are hashed many at a time: on demand, or once many batches wait.
    """

    def __init__(self, rows: SegmentedRows) -> None:
        self._rows = rows
        self._sum = 0
        self._visible_sum = 0
        self._pending: list[np.ndarray] = []  # positions not in the sums yet

    def add(self, positions: np.ndarray) -> None:
        """Add new rows; whether they are alive is checked when the hash is asked for."""
        self._pending.append(positions)
        if len(self._pending) >= _MAX_PENDING:
            self.hash_pending()

    def remove(self, positions: np.ndarray) -> None:
        """Subtract rows that are about to be marked dead."""
        summed = positions[self._rows.summed[positions]]
        self._sum -= row_hash.sum_hashes(self._rows.hash[summed])
        self._rows.summed[summed] = False
        self._hide(summed)

    def hide(self, positions: np.ndarray) -> None:
        """Subtract rows that are about to be hidden from viewers."""
        self._hide(positions[self._rows.summed[positions]])

    def _hide(self, summed: np.ndarray) -> None:
        visible = summed[self._rows.visible[summed]]
        self._visible_sum -= row_hash.sum_hashes(self._rows.hash[visible])

    def show_all(self) -> None:
        """Make all rows visible."""
        self.hash_pending()
        self._visible_sum = self._sum

    def hash_pending(self) -> None:
        """Bring the sums up to date."""
        if not self._pending:
            return
        rows = self._rows
        # together: hashing 500 rows one by one would block the event loop for half a second
        new = np.concatenate(self._pending)
        self._pending = []
        new = new[rows.alive[new] & ~rows.summed[new]]
        unhashed = new[~rows.hashed[new]]
        if len(unhashed):
            batches = rows.rows_at(unhashed).to_batches()
            rows.hash[unhashed] = np.concatenate([row_hash.hash_rows(batch) for batch in batches])
            rows.hashed[unhashed] = True
        rows.summed[new] = True
        self._sum += row_hash.sum_hashes(rows.hash[new])
        self._visible_sum += row_hash.sum_hashes(rows.hash[new[rows.visible[new]]])

    @property
    def full(self) -> str:
        """The hash of all rows, 16 hex digits."""
        self.hash_pending()
        return row_hash.to_hex(self._sum)

    @property
    def visible(self) -> str:
        """The hash of the rows that viewers see, 16 hex digits."""
        self.hash_pending()
        return row_hash.to_hex(self._visible_sum)
