"""How far the rows that are shown are behind their topics.

What was read is known from the changelog: a row's identity is the place of its record. Where the
topics end is asked of Kafka on a thread of its own, so that nobody who reads the figures waits.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import OffsetSpec

from livejoin.core.generation import Generation, Offsets
from livejoin.core.names import Names
from livejoin.errors import LivejoinError, TopicUnusable
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.errors import topic_not_found
from livejoin.kafka.reading import OffsetRange, PartitionId, last_readable
from livejoin.tables.ingest.read_progress import SourceOffsets

log = structlog.get_logger()

_LOOK_S = 5.0
_MAX_SAMPLES = 720  # looks, an hour of them; after that every other one is let go


@dataclass(frozen=True)
class ServedGeneration:
    """The generation that is shown, and what it has read."""

    generation: Generation
    positions: SourceOffsets

    def position(self, source: str, partition: int) -> int:
        """The next offset of a partition."""
        start = self.generation.sources[source].start.get(partition, 0)
        return self.positions.get(source, {}).get(partition, start)

    def unread(self, source: str, ends: Offsets) -> int:
        """How many offsets of a source are unread."""
        return sum(max(0, end - self.position(source, p)) for p, end in ends.items())


class Lag:
    """Figures of the generation that is shown. Lives on the thread that owns the tables."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.trouble = "not asked yet"  # why the ends are not known
        self._generation = 0
        # by source, since it was last read to its end: when its topic ended where
        self._samples: dict[str, list[tuple[float, Offsets]]] = {}

    def record_ends(self, shown: ServedGeneration, ends: SourceOffsets) -> None:
        """Where the topics of a generation end now."""
        if shown.generation.number != self._generation:
            self._generation, self._samples = shown.generation.number, {}
        self.trouble = ""
        for source, offsets in ends.items():
            behind = shown.unread(source, offsets) > 0
            before = self._samples.get(source, []) if behind else []
            unread = [look for look in before if shown.unread(source, look[1])]
            if len(unread) > _MAX_SAMPLES:
                unread = unread[::2]  # a coarser memory, and still the oldest
            self._samples[source] = [*unread, (self._clock(), offsets)]

    def record_failure(self, why: str) -> None:
        """The ends could not be asked for."""
        self.trouble = why

    def by_source(self, shown: ServedGeneration) -> dict[str, tuple[int, float]]:
        """By source: records that are unread, and for how long the oldest of them has been there.

        Nothing while it is not known.
        """
        if self.trouble or shown.generation.number != self._generation:
            return {}
        return {
            source: self._source_lag(shown, source, looks)
            for source, looks in self._samples.items()
        }

    def _source_lag(
        self, shown: ServedGeneration, source: str, looks: Sequence[tuple[float, Offsets]]
    ) -> tuple[int, float]:
        left = shown.unread(source, looks[-1][1])
        if not left:
            return 0, 0.0
        since = next(at for at, ends in looks if shown.unread(source, ends))
        return left, self._clock() - since


class LagTarget(Protocol):
    """What is shown, and who is told."""

    lag: Lag

    @property
    def served(self) -> ServedGeneration | None:
        """What is shown now; may be asked from any thread."""


class EndOffsetPoller:
    """Asks Kafka where the topics end, every few seconds, until told to stop."""

    def __init__(
        self,
        kafka: Kafka,
        names: Names,
        host: LagTarget,
        post: Callable[[Callable[[], None]], object],
    ) -> None:
        self._kafka = kafka
        self._names = names
        self._target = host
        self._post = post
        self._last_unread: dict[PartitionId, OffsetRange] = {}  # what was unread at the last look
        self._empty_spans: dict[PartitionId, OffsetRange] = {}  # spans in which nothing can be read
        self._record_spans: dict[PartitionId, OffsetRange] = {}  # spans in which something can
        self._last_error = ""

    def run(self, stop: threading.Event) -> None:
        """Ask. Trouble is told and tried again."""
        while not stop.wait(_LOOK_S):
            shown = self._target.served
            if shown is not None and shown.generation.resolved:
                self._poll(shown)

    def _poll(self, shown: ServedGeneration) -> None:
        try:
            ends = self._fetch_ends(shown)
        except (LivejoinError, KafkaException) as error:
            why = str(error)
            if why != self._last_error:
                log.warning("the lag is not known", why=why)
            self._last_error = why
            self._post(partial(self._target.lag.record_failure, why))
        else:
            self._last_error = ""
            self._post(partial(self._target.lag.record_ends, shown, ends))

    def _fetch_ends(self, shown: ServedGeneration) -> SourceOffsets:
        readings = shown.generation.sources
        topics = self._kafka.describe(reading.topic for reading in readings.values())
        for reading in readings.values():
            if reading.topic not in topics:
                raise topic_not_found(reading.topic)
            if topics[reading.topic].id != reading.topic_id:
                raise TopicUnusable(f'topic "{reading.topic}" was deleted and made again')
        found = self._kafka.offsets(topics.values(), OffsetSpec.latest())
        unread = {
            PartitionId(reading.topic, partition): OffsetRange(
                shown.position(source, partition), end
            )
            for source, reading in readings.items()
            for partition, end in found[reading.topic].items()
            if end > shown.position(source, partition)
        }
        blank = self._find_empty(unread)
        return {
            source: {
                p: shown.position(source, p) if PartitionId(reading.topic, p) in blank else end
                for p, end in found[reading.topic].items()
            }
            for source, reading in readings.items()
        }

    def _find_empty(self, unread: Mapping[PartitionId, OffsetRange]) -> set[PartitionId]:
        """Where nothing is left but markers of transactions and what was aborted.

        An end offset does not tell: it is looked up once, where nothing moves from look to look.
        """
        # what has moved since tells nothing any more
        self._empty_spans = {
            p: span for p, span in self._empty_spans.items() if unread.get(p) == span
        }
        self._record_spans = {
            p: span for p, span in self._record_spans.items() if unread.get(p) == span
        }
        known = self._empty_spans.keys() | self._record_spans.keys()
        asked = {
            place: span
            for place, span in unread.items()
            if self._last_unread.get(place) == span and place not in known
        }
        self._last_unread = dict(unread)
        if asked:
            found = last_readable(self._kafka, self._names.group("lag"), asked)
            for place, span in asked.items():
                (self._record_spans if place in found else self._empty_spans)[place] = span
        return set(self._empty_spans)
