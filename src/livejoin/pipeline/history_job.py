"""The batch job that joins a generation's history: started, looked at, waited for, cancelled."""

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

from livejoin.core import spec
from livejoin.core.generation import Generation
from livejoin.core.names import Names
from livejoin.errors import QueryFailed, first_line
from livejoin.kafka.cluster import Kafka
from livejoin.pipeline import history, join, kafka_options
from livejoin.pipeline.spark_driver import SparkDriver

log = structlog.get_logger()

_POLL_S = 0.5
_CONSUMER_BEANS = "kafka.consumer:type=consumer-fetch-manager-metrics"
_PRODUCER_BEANS = "kafka.producer:type=producer-metrics"
_CONSUMED_METRIC, _SENT_METRIC = "records-consumed-total", "record-send-total"
_CANCEL_S = 15.0


class HistoryJob:
    """One generation's, in the slots that its query will hold afterwards."""

    def __init__(
        self,
        session: SparkDriver,
        kafka: Kafka,
        names: Names,
        generation: Generation,
        fed_from: int,
    ) -> None:
        self.bootstrap_start = fed_from  # where in the feed it writes
        self._session = session
        self._kafka = kafka
        self._names = names
        self._generation = generation
        # its own for each attempt: cancelled is cancelled, also what is yet to begin
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
        """How many it reads, as far as offsets tell."""
        return self._generation.history_length

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def cancel(self) -> None:
        """Have it ended."""
        self._cancelled = True
        if not self._thread.is_alive():
            return
        if self._session.alive:
            try:
                context = self._session.spark().sparkContext._jsc.sc()  # noqa: SLF001
                context.cancelJobGroupAndFutureJobs(self._job_group)
            except (PySparkException, Py4JError, OSError) as error:
                raise QueryFailed(f"the job could not be cancelled: {first_line(error)}") from error
        self._thread.join(_CANCEL_S)
        if self._thread.is_alive():
            raise QueryFailed(
                f"the job did not end within {_CANCEL_S:.0f} s", hint="Spark's log says why."
            )

    def wait(self, progressed: Callable[[int], None], stopped: Callable[[], bool]) -> bool:
        """Wait for its end: whether all is written. `progressed` is told steps, two a record."""
        while self._thread.is_alive():
            self._thread.join(_POLL_S)
            if stopped() or self._cancelled:
                return False
            self._steps_reported = max(self._steps_reported, self._count_steps())
            progressed(self._steps_reported)
        if self._cancelled:
            return False
        if self._error is not None:
            raise QueryFailed(f"its history could not be joined: {first_line(self._error)}")
        return True

    def _run(self) -> None:
        try:
            spark = self._session.spark()
            spark.sparkContext.setJobGroup(self._job_group, "history", interruptOnCancel=True)
            partitions = self._session.shuffle_partitions
            names, number = self._names, self._generation.number
            written = history.join_history(
                self._read_sources(spark),
                partitions,
                names.changelog(number),
                names.bootstrap(number),
            )
            asked = kafka_options.writer_options(self._kafka) | {"kafka.client.id": self._job_group}
            written.write.format("kafka").options(**asked).save()
        except Exception as error:  # noqa: BLE001 - whoever waits raises it
            self._error = error
        finally:
            gc.collect()  # as after a query: the JVM keeps what stands for its objects here

    def _read_sources(self, spark: SparkSession) -> DataFrame:
        reads = []
        for source in spec.SOURCES:
            reading = self._generation.sources[source.name]
            some = {reading.topic: sorted(reading.start)}
            asked = kafka_options.reader_options(self._kafka, self._names) | {
                "groupIdPrefix": self._job_group,
                "assign": json.dumps(some),
                "startingOffsets": kafka_options.offsets_json(reading.topic, reading.start),
                "endingOffsets": kafka_options.offsets_json(reading.topic, reading.after_pins),
            }
            reads.append(
                join.source_records(spark.read.format("kafka").options(**asked).load(), source)
            )
        return join.union_all(reads)

    def _count_steps(self) -> int:
        """How many records were read, and half of how many were written: about as many again.

        What Spark itself tells of running tasks has no number of either; Kafka's clients have.
        """
        if not self._session.alive:
            return 0
        try:
            # once: to ask which methods there are takes dozens of calls
            beans = self._metrics = self._metrics or _JmxMetrics(self._session.spark())
            read = beans.total(
                f"{_CONSUMER_BEANS},client-id=consumer-{self._job_group}*", _CONSUMED_METRIC
            )
            written = beans.total(f"{_PRODUCER_BEANS},client-id={self._job_group}", _SENT_METRIC)
        except (PySparkException, Py4JError, OSError) as error:
            # a client ended meanwhile, or the JVM has: who waits for the job will know
            log.debug("a job cannot be looked at", job=self._job_group, why=first_line(error))
            return 0
        return min(read, self.records) + min(written // 2, self.records)


class _JmxMetrics:
    """Figures that the JVM keeps of itself. Its server of them is reached by reflection only."""

    def __init__(self, spark: SparkSession) -> None:
        jvm = spark._jvm  # noqa: SLF001 - pyspark has no way to the beans
        gateway = spark.sparkContext._gateway  # noqa: SLF001
        assert jvm is not None
        assert gateway is not None
        # names are looked up once: each part of one is sought as a class in all jars
        self._object, self._name = jvm.java.lang.Object, jvm.javax.management.ObjectName
        self._gateway = gateway
        self._server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
        methods = jvm.java.lang.Class.forName("javax.management.MBeanServer").getMethods()
        self._methods = {str(method.getName()): method for method in methods}

    def total(self, pattern: str, attribute: str) -> int:
        """The sum of an attribute over all beans with such a name."""
        found = self._call("queryNames", self._name(pattern), None)
        return sum(int(self._call("getAttribute", one, attribute)) for one in found)

    def _call(self, method: str, *arguments: Any) -> Any:
        given = self._gateway.new_array(self._object, len(arguments))
        for place, argument in enumerate(arguments):
            given[place] = argument
        return self._methods[method].invoke(self._server, given)
