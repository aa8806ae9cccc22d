"""How far the served rows are behind their topics.

The changelog tells which offsets were read: a row's ID is the position of its record. A thread of
its own asks Kafka for the end offsets, so readers of the figures never wait.
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
from livejoin.errors import LivejoinError, TopicReplaced
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import OffsetRange, PartitionId, last_readable
from livejoin.kafka.topic_errors import topic_not_found
from livejoin.tables.ingest.read_progress import SourceOffsets

log = structlog.get_logger()

_POLL_S = 5.0
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


class Lag:
    """The lag of the served generation. Belongs to the event loop's thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.trouble = "not asked yet"  # why the lag is unknown
        self._generation = 0
        # end offsets over time by source, since it was last read to its end
        self._samples: dict[str, list[tuple[float, Offsets]]] = {}

    def record_ends(self, served: ServedGeneration, ends: SourceOffsets) -> None:
        """Record the current end offsets of a generation's topics."""
        if served.generation.number != self._generation:
            self._generation, self._samples = served.generation.number, {}
        self.trouble = ""
        for source, offsets in ends.items():
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
        if self.trouble or served.generation.number != self._generation:
            return {}
        return {
            source: self._source_lag(served, source, samples)
            for source, samples in self._samples.items()
        }

    def _source_lag(
        self, served: ServedGeneration, source: str, samples: Sequence[tuple[float, Offsets]]
    ) -> tuple[int, float]:
        unread = served.unread(source, samples[-1][1])
        if not unread:
            return 0, 0.0
        first_seen = next(at for at, ends in samples if served.unread(source, ends))
        return unread, self._clock() - first_seen


class LagTarget(Protocol):
    """What the poller reads and updates: the served generation and its lag."""

    lag: Lag

    @property
    def served(self) -> ServedGeneration | None:
        """The served generation; may be read from any thread."""


class EndOffsetPoller:
    """Polls Kafka for the end offsets of the served generation's topics."""

    def __init__(
        self,
        kafka: Kafka,
        names: Names,
        target: LagTarget,
        post: Callable[[Callable[[], None]], object],
    ) -> None:
        self._kafka = kafka
        self._names = names
        self._target = target
        self._post = post
        self._last_unread: dict[PartitionId, OffsetRange] = {}  # at the last poll
        self._empty_spans: dict[PartitionId, OffsetRange] = {}  # without any record
        self._record_spans: dict[PartitionId, OffsetRange] = {}  # with a record
        self._last_error = ""

    def run(self, stop: threading.Event) -> None:
        """Poll until stopped. Errors are recorded and retried."""
        while not stop.wait(_POLL_S):
            served = self._target.served
            if served is not None and served.generation.resolved:
                self._poll(served)

    def _poll(self, served: ServedGeneration) -> None:
        try:
            ends = self._fetch_ends(served)
        except (LivejoinError, KafkaException) as error:
            why = str(error)
            if why != self._last_error:
                log.warning("the lag is unknown", why=why)
            self._last_error = why
            self._post(partial(self._target.lag.record_failure, why))
        else:
            self._last_error = ""
            self._post(partial(self._target.lag.record_ends, served, ends))

    def _fetch_ends(self, served: ServedGeneration) -> SourceOffsets:
        readings = served.generation.sources
        topics = self._kafka.describe(reading.topic for reading in readings.values())
        for reading in readings.values():
            if reading.topic not in topics:
                raise topic_not_found(reading.topic)
            if topics[reading.topic].id != reading.topic_id:
                raise TopicReplaced(f'topic "{reading.topic}" was deleted and recreated')
        ends = self._kafka.offsets(topics.values(), OffsetSpec.latest())
        unread = {
            PartitionId(reading.topic, partition): OffsetRange(
                served.position(source, partition), end
            )
            for source, reading in readings.items()
            for partition, end in ends[reading.topic].items()
            if end > served.position(source, partition)
        }
        empty = self._find_empty(unread)
        return {
            source: {
                p: served.position(source, p) if PartitionId(reading.topic, p) in empty else end
                for p, end in ends[reading.topic].items()
            }
            for source, reading in readings.items()
        }

    def _find_empty(self, unread: Mapping[PartitionId, OffsetRange]) -> set[PartitionId]:
        """The partitions whose unread offsets are only transaction markers and aborted records.

        The end offset does not tell. It is looked up once, if nothing changed between two polls.
        """
        # what was found about other ranges is outdated
        self._empty_spans = {
            p: span for p, span in self._empty_spans.items() if unread.get(p) == span
        }
        self._record_spans = {
            p: span for p, span in self._record_spans.items() if unread.get(p) == span
        }
        known = self._empty_spans.keys() | self._record_spans.keys()
        unknown = {
            partition: span
            for partition, span in unread.items()
            if self._last_unread.get(partition) == span and partition not in known
        }
        self._last_unread = dict(unread)
        if unknown:
            found = last_readable(self._kafka, self._names.group("lag"), unknown)
            for partition, span in unknown.items():
                spans = self._record_spans if partition in found else self._empty_spans
                spans[partition] = span
        return set(self._empty_spans)
