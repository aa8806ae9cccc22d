"""One table in memory: rows by identity, newest version wins, at most so many of them; its hash.

Which rows stay is decided by their rank alone (see `rank`), so that all servers hold the same rows
at the same point of the changelog, whenever they began to read it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from livejoin.core import spec
from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest.decode import ChangeBatch
from livejoin.tables.ingest.rank import TopRows
from livejoin.tables.ingest.removals import Departures, Removals, Version
from livejoin.tables.ingest.segments import FrozenRows, SegmentedRows
from livejoin.tables.ingest.table_hash import TableHash

_INT64_MIN = int(np.iinfo(np.int64).min)
_NO_VERSION: Version = (_INT64_MIN, _INT64_MIN, _INT64_MIN)  # as it is decoded


@dataclass(frozen=True)
class Delta:
    """What a run of records changed: these rows are new or new in their place, those are gone."""

    upserts: pa.RecordBatch | pa.Table
    removed: list[str]

    @property
    def empty(self) -> bool:
        """Whether viewers have nothing to learn."""
        return not self.upserts.num_rows and not self.removed


@dataclass(frozen=True)
class Cap:
    """How many rows a table holds at most, in all or of each group."""

    rows: int
    groups: tuple[str, ...] = ()  # what identities begin with, before a slash
    null_rows: bool = False  # whether a pair takes the place of its user's row without one


class Store:
    """Rows in the order of their last change: one that is replaced goes last.

    Viewers may be shown only the highest-ranked of them.
    """

    def __init__(self, schema: pa.Schema, cap: Cap | None = None) -> None:
        self.schema = schema
        self._rows = SegmentedRows(schema)
        self._table_hash = TableHash(self._rows)
        self._ranked = spec.TS.name in schema.names
        self._positions: dict[str, int] = {}  # the position by identity
        self._removals = Removals()
        self._departures = Departures()
        self._groups = cap.groups if cap else ()
        self._null_rows = cap is not None and cap.null_rows
        numbers = range(len(self._groups)) if self._groups else (None,)
        self._caps = [TopRows(cap.rows, self._rows, "alive", n) for n in numbers] if cap else []
        self._has_evicted = False
        self._window: TopRows | None = None
        self._visible_count = 0  # rows that viewers are shown
        self._seq = 0  # how far the changelog was read
        self._snapshot: pa.Table | None = None
        self._viewer_snapshot: pa.Table | None = None
        self.needs_rewrite: set[str] = (
            set()
        )  # identities whose winning record was followed by an older one

    def __len__(self) -> int:
        return len(self._positions)

    def limit_viewers(self, most: int | None) -> None:
        """Show viewers so many rows, those of the highest rank."""
        if most == (self._window.max_rows if self._window else None):
            return
        self._viewer_snapshot = None
        self._rows.inside[:] = self._rows.alive
        self._visible_count = len(self)
        self._table_hash.show_all()
        self._window = None
        if most is None:
            return
        self._window = TopRows(most, self._rows, "inside")
        if self._visible_count > most:
            self._hide(self._window.select_lowest(self._visible_count - most))
            # when each of them left is not known: nobody saw the window until now
            self._departures.reset(self._seq)

    @property
    def limited(self) -> bool:
        """Whether viewers are shown only some of the rows."""
        return self._visible_count < len(self)

    @property
    def capped_from(self) -> int | None:
        """The lowest `_ts` that is there, once rows had to go; None before that."""
        ranks = (
            [top.lowest_rank(self._positions) for top in self._caps] if self._has_evicted else []
        )
        return min((one[0] for one in ranks if one is not None), default=None)

    @property
    def hash(self) -> str:
        """The hash of all rows in any order, 16 hex digits."""
        return self._table_hash.full

    def viewer_digest(self) -> tuple[int, str]:
        """How many rows viewers are shown, and the hash of those."""
        return self._visible_count, self._table_hash.visible

    def apply(self, records: ChangeBatch, seq: int = 0) -> Delta:
        """Take in a run of records, in order; `seq` is where in the changelog it ends."""
        rows, self._seq = self._rows, seq
        own = rows.append(records.rows, seq)
        rows.version[own] = records.versions
        if self._ranked:
            rows.ts[own] = records.times
        if self._groups:
            rows.group[own] = [self._groups.index(i.partition("/")[0]) for i in records.ids]
        if records.hashes is not None:
            rows.hash[own], rows.known[own] = records.hashes, True
        plain = records.present.all() and len(set(records.ids)) == len(records.ids)
        if plain and not self._removals.overlap(records.ids):
            self._upsert_bulk(records, own)
            gone: list[str] = []
        else:
            gone = self._apply_each(records, own, seq)
        if self._null_rows:
            gone += self._remove_null_rows(records, seq)
        self._table_hash.add(own)
        gone += self._evict(own)
        self._departures.add(gone, seq)
        self._snapshot = self._viewer_snapshot = None
        new = rows.inside[own]
        upserts = records.rows if new.all() else records.rows.filter(pa.array(new))
        if (due := rows.segment_to_compact()) is not None:
            self._table_hash.hash_pending()  # rows are about to be moved
            rows.compact(due, lambda ids, at: self._positions.update(zip(ids, at, strict=True)))
        return Delta(upserts, [row_id for row_id in gone if not self._is_visible(row_id)])

    def _upsert_bulk(self, records: ChangeBatch, own: np.ndarray) -> None:
        """Rows that do not meet one another, all at once: a fifth of the time of one by one."""
        count, rows = len(records.ids), self._rows
        # one look per row, by which those that are new have their place
        there = np.fromiter(
            map(self._positions.setdefault, records.ids, own.tolist()), np.int64, count
        )
        known = there != own
        if not known.any():
            self._mark_alive(own)
            return
        new, old = records.versions[known], rows.version[there[known]]
        differs = new != old
        first = differs.argmax(axis=1)[:, None]  # the first part that differs decides
        newer = differs.any(axis=1) & np.take_along_axis(new > old, first, 1)[:, 0]
        kept = ~known
        kept[known] = newer
        self._mark_dead(there[known][newer])
        self._mark_alive(own[kept])
        again = np.flatnonzero(known)
        older = differs.any(axis=1) & ~newer
        if self.needs_rewrite:
            self.needs_rewrite.difference_update(records.ids[row] for row in again[~older].tolist())
        self.needs_rewrite.update(records.ids[row] for row in again[older].tolist())
        if kept.all():  # as when an account comes for all rows of its user
            self._positions.update(zip(records.ids, own.tolist(), strict=True))
        else:
            self._positions.update(
                (records.ids[row], int(own[row])) for row in again[newer].tolist()
            )

    def _apply_each(self, records: ChangeBatch, own: np.ndarray, seq: int) -> list[str]:
        """One record after the other; the identities of rows that were removed."""
        removed: list[str] = []
        versions: list[Version] = list(map(tuple, records.versions.tolist()))
        for place, (row_id, present) in enumerate(
            zip(records.ids, records.present.tolist(), strict=True)
        ):
            version, before = versions[place], self._version_of(row_id)
            if before is not None and version <= before:
                (self.needs_rewrite.add if version < before else self.needs_rewrite.discard)(row_id)
                continue
            self.needs_rewrite.discard(row_id)
            there = self._positions.pop(row_id, None)
            if there is not None:
                removed += self._mark_dead(np.array([there]), [row_id])
            if present:
                self._positions[row_id] = int(own[place])
                self._mark_alive(own[place : place + 1])
            else:
                if before is None:
                    self._departures.add(
                        [row_id], seq
                    )  # it was compacted away, and viewers may have it
                self._removals.add(row_id, version, int(records.times[place]))
        return removed

    def _version_of(self, row_id: str) -> Version | None:
        """The version of what is known of a row, be it there or removed."""
        there = self._positions.get(row_id)
        if there is not None:
            return self._version_at(there)
        removed = self._removals.get(row_id)
        return removed[0] if removed else None

    def _remove_null_rows(self, records: ChangeBatch, seq: int) -> list[str]:
        """A pair takes the place of its user's row without one, in the same step.

        Otherwise the table would be smaller for a moment, and servers that read in other portions
        would let other rows go. The removal that follows in the changelog finds nothing to do.
        """
        gone = []
        for row_id, ts in zip(records.ids, records.times.tolist(), strict=True):
            user, is_pair, _account = row_id.partition("+")
            if not is_pair:
                continue
            version = self._version_of(user)
            if version is None:
                self._departures.add([user], seq)  # as above
            self._removals.add(user, version or _NO_VERSION, ts)
            there = self._positions.pop(user, None)
            if there is not None:
                gone += self._mark_dead(np.array([there]), [user])
        return gone

    def _mark_alive(self, positions: np.ndarray) -> None:
        self._rows.mark_alive(positions)
        self._visible_count += len(positions)

    def _mark_dead(self, positions: np.ndarray, ids: Sequence[str] = ()) -> list[str]:
        """Let rows die; of these identities, those that viewers were shown."""
        self._table_hash.remove(positions)
        inside = self._rows.inside[positions]
        self._visible_count -= int(np.count_nonzero(inside))
        self._rows.mark_dead(positions)
        return [ids[place] for place in np.flatnonzero(inside).tolist()] if ids else []

    def _evict(self, own: np.ndarray) -> list[str]:
        """Whoever has to go, from the table or from what viewers are shown: their identities."""
        rows = self._rows
        gone: list[str] = []
        for number, top in enumerate(self._caps):
            new = own[rows.alive[own]]
            mine = new[rows.group[new] == number] if self._groups else new
            top.add(mine)
            size = len(rows.positions_in(rows.alive, number)) if self._groups else len(self)
            if size > top.max_rows:
                gone += self._drop(*top.pop_lowest(size - top.max_rows, self._positions))
                self._has_evicted = True
        if self._removals.prune_due:
            self._removals.prune_below(
                self._caps[0].lowest_rank(self._positions) if self._has_evicted else None
            )
            self.needs_rewrite = {i for i in self.needs_rewrite if self._version_of(i) is not None}
        if self._window:
            self._window.add(own[rows.inside[own]])
            gone += self._evict_from_window()
        return gone

    def _drop(self, positions: np.ndarray, ids: Sequence[str]) -> list[str]:
        for row_id in ids:
            del self._positions[row_id]
        self.needs_rewrite.difference_update(ids)
        return self._mark_dead(positions, ids)

    def _evict_from_window(self) -> list[str]:
        if self._window is None or self._visible_count <= self._window.max_rows:
            return []
        positions, ids = self._window.pop_lowest(
            self._visible_count - self._window.max_rows, self._positions
        )
        self._hide(positions)
        return ids

    def _hide(self, positions: np.ndarray) -> None:
        """Viewers are not shown these rows any more."""
        self._table_hash.hide(positions)
        self._rows.inside[positions] = False
        self._visible_count -= len(positions)

    def _is_visible(self, row_id: str) -> bool:
        there = self._positions.get(row_id)
        return there is not None and bool(self._rows.inside[there])

    def drop(self, ids: Sequence[str]) -> None:
        """Let rows go for good, without remembering them."""
        if ids:
            self._drop(np.array([self._positions[row_id] for row_id in ids]), ids)
            self._snapshot = self._viewer_snapshot = None

    def changes_since(self, seq: int) -> Delta | None:
        """What a viewer misses that has everything before this point of the changelog.

        None where that cannot be told, or is no less than all rows.
        """
        if not self._departures.covers(seq):
            return None
        removed = dict.fromkeys(i for i in self._departures.since(seq) if not self._is_visible(i))
        rows = self._rows
        new = int(np.count_nonzero(rows.inside & (rows.at > seq)))
        if new + len(removed) >= max(1, self._visible_count):
            return None
        return Delta(rows.freeze(rows.inside, seq).table(), list(removed))

    def winning_records(self, table: str, ids: Iterable[str]) -> list[ChangelogRecord]:
        """The records that count of rows that are there or were removed."""
        found, there = [], {}
        for row_id in ids:
            if (position := self._positions.get(row_id)) is not None:
                there[row_id] = position
            elif (removed := self._removals.get(row_id)) is not None:
                found.append(ChangelogRecord(table, row_id, None, removed[1], removed[0]))
        # all cells at once: one by one took 0.3 s for a thousand rows
        for cells in self._rows.rows_at(np.array(sorted(there.values()), np.int64)).to_pylist():
            row_id = cells.pop("_id")
            position = there[row_id]
            version = self._version_at(position)
            ts = int(self._rows.ts[position])
            del cells["_ts"]
            known = None if version == _NO_VERSION else version
            found.append(ChangelogRecord(table, row_id, cells, ts, known))
        return found

    def _version_at(self, position: int) -> Version:
        first, second, third = self._rows.version[position].tolist()
        return first, second, third

    def freeze(self) -> FrozenRows:
        """All rows as they are now, to be put together elsewhere."""
        return self._rows.freeze(self._rows.alive)

    def snapshot(self) -> pa.Table:
        """All rows, in the order of their last change."""
        if self._snapshot is None:
            self._snapshot = self.freeze().table()
        return self._snapshot

    def viewer_snapshot(self) -> pa.Table:
        """The rows that viewers are shown."""
        if not self.limited:
            return self.snapshot()
        if self._viewer_snapshot is None:
            self._viewer_snapshot = self._rows.freeze(self._rows.inside).table()
        return self._viewer_snapshot
