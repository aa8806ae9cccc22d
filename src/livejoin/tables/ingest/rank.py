"""The rank of rows, and which of them stay where a table holds only so many.

A rank is `_ts`, then the integers of `_id`, a prefix first. It only rises while a row is there, and
whatever takes a row's place ranks higher; so which rows stay depends on the changelog alone, not on
when a server began to read it.
"""

import heapq
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livejoin.tables.ingest.segments import SegmentedRows

Rank = tuple[int, ...]

_LOWEST_ROWS = 1 << 14  # are sorted at a time: choosing them takes longer than sorting them
_FEW = 1000  # rows that have to go are taken one by one, more of them all at once


def rank_of(ts: int, row_id: str) -> Rank:
    """A row's rank. What stands before a slash names the group it is ranked in."""
    place = row_id.rpartition("/")[2].replace("+", "-")
    return (ts, *map(int, place.split("-")))


def id_integers(ids: pa.Array) -> np.ndarray:
    """The integers of identities, four each; what an identity does not have is lower than any."""
    places = pc.replace_substring_regex(ids, r"^.*/", "")
    lists = pc.split_pattern(pc.replace_substring(places, "+", "-"), "-")
    lengths = pc.list_value_length(lists).to_numpy()
    starts = np.cumsum(lengths) - lengths
    found = np.full((len(ids), 4), -1, np.int64)
    flat = lists.flatten().cast(pa.int64()).to_numpy()
    row = np.repeat(np.arange(len(ids)), lengths)
    found[row, np.arange(len(flat)) - np.repeat(starts, lengths)] = flat
    return found


class TopRows:
    """Says which rows have to go so that the highest-ranked ones stay, at most so many.

    Knows the lowest-ranked members, sorted, up to a bound, and chooses more when they run out.
    """

    def __init__(
        self, most: int, rows: SegmentedRows, members: str, group: int | None = None
    ) -> None:
        self.max_rows = most
        self._rows = rows
        self._mask_name = members  # the name of the mask: arrays are replaced when they grow
        self._group = group
        self._heap: list[tuple[Rank, str]] = []  # a heap
        self._heap_bound: Rank | None = (
            None  # every member up to here is in the heap; None: it is empty
        )

    def add(self, positions: np.ndarray) -> None:
        """These rows are members now."""
        if self._heap_bound is None:
            return
        low = positions[self._rows.ts[positions] <= self._heap_bound[0]]
        if not len(low):
            return  # as nearly always: what is new is newest
        for ts, row_id in zip(
            self._rows.ts[low].tolist(), self._rows.ids_at(low).to_pylist(), strict=True
        ):
            one = rank_of(ts, row_id)
            if one <= self._heap_bound:
                heapq.heappush(self._heap, (one, row_id))

    def lowest_rank(self, row_of: Mapping[str, int], passed: int = 0) -> Rank | None:
        """The lowest rank of all members but so many that are about to go."""
        while True:
            while self._heap and not self._is_member(*self._heap[0], row_of):
                heapq.heappop(self._heap)
            if self._heap:
                return self._heap[0][0]
            if not self._refill(_LOWEST_ROWS + passed):
                return None

    def pop_lowest(self, count: int, row_of: Mapping[str, int]) -> tuple[np.ndarray, list[str]]:
        """The positions and identities of the lowest-ranked members, so many."""
        if count > _FEW:
            self._heap, self._heap_bound = [], None
            positions = self.select_lowest(count)
            return positions, self._rows.ids_at(positions).to_pylist()
        gone: dict[str, int] = {}
        while len(gone) < count:
            lowest = self.lowest_rank(row_of, len(gone))
            assert lowest is not None, "there are more members than may stay"
            _rank, row_id = heapq.heappop(self._heap)
            gone[row_id] = row_of[row_id]  # one that came again with the same rank is there twice
        return np.fromiter(gone.values(), np.int64, count), list(gone)

    def _is_member(self, ranked: Rank, row_id: str, row_of: Mapping[str, int]) -> bool:
        """Whether what is in the heap still counts: a row may be gone, or rank higher by now."""
        position = row_of.get(row_id)
        if position is None or self._rows.ts[position] != ranked[0]:
            return False
        return bool(getattr(self._rows, self._mask_name)[position])

    def _refill(self, count: int) -> bool:
        """Fill the heap. Whether there are any members."""
        chosen = self.select_lowest(count)
        ids = self._rows.ids_at(chosen)
        ranks = np.column_stack([self._rows.ts[chosen], id_integers(ids)])
        order = _sort_order(ranks)
        ranked = [(ts, *(n for n in of_id if n >= 0)) for ts, *of_id in ranks[order].tolist()]
        names = ids.take(pa.array(order)).to_pylist()
        self._heap = list(zip(ranked, names, strict=True))  # sorted, so a heap
        self._heap_bound = ranked[-1] if ranked else None
        return bool(ranked)

    def select_lowest(self, count: int) -> np.ndarray:
        """The positions of the lowest-ranked members, so many if there are, in any order."""
        members = self._rows.positions_in(getattr(self._rows, self._mask_name), self._group)
        if count >= len(members):
            return members
        ts = self._rows.ts[members]
        last = np.partition(ts, count - 1)[count - 1]
        sure, tied = members[ts < last], members[ts == last]
        # of those that came in the same millisecond the identities decide
        order = _sort_order(id_integers(self._rows.ids_at(tied)))
        return np.concatenate([sure, tied[order[: count - len(sure)]]])


def _sort_order(keys: np.ndarray) -> np.ndarray:
    """How to sort rows of integers, the first column deciding first."""
    return np.lexsort(keys.T[::-1])
