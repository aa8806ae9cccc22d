"""The pipeline as the control plane sees it: resolve, start, stop, catch up, watch, clean up.

Puts the parts of this room together.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import structlog
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from livejoin.core import changelog as rows
from livejoin.core.coverage import BootstrapCoverage
from livejoin.core.generation import Generation, Offsets, Reading
from livejoin.core.names import Names
from livejoin.errors import GenerationUnrecoverable
from livejoin.kafka.cluster import MAX_RECORD_BYTES, REQUEST_TIMEOUT_S, Kafka
from livejoin.kafka.reading import read_to_end
from livejoin.kafka.writing import write
from livejoin.pipeline import history
from livejoin.pipeline import offsets as positions
from livejoin.pipeline import source_watch as sources
from livejoin.pipeline.catch_up import CatchUp, ReplayRange
from livejoin.pipeline.checkpoints import CommittedOffsets
from livejoin.pipeline.history_job import HistoryJob
from livejoin.pipeline.queries import Queries
from livejoin.pipeline.warm_up import BatchWarmUp
from livejoin.runtime import failpoints

log = structlog.get_logger()

_CHANGELOG_CONFIG = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "3600000",  # a follower that starts within an hour sees every version
    "max.message.bytes": str(MAX_RECORD_BYTES),
}
_TAIL_RECORDS = 10_000  # newest records of a run, in which its furthest marks stand


class Pipeline:
    """Queries of generations, each with its changelog topic and its checkpoint."""

    def __init__(
        self, kafka: Kafka, names: Names, queries: Queries, start: Mapping[str, str]
    ) -> None:
        self._kafka = kafka
        self._names = names
        self._queries = queries
        self._start = start
        self._replays: dict[int, ReplayRange] = {}  # of the newest run of each generation
        self._max_marks: dict[int, dict[tuple[str, int], int]] = {}  # marks of earlier runs
        self._running: dict[int, Generation] = {}
        self._jobs: dict[
            int, HistoryJob
        ] = {}  # of generations whose query starts when theirs is done
        self._caught_up: set[int] = set()  # generations whose newest run has read all it had to
        self._start_lock = threading.Lock()
        self._warm_up = BatchWarmUp(queries, queries.batch_s / 4)

    def resolve(self, generation: Generation) -> tuple[Mapping[str, Reading], str]:
        """Where a new generation reads, and what else its checkpoint will depend on."""
        start = {**self._start, **generation.start}
        readings = positions.resolve(self._kafka, self._names, generation.choice, start)
        return readings, self._queries.fingerprint(replace(generation, sources=readings))

    def make_topics(self, generation: Generation) -> tuple[str, str]:
        """Have new topics for it: the ids of its changelog and, where it needs one, its feed."""
        names, number = self._names, generation.number
        failpoints.visit("before-changelog")
        changelog = self._kafka.recreate_topic(names.changelog(number), _CHANGELOG_CONFIG)
        feed_id = ""
        if self._queries.uses_batch_history(generation):
            feed_id = self._kafka.recreate_topic(
                names.bootstrap(number), history.BOOTSTRAP_TOPIC_CONFIG
            ).id
        failpoints.visit("after-changelog")
        return changelog.id, feed_id

    def prepare(self, generation: Generation) -> Generation:
        """A new generation as it can be started, for whoever has no ledger to record it in."""
        sources, fingerprint = self.resolve(generation)
        resolved = replace(generation, sources=sources, fingerprint=fingerprint)
        changelog_id, feed_id = self.make_topics(resolved)
        return replace(resolved, changelog_id=changelog_id, feed_id=feed_id)

    def highest_number(self) -> int:
        """The highest number of which there is a topic or a checkpoint; 0 where there is none."""
        topics = (self._names.generation_of(topic) or 0 for topic in self._kafka.topics())
        return max((*topics, *self._queries.checkpoints.generations()), default=0)

    def start(self, generation: Generation) -> Mapping[str, Reading] | None:
        """Have its query running. Spoilt where that would not be the same.

        Where its topics have more partitions by now, nothing is started: what it has to read then.
        """
        number, checkpoints = generation.number, self._queries.checkpoints
        self._caught_up.discard(number)
        self._warm_up.cancel()
        sources.check_own_topics(self._kafka, self._names, generation)
        sources.check_fingerprint(generation, self._queries.fingerprint(generation))
        topics = sources.source_topics(self._kafka, generation)
        if more := sources.with_new_partitions(generation, topics):
            return more
        reached = checkpoints.committed_offsets(generation.checkpoint)
        starts = sources.resume_offsets(self._kafka, generation, topics, reached)
        if reached == {}:
            # killed while its first batch ended: Spark refuses that, and nothing counts yet
            checkpoints.reset(generation.checkpoint)
        written = self._kafka.end_offset(self._names.changelog(number))
        if written < (generation.ready_at or 0):
            raise GenerationUnrecoverable("its changelog has lost records")
        by_batch = self._queries.uses_batch_history(generation)
        if by_batch and not reached:  # what its job reads is no part of the query's way
            starts = {s: dict(reading.after_pins) for s, reading in generation.sources.items()}
        pins: Mapping[str, Offsets]
        if reached is None:
            pins = {source: reading.pins for source, reading in generation.sources.items()}
        else:  # what came since the last finished batch is read again, all that is there by now
            ends = self._kafka.offsets(topics.values(), OffsetSpec.latest())
            pins = positions.find_pins(self._kafka, self._names, topics, starts, ends)
        self._replays[number] = ReplayRange(topics, starts, pins, written)
        self._running[number] = generation
        if by_batch:
            self._start_with_history(generation, reached)
        else:
            self._queries.start(generation)
        failpoints.visit("after-start")
        return None

    def _start_with_history(self, generation: Generation, reached: CommittedOffsets | None) -> None:
        """Have its job running, or its query where a batch of that was finished before."""
        number, feed = generation.number, self._names.bootstrap(generation.number)
        if reached:
            self._replays[number] = self._with_bootstrap(number, reached.get(feed, {}).get(0, 0))
            self._queries.start(generation, 0)  # the checkpoint knows better
            return
        # how long the feed will be is not known yet: its end is not seen before there is one
        self._replays[number] = replace(
            self._replays[number], bootstrap=BootstrapCoverage(0, range(1))
        )
        # a job before it may have left something there
        job = self._jobs[number] = self._queries.history_job(
            generation, self._kafka.end_offset(feed)
        )
        job.start()

    def _start_query_after(self, job: HistoryJob, generation: Generation) -> bool:
        """Have its query running now that the job is done, unless it was stopped meanwhile."""
        number, feed = generation.number, self._names.bootstrap(generation.number)
        with self._start_lock:
            if self._jobs.get(number) is not job:
                return False
            self._write_bootstrap_end(feed)
            self._replays[number] = self._with_bootstrap(number, job.bootstrap_start)
            self._queries.start(generation, job.bootstrap_start)
            del self._jobs[number]
        return True

    def _write_bootstrap_end(self, feed: str) -> None:
        """Each task of the query that has this has all of the feed."""
        ends = [(key.encode(), None) for key in self._queries.bootstrap_end_keys()]
        write(self._kafka, feed, ends, REQUEST_TIMEOUT_S)

    def _with_bootstrap(self, generation: int, start: int) -> ReplayRange:
        """A run's way with what is left of its feed."""
        end = self._kafka.end_offset(self._names.bootstrap(generation))
        ends = range(end - self._queries.shuffle_partitions, end)
        return replace(
            self._replays[generation],
            changelog_start=self._kafka.end_offset(self._names.changelog(generation)),
            bootstrap=BootstrapCoverage(start, ends),
        )

    def stop(self, generation: int) -> None:
        """Have its query not running."""
        self._running.pop(generation, None)
        with self._start_lock:
            job = self._jobs.pop(generation, None)
        if job is not None:
            job.cancel()
        self._queries.stop(generation)

    def keep(self, numbers: frozenset[int], last: int) -> None:
        """Have no topics and no checkpoint of any other generation up to the last."""
        topics = {topic: self._names.generation_of(topic) for topic in self._kafka.topics()}
        gone = [t for t, n in topics.items() if n is not None and n <= last and n not in numbers]
        for topic in gone:
            failpoints.visit("before-delete")
            self._kafka.delete([topic])
            failpoints.visit("after-delete")
        for number in self._queries.checkpoints.generations():
            if number <= last and number not in numbers:
                self._queries.checkpoints.delete(number)
                failpoints.visit("after-checkpoint")
        for known in (self._replays, self._max_marks):
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
        job = self._jobs.get(number)
        if job is not None:
            # three steps for each record: read, joined, known to the query
            total, after = job.records, progressed
            if not job.wait(lambda steps: after(steps // 3, total), stopped):
                return None
            if not self._start_query_after(job, generation):
                return None

            def progressed(done: int, of: int) -> None:
                after((2 * total + total * done // of) // 3, total)

        way = self._replays[number]
        ready_at = CatchUp(self._kafka, self._names, number, way, progressed, stopped).follow()
        if ready_at is not None:
            self._caught_up.add(number)
            self._warm_up.schedule(generation)
        return ready_at

    def caught_up(self) -> frozenset[int]:
        """Generations that run and have read again all that they had read before."""
        return frozenset(self._running.keys() & self._caught_up)

    def rewrite(self, generation: int, changes: Sequence[rows.ChangelogRecord]) -> None:
        """Write rows of a generation again, unless its run is still reading what it read before.

        Compaction keeps the last record of a key: behind a late one there must be the winner.
        """
        if generation not in self.caught_up():
            return
        records = [(one.key(), one.value()) for one in changes]
        write(self._kafka, self._names.changelog(generation), records, REQUEST_TIMEOUT_S)
        log.info("wrote rows again that came late", generation=generation, rows=len(changes))

    def run_warm_up(self, stop: threading.Event) -> None:
        """Have what is new to a JVM done once where nobody waits for it, until told to stop."""
        self._warm_up.run(self._running, stop)

    def watch_sources(self, listener: sources.SourceListener, stop: threading.Event) -> None:
        """Report what becomes of the topics that are read, until told to stop."""
        sources.watch(
            self._kafka,
            self._names,
            lambda: list(self._running.values()),
            listener,
            stop,
        )

    def made_progress(self, generation: int) -> bool:
        """Whether its last run got further than every run before it."""
        way = self._replays.get(generation)
        if way is None:
            return False
        furthest = self._max_marks.setdefault(generation, {})
        before = dict(furthest)
        changelog = self._names.changelog(generation)
        since = max(way.changelog_start, self._kafka.end_offset(changelog) - _TAIL_RECORDS)
        consumer = self._kafka.reader(self._names.group("catch-up"))
        try:
            consumer.assign([TopicPartition(changelog, 0, since)])
            marks = rows.marked_offsets(record.key for record in read_to_end(consumer, changelog))
            for at, offsets in marks.items():
                furthest[at] = max(furthest.get(at, -1), *offsets)
        finally:
            consumer.close()
        return furthest != before

    def reachable(self) -> bool:
        """Whether Kafka answers now."""
        return self._kafka.reachable()
