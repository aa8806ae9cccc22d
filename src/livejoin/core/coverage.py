"""Which input records left their mark, and whether all that must have are there."""

from collections.abc import Iterable, Mapping

from livejoin.core.generation import Offsets


class Coverage:
    """Counts marks towards a generation's pins. They come in any order, and again after a crash."""

    def __init__(self, starts: Mapping[str, Offsets], pins: Mapping[str, Offsets]) -> None:
        self._pins = {(s, p): pin for s, offsets in pins.items() for p, pin in offsets.items()}
        # the next offset that is missing, and those beyond it that came early
        self._next = {at: starts[at[0]][at[1]] for at in self._pins}
        self._early: dict[tuple[str, int], set[int]] = {at: set() for at in self._pins}
        self._incomplete = {at for at in self._pins if self._next[at] <= self._pins[at]}
        self._total = sum(self._pins[at] + 1 - self._next[at] for at in self._incomplete)

    @property
    def complete(self) -> bool:
        """Whether every position from the start to the pins is covered."""
        return not self._incomplete

    @property
    def total(self) -> int:
        """How many positions there are from the starts to the pins."""
        return self._total

    @property
    def done(self) -> int:
        """How many of them are covered."""
        missing = (
            self._pins[at] + 1 - self._next[at] - len(self._early[at]) for at in self._incomplete
        )
        return self._total - sum(missing)

    def add(self, source: str, partition: int, offsets: Iterable[int]) -> None:
        """Marks of these records were seen."""
        at = (source, partition)
        if at in self._incomplete:
            first, last = self._next[at], self._pins[at]
            self._early[at].update(offset for offset in offsets if first <= offset <= last)
            self._advance(at)

    def gaps(self) -> dict[tuple[str, int], range]:
        """By source and partition, once the pin's own mark was seen: where marks are missing.

        Markers of transactions and what compaction removed leave no mark.
        """
        return {
            at: range(self._next[at], self._pins[at])
            for at in self._incomplete
            if self._pins[at] in self._early[at]
        }

    def add_absent(self, source: str, partition: int, offsets: Iterable[int]) -> None:
        """There are no records at these offsets."""
        self.add(source, partition, offsets)

    def _advance(self, at: tuple[str, int]) -> None:
        early = self._early[at]
        while self._next[at] in early:
            early.remove(self._next[at])
            self._next[at] += 1
        if self._next[at] > self._pins[at]:
            self._incomplete.discard(at)


class BootstrapCoverage:
    """How far a feed is in the state. Now and then a record leaves a mark, and the last ones do."""

    def __init__(self, start: int, ends: range) -> None:
        self._start, self._at = start, start
        self._last = ends
        # what a committed batch has read does not come again, and its marks are there
        self._missing = {end for end in ends if end >= start}

    @property
    def complete(self) -> bool:
        """Whether all of it is in the state."""
        return not self._missing

    @property
    def total(self) -> int:
        """How many records there are."""
        return max(0, self._last.stop - self._start)

    @property
    def done(self) -> int:
        """How many of them are known to be read, at least."""
        return self.total if self.complete else self._at - self._start

    def add(self, offsets: Iterable[int]) -> None:
        """Marks of these records were seen."""
        for offset in offsets:
            self._missing.discard(offset)
            self._at = max(self._at, min(offset, self._last.stop))
