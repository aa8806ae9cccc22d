"""What a table remembers of rows that are not there: removals, and who left since when. Bounded."""

from collections import deque
from collections.abc import Iterable, Iterator

from livejoin.tables.ingest.rank import Rank, rank

_LEFT = 100_000  # rows that left, for viewers that resume
_FEW = 10_000  # removals that are kept in any case

Version = tuple[int, int, int]


class Removals:
    """Removals by identity: a row that comes late, with a lower version, must stay away."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Version, int]] = {}
        self._look_at = _FEW  # when it is worth looking which of them still count

    def __len__(self) -> int:
        return len(self._known)

    def add(self, row_id: str, version: Version, ts: int) -> None:
        """A row was removed; `ts` is of what caused it."""
        before = self._known.get(row_id)
        self._known[row_id] = version, max(ts, before[1]) if before else ts

    def meet(self, ids: Iterable[str]) -> bool:
        """Whether any of these was removed."""
        return bool(self._known) and not self._known.keys().isdisjoint(ids)

    def get(self, row_id: str) -> tuple[Version, int] | None:
        """The version and time of a removal."""
        return self._known.get(row_id)

    @property
    def many(self) -> bool:
        """Whether it is time to forget those that count no more."""
        return len(self._known) > self._look_at

    def forget_below(self, floor: Rank | None) -> None:
        """A row that ranks below a full table's lowest one stays away by itself."""
        if floor is not None:
            self._known = {i: it for i, it in self._known.items() if rank(it[1], i) >= floor}
        self._look_at = max(_FEW, 2 * len(self._known))


class Left:
    """Which rows left, in the order of the changelog, as far back as is remembered."""

    def __init__(self) -> None:
        self._rows: deque[tuple[str, int]] = deque()
        self._forgotten_at = 0  # where in the changelog one left that is not remembered

    def add(self, ids: Iterable[str], seq: int) -> None:
        """These left at this point."""
        self._rows.extend((row_id, seq) for row_id in ids)
        while len(self._rows) > _LEFT:
            self._forgotten_at = self._rows.popleft()[1]

    def forget(self, seq: int) -> None:
        """Who left up to this point is not known."""
        self._rows.clear()
        self._forgotten_at = seq

    def knows(self, seq: int) -> bool:
        """Whether all that left after this point is remembered."""
        return self._forgotten_at <= seq

    def since(self, seq: int) -> Iterator[str]:
        """Who left after this point, the last one first; some may be back, or come twice."""
        for row_id, at in reversed(self._rows):
            if at <= seq:
                return
            yield row_id
