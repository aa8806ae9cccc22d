"""Streaming queries in Real-time Mode: one per generation, with its checkpoint and changelog."""

import contextlib
import gc
import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from livejoin.config.sections import SparkSettings
from livejoin.core import spec
from livejoin.core.generation import Generation, Offsets, Reading
from livejoin.core.names import Names
from livejoin.core.own_topics import RecordLimits
from livejoin.core.state import Limits
from livejoin.errors import GenerationUnrecoverable, LivejoinError, QueryFailed, first_line
from livejoin.kafka import own_topics
from livejoin.kafka.clusters import Clusters
from livejoin.pipeline import history, join
from livejoin.pipeline.checkpoints import Checkpoints, is_local
from livejoin.pipeline.history_job import HistoryJob
from livejoin.pipeline.offsets import offsets_json
from livejoin.pipeline.spark_driver import SparkDriver

_WATCH_S = 0.5
_MIN_BATCH_S = 5  # Spark's minimum for Real-time Mode
# Spark's default starts ten processes (readlink, chmod) per checkpoint file on a local disk.
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_LOCAL_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
# the lost task and its stage, and the package of the exception class
_TASK_PREFIX = re.compile(r"^.*\(TID \d+\) \([^)]*\): |^(?:[a-z0-9]+\.)+(?=[A-Z]\w+: )")
# an error from reading a checkpoint contains one of these, or the checkpoint's path
_CHECKPOINT_SIGNS = (
    "STATE_STORE",
    "STATE_DIRECTORY",
    "StateSchemaCompatibilityChecker",
    "HDFSMetadataLog",
)


class QueryListener(Protocol):
    """Receives the ends of queries."""

    def query_died(self, generation: int, why: str) -> None:
        """A query ended by itself and can be restarted."""

    def unrecoverable(self, generation: int, why: str) -> None:
        """A query ended by itself and cannot be restarted."""


