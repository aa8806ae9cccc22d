"""Running queries: one per generation, in Real-time Mode, with its own checkpoint and changelog."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import urlparse

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from livejoin.core import spec
from livejoin.core.generation import Generation
from livejoin.core.names import Names
from livejoin.errors import QueryFailed
from livejoin.kafka import MAX_RECORD_BYTES, Kafka
from livejoin.pipeline import join
from livejoin.pipeline.session import Session
from livejoin.settings import Spark

_WATCH_S = 0.5

# The default one starts ten processes (readlink, chmod) per checkpoint file on a local disk.
_FILES_BY = "spark.sql.streaming.checkpointFileManagerClass"
_LOCAL_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


class Listener(Protocol):
    """Who is told how queries fare."""

    def ran(self, generation: int) -> None:
        """Its query is at work."""

    def died(self, generation: int, why: str) -> None:
        """Its query ended by itself."""


class Queries:
    """Starts and stops queries, and reports those that end by themselves."""

    def __init__(
        self, session: Session, kafka: Kafka, names: Names, checkpoints: str, settings: Spark
    ) -> None:
        self._session = session
        self._kafka = kafka
        self._names = names
        self._checkpoints = checkpoints.rstrip("/")
        self._settings = settings
        self._running: dict[int, StreamingQuery] = {}
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """What a checkpoint depends on besides its sources."""
        shuffle = self._settings.shuffle_partitions
        return f"Spark {pyspark.__version__}, query {join.VERSION}, {shuffle} shuffle partitions"

    def start(self, generation: Generation) -> None:
        """Start a generation's query. It must not be running."""
        spark = self._session.spark()
        try:
            query = self._writer(self._changes(spark, generation), generation)
        except (PySparkException, Py4JError) as error:
            raise QueryFailed(f"the query could not be started: {_first_line(error)}") from error
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
        except (PySparkException, Py4JError) as error:
            raise QueryFailed(f"the query could not be stopped: {_first_line(error)}") from error

    def checkpoints(self) -> list[int]:
        """The generations that left a checkpoint."""
        with self._hadoop() as (files, path):
            root = path(self._checkpoints)
            found = files(root).listStatus(root) if files(root).exists(root) else ()
            names = [one.getPath().getName() for one in found if one.isDirectory()]
        return sorted(int(name) for name in names if name.isdecimal())

    def forget(self, generation: int) -> None:
        """Remove a generation's checkpoint."""
        with self._hadoop() as (files, path):
            where = path(self._checkpoint(generation))
            files(where).delete(where, True)  # noqa: FBT003 - Java has no names for arguments

    @contextlib.contextmanager
    def _hadoop(self) -> Iterator[tuple[Callable[[Any], Any], Callable[[str], Any]]]:
        """The file system of a path and paths, as Hadoop knows them: not every one is local."""
        spark = self._session.spark()
        jvm, conf = spark._jvm, spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        assert jvm is not None
        path = jvm.org.apache.hadoop.fs.Path
        try:
            yield lambda where: where.getFileSystem(conf), path
        except (Py4JError, OSError) as error:
            raise QueryFailed(f"checkpoints are out of reach: {_first_line(error)}") from error

    def _checkpoint(self, generation: int) -> str:
        return f"{self._checkpoints}/{generation}"

    def watch(self, listener: Listener, stop: threading.Event) -> None:
        """Report what becomes of the queries, until told to stop."""
        reported: set[StreamingQuery] = set()
        silent: set[StreamingQuery] = set()
        while not stop.wait(_WATCH_S):
            with self._lock:
                running = dict(self._running)
            for number, query in running.items():
                why = self._why_dead(query, silent)
                if why is not None:
                    with self._lock:
                        self._running.pop(number, None)
                    listener.died(number, why)
                elif query not in reported:
                    reported.add(query)
                    listener.ran(number)
            reported &= set(running.values())

    def _why_dead(self, query: StreamingQuery, silent: set[StreamingQuery]) -> str | None:
        if not self._session.alive:
            return "Spark's JVM is gone"
        try:
            if query.isActive:
                silent.discard(query)
                return None
            error = query.exception()
        except (Py4JError, OSError) as lost:
            # a JVM that was killed stops answering a moment before it is known to be gone
            if query not in silent:
                silent.add(query)
                return None
            return f"Spark does not answer: {_first_line(lost)}"
        return _first_line(error) if error else "it stopped"

    def finished_offsets(self, generation: int) -> Mapping[str, Mapping[int, int]]:
        """Per topic and partition the offset after the last finished batch; empty before one."""
        with self._lock:
            query = self._running.get(generation)
        if query is None or not self._session.alive:
            return {}
        try:
            progress = query.lastProgress
        except (Py4JError, OSError):
            return {}
        ends: dict[str, Mapping[int, int]] = {}
        for source in progress["sources"] if progress else ():
            for topic, offsets in (
                json.loads(source["endOffset"]) if source["endOffset"] else {}
            ).items():
                ends[topic] = {int(p): offset for p, offset in offsets.items()}
        return ends

    def _changes(self, spark: SparkSession, generation: Generation) -> DataFrame:
        streams = [self._records(spark, generation, source) for source in spec.SOURCES]
        stream = streams[0]
        for other in streams[1:]:
            stream = stream.unionByName(other)
        return join.changes(stream, generation.choice)

    def _records(
        self, spark: SparkSession, generation: Generation, source: spec.Source
    ) -> DataFrame:
        reading = generation.sources[source.name]
        start = {reading.topic: {str(p): offset for p, offset in reading.start.items()}}
        options = self._kafka.for_spark() | {
            "subscribe": reading.topic,
            "startingOffsets": json.dumps(start),
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.max.bytes": str(MAX_RECORD_BYTES),
            "groupIdPrefix": self._names.group("pipeline"),
        }
        # Spark refuses it; it has been resolved to offsets
        options.pop("kafka.auto.offset.reset", None)
        return join.records(spark.readStream.format("kafka").options(**options).load(), source)

    def _writer(self, changes: DataFrame, generation: Generation) -> StreamingQuery:
        options = self._kafka.for_spark() | {
            "topic": self._names.changelog(generation.number),
            "kafka.max.request.size": str(MAX_RECORD_BYTES),
            "kafka.acks": "all",
            "checkpointLocation": self._checkpoint(generation.number),
        }
        options.pop("kafka.auto.offset.reset", None)
        if urlparse(self._checkpoints).scheme in ("", "file"):  # else FileContext is the safer one
            changes.sparkSession.conf.set(_FILES_BY, _LOCAL_FILES)
        writer = changes.writeStream.format("kafka").options(**options).outputMode("update")
        name = f"{self._names.prefix}-{generation.number}"
        batch = f"{self._settings.batch_s} seconds"
        writer = writer.queryName(name)
        # pyspark's overloads leave realTime out
        query: StreamingQuery = writer.trigger(realTime=batch).start()  # type: ignore[call-overload]
        return query


def _first_line(error: BaseException) -> str:
    """The part of Spark's message that says something, without the trace."""
    said = [line.strip() for line in str(error).splitlines() if line.strip()]
    return said[0][:500] if said else type(error).__name__
