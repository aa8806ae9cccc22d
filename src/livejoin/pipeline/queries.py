"""Running queries: one per generation, in Real-time Mode, with its own checkpoint and changelog."""

import contextlib
import gc
import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
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
from livejoin.core.state import Limits
from livejoin.errors import GenerationUnrecoverable, LivejoinError, QueryFailed, first_line
from livejoin.kafka.cluster import Kafka
from livejoin.pipeline import history, join, kafka_options, query_errors
from livejoin.pipeline.checkpoints import Checkpoints, is_local
from livejoin.pipeline.history_job import HistoryJob
from livejoin.pipeline.spark_driver import SparkDriver

_WATCH_S = 0.5
_MIN_BATCH_S = 5  # batch that Spark takes
# The default one starts ten processes (readlink, chmod) per checkpoint file on a local disk.
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_LOCAL_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


class QueryListener(Protocol):
    """Who is told how queries fare."""

    def query_died(self, generation: int, why: str) -> None:
        """Its query ended by itself."""

    def unrecoverable(self, generation: int, why: str) -> None:
        """Its query ended by itself and can never run again."""


class Queries:
    """Starts and stops queries, and reports those that end by themselves."""

    def __init__(
        self,
        session: SparkDriver,
        kafka: Kafka,
        names: Names,
        checkpoints: str,
        settings: SparkSettings,
    ) -> None:
        self.checkpoints = Checkpoints(session, checkpoints)
        self._session = session
        self._kafka = kafka
        self._names = names
        self._settings = settings
        self._running: dict[int, StreamingQuery] = {}
        self._lock = threading.Lock()
        self._warmed_up: SparkSession | None = None

    @property
    def batch_s(self) -> int:
        """How long a batch is."""
        return self._settings.batch_s

    @property
    def shuffle_partitions(self) -> int:
        """Of each query's state."""
        return self._session.shuffle_partitions

    def uses_batch_history(self, generation: Generation) -> bool:
        """Whether the history of such a generation is worth a batch job.

        Not on a cluster: how far a job is there cannot be seen from here.
        """
        many = generation.history_length >= self._settings.history_records > 0
        return many and generation.choice.join in history.BATCH_JOINS and self._settings.is_local

    def fingerprint(self, generation: Generation) -> str:
        """What a checkpoint depends on besides its sources."""
        parts = [
            f"Spark {pyspark.__version__}",
            f"query {join.VERSION}",
            f"{self.shuffle_partitions} shuffle partitions",
            f"{generation.choice.join} join",
            *(f"{r.topic} {r.topic_id}" for r in generation.sources.values()),
            f"tables {_schema_hash()}",
        ]
        return ", ".join(
            [*parts, "history by batch"] if self.uses_batch_history(generation) else parts
        )

    def history_job(self, generation: Generation, fed_from: int) -> HistoryJob:
        """The batch job that joins a generation's history; the feed is as long as this before."""
        return HistoryJob(self._session, self._kafka, self._names, generation, fed_from)

    def bootstrap_end_keys(self) -> list[str]:
        """For each shuffle partition a key that goes there, and can be no user's."""
        count = self.shuffle_partitions
        text = (
            f"SELECT transform(sequence(0, {64 * count}),"
            f" i -> pmod(hash(concat('-feed-', i)), {count})) AS places"
        )
        (row,) = self._session.spark().sql(text).collect()
        places: list[int] = row["places"]
        return [f"-feed-{places.index(partition)}" for partition in range(count)]

    def start(self, generation: Generation, fed_from: int | None = None) -> None:
        """Start a generation's query, with a feed from this offset on. It must not be running."""
        spark = self._session.spark()
        try:
            changes = self._changelog_stream(spark, generation, fed_from)
            number, folder = generation.number, generation.checkpoint
            query = self._start_query(changes, number, str(number), folder, self.batch_s)
        except (PySparkException, Py4JError) as error:
            raise query_errors.from_spark_error(
                error, self.checkpoints.path(generation.checkpoint)
            ) from error
        except OSError as error:
            raise QueryFailed(f"Spark's JVM ended: {first_line(error)}") from error
        with self._lock:
            self._running[generation.number] = query

    def stop(self, generation: int) -> None:
        """Stop a generation's query, if it runs."""
        with self._lock:
            query = self._running.pop(generation, None)
        if query is None or not self._session.alive:
            return
        try:
            query.stop()
        except (PySparkException, Py4JError, OSError) as error:  # OSError: its JVM died meanwhile
            raise QueryFailed(f"the query could not be stopped: {first_line(error)}") from error
        # What stands for a Java object here is a cycle: until those are collected, the JVM keeps
        # the plans of queries that are gone, 3 MB each.
        del query
        gc.collect()

    @property
    def needs_warm_up(self) -> bool:
        """Whether no batch has ended in this JVM, and none will soon."""
        return self.batch_s > 10 * _MIN_BATCH_S and self._warmed_up is not self._session.started

    def has_free_slots(self, running: Iterable[Generation]) -> bool:
        """Whether slots are left for an idle query: one that takes them from another ends that."""
        limits = Limits(slots=self._settings.task_slots, shuffle=self.shuffle_partitions)
        held = sum(limits.slots_needed(generation.partitions_read) for generation in running)
        return held + limits.slots_needed(len(spec.SOURCES)) <= limits.slots

    @contextlib.contextmanager
    def idle_query(self, generation: Generation) -> Iterator[Callable[[], int]]:
        """A query like a generation's that reads nothing, in short batches; how many have ended.

        It reads the generation's feed from its end on, where nothing comes any more.
        """
        spark = self._session.started
        if spark is None:
            raise QueryFailed("Spark's JVM is gone")
        self._warmed_up = spark
        feed = self._names.bootstrap(generation.number)
        self._kafka.create_topic(feed, history.BOOTSTRAP_TOPIC_CONFIG)
        nothing = Reading(feed, "", {0: self._kafka.end_offset(feed)}, {})
        alike = replace(generation, sources=dict.fromkeys(generation.sources, nothing))
        called = f"{generation.number}/rehearsal"  # inside of what goes when the generation goes
        self.checkpoints.delete(called)
        changes = self._changelog_stream(spark, alike, None)
        query = self._start_query(changes, generation.number, called, called, _MIN_BATCH_S)
        try:
            yield lambda: _completed_batches(query)
        finally:
            query.stop()
            self.checkpoints.delete(called)

    def watch(self, listener: QueryListener, stop: threading.Event) -> None:
        """Report queries that end by themselves, until told to stop."""
        silent: set[StreamingQuery] = set()
        while not stop.wait(_WATCH_S):
            with self._lock:
                running = dict(self._running)
            for number, query in running.items():
                error = self._end_of(number, query, silent)
                if error is None:
                    continue
                with self._lock:
                    if self._running.get(number) is not query:
                        continue  # it was stopped, and perhaps started again, while we looked
                    del self._running[number]
                told = (
                    listener.unrecoverable
                    if isinstance(error, GenerationUnrecoverable)
                    else listener.query_died
                )
                told(number, error.message)

    def _end_of(
        self, generation: int, query: StreamingQuery, silent: set[StreamingQuery]
    ) -> LivejoinError | None:
        if not self._session.alive:
            return QueryFailed("Spark's JVM is gone")
        try:
            if query.isActive:
                silent.discard(query)
                return None
            error, trace = query.exception(), self._stack_trace(query)
        except (Py4JError, OSError, QueryFailed) as lost:
            # a JVM that was killed stops answering a moment before it is known to be gone, and
            # one that is stopped may be gone between two questions
            if query not in silent:
                silent.add(query)
                return None
            return QueryFailed(f"Spark does not answer: {first_line(lost)}")
        if error is None:
            return QueryFailed("it stopped")
        return query_errors.from_spark_error(error, self.checkpoints.path(generation), trace)

    def _stack_trace(self, query: StreamingQuery) -> str:
        """All that the JVM knows of how a query ended; pyspark leaves the causes out."""
        error, jvm = query._jsq.exception(), self._session.spark()._jvm  # noqa: SLF001
        assert jvm is not None
        whole = jvm.org.apache.spark.util.Utils.exceptionString
        return str(whole(error.get())) if error.isDefined() else ""

    def _changelog_stream(
        self, spark: SparkSession, generation: Generation, fed_from: int | None
    ) -> DataFrame:
        streams = []
        for source in spec.SOURCES:
            reading = generation.sources[source.name]
            start = reading.start if fed_from is None else reading.after_pins
            streams.append(
                join.source_records(self._source_stream(spark, reading.topic, start), source)
            )
        fed = None
        if fed_from is not None:
            feed = self._names.bootstrap(generation.number)
            fed = history.bootstrap_events(self._source_stream(spark, feed, {0: fed_from}))
        return join.changelog_records(join.union_all(streams), generation.choice, fed)

    def _source_stream(self, spark: SparkSession, topic: str, start: Offsets) -> DataFrame:
        asked = kafka_options.reader_options(self._kafka, self._names) | {
            "subscribe": topic,
            "startingOffsets": kafka_options.offsets_json(topic, start),
        }
        return spark.readStream.format("kafka").options(**asked).load()

    def _start_query(
        self, changes: DataFrame, generation: int, called: str, checkpoint: str, batch_s: int
    ) -> StreamingQuery:
        asked = kafka_options.writer_options(self._kafka) | {
            "topic": self._names.changelog(generation),
            "checkpointLocation": self.checkpoints.path(checkpoint),
        }
        if is_local(self.checkpoints.root):  # else FileContext is the safer one
            changes.sparkSession.conf.set(_FILE_MANAGER, _LOCAL_FILE_MANAGER)
        writer = changes.writeStream.format("kafka").options(**asked).outputMode("update")
        writer = writer.queryName(f"{self._names.prefix}-{called}")
        batch = f"{batch_s} seconds"
        # pyspark's overloads leave realTime out
        query: StreamingQuery = writer.trigger(realTime=batch).start()  # type: ignore[call-overload]
        return query


def _schema_hash() -> str:
    """The columns of the tables that a changelog fills, in a few letters."""
    columns = [table.columns for table in spec.TABLES.values() if table.data]
    return hashlib.sha256(repr(columns).encode()).hexdigest()[:8]


def _completed_batches(query: StreamingQuery) -> int:
    """How many batches have ended."""
    if not query.isActive:
        error = query.exception()
        raise QueryFailed(query_errors.short_cause(error) if error else "it stopped")
    progress = query.lastProgress
    return 0 if progress is None else int(progress["batchId"]) + 1
