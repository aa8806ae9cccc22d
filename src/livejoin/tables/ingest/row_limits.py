"""Which rows stay in a full table: caps, the window that viewers see, and the rank of rows.

A rank is `_ts`, then the integers of `_id`, a prefix first. A row's rank only rises, and whatever
replaces a row ranks higher. So which rows stay depends on the changelog alone, and all servers keep
the same rows at the same changelog offset, whenever they started to read it.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livejoin.tables.ingest.segments import SegmentedRows, TableHash

Rank = tuple[int, ...]

_HEAP_ROWS = 1 << 14  # loaded at a time: selecting the lowest rows takes longer than sorting them
_BULK_ROWS = 1000  # above it, surplus rows are selected at once instead of popped one by one


@dataclass(frozen=True)
class Cap:
    """The maximum number of rows in a table, or in each of its groups."""

    rows: int
    groups: tuple[str, ...] = ()  # the prefixes of row IDs, before the slash
    null_rows: bool = False  # whether a pair replaces the row without a lookup record


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


class TopRows:
    """Keeps the highest-ranked rows: names the lowest-ranked ones to evict.

    Holds the lowest-ranked members in a heap up to a bound, and refills it when it is empty.
    """

    def __init__(
        self, max_rows: int, rows: SegmentedRows, mask_name: str, group: int | None = None
    ) -> None:
        self.max_rows = max_rows
        self._rows = rows
        self._mask_name = mask_name  # by name: arrays are replaced when they grow
        self._group = group
        self._heap: list[tuple[Rank, str]] = []
        self._heap_bound: Rank | None = None  # the heap has every member up to it; None: empty

    def add(self, positions: np.ndarray) -> None:
        """Add rows as members."""
        if self._heap_bound is None:
            return
        low = positions[self._rows.ts[positions] <= self._heap_bound[0]]
        if not len(low):
            return  # the usual case: new rows have the newest times
        for ts, row_id in zip(
            self._rows.ts[low].tolist(), self._rows.ids_at(low).to_pylist(), strict=True
        ):
            rank = rank_of(ts, row_id)
            if rank <= self._heap_bound:
                heapq.heappush(self._heap, (rank, row_id))

    def lowest_rank(self, positions: Mapping[str, int], popped: int = 0) -> Rank | None:
        """The lowest rank of all members except those `popped` and not removed yet."""
        while True:
            while self._heap and not self._is_member(*self._heap[0], positions):
                heapq.heappop(self._heap)
            if self._heap:
                return self._heap[0][0]
            if not self._refill(_HEAP_ROWS + popped):
                return None

    def pop_lowest(self, count: int, positions: Mapping[str, int]) -> tuple[np.ndarray, list[str]]:
        """The positions and IDs of the lowest-ranked members."""
        if count > _BULK_ROWS:
            self._heap, self._heap_bound = [], None
            lowest = self.select_lowest(count)
            return lowest, self._rows.ids_at(lowest).to_pylist()
        popped: dict[str, int] = {}
        while len(popped) < count:
            rank = self.lowest_rank(positions, len(popped))
            assert rank is not None, "there are more members than may stay"
            _rank, row_id = heapq.heappop(self._heap)
            # a row that was written again with the same rank is in the heap twice
            popped[row_id] = positions[row_id]
        return np.fromiter(popped.values(), np.int64, count), list(popped)

    def _is_member(self, rank: Rank, row_id: str, positions: Mapping[str, int]) -> bool:
        """Whether a heap entry is current: the row may be gone, or rank higher by now."""
        position = positions.get(row_id)
        if position is None or self._rows.ts[position] != rank[0]:
            return False
        return bool(getattr(self._rows, self._mask_name)[position])

    def _refill(self, count: int) -> bool:
        """Fill the heap; returns whether there are any members."""
        lowest = self.select_lowest(count)
        ids = self._rows.ids_at(lowest)
        keys = np.column_stack([self._rows.ts[lowest], id_integers(ids)])
        order = _sort_order(keys)
        ranks = [(ts, *(n for n in integers if n >= 0)) for ts, *integers in keys[order].tolist()]
        sorted_ids = ids.take(pa.array(order)).to_pylist()
        self._heap = list(zip(ranks, sorted_ids, strict=True))  # a sorted list is a heap
        self._heap_bound = ranks[-1] if ranks else None
        return bool(ranks)

    def select_lowest(self, count: int) -> np.ndarray:
        """The positions of the `count` lowest-ranked members, or of all, in no order."""
        members = self._rows.positions_in(getattr(self._rows, self._mask_name), self._group)
        if count >= len(members):
            return members
        ts = self._rows.ts[members]
        last = np.partition(ts, count - 1)[count - 1]
        below, tied = members[ts < last], members[ts == last]
        # rows of the same millisecond are ranked by ID
        order = _sort_order(id_integers(self._rows.ids_at(tied)))
        return np.concatenate([below, tied[order[: count - len(below)]]])


def rank_of(ts: int, row_id: str) -> Rank:
    """A row's rank. The part of its ID before a slash names its group and is not ranked."""
    position = row_id.rpartition("/")[2].replace("+", "-")
    return (ts, *map(int, position.split("-")))


def id_integers(ids: pa.Array) -> np.ndarray:
    """The integers in row IDs, four columns; -1 where an ID has fewer."""
    suffixes = pc.replace_substring_regex(ids, r"^.*/", "")
    lists = pc.split_pattern(pc.replace_substring(suffixes, "+", "-"), "-")
    lengths = pc.list_value_length(lists).to_numpy()
    starts = np.cumsum(lengths) - lengths
    integers = np.full((len(ids), 4), -1, np.int64)
    flat = lists.flatten().cast(pa.int64()).to_numpy()
    row = np.repeat(np.arange(len(ids)), lengths)
    integers[row, np.arange(len(flat)) - np.repeat(starts, lengths)] = flat
    return integers


def _sort_order(keys: np.ndarray) -> np.ndarray:
    """The order that sorts rows of integers by their first column, then the next."""
    return np.lexsort(keys.T[::-1])
