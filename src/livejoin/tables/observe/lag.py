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
from livejoin.kafka.errors import missing
from livejoin.kafka.reading import Place, Span, last_readable
from livejoin.tables.ingest.marks import BySource

log = structlog.get_logger()

_LOOK_S = 5.0
_KEPT = 720  # looks, an hour of them; after that every other one is let go


@dataclass(frozen=True)
class Shown:
    """The generation that is shown, and what it has read."""

    generation: Generation
    reached: BySource

    def at(self, source: str, partition: int) -> int:
        """The next offset of a partition."""
        start = self.generation.sources[source].start.get(partition, 0)
        return self.reached.get(source, {}).get(partition, start)

    def left(self, source: str, ends: Offsets) -> int:
        """How many offsets of a source are unread."""
        return sum(max(0, end - self.at(source, p)) for p, end in ends.items())


class Lag:
    """Figures of the generation that is shown. Lives on the thread that owns the tables."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.trouble = "not asked yet"  # why the ends are not known
        self._generation = 0
        # by source, since it was last read to its end: when its topic ended where
        self._looks: dict[str, list[tuple[float, Offsets]]] = {}

    def looked(self, shown: Shown, ends: BySource) -> None:
        """Where the topics of a generation end now."""
        if shown.generation.number != self._generation:
            self._generation, self._looks = shown.generation.number, {}
        self.trouble = ""
        for source, offsets in ends.items():
            behind = shown.left(source, offsets) > 0
            before = self._looks.get(source, []) if behind else []
            unread = [look for look in before if shown.left(source, look[1])]
            if len(unread) > _KEPT:
                unread = unread[::2]  # a coarser memory, and still the oldest
            self._looks[source] = [*unread, (self._clock(), offsets)]

    def failed(self, why: str) -> None:
        """The ends could not be asked for."""
        self.trouble = why

    def of(self, shown: Shown) -> dict[str, tuple[int, float]]:
        """By source: records that are unread, and for how long the oldest of them has been there.

        Nothing while it is not known.
        """
        if self.trouble or shown.generation.number != self._generation:
            return {}
        return {source: self._of(shown, source, looks) for source, looks in self._looks.items()}

    def _of(
        self, shown: Shown, source: str, looks: Sequence[tuple[float, Offsets]]
    ) -> tuple[int, float]:
        left = shown.left(source, looks[-1][1])
        if not left:
            return 0, 0.0
        since = next(at for at, ends in looks if shown.left(source, ends))
        return left, self._clock() - since


class Server(Protocol):
    """What is shown, and who is told."""

    lag: Lag

    @property
    def shown(self) -> Shown | None:
        """What is shown now; may be asked from any thread."""


class Ends:
    """Asks Kafka where the topics end, every few seconds, until told to stop."""

    def __init__(
        self, kafka: Kafka, names: Names, host: Server, post: Callable[[Callable[[], None]], object]
    ) -> None:
        self._kafka = kafka
        self._names = names
        self._host = host
        self._post = post
        self._last: dict[Place, Span] = {}  # what was unread at the last look
        self._blank: dict[Place, Span] = {}  # spans in which nothing can be read
        self._records: dict[Place, Span] = {}  # spans in which something can
        self._said = ""

    def run(self, stop: threading.Event) -> None:
        """Ask. Trouble is told and tried again."""
        while not stop.wait(_LOOK_S):
            shown = self._host.shown
            if shown is not None and shown.generation.resolved:
                self._look(shown)

    def _look(self, shown: Shown) -> None:
        try:
            ends = self._ends(shown)
        except (LivejoinError, KafkaException) as error:
            why = str(error)
            if why != self._said:
                log.warning("the lag is not known", why=why)
            self._said = why
            self._post(partial(self._host.lag.failed, why))
        else:
            self._said = ""
            self._post(partial(self._host.lag.looked, shown, ends))

    def _ends(self, shown: Shown) -> BySource:
        readings = shown.generation.sources
        topics = self._kafka.describe(reading.topic for reading in readings.values())
        for reading in readings.values():
            if reading.topic not in topics:
                raise missing(reading.topic)
            if topics[reading.topic].id != reading.topic_id:
                raise TopicUnusable(f'topic "{reading.topic}" was deleted and made again')
        found = self._kafka.offsets(topics.values(), OffsetSpec.latest())
        unread = {
            Place(reading.topic, partition): Span(shown.at(source, partition), end)
            for source, reading in readings.items()
            for partition, end in found[reading.topic].items()
            if end > shown.at(source, partition)
        }
        blank = self._without_records(unread)
        return {
            source: {
                p: shown.at(source, p) if Place(reading.topic, p) in blank else end
                for p, end in found[reading.topic].items()
            }
            for source, reading in readings.items()
        }

    def _without_records(self, unread: Mapping[Place, Span]) -> set[Place]:
        """Where nothing is left but markers of transactions and what was aborted.

        An end offset does not tell: it is looked up once, where nothing moves from look to look.
        """
        # what has moved since tells nothing any more
        self._blank = {p: span for p, span in self._blank.items() if unread.get(p) == span}
        self._records = {p: span for p, span in self._records.items() if unread.get(p) == span}
        known = self._blank.keys() | self._records.keys()
        asked = {
            place: span
            for place, span in unread.items()
            if self._last.get(place) == span and place not in known
        }
        self._last = dict(unread)
        if asked:
            found = last_readable(self._kafka, self._names.group("lag"), asked)
            for place, span in asked.items():
                (self._records if place in found else self._blank)[place] = span
        return set(self._blank)
