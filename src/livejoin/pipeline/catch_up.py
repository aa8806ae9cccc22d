"""Follows a building generation's marks in its changelog until all up to the pins are there."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import TopicPartition

from livejoin.core import rows
from livejoin.core.coverage import Coverage
from livejoin.core.generation import Generation
from livejoin.core.names import Names
from livejoin.kafka import Kafka
from livejoin.reading import batch

_BATCH = 10_000
_ANSWER_S = 15
_LOOK_S = 1.0  # how often finished batches are asked for: topics with gaps in their offsets need it


@dataclass(frozen=True)
class CatchUp:
    """One generation's way to its pins."""

    kafka: Kafka
    names: Names
    generation: Generation
    finished: Callable[[], Mapping[str, Mapping[int, int]]]  # ends of finished batches by topic
    progressed: Callable[[int, int], None]  # records done and in all
    stopped: Callable[[], bool]

    def follow(self) -> int | None:
        """The changelog offset from which on the tables are complete; None when told to stop."""
        sources = self.generation.sources
        coverage = Coverage(
            {s: r.start for s, r in sources.items()}, {s: r.pins for s, r in sources.items()}
        )
        ready_at, told, look_at = 0, -1, time.monotonic() + _LOOK_S
        if coverage.complete:
            return ready_at
        consumer = self.kafka.reader(self.names.group("catch-up"), fetch_wait_ms=10)
        try:
            changelog = TopicPartition(self.names.changelog(self.generation.number), 0, 0)
            consumer.assign([changelog])
            while not self.stopped():
                for record in batch(consumer, _BATCH, 0.1):
                    ready_at = record.offset + 1
                    mark = rows.mark(record.key)
                    if mark is not None:
                        coverage.add(mark)
                if coverage.complete:
                    return ready_at
                if time.monotonic() > look_at:
                    look_at = time.monotonic() + _LOOK_S
                    self._look(coverage)
                    # a batch's records are in the changelog before it counts as finished
                    if coverage.complete:
                        return consumer.get_watermark_offsets(changelog, timeout=_ANSWER_S)[1]
                if coverage.done != told:
                    told = coverage.done
                    self.progressed(told, coverage.total)
            return None
        finally:
            consumer.close()

    def _look(self, coverage: Coverage) -> None:
        ends = self.finished()
        for source, reading in self.generation.sources.items():
            for partition, end in ends.get(reading.topic, {}).items():
                coverage.finished(source, partition, end)
