"""The pipeline as the control plane uses it: resolve, start, catch up, watch, stop, clean up."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import structlog
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from livejoin.core.changelog import ChangelogRecord, format_record, marked_offsets
from livejoin.core.coverage import BootstrapCoverage
from livejoin.core.generation import Generation, Offsets, Reading
from livejoin.core.names import Names
from livejoin.errors import GenerationUnrecoverable
from livejoin.kafka import own_topics
from livejoin.kafka.cluster import REQUEST_TIMEOUT_S
from livejoin.kafka.clusters import Clusters
from livejoin.kafka.records import read_to_end, write
from livejoin.pipeline import offsets, source_watch
from livejoin.pipeline.catch_up import CatchUp, ReplayRange
from livejoin.pipeline.checkpoints import CommittedOffsets
from livejoin.pipeline.history_job import HistoryJob
from livejoin.pipeline.queries import Queries
from livejoin.pipeline.warm_up import BatchWarmUp
from livejoin.runtime import failpoints

log = structlog.get_logger()

_REACH_S = 5.0
_TAIL_RECORDS = 10_000  # at a changelog's end, enough to contain a run's highest marks


class Pipeline:
    """Runs generations, each as a query with its own changelog topic and checkpoint."""

    def __init__(
        self, clusters: Clusters, names: Names, queries: Queries, start: Mapping[str, str]
    ) -> None:
        self._clusters = clusters
        self._kafka = clusters.own
        self._names = names
        self._queries = queries
        self._start = start
        self._replays: dict[int, ReplayRange] = {}  # newest run of each generation
        self._max_marks: dict[
            int, dict[tuple[str, int], int]
        ] = {}  # highest offsets of earlier runs
        self._running: dict[int, Generation] = {}
        self._jobs: dict[int, HistoryJob] = {}  # running: the generation's query starts after it
        self._caught_up: set[int] = set()  # generations whose newest run has reached its pins
        self._start_lock = threading.Lock()
        self._warm_up = BatchWarmUp(queries, queries.batch_s / 4)

    def resolve(self, generation: Generation) -> tuple[Mapping[str, Reading], str]:
        """The positions of a new generation's sources, and its fingerprint."""
        start = {**self._start, **generation.start}
        if self._clusters.has_separate_data:
            # requests to a cluster that is away take long, also after it is back
            self._clusters.data.wait_until_reachable(_REACH_S)
            # on livejoin's own, the election has used a group
            self._clusters.data.check_group(self._names.group("pins"))
        readings = offsets.resolve(self._clusters.data, self._names, generation.choice, start)
        return readings, self._queries.fingerprint(replace(generation, sources=readings))

    def make_topics(self, generation: Generation) -> tuple[str, str]:
        """Create its topics anew: ids of its changelog and, if it has one, its bootstrap topic."""
        names, number = self._names, generation.number
        failpoints.visit("before-changelog")
        changelog = own_topics.recreate(self._kafka, names.changelog(number), "changelog")
        if generation.changelog_format > 1:  # it says what is in it
            first = format_record(generation.spec, generation.choice.join)
            write(self._kafka, names.changelog(number), [first], REQUEST_TIMEOUT_S)
        feed_id = ""
        if self._queries.uses_batch_history(generation):
            bootstrap = names.bootstrap(number)
            feed_id = own_topics.recreate(self._kafka, bootstrap, "feed").id
        failpoints.visit("after-changelog")
        return changelog.id, feed_id

    def prepare(self, generation: Generation) -> Generation:
        """A new generation ready to start, for callers without a ledger."""
        sources, fingerprint = self.resolve(generation)
        resolved = replace(generation, sources=sources, fingerprint=fingerprint)
        changelog_id, feed_id = self.make_topics(resolved)
        return replace(resolved, changelog_id=changelog_id, feed_id=feed_id)

    def highest_number(self) -> int:
        """The highest generation number with a topic or a checkpoint; 0 where there is none."""
        topics = (self._names.generation_of(topic) or 0 for topic in self._kafka.topics())
        return max((*topics, *self._queries.checkpoints.generations()), default=0)

    def start(self, generation: Generation) -> Mapping[str, Reading] | None:
        """Start its query; GenerationUnrecoverable if it cannot continue where it was.

        If its topics have new partitions, nothing is started and the sources that include them are
        returned.
        """
        number, checkpoints = generation.number, self._queries.checkpoints
        self._caught_up.discard(number)
        self._warm_up.cancel()
        source_watch.check_own_topics(self._kafka, self._names, generation)
        source_watch.check_fingerprint(generation, self._queries.fingerprint(generation))
        topics = source_watch.source_topics(self._clusters.data, generation)
        if more := source_watch.with_new_partitions(generation, topics):
            return more
        committed = checkpoints.committed_offsets(generation.checkpoint)
        starts = offsets.resume_offsets(self._clusters.data, generation, topics, committed)
        if committed == {}:
            # killed in its first batch: Spark refuses such a checkpoint, and it contains nothing
            checkpoints.reset(generation.checkpoint)
        changelog_end = self._kafka.end_offset(self._names.changelog(number))
        if changelog_end < (generation.ready_at or 0):
            raise GenerationUnrecoverable("its changelog has lost records")
        by_batch = self._queries.uses_batch_history(generation)
        if by_batch and not committed:  # the query starts behind what the job reads
            starts = {s: dict(reading.after_pins) for s, reading in generation.sources.items()}
        pins: Mapping[str, Offsets]
        if committed is None:
            pins = {source: reading.pins for source, reading in generation.sources.items()}
        else:  # it replays from the last committed batch to the current ends
            ends = self._clusters.data.offsets(topics.values(), OffsetSpec.latest())
            pins = offsets.find_pins(self._clusters.data, self._names, topics, starts, ends)
        self._replays[number] = ReplayRange(topics, starts, pins, changelog_end)
        self._running[number] = generation
        if by_batch:
            self._start_with_history(generation, committed)
        else:
            self._queries.start(generation)
        failpoints.visit("after-start")
        return None

    def _start_with_history(
        self, generation: Generation, committed: CommittedOffsets | None
    ) -> None:
        """Start its history job, or its query if that has a committed batch already."""
        number, bootstrap = generation.number, self._names.bootstrap(generation.number)
        if committed:
            start = committed.get(bootstrap, {}).get(0, 0)
            self._replays[number] = self._with_bootstrap(number, start)
            self._queries.start(generation, 0)  # overridden by the checkpoint
            return
        # the length of the bootstrap topic is not known yet: one missing record stands for it
        self._replays[number] = replace(
            self._replays[number], bootstrap=BootstrapCoverage(0, range(1))
        )
        # an earlier job may have left records there
        end = self._kafka.end_offset(bootstrap)
        job = self._jobs[number] = self._queries.history_job(generation, end)
        job.start()

    def _start_query_after(self, job: HistoryJob, generation: Generation) -> bool:
        """Start its query after the job; False if it was stopped meanwhile."""
        number = generation.number
        with self._start_lock:
            if self._jobs.get(number) is not job:
                return False
            self._write_bootstrap_end(self._names.bootstrap(number))
            self._replays[number] = self._with_bootstrap(number, job.bootstrap_start)
            self._queries.start(generation, job.bootstrap_start)
            del self._jobs[number]
        return True

    def _write_bootstrap_end(self, topic: str) -> None:
        """Write a record for each task of the query: one that has it has the whole topic."""
        ends = [(key.encode(), None) for key in self._queries.bootstrap_end_keys()]
        write(self._kafka, topic, ends, REQUEST_TIMEOUT_S)

    def _with_bootstrap(self, generation: int, start: int) -> ReplayRange:
        """A run's replay range with its bootstrap topic from this offset."""
        end = self._kafka.end_offset(self._names.bootstrap(generation))
        ends = range(end - self._queries.shuffle_partitions, end)
        return replace(
            self._replays[generation],
            changelog_start=self._kafka.end_offset(self._names.changelog(generation)),
            bootstrap=BootstrapCoverage(start, ends),
        )

    def stop(self, generation: int) -> None:
        """Stop its query, or its history job."""
        self._running.pop(generation, None)
        with self._start_lock:
            job = self._jobs.pop(generation, None)
        if job is not None:
            job.cancel()
        self._queries.stop(generation)

    def keep(self, numbers: frozenset[int], last: int) -> None:
        """Delete topics and checkpoints of all other generations up to the last."""
        topics = {topic: self._names.generation_of(topic) for topic in self._kafka.topics()}
        unused = [t for t, n in topics.items() if n is not None and n <= last and n not in numbers]
        for topic in unused:
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
        """Wait for its run: the changelog offset of complete tables; None if stopped."""
        number = generation.number
        job = self._jobs.get(number)
        if job is not None:
            # each record has three steps: read, joined, in the query's state
            total, report = job.records, progressed
            if not job.wait(lambda steps: report(steps // 3, total), stopped):
                return None
            if not self._start_query_after(job, generation):
                return None

            def progressed(done: int, of: int) -> None:
                report((2 * total + total * done // of) // 3, total)

        replay = self._replays[number]
        ready_at = CatchUp(
            self._clusters, self._names, number, replay, progressed, stopped
        ).follow()
        if ready_at is not None:
            self._caught_up.add(number)
            self._warm_up.schedule(generation)
        return ready_at

    def caught_up(self) -> frozenset[int]:
        """Running generations whose newest run has reached its pins."""
        return frozenset(self._running.keys() & self._caught_up)

    def rewrite(self, generation: int, changes: Sequence[ChangelogRecord]) -> None:
        """Write winning rows again behind late records, unless the generation still catches up.

        Compaction keeps the last record of a key, and that must be the winner.
        """
        if generation not in self.caught_up():
            return
        records = [(change.key(), change.value()) for change in changes]
        write(self._kafka, self._names.changelog(generation), records, REQUEST_TIMEOUT_S)
        log.info("rewrote rows behind late records", generation=generation, rows=len(changes))

    def run_warm_up(self, stop: threading.Event) -> None:
        """Warm up each new JVM, until stopped."""
        self._warm_up.run(self._running, stop)

    def watch_sources(self, listener: source_watch.SourceListener, stop: threading.Event) -> None:
        """Watch the topics of running generations, until stopped."""
        source_watch.watch(
            self._clusters,
            self._names,
            lambda: list(self._running.values()),
            listener,
            stop,
        )

    def made_progress(self, generation: int) -> bool:
        """Whether its last run read further than all runs before it."""
        replay = self._replays.get(generation)
        if replay is None:
            return False
        highest = self._max_marks.setdefault(generation, {})
        before = dict(highest)
        changelog = self._names.changelog(generation)
        since = max(replay.changelog_start, self._kafka.end_offset(changelog) - _TAIL_RECORDS)
        consumer = self._kafka.reader(self._names.group("catch-up"))
        try:
            consumer.assign([TopicPartition(changelog, 0, since)])
            marks = marked_offsets(record.key for record in read_to_end(consumer, changelog))
            for partition, marked in marks.items():
                highest[partition] = max(highest.get(partition, -1), *marked)
        finally:
            consumer.close()
        return highest != before

    def reachable(self) -> bool:
        """Whether the clusters of sources and changelogs answer now."""
        return self._clusters.data.reachable() and self._kafka.reachable()
