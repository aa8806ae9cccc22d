"""One table in memory: rows by identity, newest version wins, at most so many of them; its hash.

Which rows stay is decided by their rank alone (see `rank`), so that all servers hold the same rows
at the same point of the changelog, whenever they began to read it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from livejoin.core import spec
from livejoin.core.changelog import Change
from livejoin.tables.ingest.decode import Records
from livejoin.tables.ingest.rank import Top
from livejoin.tables.ingest.removals import Left, Removals, Version
from livejoin.tables.ingest.segments import Frozen, Rows
from livejoin.tables.ingest.table_hash import Sums

_LOWEST = int(np.iinfo(np.int64).min)
_NO_VERSION: Version = (_LOWEST, _LOWEST, _LOWEST)  # as it is decoded


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
        self._rows = Rows(schema)
        self._sums = Sums(self._rows)
        self._ranked = spec.TS.name in schema.names
        self._row: dict[str, int] = {}  # the position by identity
        self._removed = Removals()
        self._left = Left()
        self._groups = cap.groups if cap else ()
        self._null_rows = cap is not None and cap.null_rows
        numbers = range(len(self._groups)) if self._groups else (None,)
        self._caps = [Top(cap.rows, self._rows, "alive", n) for n in numbers] if cap else []
        self._capped = False
        self._window: Top | None = None
        self._inside = 0  # rows that viewers are shown
        self._seq = 0  # how far the changelog was read
        self._snapshot: pa.Table | None = None
        self._shown: pa.Table | None = None
        self.late: set[str] = set()  # identities whose winning record was followed by an older one

    def __len__(self) -> int:
        return len(self._row)

    def limit(self, most: int | None) -> None:
        """Show viewers so many rows, those of the highest rank."""
        if most == (self._window.most if self._window else None):
            return
        self._shown = None
        self._rows.inside[:] = self._rows.alive
        self._inside = len(self)
        self._sums.show_all()
        self._window = None
        if most is None:
            return
        self._window = Top(most, self._rows, "inside")
        if self._inside > most:
            self._hide(self._window.lowest_of_all(self._inside - most))
            # when each of them left is not known: nobody saw the window until now
            self._left.forget(self._seq)

    @property
    def limited(self) -> bool:
        """Whether viewers are shown only some of the rows."""
        return self._inside < len(self)

    @property
    def capped_from(self) -> int | None:
        """The lowest `_ts` that is there, once rows had to go; None before that."""
        ranks = [top.lowest(self._row) for top in self._caps] if self._capped else []
        return min((one[0] for one in ranks if one is not None), default=None)

    @property
    def hash(self) -> str:
        """The hash of all rows in any order, 16 hex digits."""
        return self._sums.all

    def shown(self) -> tuple[int, str]:
        """How many rows viewers are shown, and the hash of those."""
        return self._inside, self._sums.inside

    def apply(self, records: Records, seq: int = 0) -> Delta:
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
        if plain and not self._removed.meet(records.ids):
            self._put_all(records, own)
            gone: list[str] = []
        else:
            gone = self._put_each(records, own, seq)
        if self._null_rows:
            gone += self._without_null_rows(records, seq)
        self._sums.add(own)
        gone += self._leave(own)
        self._left.add(gone, seq)
        self._snapshot = self._shown = None
        new = rows.inside[own]
        upserts = records.rows if new.all() else records.rows.filter(pa.array(new))
        if (due := rows.due()) is not None:
            self._sums.settle()  # rows are about to be moved
            rows.compact(due, lambda ids, at: self._row.update(zip(ids, at, strict=True)))
        return Delta(upserts, [row_id for row_id in gone if not self._is_shown(row_id)])

    def _put_all(self, records: Records, own: np.ndarray) -> None:
        """Rows that do not meet one another, all at once: a fifth of the time of one by one."""
        count, rows = len(records.ids), self._rows
        # one look per row, by which those that are new have their place
        there = np.fromiter(map(self._row.setdefault, records.ids, own.tolist()), np.int64, count)
        known = there != own
        if not known.any():
            self._add(own)
            return
        new, old = records.versions[known], rows.version[there[known]]
        differs = new != old
        first = differs.argmax(axis=1)[:, None]  # the first part that differs decides
        newer = differs.any(axis=1) & np.take_along_axis(new > old, first, 1)[:, 0]
        kept = ~known
        kept[known] = newer
        self._kill(there[known][newer])
        self._add(own[kept])
        again = np.flatnonzero(known)
        older = differs.any(axis=1) & ~newer
        if self.late:
            self.late.difference_update(records.ids[row] for row in again[~older].tolist())
        self.late.update(records.ids[row] for row in again[older].tolist())
        if kept.all():  # as when an account comes for all rows of its user
            self._row.update(zip(records.ids, own.tolist(), strict=True))
        else:
            self._row.update((records.ids[row], int(own[row])) for row in again[newer].tolist())

    def _put_each(self, records: Records, own: np.ndarray, seq: int) -> list[str]:
        """One record after the other; the identities of rows that were removed."""
        removed: list[str] = []
        versions: list[Version] = list(map(tuple, records.versions.tolist()))
        for place, (row_id, present) in enumerate(
            zip(records.ids, records.present.tolist(), strict=True)
        ):
            version, before = versions[place], self._version_of(row_id)
            if before is not None and version <= before:
                (self.late.add if version < before else self.late.discard)(row_id)
                continue
            self.late.discard(row_id)
            there = self._row.pop(row_id, None)
            if there is not None:
                removed += self._kill(np.array([there]), [row_id])
            if present:
                self._row[row_id] = int(own[place])
                self._add(own[place : place + 1])
            else:
                if before is None:
                    self._left.add([row_id], seq)  # it was compacted away, and viewers may have it
                self._removed.add(row_id, version, int(records.times[place]))
        return removed

    def _version_of(self, row_id: str) -> Version | None:
        """The version of what is known of a row, be it there or removed."""
        there = self._row.get(row_id)
        if there is not None:
            return self._version_at(there)
        removed = self._removed.get(row_id)
        return removed[0] if removed else None

    def _without_null_rows(self, records: Records, seq: int) -> list[str]:
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
                self._left.add([user], seq)  # as above
            self._removed.add(user, version or _NO_VERSION, ts)
            there = self._row.pop(user, None)
            if there is not None:
                gone += self._kill(np.array([there]), [user])
        return gone

    def _add(self, positions: np.ndarray) -> None:
        self._rows.revive(positions)
        self._inside += len(positions)

    def _kill(self, positions: np.ndarray, ids: Sequence[str] = ()) -> list[str]:
        """Let rows die; of these identities, those that viewers were shown."""
        self._sums.remove(positions)
        inside = self._rows.inside[positions]
        self._inside -= int(np.count_nonzero(inside))
        self._rows.kill(positions)
        return [ids[place] for place in np.flatnonzero(inside).tolist()] if ids else []

    def _leave(self, own: np.ndarray) -> list[str]:
        """Whoever has to go, from the table or from what viewers are shown: their identities."""
        rows = self._rows
        gone: list[str] = []
        for number, top in enumerate(self._caps):
            new = own[rows.alive[own]]
            mine = new[rows.group[new] == number] if self._groups else new
            top.added(mine)
            size = len(rows.living(rows.alive, number)) if self._groups else len(self)
            if size > top.most:
                gone += self._drop(*top.surplus(size - top.most, self._row))
                self._capped = True
        if self._removed.many:
            self._removed.forget_below(self._caps[0].lowest(self._row) if self._capped else None)
            self.late = {i for i in self.late if self._version_of(i) is not None}
        if self._window:
            self._window.added(own[rows.inside[own]])
            gone += self._leave_window()
        return gone

    def _drop(self, positions: np.ndarray, ids: Sequence[str]) -> list[str]:
        for row_id in ids:
            del self._row[row_id]
        self.late.difference_update(ids)
        return self._kill(positions, ids)

    def _leave_window(self) -> list[str]:
        if self._window is None or self._inside <= self._window.most:
            return []
        positions, ids = self._window.surplus(self._inside - self._window.most, self._row)
        self._hide(positions)
        return ids

    def _hide(self, positions: np.ndarray) -> None:
        """Viewers are not shown these rows any more."""
        self._sums.hide(positions)
        self._rows.inside[positions] = False
        self._inside -= len(positions)

    def _is_shown(self, row_id: str) -> bool:
        there = self._row.get(row_id)
        return there is not None and bool(self._rows.inside[there])

    def drop(self, ids: Sequence[str]) -> None:
        """Let rows go for good, without remembering them."""
        if ids:
            self._drop(np.array([self._row[row_id] for row_id in ids]), ids)
            self._snapshot = self._shown = None

    def since(self, seq: int) -> Delta | None:
        """What a viewer misses that has everything before this point of the changelog.

        None where that cannot be told, or is no less than all rows.
        """
        if not self._left.knows(seq):
            return None
        removed = dict.fromkeys(i for i in self._left.since(seq) if not self._is_shown(i))
        rows = self._rows
        new = int(np.count_nonzero(rows.inside & (rows.at > seq)))
        if new + len(removed) >= max(1, self._inside):
            return None
        return Delta(rows.freeze(rows.inside, seq).table(), list(removed))

    def winners(self, table: str, ids: Iterable[str]) -> list[Change]:
        """The records that count of rows that are there or were removed."""
        found, there = [], {}
        for row_id in ids:
            if (position := self._row.get(row_id)) is not None:
                there[row_id] = position
            elif (removed := self._removed.get(row_id)) is not None:
                found.append(Change(table, row_id, None, removed[1], removed[0]))
        # all cells at once: one by one took 0.3 s for a thousand rows
        for cells in self._rows.cells(np.array(sorted(there.values()), np.int64)).to_pylist():
            row_id = cells.pop("_id")
            position = there[row_id]
            version = self._version_at(position)
            ts = int(self._rows.ts[position])
            del cells["_ts"]
            known = None if version == _NO_VERSION else version
            found.append(Change(table, row_id, cells, ts, known))
        return found

    def _version_at(self, position: int) -> Version:
        first, second, third = self._rows.version[position].tolist()
        return first, second, third

    def freeze(self) -> Frozen:
        """All rows as they are now, to be put together elsewhere."""
        return self._rows.freeze(self._rows.alive)

    def snapshot(self) -> pa.Table:
        """All rows, in the order of their last change."""
        if self._snapshot is None:
            self._snapshot = self.freeze().table()
        return self._snapshot

    def newest(self) -> pa.Table:
        """The rows that viewers are shown."""
        if not self.limited:
            return self.snapshot()
        if self._shown is None:
            self._shown = self._rows.freeze(self._rows.inside).table()
        return self._shown
