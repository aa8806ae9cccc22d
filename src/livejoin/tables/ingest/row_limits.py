"""How many rows a table keeps, and how many of them its viewers see: caps and the viewer window.

Which rows stay depends on their rank alone (see `rank`), so all servers keep the same rows at the
same changelog offset, whenever they started to read it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from livejoin.tables.ingest.rank import Rank, TopRows
from livejoin.tables.ingest.segments import SegmentedRows
from livejoin.tables.ingest.table_hash import TableHash


@dataclass(frozen=True)
class Cap:
    """The maximum number of rows in a table, or in each of its groups."""

    rows: int
    groups: tuple[str, ...] = ()  # the prefixes of row IDs, before the slash
    null_rows: bool = False  # whether a pair replaces its user's row without an account


class RowLimits:
    """Evicts the lowest-ranked rows; keeps the alive and visible flags and the hash consistent."""

    def __init__(self, rows: SegmentedRows, cap: Cap | None) -> None:
        self.hash = TableHash(rows)
        self.visible_count = 0  # rows that viewers see
        self.has_evicted = False
        self.groups = cap.groups if cap else ()
        self._rows = rows
        groups = range(len(self.groups)) if self.groups else (None,)
        self._caps = [TopRows(cap.rows, rows, "alive", group) for group in groups] if cap else []
        self._window: TopRows | None = None

    def mark_alive(self, positions: np.ndarray) -> None:
        """Make new rows alive and visible."""
        self._rows.mark_alive(positions)
        self.visible_count += len(positions)

    def mark_dead(self, positions: np.ndarray, ids: Sequence[str] = ()) -> list[str]:
        """Remove rows; returns those of the given IDs that viewers saw."""
        self.hash.remove(positions)
        visible = self._rows.visible[positions]
        self.visible_count -= int(np.count_nonzero(visible))
        self._rows.mark_dead(positions)
        return [ids[index] for index in np.flatnonzero(visible).tolist()] if ids else []

    @property
    def viewer_limit(self) -> int | None:
        """The size of the viewer window; None: viewers see all rows."""
        return self._window.max_rows if self._window else None

    def limit_viewers(self, max_rows: int | None) -> bool:
        """Show viewers only the highest-ranked rows; returns whether any row was hidden."""
        rows = self._rows
        rows.visible[:] = rows.alive
        self.visible_count = int(np.count_nonzero(rows.alive))
        self.hash.show_all()
        self._window = None
        if max_rows is None:
            return False
        self._window = TopRows(max_rows, rows, "visible")
        if self.visible_count <= max_rows:
            return False
        self._hide(self._window.select_lowest(self.visible_count - max_rows))
        return True

    def enforce_caps(
        self, new: np.ndarray, positions: Mapping[str, int]
    ) -> tuple[list[str], list[str]]:
        """Evict surplus rows after an append; returns their IDs, and those that viewers saw."""
        rows = self._rows
        evicted: list[str] = []
        seen: list[str] = []
        for group, top in enumerate(self._caps):
            alive = new[rows.alive[new]]
            top.add(alive[rows.group[alive] == group] if self.groups else alive)
            size = len(rows.positions_in(rows.alive, group)) if self.groups else len(positions)
            if size > top.max_rows:
                surplus, ids = top.pop_lowest(size - top.max_rows, positions)
                seen += self.mark_dead(surplus, ids)
                evicted += ids
                self.has_evicted = True
        return evicted, seen

    def enforce_window(self, new: np.ndarray, positions: Mapping[str, int]) -> list[str]:
        """Hide surplus rows from viewers after an append; returns their IDs."""
        window = self._window
        if window is None:
            return []
        window.add(new[self._rows.visible[new]])
        if self.visible_count <= window.max_rows:
            return []
        surplus, ids = window.pop_lowest(self.visible_count - window.max_rows, positions)
        self._hide(surplus)
        return ids

    def lowest_rank(self, positions: Mapping[str, int]) -> Rank | None:
        """The rank below which rows are evicted; None while the table has not evicted any."""
        return self._caps[0].lowest_rank(positions) if self.has_evicted else None

    def lowest_ts(self, positions: Mapping[str, int]) -> int | None:
        """The lowest `_ts` in the table; None while it has not evicted any row."""
        ranks = [top.lowest_rank(positions) for top in self._caps] if self.has_evicted else []
        return min((rank[0] for rank in ranks if rank is not None), default=None)

    def _hide(self, positions: np.ndarray) -> None:
        self.hash.hide(positions)
        self._rows.visible[positions] = False
        self.visible_count -= len(positions)
