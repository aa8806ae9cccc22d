"""Follows a run's marks in its changelog until all up to the pins are there."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import TopicPartition

from livejoin.core import changelog as rows
from livejoin.core.coverage import BootstrapCoverage, Coverage
from livejoin.core.generation import Offsets
from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.kafka.reading import BatchReader, PartitionId, existing_offsets

_GAP_CHECK_S = 1.0  # without a mark before gaps are looked into
_GAP_CHECK_OFFSETS = (
    100_000  # offsets at a time: after each it can be stopped, and has come further
)


@dataclass(frozen=True)
class ReplayRange:
    """What a run has before it: from the starts to the pins, seen in its changelog from `since`."""

    topics: Mapping[str, Topic]  # by source, as are the next two
    starts: Mapping[str, Offsets]
    pins: Mapping[str, Offsets]
    changelog_start: int
    bootstrap: BootstrapCoverage = field(
        default_factory=lambda: BootstrapCoverage(0, range(0))
    )  # of its history


@dataclass(frozen=True)
class CatchUp:
    """One run's way to its pins."""

    kafka: Kafka
    names: Names
    generation: int
    replay: ReplayRange
    progressed: Callable[[int, int], None]  # records done and in all
    stopped: Callable[[], bool]

    def follow(self) -> int | None:
        """The changelog offset from which on the tables are complete; None when told to stop."""
        coverage, feeding = Coverage(self.replay.starts, self.replay.pins), self.replay.bootstrap
        ready_at, told = self.replay.changelog_start, -1
        if coverage.complete and feeding.complete:
            return ready_at
        look_at = time.monotonic() + _GAP_CHECK_S
        consumer = self.kafka.reader(self.names.group("catch-up"), fetch_wait_ms=10)
        try:
            changelog = self.names.changelog(self.generation)
            consumer.assign([TopicPartition(changelog, 0, self.replay.changelog_start)])
            flow = BatchReader(consumer)
            while not self.stopped():
                messages = flow.next_batch()
                # values are not looked at, and so not copied
                marks = rows.marked_offsets(message.key() or b"" for message in messages)
                for (source, partition), offsets in marks.items():
                    if source == rows.BOOTSTRAP:
                        feeding.add(offsets)
                    else:
                        coverage.add(source, partition, offsets)
                done = coverage.done + feeding.done
                if messages:
                    ready_at = (messages[-1].offset() or 0) + 1
                if done != told:
                    look_at = time.monotonic() + _GAP_CHECK_S
                elif time.monotonic() > look_at:
                    began = time.monotonic()
                    self._find_absent_records(coverage, feeding)
                    # a long look is worth its time only now and then
                    look_at = time.monotonic() + _GAP_CHECK_S + 4 * (time.monotonic() - began)
                if coverage.complete and feeding.complete:
                    return ready_at
                if done != told:
                    told = done
                    self._report_progress(coverage, feeding)
            return None
        finally:
            consumer.close()

    def _find_absent_records(self, coverage: Coverage, feeding: BootstrapCoverage) -> None:
        """Which of the marks that are missing have no record to come from."""
        for (source, partition), gap in coverage.gaps().items():
            place = PartitionId(self.replay.topics[source].name, partition)
            for first in range(gap.start, gap.stop, _GAP_CHECK_OFFSETS):
                if self.stopped():
                    return
                some = range(first, min(first + _GAP_CHECK_OFFSETS, gap.stop))
                found = set(existing_offsets(self.kafka, self.names.group("pins"), place, some))
                coverage.add_absent(source, partition, (at for at in some if at not in found))
                self._report_progress(coverage, feeding)  # a long look is no stall

    def _report_progress(self, coverage: Coverage, feeding: BootstrapCoverage) -> None:
        self.progressed(coverage.done + feeding.done, coverage.total + feeding.total)
