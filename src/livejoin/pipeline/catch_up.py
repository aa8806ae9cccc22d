"""Catching up: whether the marks of a run cover everything from its starts to its pins."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import TopicPartition

from livejoin.core.changelog import BOOTSTRAP, marked_offsets
from livejoin.core.coverage import BootstrapCoverage, Coverage
from livejoin.core.generation import Offsets
from livejoin.core.names import Names
from livejoin.kafka.cluster import Topic
from livejoin.kafka.clusters import Clusters
from livejoin.kafka.records import (
    BatchReader,
    PartitionId,
    existing_offsets,
)

_GAP_CHECK_S = 1.0  # without a new mark, until gaps are checked
_GAP_CHECK_OFFSETS = 100_000  # at a time; in between it reports progress and can be stopped


@dataclass(frozen=True)
class ReplayRange:
    """What a run must read before its tables are complete: from the starts to the pins."""

    topics: Mapping[str, Topic]  # by source, like the next two
    starts: Mapping[str, Offsets]
    pins: Mapping[str, Offsets]
    changelog_start: int  # offset from which this run writes
    bootstrap: BootstrapCoverage = field(default_factory=lambda: BootstrapCoverage(0, range(0)))


@dataclass(frozen=True)
class CatchUp:
    """Waits until one run has covered its replay range."""

    clusters: Clusters
    names: Names
    generation: int
    replay: ReplayRange
    progressed: Callable[[int, int], None]  # records done, and in total
    stopped: Callable[[], bool]

    def follow(self) -> int | None:
        """The changelog offset from which the tables are complete; None when stopped."""
        coverage, bootstrap = Coverage(self.replay.starts, self.replay.pins), self.replay.bootstrap
        ready_at, reported = self.replay.changelog_start, -1
        if coverage.complete and bootstrap.complete:
            return ready_at
        check_at = time.monotonic() + _GAP_CHECK_S
        consumer = self.clusters.own.reader(self.names.group("catch-up"), fetch_wait_ms=10)
        try:
            changelog = self.names.changelog(self.generation)
            consumer.assign([TopicPartition(changelog, 0, self.replay.changelog_start)])
            reader = BatchReader(consumer)
            while not self.stopped():
                messages = reader.next_batch()
                # only keys: values need not be copied
                marks = marked_offsets(message.key() or b"" for message in messages)
                for (source, partition), offsets in marks.items():
                    if source == BOOTSTRAP:
                        bootstrap.add(offsets)
                    else:
                        coverage.add(source, partition, offsets)
                done = coverage.done + bootstrap.done
                if messages:
                    ready_at = (messages[-1].offset() or 0) + 1
                if done != reported:
                    check_at = time.monotonic() + _GAP_CHECK_S
                elif time.monotonic() > check_at:
                    began = time.monotonic()
                    self._find_absent_records(coverage, bootstrap)
                    # a check takes at most a fifth of the time
                    check_at = time.monotonic() + _GAP_CHECK_S + 4 * (time.monotonic() - began)
                if coverage.complete and bootstrap.complete:
                    return ready_at
                if done != reported:
                    reported = done
                    self._report_progress(coverage, bootstrap)
            return None
        finally:
            consumer.close()

    def _find_absent_records(self, coverage: Coverage, bootstrap: BootstrapCoverage) -> None:
        """Cover offsets without a record, such as transaction markers: they never get a mark."""
        for (source, partition), gap in coverage.gaps().items():
            partition_id = PartitionId(self.replay.topics[source].name, partition)
            for first in range(gap.start, gap.stop, _GAP_CHECK_OFFSETS):
                if self.stopped():
                    return
                offsets = range(first, min(first + _GAP_CHECK_OFFSETS, gap.stop))
                group = self.names.group("pins")
                found = set(existing_offsets(self.clusters.data, group, partition_id, offsets))
                coverage.add_absent(source, partition, (at for at in offsets if at not in found))
                self._report_progress(coverage, bootstrap)  # so that it does not look stalled

    def _report_progress(self, coverage: Coverage, bootstrap: BootstrapCoverage) -> None:
        self.progressed(coverage.done + bootstrap.done, coverage.total + bootstrap.total)
