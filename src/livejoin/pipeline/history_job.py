"""The batch job that joins a generation's history: start, wait with progress, cancel."""

import gc
import json
import threading
import uuid
from collections.abc import Callable
from typing import Any

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from livejoin.core.generation import Generation
from livejoin.core.names import Names
from livejoin.errors import QueryFailed, first_line
from livejoin.kafka import own_topics
from livejoin.kafka.clusters import Clusters
from livejoin.pipeline import history, join
from livejoin.pipeline.offsets import offsets_json
from livejoin.pipeline.spark_driver import SparkDriver

log = structlog.get_logger()

_POLL_S = 0.5
_CONSUMER_BEANS = "kafka.consumer:type=consumer-fetch-manager-metrics"
_PRODUCER_BEANS = "kafka.producer:type=producer-metrics"
_CONSUMED_METRIC, _SENT_METRIC = "records-consumed-total", "record-send-total"
_CANCEL_S = 15.0


class HistoryJob:
    """The history job of one generation. It runs in the slots that its query will use next."""

    def __init__(
        self,
        driver: SparkDriver,
        clusters: Clusters,
        names: Names,
        generation: Generation,
        bootstrap_start: int,
    ) -> None:
        self.bootstrap_start = bootstrap_start  # offset of its first bootstrap record
        self._driver = driver
        self._clusters = clusters
        self._names = names
        self._generation = generation
        # unique per attempt: cancelling a job group also cancels its future jobs
        self._job_group = (
            f"{names.group('pipeline')}-history-{generation.number}-{uuid.uuid4().hex[:8]}"
        )
        self._metrics: _JmxMetrics | None = None
        self._steps_reported = 0
        self._error: Exception | None = None
        self._cancelled = False
        self._thread = threading.Thread(target=self._run, name=self._job_group, daemon=True)

    @property
    def records(self) -> int:
        """Number of records that it reads, estimated from offsets."""
        return self._generation.history_length

    def start(self) -> None:
        """Start the job; returns at once."""
        self._thread.start()

    def cancel(self) -> None:
        """Cancel the job, and wait until it has ended."""
        self._cancelled = True
        if not self._thread.is_alive():
            return
        if self._driver.alive:
            try:
                context = self._driver.spark().sparkContext._jsc.sc()  # noqa: SLF001
                context.cancelJobGroupAndFutureJobs(self._job_group)
            except (PySparkException, Py4JError, OSError) as error:
                raise QueryFailed(f"cannot cancel the history job: {first_line(error)}") from error
        self._thread.join(_CANCEL_S)
        if self._thread.is_alive():
            raise QueryFailed(
                f"the history job did not end within {_CANCEL_S:.0f} s", hint="See Spark's log."
            )

    def wait(self, progressed: Callable[[int], None], stopped: Callable[[], bool]) -> bool:
        """Wait for the end; whether it has finished. `progressed` gets steps, two per record."""
        while self._thread.is_alive():
            self._thread.join(_POLL_S)
            if stopped() or self._cancelled:
                return False
            self._steps_reported = max(self._steps_reported, self._count_steps())
            progressed(self._steps_reported)
        if self._cancelled:
            return False
        if self._error is not None:
            raise QueryFailed(f"its history job failed: {first_line(self._error)}")
        return True

    def _run(self) -> None:
        try:
            spark = self._driver.spark()
            spark.sparkContext.setJobGroup(self._job_group, "history", interruptOnCancel=True)
            partitions = self._driver.shuffle_partitions
            names, number = self._names, self._generation.number
            changelog, bootstrap = names.changelog(number), names.bootstrap(number)
            limits = own_topics.record_limits(self._clusters.own, [changelog, bootstrap])
            sources = self._read_sources(spark)
            joined = self._generation.spec
            written = history.join_history(
                sources, joined, partitions, changelog, bootstrap, limits.value_bytes
            )
            options = self._clusters.own.spark_writer_options(limits.batch_bytes)
            options |= {"kafka.client.id": self._job_group}
            written.write.format("kafka").options(**options).save()
        except Exception as error:  # noqa: BLE001 - raised again by `wait`
            self._error = error
        finally:
            gc.collect()  # as in Queries.stop

    def _read_sources(self, spark: SparkSession) -> DataFrame:
        frames = []
        for source in self._generation.spec.sources:
            reading = self._generation.sources[source.name]
            options = self._clusters.data.spark_reader_options(self._job_group) | {
                "assign": json.dumps({reading.topic: sorted(reading.start)}),
                "startingOffsets": offsets_json(reading.topic, reading.start),
                "endingOffsets": offsets_json(reading.topic, reading.after_pins),
            }
            frame = spark.read.format("kafka").options(**options).load()
            frames.append(join.source_records(frame, source))
        return join.union_all(frames)

    def _count_steps(self) -> int:
        """Steps done: one per record read, and one per two records written.

        Spark reports neither while a task runs, but the metrics of Kafka's clients do.
        """
        if not self._driver.alive:
            return 0
        try:
            # cached: looking up its methods takes dozens of calls to the JVM
            metrics = self._metrics = self._metrics or _JmxMetrics(self._driver.spark())
            consumers = f"{_CONSUMER_BEANS},client-id=consumer-{self._job_group}*"
            read = metrics.total(consumers, _CONSUMED_METRIC)
            producer = f"{_PRODUCER_BEANS},client-id={self._job_group}"
            written = metrics.total(producer, _SENT_METRIC)
        except (PySparkException, Py4JError, OSError) as error:
            # a client or the JVM has ended; `wait` finds out
            log.debug("cannot read job metrics", job=self._job_group, why=first_line(error))
            return 0
        return min(read, self.records) + min(written // 2, self.records)


class _JmxMetrics:
    """JMX metrics of Spark's JVM. Py4J can call the MBean server by reflection only."""

    def __init__(self, spark: SparkSession) -> None:
        jvm = spark._jvm  # noqa: SLF001 - pyspark has no public access to JMX
        gateway = spark.sparkContext._gateway  # noqa: SLF001
        assert jvm is not None
        assert gateway is not None
        # resolved once: Py4J searches all jars for each part of a class name
        self._object, self._name = jvm.java.lang.Object, jvm.javax.management.ObjectName
        self._gateway = gateway
        self._server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
        methods = jvm.java.lang.Class.forName("javax.management.MBeanServer").getMethods()
        self._methods = {str(method.getName()): method for method in methods}

    def total(self, pattern: str, attribute: str) -> int:
        """Sum of an attribute over all MBeans that match a pattern."""
        names = self._call("queryNames", self._name(pattern), None)
        return sum(int(self._call("getAttribute", name, attribute)) for name in names)

    def _call(self, method: str, *arguments: Any) -> Any:
        array = self._gateway.new_array(self._object, len(arguments))
        for i, argument in enumerate(arguments):
            array[i] = argument
        return self._methods[method].invoke(self._server, array)
