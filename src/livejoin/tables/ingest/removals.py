"""What a table remembers of rows it no longer has: removals and departures. Both are bounded."""

from collections import deque
from collections.abc import Iterable, Iterator

from livejoin.tables.ingest.rank import Rank, rank_of

_MAX_DEPARTURES = 100_000  # for viewers that resume
_MIN_REMOVALS = 10_000  # kept in any case

Version = tuple[int, int, int]


class Removals:
    """Removals by row ID: a late record with a lower version must not bring the row back."""

    def __init__(self) -> None:
        self._by_id: dict[str, tuple[Version, int]] = {}
        self._prune_at = _MIN_REMOVALS  # the size from which pruning is worth its time

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, row_id: str, version: Version, ts: int) -> None:
        """Remember a removal; `ts` is the time of the record that caused it."""
        known = self._by_id.get(row_id)
        self._by_id[row_id] = version, max(ts, known[1]) if known else ts

    def overlap(self, ids: Iterable[str]) -> bool:
        """Whether any of these rows was removed."""
        return bool(self._by_id) and not self._by_id.keys().isdisjoint(ids)

    def get(self, row_id: str) -> tuple[Version, int] | None:
        """The version and time of a removal."""
        return self._by_id.get(row_id)

    @property
    def prune_due(self) -> bool:
        """Whether there are enough removals to prune them."""
        return len(self._by_id) > self._prune_at

    def prune_below(self, lowest_rank: Rank | None) -> None:
        """Forget removals that rank below a full table: their rows would be evicted anyway."""
        if lowest_rank is not None:
            self._by_id = {
                row_id: removal
                for row_id, removal in self._by_id.items()
                if rank_of(removal[1], row_id) >= lowest_rank
            }
        self._prune_at = max(_MIN_REMOVALS, 2 * len(self._by_id))


class Departures:
    """Which rows viewers lost, in changelog order, as far back as the memory reaches."""

    def __init__(self) -> None:
        self._rows: deque[tuple[str, int]] = deque()
        self._horizon = 0  # the offset of the newest departure that is forgotten

    def add(self, ids: Iterable[str], seq: int) -> None:
        """Remember rows that left at this offset."""
        self._rows.extend((row_id, seq) for row_id in ids)
        while len(self._rows) > _MAX_DEPARTURES:
            self._horizon = self._rows.popleft()[1]

    def reset(self, seq: int) -> None:
        """Forget all departures up to this offset."""
        self._rows.clear()
        self._horizon = seq

    def covers(self, seq: int) -> bool:
        """Whether all departures after this offset are known."""
        return self._horizon <= seq

    def since(self, seq: int) -> Iterator[str]:
        """The rows that left after this offset, newest first; some may be back, or come twice."""
        for row_id, left_at in reversed(self._rows):
            if left_at <= seq:
                return
            yield row_id
