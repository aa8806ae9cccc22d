"""Coverage: which input records have left a mark in the changelog, up to the pins."""

from collections.abc import Iterable, Mapping

from livejoin.core.generation import Offsets


class Coverage:
    """Counts marks up to the pins of a generation. They may be out of order or repeated."""

    def __init__(self, starts: Mapping[str, Offsets], pins: Mapping[str, Offsets]) -> None:
        self._pins = {(s, p): pin for s, offsets in pins.items() for p, pin in offsets.items()}
        # next missing offset, and marks beyond it that came early
        self._next = {at: starts[at[0]][at[1]] for at in self._pins}
        self._early: dict[tuple[str, int], set[int]] = {at: set() for at in self._pins}
        self._incomplete = {at for at in self._pins if self._next[at] <= self._pins[at]}
        self._total = sum(self._pins[at] + 1 - self._next[at] for at in self._incomplete)

    @property
    def complete(self) -> bool:
        """Whether every offset from the start to the pins is covered."""
        return not self._incomplete

    @property
    def total(self) -> int:
        """Number of offsets from the starts to the pins."""
        return self._total

    @property
    def done(self) -> int:
        """Number of covered offsets."""
        missing = (
            self._pins[at] + 1 - self._next[at] - len(self._early[at]) for at in self._incomplete
        )
        return self._total - sum(missing)

    def add(self, source: str, partition: int, offsets: Iterable[int]) -> None:
        """Record marks at these offsets."""
        at = (source, partition)
        if at in self._incomplete:
            first, last = self._next[at], self._pins[at]
            self._early[at].update(offset for offset in offsets if first <= offset <= last)
            self._advance(at)

    def gaps(self) -> dict[tuple[str, int], range]:
        """Offsets without a mark, by source and partition, once the pin itself has one.

        Transaction markers and compacted records leave no mark.
        """
        return {
            at: range(self._next[at], self._pins[at])
            for at in self._incomplete
            if self._pins[at] in self._early[at]
        }

    def add_absent(self, source: str, partition: int, offsets: Iterable[int]) -> None:
        """These offsets hold no records."""
        self.add(source, partition, offsets)

    def _advance(self, at: tuple[str, int]) -> None:
        early = self._early[at]
        while self._next[at] in early:
            early.remove(self._next[at])
            self._next[at] += 1
        if self._next[at] > self._pins[at]:
            self._incomplete.discard(at)


class BootstrapCoverage:
    """Progress of reading a bootstrap topic: some records leave a mark, the last ones always do."""

    def __init__(self, start: int, ends: range) -> None:
        self._start, self._at = start, start
        self._last = ends
        # a committed batch is not read again, and has left its marks
        self._missing = {end for end in ends if end >= start}

    @property
    def complete(self) -> bool:
        """Whether all of it was read."""
        return not self._missing

    @property
    def total(self) -> int:
        """Number of records to read."""
        return max(0, self._last.stop - self._start)

    @property
    def done(self) -> int:
        """Number of records known to be read; a lower bound."""
        return self.total if self.complete else self._at - self._start

    def add(self, offsets: Iterable[int]) -> None:
        """Record marks at these offsets."""
        for offset in offsets:
            self._missing.discard(offset)
            self._at = max(self._at, min(offset, self._last.stop))
