"""A client's copy of one table: Arrow rows by `_id`, and their hash.

Replaced and removed rows are only marked as deleted and new rows appended, so that a change copies
nothing. The table is compacted once half of its rows are deleted.
"""

from itertools import repeat

import numpy as np
import pyarrow as pa

from livejoin import row_hash
from livejoin.errors import ProtocolViolation

_SPARE = 10_000  # deleted rows that are not worth compacting
_MANY_CHUNKS = 512


class Replica:
    """The rows of one table, in the order of their last change."""

    def __init__(self, rows: pa.Table) -> None:
        self.schema = rows.schema
        self.total: int | None = None  # rows of the server, if it sends only the newest
        self._clear()
        self._append(rows)

    def _clear(self) -> None:
        self._chunks: list[pa.RecordBatch] = []
        self._positions: dict[str, int] = {}  # by _id
        self._alive = np.zeros(0, bool)
        self._hashes = np.zeros(0, np.uint64)
        self._size = self._hashed = self._hash_sum = 0  # _sum is over the living below _hashed
        self._cached_rows: pa.Table | None = None

    @property
    def has_generation(self) -> bool:
        """Whether the table belongs to a generation; system tables have no `_ts`."""
        return "_ts" in self.schema.names

    def __len__(self) -> int:
        return len(self._positions)

    def upsert(self, rows: pa.Table) -> None:
        """Insert or replace rows by `_id`; of duplicates the last wins."""
        if not rows.schema.equals(self.schema):
            raise ProtocolViolation("columns changed without a snapshot")
        self._append(rows)
        if len(self._chunks) > _MANY_CHUNKS:
            whole = pa.Table.from_batches(self._chunks, self.schema)
            self._chunks = whole.combine_chunks().to_batches()
        if self._size > 2 * len(self._positions) + _SPARE:
            self._compact()

    def remove(self, rows: pa.Table) -> None:
        """Remove rows; unknown ones are ignored."""
        gone = [self._positions.pop(row_id, -1) for row_id in rows.column("_id").to_pylist()]
        self._delete(np.fromiter((row for row in gone if row >= 0), np.int64))
        self._cached_rows = None

    def rows(self) -> pa.Table:
        """Return all rows."""
        if self._cached_rows is None:
            at, parts = 0, []
            for chunk in self._chunks:
                alive = self._alive[at : at + chunk.num_rows]
                parts.append(chunk if alive.all() else chunk.filter(pa.array(alive)))
                at += chunk.num_rows
            self._cached_rows = pa.Table.from_batches(parts, self.schema)
        return self._cached_rows

    @property
    def hash(self) -> str:
        """The hash as in heartbeats. A row is hashed once, when the hash is first needed."""
        at = 0
        for chunk in self._chunks:
            end = at + chunk.num_rows
            if end > self._hashed:
                skip = max(0, self._hashed - at)
                self._hashes[at + skip : end] = row_hash.hash_rows(chunk.slice(skip))
            at = end
        new = slice(self._hashed, self._size)
        self._hash_sum += row_hash.sum_hashes(self._hashes[new][self._alive[new]])
        self._hashed = self._size
        return row_hash.to_hex(self._hash_sum)

    def _append(self, rows: pa.Table) -> None:
        ids = rows.column("_id").to_pylist()
        base, end = self._size, self._size + len(ids)
        self._reserve(end)
        there = np.fromiter(map(self._positions.get, ids, repeat(-1)), np.int64, len(ids))
        self._delete(there[there >= 0])
        self._positions.update(zip(ids, range(base, end), strict=True))
        self._alive[base:end] = True
        if len(set(ids)) < len(ids):
            last = np.fromiter(map(self._positions.__getitem__, ids), np.int64, len(ids))
            self._alive[base:end] = last == np.arange(base, end)
        self._chunks += rows.to_batches()
        self._size = end
        self._cached_rows = None

    def _delete(self, places: np.ndarray) -> None:
        places = np.unique(places)  # duplicates may replace the same row
        self._alive[places] = False
        self._hash_sum -= row_hash.sum_hashes(self._hashes[places[places < self._hashed]])

    def _reserve(self, size: int) -> None:
        if size > len(self._alive):
            room = max(1024, 1 << (size - 1).bit_length())
            self._alive = np.concatenate((self._alive, np.zeros(room - len(self._alive), bool)))
            self._hashes = np.concatenate(
                (self._hashes, np.zeros(room - len(self._hashes), np.uint64))
            )

    def _compact(self) -> None:
        whole = self.rows().combine_chunks()
        self._clear()
        self._append(whole)
