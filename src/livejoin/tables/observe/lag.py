"""How far the served rows are behind their topics.

The changelog tells which offsets were read: a row's ID is the position of its record. The end
offsets come from `end_offsets.py`.
"""

import heapq
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from livejoin.core.generation import Generation, Offsets
from livejoin.tables.ingest.read_progress import SourceOffsets, SourcePartition

_MAX_SAMPLES = 720  # of one hour; after that every other one is dropped


@dataclass(frozen=True)
class ServedGeneration:
    """The generation that the tables show, and its read positions."""

    generation: Generation
    positions: SourceOffsets

    def position(self, source: str, partition: int) -> int:
        """The next offset to be read of a partition."""
        start = self.generation.sources[source].start.get(partition, 0)
        return self.positions.get(source, {}).get(partition, start)

    def unread(self, source: str, ends: Offsets) -> int:
        """The number of unread offsets of a source."""
        return sum(max(0, end - self.position(source, p)) for p, end in ends.items())

    def partitions(self, source: str) -> AbstractSet[int]:
        """The partitions of a source that were there at its start or have been read since."""
        start = self.generation.sources[source].start
        return start.keys() | self.positions.get(source, {}).keys()


@dataclass(frozen=True)
class PartitionLag:
    """How far a partition was read, and how far it goes; None while that is unknown."""

    partition: int
    next_offset: int  # to be read
    end_offset: int | None  # of the next record that is written
    unread: int | None
    behind_s: float | None  # age of the oldest unread record


class Lag:
    """The lag of the served generation. Belongs to the event loop's thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.trouble = "not asked yet"  # why the lag is unknown
        self._generation = 0
        self._ends: SourceOffsets = {}  # as Kafka reported them last
        # by source, since it was last read to its end: the ends of what is there to be read
        self._samples: dict[str, list[tuple[float, Offsets]]] = {}

    def record_ends(
        self,
        served: ServedGeneration,
        ends: SourceOffsets,
        empty: AbstractSet[SourcePartition] = frozenset(),
    ) -> None:
        """Record the current end offsets of a generation's topics.

        Of the partitions in `empty`, the unread offsets hold no record.
        """
        if served.generation.number != self._generation:
            self._generation, self._ends, self._samples = served.generation.number, {}, {}
        self.trouble = ""
        self._ends = {**self._ends, **ends}
        for source, its_ends in ends.items():
            offsets = {
                p: served.position(source, p) if SourcePartition(source, p) in empty else end
                for p, end in its_ends.items()
            }
            behind = served.unread(source, offsets) > 0
            samples = self._samples.get(source, []) if behind else []
            unread = [sample for sample in samples if served.unread(source, sample[1])]
            if len(unread) > _MAX_SAMPLES:
                unread = unread[::2]  # coarser, but keeps the oldest
            self._samples[source] = [*unread, (self._clock(), offsets)]

    def record_failure(self, why: str) -> None:
        """Record why the end offsets are unknown."""
        self.trouble = why

    def by_source(self, served: ServedGeneration) -> dict[str, tuple[int, float]]:
        """The unread offsets by source, and the age of the oldest in seconds.

        Empty while it is unknown.
        """
        if not self._is_known(served):
            return {}
        return {
            source: self._source_lag(served, source, samples)
            for source, samples in self._samples.items()
        }

    def partitions(self, served: ServedGeneration, source: str) -> AbstractSet[int]:
        """All partitions of a source that are known."""
        ends = self._ends.get(source, {}) if self._is_known(served) else {}
        return served.partitions(source) | ends.keys()

    def worst_partitions(
        self, served: ServedGeneration, source: str, count: int
    ) -> list[PartitionLag]:
        """The partitions of a source with the most unread records, at most `count` of them."""
        samples = self._samples.get(source, []) if self._is_known(served) else []
        readable = samples[-1][1] if samples else {}

        def rank(partition: int) -> tuple[int, int]:
            unread = readable.get(partition, 0) - served.position(source, partition)
            return -max(0, unread), partition

        return [
            self._partition_lag(served, source, partition, samples)
            for partition in heapq.nsmallest(count, self.partitions(served, source), key=rank)
        ]

    def _is_known(self, served: ServedGeneration) -> bool:
        return not self.trouble and served.generation.number == self._generation

    def _partition_lag(
        self,
        served: ServedGeneration,
        source: str,
        partition: int,
        samples: Sequence[tuple[float, Offsets]],
    ) -> PartitionLag:
        position = served.position(source, partition)
        if not samples or partition not in samples[-1][1]:
            return PartitionLag(partition, position, None, None, None)
        end = max(self._ends[source][partition], position)  # it was asked for a while ago
        unread = max(0, samples[-1][1][partition] - position)
        first_seen = (at for at, ends in samples if ends.get(partition, 0) > position)
        behind_s = self._clock() - next(first_seen) if unread else 0.0
        return PartitionLag(partition, position, end, unread, behind_s)

    def _source_lag(
        self, served: ServedGeneration, source: str, samples: Sequence[tuple[float, Offsets]]
    ) -> tuple[int, float]:
        unread = served.unread(source, samples[-1][1])
        if not unread:
            return 0, 0.0
        first_seen = next(at for at, ends in samples if served.unread(source, ends))
        return unread, self._clock() - first_seen
