"""One table in memory: rows by ID, the newest version wins; with a hash, caps and viewer deltas."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from livejoin.core import spec
from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest.batches import VERSION_PARTS, ChangeBatch
from livejoin.tables.ingest.merge import RowParts, merge
from livejoin.tables.ingest.row_index import NO_VERSION, Departures, RowIndex, Version
from livejoin.tables.ingest.row_limits import Cap, RowLimits
from livejoin.tables.ingest.segments import FrozenRows, SegmentedRows


@dataclass(frozen=True)
class Delta:
    """What a batch changed for viewers: rows added or replaced, and IDs of rows removed."""

    upserts: pa.RecordBatch | pa.Table
    removed: list[str]

    @property
    def empty(self) -> bool:
        """Whether nothing changed for viewers."""
        return not self.upserts.num_rows and not self.removed


class Store:
    """Rows in the order of their last change: a replaced row moves to the end.

    Viewers may see only the highest-ranked rows.
    """

    def __init__(
        self, schema: pa.Schema, cap: Cap | None = None, parts: RowParts | None = None
    ) -> None:
        self.schema = schema
        self._parts = parts  # of rows whose lookups have a version each
        self._rows = SegmentedRows(schema, parts.version_width if parts else VERSION_PARTS)
        self._limits = RowLimits(self._rows, cap)
        self._ranked = spec.TS.name in schema.names
        self._index = RowIndex(self._rows, tuple(parts.columns) if parts else ())
        self._departures = Departures()
        self._null_rows = cap is not None and cap.null_rows
        self._seq = 0  # changelog offset read up to
        self._snapshot: pa.Table | None = None
        self._viewer_snapshot: pa.Table | None = None

    def __len__(self) -> int:
        return len(self._index.positions)

    def limit_viewers(self, max_rows: int | None) -> None:
        """Show viewers only the highest-ranked rows, at most this many; None: all rows."""
        if max_rows == self._limits.viewer_limit:
            return
        self._viewer_snapshot = None
        if self._limits.limit_viewers(max_rows):
            # nobody saw the window so far, so it is unknown when each row left it
            self._departures.reset(self._seq)

    @property
    def limited(self) -> bool:
        """Whether viewers see only some of the rows."""
        return self._limits.visible_count < len(self)

    @property
    def capped_from(self) -> int | None:
        """The lowest `_ts` in the table once rows were evicted; None before that."""
        return self._limits.lowest_ts(self._index.positions)

    @property
    def needs_rewrite(self) -> set[str]:
        """IDs of rows whose winning record is followed by an older one in the changelog."""
        return self._index.needs_rewrite

    @property
    def hash(self) -> str:
        """The hash of all rows, independent of their order, as 16 hex digits."""
        return self._limits.hash.full

    def viewer_digest(self) -> tuple[int, str]:
        """The number and the hash of the rows that viewers see."""
        return self._limits.visible_count, self._limits.hash.visible

    def apply(self, batch: ChangeBatch, seq: int = 0) -> Delta:
        """Apply a batch of records in order; `seq` is the changelog offset at its end."""
        rows, self._seq = self._rows, seq
        merged = None
        if self._parts and batch.present.all():
            merged = merge(batch, self._parts, self._index.positions, rows)
            batch = merged.batch if merged else batch
        new = rows.append(batch.rows, seq)
        rows.version[new] = batch.versions
        if self._ranked:
            rows.ts[new] = batch.times
        if groups := self._limits.groups:
            rows.group[new] = [groups.index(row_id.partition("/")[0]) for row_id in batch.ids]
        if batch.hashes is not None:
            rows.hash[new], rows.hashed[new] = batch.hashes, True
        distinct = batch.present.all() and len(set(batch.ids)) == len(batch.ids)
        if distinct and not self._index.removals.overlap(batch.ids):
            self._upsert_bulk(batch, new)
            gone: list[str] = []
        else:
            gone = self._apply_each(batch, new, seq)
        if merged:
            self.needs_rewrite.difference_update(merged.settled)
            self.needs_rewrite.update(merged.behind)
        if self._null_rows:
            gone += self._remove_null_rows(batch, seq)
        self._limits.hash.add(new)
        gone += self._evict(new)
        self._departures.add(gone, seq)
        self._snapshot = self._viewer_snapshot = None
        visible = rows.visible[new]
        upserts = batch.rows if visible.all() else batch.rows.filter(pa.array(visible))
        if (segment := rows.segment_to_compact()) is not None:
            self._limits.hash.hash_pending()  # compaction moves rows to other positions
            rows.compact(
                segment,
                lambda ids, moved_to: self._index.positions.update(zip(ids, moved_to, strict=True)),
            )
        return Delta(upserts, [row_id for row_id in gone if not self._index.is_visible(row_id)])

    def _upsert_bulk(self, batch: ChangeBatch, new: np.ndarray) -> None:
        """Apply rows with distinct IDs all at once, in a fifth of the time of one by one."""
        count, rows = len(batch.ids), self._rows
        # one lookup per row; setdefault also registers the IDs that are not in the table yet
        stored = np.fromiter(
            map(self._index.positions.setdefault, batch.ids, new.tolist()), np.int64, count
        )
        known = stored != new
        if not known.any():
            self._limits.mark_alive(new)
            return
        versions, old_versions = batch.versions[known], rows.version[stored[known]]
        differs = versions != old_versions
        first = differs.argmax(axis=1)[:, None]  # versions compare like tuples
        newer = differs.any(axis=1) & np.take_along_axis(versions > old_versions, first, 1)[:, 0]
        kept = ~known
        kept[known] = newer
        self._limits.mark_dead(stored[known][newer])
        self._limits.mark_alive(new[kept])
        repeated = np.flatnonzero(known)
        older = differs.any(axis=1) & ~newer
        if self.needs_rewrite:
            self.needs_rewrite.difference_update(
                batch.ids[index] for index in repeated[~older].tolist()
            )
        self.needs_rewrite.update(batch.ids[index] for index in repeated[older].tolist())
        if kept.all():  # as when a lookup record updates all rows of its key
            self._index.positions.update(zip(batch.ids, new.tolist(), strict=True))
        else:
            self._index.positions.update(
                (batch.ids[index], int(new[index])) for index in repeated[newer].tolist()
            )

    def _apply_each(self, batch: ChangeBatch, new: np.ndarray, seq: int) -> list[str]:
        """Apply records one by one; returns the IDs of the rows removed from viewers."""
        index, needs_rewrite = self._index, self.needs_rewrite
        removed: list[str] = []
        versions: list[Version] = list(map(tuple, batch.versions.tolist()))
        for number, (row_id, present) in enumerate(
            zip(batch.ids, batch.present.tolist(), strict=True)
        ):
            version, known = versions[number], index.version_of(row_id)
            if known is not None and version <= known:
                (needs_rewrite.add if version < known else needs_rewrite.discard)(row_id)
                continue
            needs_rewrite.discard(row_id)
            position = index.positions.pop(row_id, None)
            if position is not None:
                removed += self._limits.mark_dead(np.array([position]), [row_id])
            if present:
                index.positions[row_id] = int(new[number])
                self._limits.mark_alive(new[number : number + 1])
            else:
                if known is None:
                    # the row was compacted away, but a viewer that resumes may still have it
                    self._departures.add([row_id], seq)
                index.removals.add(row_id, version, int(batch.times[number]))
        return removed

    def _remove_null_rows(self, batch: ChangeBatch, seq: int) -> list[str]:
        """Replace a row without a lookup record by its first pair, in the same step.

        Otherwise the table would hold one row less for a moment, and servers that read in other
        batches would evict other rows. The removal that follows in the changelog has no effect.
        """
        index = self._index
        removed = []
        for row_id, ts in zip(batch.ids, batch.times.tolist(), strict=True):
            null_row, is_pair, _lookup = row_id.partition("+")
            if not is_pair:
                continue
            version = index.version_of(null_row)
            if version is None:
                self._departures.add([null_row], seq)  # compacted away, as in _apply_each
            index.removals.add(null_row, version or NO_VERSION, ts)
            position = index.positions.pop(null_row, None)
            if position is not None:
                removed += self._limits.mark_dead(np.array([position]), [null_row])
        return removed

    def _evict(self, new: np.ndarray) -> list[str]:
        """Enforce the cap and the viewer window; returns the IDs of the rows viewers lose."""
        index = self._index
        evicted, gone = self._limits.enforce_caps(new, index.positions)
        index.forget(evicted)
        if index.removals.prune_due:
            index.prune_removals(self._limits.lowest_rank(index.positions))
        return gone + self._limits.enforce_window(new, index.positions)

    def drop(self, ids: Sequence[str]) -> None:
        """Delete rows without remembering their versions."""
        if ids:
            self._limits.mark_dead(np.array([self._index.positions[row_id] for row_id in ids]))
            self._index.forget(ids)
            self._snapshot = self._viewer_snapshot = None

    def changes_since(self, seq: int) -> Delta | None:
        """The changes for a viewer that has everything before this changelog offset.

        None if they are not known, or are as large as the whole table.
        """
        if not self._departures.covers(seq):
            return None
        rows, index = self._rows, self._index
        removed = dict.fromkeys(i for i in self._departures.since(seq) if not index.is_visible(i))
        upserted = int(np.count_nonzero(rows.visible & (rows.seq > seq)))
        if upserted + len(removed) >= max(1, self._limits.visible_count):
            return None
        return Delta(rows.freeze(rows.visible, seq).table(), list(removed))

    def winning_records(self, table: str, ids: Iterable[str]) -> list[ChangelogRecord]:
        """The newest records of rows, present or removed."""
        return self._index.winning_records(table, ids)

    def freeze(self) -> FrozenRows:
        """All rows as of now; another thread can build the table from them."""
        return self._rows.freeze(self._rows.alive)

    def snapshot(self) -> pa.Table:
        """All rows, in the order of their last change."""
        if self._snapshot is None:
            self._snapshot = self.freeze().table()
        return self._snapshot

    def viewer_snapshot(self) -> pa.Table:
        """The rows that viewers see, in the order of their last change."""
        if not self.limited:
            return self.snapshot()
        if self._viewer_snapshot is None:
            self._viewer_snapshot = self._rows.freeze(self._rows.visible).table()
        return self._viewer_snapshot
