"""The pipeline as the control plane sees it: resolve, start, stop, catch up, watch, clean up.

Puts the parts of this room together.
"""

import threading
from collections.abc import Callable, Mapping

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from livejoin import failpoints
from livejoin.core import rows
from livejoin.core.generation import Generation, Offsets, Reading
from livejoin.core.names import Names
from livejoin.errors import Spoilt
from livejoin.kafka import MAX_RECORD_BYTES, Kafka, Topic, reachable
from livejoin.pipeline import positions, sources
from livejoin.pipeline.catch_up import CatchUp, Way
from livejoin.pipeline.queries import Queries
from livejoin.reading import read_to_end

_CHANGELOG = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "3600000",  # a follower that starts within an hour sees every version
    "max.message.bytes": str(MAX_RECORD_BYTES),
}
_TAIL = 10_000  # newest records of a run, in which its furthest marks stand


class Pipeline:
    """Queries of generations, each with its changelog topic and its checkpoint."""

    def __init__(
        self, kafka: Kafka, names: Names, queries: Queries, start: Mapping[str, str]
    ) -> None:
        self._kafka = kafka
        self._names = names
        self._queries = queries
        self._start = start
        self._ways: dict[int, Way] = {}  # of the newest run of each generation
        self._furthest: dict[int, dict[tuple[str, int], int]] = {}  # marks of earlier runs
        self._running: dict[int, Generation] = {}

    def resolve(self, generation: Generation) -> tuple[Mapping[str, Reading], str]:
        """Where a new generation reads, and what else its checkpoint will depend on."""
        start = {**self._start, **generation.start}
        readings = positions.resolve(self._kafka, self._names, generation.choice, start)
        return readings, self._queries.fingerprint

    def start(self, generation: Generation) -> None:
        """Have its changelog, and its query running. Spoilt where that would not be the same."""
        number = generation.number
        sources.check_fingerprint(generation, self._queries.fingerprint)
        topics = sources.topics_of(self._kafka, generation)
        reached = self._queries.checkpoints.reached(number)
        starts = sources.going_on(self._kafka, generation, topics, reached)
        if reached == {}:
            # killed while its first batch ended: Spark refuses that, and nothing counts yet
            self._queries.checkpoints.empty(number)
        failpoints.visit("before-changelog")
        self._kafka.make(self._names.changelog(number), _CHANGELOG)
        failpoints.visit("after-changelog")
        written = self._end_of_changelog(number)
        if written < (generation.ready_at or 0):
            raise Spoilt("its changelog was deleted")
        pins: Mapping[str, Offsets]
        if reached is None:
            pins = {source: reading.pins for source, reading in generation.sources.items()}
        else:  # what came since the last finished batch is read again, all that is there by now
            ends = self._kafka.offsets(topics.values(), OffsetSpec.latest())
            pins = positions.pins(self._kafka, self._names, topics, starts, ends)
        self._ways[number] = Way(topics, starts, pins, written)
        self._queries.start(generation)
        self._running[number] = generation
        failpoints.visit("after-start")

    def stop(self, generation: int) -> None:
        """Have its query not running."""
        self._running.pop(generation, None)
        self._queries.stop(generation)

    def keep(self, numbers: frozenset[int], last: int) -> None:
        """Have no changelog and no checkpoint of any other generation up to the last."""
        topics = {self._names.changelog_of(topic): topic for topic in self._kafka.topics()}
        gone = {n: t for n, t in topics.items() if n is not None and n <= last and n not in numbers}
        for topic in gone.values():
            failpoints.visit("before-delete")
            self._kafka.delete([topic])
            failpoints.visit("after-delete")
        for number in self._queries.checkpoints.kept():
            if number <= last and number not in numbers:
                self._queries.checkpoints.forget(number)
                failpoints.visit("after-checkpoint")
        for known in (self._ways, self._furthest):
            for number in known.keys() - numbers:
                known.pop(number, None)

    def catch_up(
        self,
        generation: Generation,
        progressed: Callable[[int, int], None],
        stopped: Callable[[], bool],
    ) -> int | None:
        """Follow its run to the pins: the offset where its tables are complete; None if stopped."""
        number = generation.number
        way = self._ways[number]
        return CatchUp(self._kafka, self._names, number, way, progressed, stopped).follow()

    def watch(self, listener: sources.Listener, stop: threading.Event) -> None:
        """Report what becomes of the topics that are read, until told to stop."""
        sources.watch(self._kafka, lambda: list(self._running.values()), listener, stop)

    def read_on(self, generation: int) -> bool:
        """Whether its last run got further than every run before it."""
        way = self._ways.get(generation)
        if way is None:
            return False
        furthest = self._furthest.setdefault(generation, {})
        before = dict(furthest)
        since = max(way.since, self._end_of_changelog(generation) - _TAIL)
        consumer = self._kafka.reader(self._names.group("catch-up"))
        changelog = self._names.changelog(generation)
        try:
            consumer.assign([TopicPartition(changelog, 0, since)])
            marks = rows.marks(record.key for record in read_to_end(consumer, changelog))
            for at, offsets in marks.items():
                furthest[at] = max(furthest.get(at, -1), *offsets)
        finally:
            consumer.close()
        return furthest != before

    def _end_of_changelog(self, generation: int) -> int:
        changelog = Topic(self._names.changelog(generation), "", partitions=(0,))
        return self._kafka.offsets([changelog], OffsetSpec.latest())[changelog.name][0]

    def reachable(self) -> bool:
        """Whether Kafka answers now."""
        return reachable(self._kafka)
