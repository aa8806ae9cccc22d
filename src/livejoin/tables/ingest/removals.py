"""What a table remembers of rows that are not there: removals, and who left since when. Bounded."""

from collections import deque
from collections.abc import Iterable, Iterator

from livejoin.tables.ingest.rank import Rank, rank_of

_LEFT = 100_000  # rows that left, for viewers that resume
_FEW = 10_000  # removals that are kept in any case

Version = tuple[int, int, int]


class Removals:
    """Removals by identity: a row that comes late, with a lower version, must stay away."""

    def __init__(self) -> None:
        self._by_id: dict[str, tuple[Version, int]] = {}
        self._prune_at = _FEW  # when it is worth looking which of them still count

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, row_id: str, version: Version, ts: int) -> None:
        """A row was removed; `ts` is of what caused it."""
        before = self._by_id.get(row_id)
        self._by_id[row_id] = version, max(ts, before[1]) if before else ts

    def overlap(self, ids: Iterable[str]) -> bool:
        """Whether any of these was removed."""
        return bool(self._by_id) and not self._by_id.keys().isdisjoint(ids)

    def get(self, row_id: str) -> tuple[Version, int] | None:
        """The version and time of a removal."""
        return self._by_id.get(row_id)

    @property
    def prune_due(self) -> bool:
        """Whether it is time to forget those that count no more."""
        return len(self._by_id) > self._prune_at

    def prune_below(self, floor: Rank | None) -> None:
        """A row that ranks below a full table's lowest one stays away by itself."""
        if floor is not None:
            self._by_id = {i: it for i, it in self._by_id.items() if rank_of(it[1], i) >= floor}
        self._prune_at = max(_FEW, 2 * len(self._by_id))


class Departures:
    """Which rows left, in the order of the changelog, as far back as is remembered."""

    def __init__(self) -> None:
        self._rows: deque[tuple[str, int]] = deque()
        self._horizon = 0  # where in the changelog one left that is not remembered

    def add(self, ids: Iterable[str], seq: int) -> None:
        """These left at this point."""
        self._rows.extend((row_id, seq) for row_id in ids)
        while len(self._rows) > _LEFT:
            self._horizon = self._rows.popleft()[1]

    def reset(self, seq: int) -> None:
        """Who left up to this point is not known."""
        self._rows.clear()
        self._horizon = seq

    def covers(self, seq: int) -> bool:
        """Whether all that left after this point is remembered."""
        return self._horizon <= seq

    def since(self, seq: int) -> Iterator[str]:
        """Who left after this point, the last one first; some may be back, or come twice."""
        for row_id, at in reversed(self._rows):
            if at <= seq:
                return
            yield row_id
