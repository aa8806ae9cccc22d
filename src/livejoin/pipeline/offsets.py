"""Where a generation starts or continues to read, its pins, and how it catches up to them.

A run has caught up when its marks in the changelog cover everything from its starts to its pins.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from livejoin.core import spec
from livejoin.core.changelog import BOOTSTRAP, marked_offsets
from livejoin.core.coverage import BootstrapCoverage, Coverage
from livejoin.core.generation import Generation, Offsets, Reading
from livejoin.core.names import Names
from livejoin.core.spec import start_time
from livejoin.errors import GenerationUnrecoverable
from livejoin.kafka.clients import topic_not_authorized, topic_not_found
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.kafka.records import (
    BatchReader,
    OffsetRange,
    PartitionId,
    existing_offsets,
    last_readable,
)
from livejoin.pipeline.checkpoints import CommittedOffsets

_GAP_CHECK_S = 1.0  # without a new mark, until gaps are checked
_GAP_CHECK_OFFSETS = 100_000  # at a time; in between it reports progress and can be stopped


def resolve(
    kafka: Kafka, names: Names, choice: spec.Choice, start: Mapping[str, str]
) -> dict[str, Reading]:
    """Topic id, start offsets and pins of each source; an error where a topic cannot be read."""
    topics = _describe_sources(kafka, choice)
    ends = kafka.offsets(topics.values(), OffsetSpec.latest())
    starts = {
        source: _start_offsets(kafka, topic, start[source], ends[topic.name])
        for source, topic in topics.items()
    }
    last = find_pins(kafka, names, topics, starts, ends)
    return {
        source: Reading(topic.name, topic.id, starts[source], last[source])
        for source, topic in topics.items()
    }


def find_pins(
    kafka: Kafka,
    names: Names,
    topics: Mapping[str, Topic],
    starts: Mapping[str, Offsets],
    ends: Mapping[str, Offsets],
) -> dict[str, dict[int, int]]:
    """Offset of the last readable record after the start, by source and partition."""
    ranges = {
        PartitionId(topic.name, p): OffsetRange(starts[source][p], ends[topic.name][p])
        for source, topic in topics.items()
        for p in topic.partitions
    }
    last = last_readable(kafka, names.group("pins"), ranges)
    return {
        source: {
            p: last[partition]
            for p in topic.partitions
            if (partition := PartitionId(topic.name, p)) in last
        }
        for source, topic in topics.items()
    }


def resume_offsets(
    kafka: Kafka,
    generation: Generation,
    topics: Mapping[str, Topic],
    committed: CommittedOffsets | None,
) -> dict[str, dict[int, int]]:
    """Offsets at which its query continues, by source; an error if records after them are lost."""
    if committed is None and generation.ready_at is not None:
        raise GenerationUnrecoverable("its checkpoint is missing")
    first = kafka.offsets(topics.values(), OffsetSpec.earliest())
    starts = {}
    for source, reading in generation.sources.items():
        committed_ends = (committed or {}).get(reading.topic, {})
        # new partitions are read from their beginning
        at = {p: committed_ends.get(p, reading.start.get(p, 0)) for p in topics[source].partitions}
        for partition, offset in first[reading.topic].items():
            if offset > at[partition]:
                lost = f"{at[partition]} to {offset - 1}"
                where = f'partition {partition} of topic "{reading.topic}"'
                raise GenerationUnrecoverable(
                    f"records {lost} of {where} were deleted before they were read"
                )
        starts[source] = at
    return starts


def offsets_json(topic: str, by_partition: Offsets) -> str:
    """Offsets of one topic as the connector's JSON."""
    return json.dumps({topic: {str(p): offset for p, offset in by_partition.items()}})


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

    kafka: Kafka
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
        consumer = self.kafka.reader(self.names.group("catch-up"), fetch_wait_ms=10)
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
                found = set(existing_offsets(self.kafka, group, partition_id, offsets))
                coverage.add_absent(source, partition, (at for at in offsets if at not in found))
                self._report_progress(coverage, bootstrap)  # so that it does not look stalled

    def _report_progress(self, coverage: Coverage, bootstrap: BootstrapCoverage) -> None:
        self.progressed(coverage.done + bootstrap.done, coverage.total + bootstrap.total)


def _describe_sources(kafka: Kafka, choice: spec.Choice) -> dict[str, Topic]:
    names = {source.name: choice.topic(source.name) for source in spec.SOURCES}
    found = kafka.describe(names.values())
    for name in names.values():
        if name not in found:
            raise topic_not_found(name)
        if not found[name].readable:
            raise topic_not_authorized(name)
    return {source: found[name] for source, name in names.items()}


def _start_offsets(kafka: Kafka, topic: Topic, start: str, ends: Offsets) -> dict[int, int]:
    if start == "latest":
        return dict(ends)
    at = start_time(start, time.time())
    position = OffsetSpec.earliest() if at is None else OffsetSpec.for_timestamp(int(at * 1000))
    found = kafka.offsets([topic], position)[topic.name]
    # -1: no record is that new, so reading starts at the end
    return {p: offset if offset >= 0 else ends[p] for p, offset in found.items()}