class Queries:
    """Starts and stops queries, and reports those that end by themselves."""

    def __init__(
        self,
        driver: SparkDriver,
        clusters: Clusters,
        names: Names,
        checkpoints: str,
        settings: SparkSettings,
    ) -> None:
        self.checkpoints = Checkpoints(driver, checkpoints)
        self._driver = driver
        self._clusters = clusters
        self._names = names
        self._settings = settings
        self._running: dict[int, StreamingQuery] = {}
        self._lock = threading.Lock()
        self._warmed_up: SparkSession | None = None

    @property
    def batch_s(self) -> int:
        """Duration of a batch."""
        return self._settings.batch_s

    @property
    def shuffle_partitions(self) -> int:
        """Number of partitions of a query's state."""
        return self._driver.shuffle_partitions

    def uses_batch_history(self, generation: Generation) -> bool:
        """Whether a batch job joins the history of this generation.

        Not on a cluster, where a job's progress cannot be read from the driver.
        """
        is_long = generation.history_length >= self._settings.history_records > 0
        is_covered = history.covers(generation.spec, generation.choice.join)
        return is_long and is_covered and self._settings.is_local

    def fingerprint(self, generation: Generation) -> str:
        """Everything that must be unchanged for the generation's checkpoint to be reused."""
        parts = [
            f"Spark {pyspark.__version__}",
            f"query {join.VERSION}",
            f"{self.shuffle_partitions} shuffle partitions",
            f"{generation.choice.join} join",
            *(f"{r.topic} {r.topic_id}" for r in generation.sources.values()),
            f"tables {_schema_hash(generation.spec)}",
        ]
        if self.uses_batch_history(generation):
            parts.append("history by batch")
        return ", ".join(parts)

    def history_job(self, generation: Generation, bootstrap_start: int) -> HistoryJob:
        """The job that joins a generation's history; its bootstrap topic ends at this offset."""
        return HistoryJob(self._driver, self._clusters, self._names, generation, bootstrap_start)

    def bootstrap_end_keys(self) -> list[str]:
        """For each shuffle partition a key that is hashed to it, and cannot be a join key."""
        count = self.shuffle_partitions
        sql = (
            f"SELECT transform(sequence(0, {64 * count}),"
            f" i -> pmod(hash(concat('-feed-', i)), {count})) AS partitions"
        )
        (row,) = self._driver.spark().sql(sql).collect()
        partitions: list[int] = row["partitions"]
        return [f"-feed-{partitions.index(partition)}" for partition in range(count)]

    def start(self, generation: Generation, bootstrap_start: int | None = None) -> None:
        """Start a generation's query, which must not be running.

        With `bootstrap_start` it also reads its bootstrap topic, from this offset.
        """
        spark = self._driver.spark()
        try:
            limits = self._record_limits(generation)
            changes = self._changelog_stream(spark, generation, bootstrap_start, limits)
            options = self._writer_options(generation, limits)
            name, folder = str(generation.number), generation.checkpoint
            query = self._start_query(changes, options, name, folder, self.batch_s)
        except (PySparkException, Py4JError) as error:
            checkpoint = self.checkpoints.path(generation.checkpoint)
            raise _from_spark_error(error, checkpoint) from error
        except OSError as error:
            raise QueryFailed(f"Spark's JVM exited: {first_line(error)}") from error
        with self._lock:
            self._running[generation.number] = query

    def stop(self, generation: int) -> None:
        """Stop a generation's query, if it is running."""
        with self._lock:
            query = self._running.pop(generation, None)
        if query is None or not self._driver.alive:
            return
        try:
            query.stop()
        except (PySparkException, Py4JError, OSError) as error:  # OSError: its JVM died meanwhile
            raise QueryFailed(f"cannot stop the query: {first_line(error)}") from error
        # Py4J's proxies are reference cycles. Until they are collected, the JVM keeps the plans of
        # stopped queries, 3 MB each.
        del query
        gc.collect()

    @property
    def needs_warm_up(self) -> bool:
        """Whether no batch has ended in this JVM, and the first end is far away."""
        return self.batch_s > 10 * _MIN_BATCH_S and self._warmed_up is not self._driver.started

    def has_free_slots(self, running: Iterable[Generation], idle: Generation) -> bool:
        """Whether there are slots for an idle query. Without, it would make another query fail."""
        limits = Limits(slots=self._settings.task_slots, shuffle_partitions=self.shuffle_partitions)
        used = sum(limits.slots_needed(generation.partitions_read) for generation in running)
        return used + limits.slots_needed(len(idle.sources)) <= limits.slots

    @contextlib.contextmanager
    def idle_query(self, generation: Generation) -> Iterator[Callable[[], int]]:
        """Run a query like a generation's that reads nothing, in short batches.

        Yields a function that counts its completed batches. It reads the end of the generation's
        bootstrap topic, where nothing is written any more.
        """
        spark = self._driver.started
        if spark is None:
            raise QueryFailed("Spark's JVM is gone")
        self._warmed_up = spark
        topic = self._names.bootstrap(generation.number)
        own_topics.create(self._clusters.own, topic, "feed")
        empty = Reading(topic, "", {0: self._clusters.own.end_offset(topic)}, {})
        idle = replace(generation, sources=dict.fromkeys(generation.sources, empty))
        name = f"{generation.number}/rehearsal"  # a folder that is deleted with the generation
        self.checkpoints.delete(name)
        limits = self._record_limits(idle)
        changes = self._changelog_stream(spark, idle, None, limits)
        options = self._writer_options(generation, limits)
        query = self._start_query(changes, options, name, name, _MIN_BATCH_S)
        try:
            yield lambda: _completed_batches(query)
        finally:
            query.stop()
            self.checkpoints.delete(name)

    def watch(self, listener: QueryListener, stop: threading.Event) -> None:
        """Report queries that end by themselves, until stopped."""
        silent: set[StreamingQuery] = set()
        while not stop.wait(_WATCH_S):
            with self._lock:
                running = dict(self._running)
            for number, query in running.items():
                error = self._find_end(number, query, silent)
                if error is None:
                    continue
                with self._lock:
                    if self._running.get(number) is not query:
                        continue  # stopped, and perhaps restarted, meanwhile
                    del self._running[number]
                if isinstance(error, GenerationUnrecoverable):
                    listener.unrecoverable(number, error.message)
                else:
                    listener.query_died(number, error.message)

    def _find_end(
        self, generation: int, query: StreamingQuery, silent: set[StreamingQuery]
    ) -> LivejoinError | None:
        """Why a query has ended; None while it runs, and for the first missing answer."""
        if not self._driver.alive:
            return QueryFailed("Spark's JVM is gone")
        try:
            if query.isActive:
                silent.discard(query)
                return None
            error, trace = query.exception(), self._stack_trace(query)
        except (Py4JError, OSError, QueryFailed) as lost:
            # A killed JVM stops answering a moment before its exit is noticed, and it may exit
            # between two calls.
            if query not in silent:
                silent.add(query)
                return None
            return QueryFailed(f"Spark does not answer: {first_line(lost)}")
        if error is None:
            return QueryFailed("it stopped")
        return _from_spark_error(error, self.checkpoints.path(generation), trace)

    def _stack_trace(self, query: StreamingQuery) -> str:
        """The stack trace of a query's error with its causes, which pyspark leaves out."""
        error, jvm = query._jsq.exception(), self._driver.spark()._jvm  # noqa: SLF001
        assert jvm is not None
        to_text = jvm.org.apache.spark.util.Utils.exceptionString
        return str(to_text(error.get())) if error.isDefined() else ""

    def _changelog_stream(
        self,
        spark: SparkSession,
        generation: Generation,
        bootstrap_start: int | None,
        limits: RecordLimits,
    ) -> DataFrame:
        streams = []
        for source in generation.spec.sources:
            reading = generation.sources[source.name]
            start = reading.start if bootstrap_start is None else reading.after_pins
            stream = self._topic_stream(spark, reading.topic, start)
            streams.append(join.source_records(stream, source))
        bootstrap = None
        if bootstrap_start is not None:
            topic = self._names.bootstrap(generation.number)
            stream = self._topic_stream(spark, topic, {0: bootstrap_start})
            bootstrap = history.bootstrap_events(stream)
        records, joined = join.union_all(streams), generation.spec
        return join.changelog_records(records, joined, generation.choice.join, limits, bootstrap)

    def _record_limits(self, generation: Generation) -> RecordLimits:
        return own_topics.record_limits(self._clusters.own, self._sized_topics(generation))

    def _writer_options(self, generation: Generation, limits: RecordLimits) -> dict[str, str]:
        topic = self._names.changelog(generation.number)
        return self._clusters.own.spark_writer_options(limits.batch_bytes) | {"topic": topic}

    def _sized_topics(self, generation: Generation) -> list[str]:
        """The topics whose size limits what a generation can take.

        With a bootstrap topic also after that was read: a restart must not take more.
        """
        number = generation.number
        feed = [self._names.bootstrap(number)] if generation.feed_id else []
        return [self._names.changelog(number), *feed]

    def _topic_stream(self, spark: SparkSession, topic: str, start: Offsets) -> DataFrame:
        # an idle query reads a topic of livejoin in place of its sources
        cluster = self._clusters.own if self._names.is_own(topic) else self._clusters.data
        options = cluster.spark_reader_options(self._names.group("pipeline")) | {
            "subscribe": topic,
            "startingOffsets": offsets_json(topic, start),
        }
        return spark.readStream.format("kafka").options(**options).load()

    def _start_query(
        self,
        changes: DataFrame,
        options: Mapping[str, str],
        name: str,
        checkpoint: str,
        batch_s: int,
    ) -> StreamingQuery:
        options = {**options, "checkpointLocation": self.checkpoints.path(checkpoint)}
        if is_local(self.checkpoints.root):  # elsewhere Spark's default is the safer one
            changes.sparkSession.conf.set(_FILE_MANAGER, _LOCAL_FILE_MANAGER)
        writer = changes.writeStream.format("kafka").options(**options).outputMode("update")
        writer = writer.queryName(f"{self._names.prefix}-{name}")
        batch = f"{batch_s} seconds"
        # pyspark's type hints lack realTime
        query: StreamingQuery = writer.trigger(realTime=batch).start()  # type: ignore[call-overload]
        return query


def _schema_hash(joined: spec.JoinSpec) -> str:
    """A short hash of the spec, and of the columns of the tables that a changelog fills."""
    columns = [table.columns for table in joined.tables.values() if table.data]
    return hashlib.sha256(repr((joined.sources, columns)).encode()).hexdigest()[:8]


def _completed_batches(query: StreamingQuery) -> int:
    """Number of batches that have ended."""
    if not query.isActive:
        error = query.exception()
        raise QueryFailed(_short_cause(error) if error else "it stopped")
    progress = query.lastProgress
    return 0 if progress is None else int(progress["batchId"]) + 1


def _from_spark_error(error: Exception, checkpoint: str, trace: str = "") -> LivejoinError:
    """A query's error: unrecoverable if its checkpoint cannot be read, else retriable."""
    text = f"{error}{trace}"
    if any(sign in text for sign in (checkpoint, *_CHECKPOINT_SIGNS)):
        return GenerationUnrecoverable(f"its checkpoint cannot be used: {_short_cause(error)}")
    return QueryFailed(_short_cause(error))


def _short_cause(error: Exception) -> str:
    """The error's cause in one line, without task and package."""
    return _TASK_PREFIX.sub("", _TASK_PREFIX.sub("", first_line(error)))
