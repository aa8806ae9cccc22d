"""Asks Kafka where the topics of the served generation end, for the lag.

A thread of its own does it, so readers of the figures never wait.
"""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import OffsetSpec

from livejoin.core.names import Names
from livejoin.errors import LivejoinError, TopicReplaced
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import OffsetRange, PartitionId, last_readable
from livejoin.kafka.topic_errors import topic_not_found
from livejoin.tables.ingest.read_progress import SourceOffsets, SourcePartition
from livejoin.tables.observe.lag import Lag, ServedGeneration

log = structlog.get_logger()

_POLL_S = 5.0


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
            ends, empty = self._fetch_ends(served)
        except (LivejoinError, KafkaException) as error:
            why = str(error)
            if why != self._last_error:
                log.warning("the lag is unknown", why=why)
            self._last_error = why
            self._post(partial(self._target.lag.record_failure, why))
        else:
            self._last_error = ""
            self._post(partial(self._target.lag.record_ends, served, ends, empty))

    def _fetch_ends(self, served: ServedGeneration) -> tuple[SourceOffsets, set[SourcePartition]]:
        """The end offsets, and the partitions whose unread offsets hold no record."""
        readings = served.generation.sources
        topics = self._kafka.describe(reading.topic for reading in readings.values())
        for reading in readings.values():
            if reading.topic not in topics:
                raise topic_not_found(reading.topic)
            if topics[reading.topic].id != reading.topic_id:
                raise TopicReplaced(f'topic "{reading.topic}" was deleted and recreated')
        by_topic = self._kafka.offsets(topics.values(), OffsetSpec.latest())
        ends = {source: by_topic[reading.topic] for source, reading in readings.items()}
        unread = {
            PartitionId(readings[source].topic, p): OffsetRange(served.position(source, p), end)
            for source, its_ends in ends.items()
            for p, end in its_ends.items()
            if end > served.position(source, p)
        }
        empty = self._find_empty(unread)
        return ends, {
            SourcePartition(source, p)
            for source, its_ends in ends.items()
            for p in its_ends
            if PartitionId(readings[source].topic, p) in empty
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
