"""Spark's JVM and the session in it: started as Real-time Mode needs it, and again when it dies."""

import contextlib
import os
import re
import stat
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark
import structlog
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import SparkSession

from livejoin import redaction as secret
from livejoin.config.sections import SparkSettings
from livejoin.errors import MachineError, QueryFailed, first_line
from livejoin.kafka import properties
from livejoin.runtime import class_archive as classes
from livejoin.runtime import jars, processes

log = structlog.get_logger()

_SPARK_HOME = Path(pyspark.__file__).parent
_JVM_START_S = 180  # 3 s on a quiet machine, 83 s on one with twenty busy threads
_PING_S = 5.0
_PING_TIMEOUT_S = 60.0  # the longest full collection of a small heap takes seconds
_JVM_OPTIONS = (
    # JSON may be nested 1000 deep and VARIANT walks it by recursion: the default of 1 MiB overflows
    "-Xss8m",
    # the parser is one long generated method; without this HotSpot interprets it: twice as long
    "-XX:-DontCompileHugeMethods",
    "-Djava.net.preferIPv6Addresses=false",
)
_GC_OPTION = "-XX:+UseParallelGC"
_ANY_GC_OPTION = re.compile(r"-XX:\+Use\w+GC\b")  # a JVM with two does not start
_DEFAULTS = {
    "spark.app.name": "livejoin",
    # the state is RocksDB's, outside of it: 140 MiB live after a hundred swaps
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.default.parallelism": "2",  # 512 slots are not 512 cores
    "spark.rpc.netty.dispatcher.numThreads": "4",  # one per slot by default
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "2",  # 50 by default: most of the latency
    "spark.sql.streaming.stopTimeout": "15s",  # for ever by default
    # a look for each key that is written; nobody asks how many there are
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # how soon the state of a query that is gone is let go of; a minute by default
    "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
    "spark.sql.adaptive.enabled": "false",  # the one batch job has one shuffle: nothing to adapt
    "spark.sql.variant.allowDuplicateKeys": "true",  # of duplicate keys the last counts
    "spark.sql.session.timeZone": "UTC",
    # whoever can reach the driver's port could have it run anything (decision 23)
    "spark.authenticate": "true",
    # call sites for error messages: several calls to the JVM for each column that is made
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

_LOG_LEVEL = "spark.log.level"
_REDACTION = "spark.redaction.regex"
# secrets of Kafka's travel with the tasks; in a single JVM nothing does
_CLUSTER_DEFAULTS = {"spark.network.crypto.enabled": "true"}
_LOCAL_DEFAULTS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def class_archive(java: str) -> Path:
    """Where the classes that Spark loads are archived."""
    return classes.archive_path("spark", java, *(_SPARK_HOME / "jars").glob("*.jar"))


class SparkDriver:
    """The one Spark session of this process. `spark` starts it, again where its JVM has died."""

    def __init__(  # noqa: PLR0913 - all but the first have names
        self,
        settings: SparkSettings,
        *,
        lock: int,
        log: Path,
        java_options: Sequence[str] = (),
        archive_classes: bool = False,
        silent_s: float = 0,
    ) -> None:
        self._settings = settings
        self._java_options = java_options
        self._lock = lock
        self._log = log
        self._archive_classes = archive_classes
        self._silent_s = silent_s  # the JVM ends when this process is frozen for so long
        self._jvm: processes.Child | None = None
        self._spark: SparkSession | None = None
        self._starting = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether there is a JVM that has not ended."""
        return self._jvm is not None and not self._jvm.exited

    @property
    def started(self) -> SparkSession | None:
        """The session where there is one already, and its JVM has not ended."""
        return self._spark if self.alive else None

    def spark(self) -> SparkSession:
        """The session, started if need be."""
        with self._starting:
            if self._closed:
                raise QueryFailed("Spark was stopped")
            if self._spark is None or not self.alive:
                self._discard_jvm()
                try:
                    self._spark = self._start()
                except (Py4JError, OSError) as error:  # killed while it was being started
                    raise QueryFailed(f"Spark's JVM ended: {first_line(error)}") from error
            return self._spark

    @property
    def shuffle_partitions(self) -> int:
        """Of each query's state."""
        return self._settings.shuffle_partitions

    def watch(self, stop: threading.Event) -> None:
        """End a JVM that does not answer any more, and with it every wait for it."""
        while not stop.wait(_PING_S):
            jvm, spark = self._jvm, self._spark
            if jvm is None or spark is None or jvm.exited:
                continue
            ask = threading.Thread(target=_ping, args=(spark,), name="ask-spark", daemon=True)
            ask.start()
            ask.join(_PING_TIMEOUT_S)
            if ask.is_alive():
                log.error("spark does not answer and is ended", waited_s=_PING_TIMEOUT_S)
                jvm.close(grace_s=5)

    def close(self) -> None:
        """End the JVM. What its queries had not committed is read again by the next one."""
        self._closed = True
        if self._jvm is not None and self._spark is None:
            self._jvm.close(grace_s=5)  # it is being started: whoever waits for it need not
        with self._starting:
            self._discard_jvm()

    def kill(self) -> None:
        """End the JVM at once: somebody else may lead, and its queries must not write on."""
        self._closed = True
        if self._jvm is not None:
            self._jvm.kill()

    def _discard_jvm(self) -> None:
        if self._jvm is not None:
            self._jvm.close(grace_s=60 if self._archive_classes else 5)
        self._jvm = self._spark = None
        if SparkContext._gateway is not None:
            # pyspark cannot be told that the JVM it knew is gone; these are all that remember it
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
            SparkSession._instantiatedSession = SparkSession._activeSession = None

    def _start(self) -> SparkSession:
        with (
            _properties_file(self._conf(processes.find_java())) as file,
            tempfile.TemporaryDirectory() as work,
        ):
            answer = Path(work) / "gateway"
            self._jvm = processes.Child(
                [
                    str(_SPARK_HOME / "bin/spark-submit"),
                    "--properties-file",
                    str(file),
                    "pyspark-shell",
                ],
                env={
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
                    "SPARK_CONNECT_MODE": "0",
                    **({"SPARK_LOCAL_IP": "127.0.0.1"} if self._settings.is_local else {}),
                },
                log=self._log,
                keep=[self._lock],
                silent_s=self._silent_s,
            )
            port, secret = self._gateway_address(answer)
        with _environment(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
            gateway = launch_gateway()
        if self._settings.is_local:
            _listen_on_loopback_only(gateway.jvm)
        context = SparkContext(conf=SparkConf(loadDefaults=True, _jvm=gateway.jvm), gateway=gateway)
        context.setLogLevel(context.getConf().get(_LOG_LEVEL, "WARN"))
        _disable_checksum_files(context)
        return SparkSession(context)

    def _gateway_address(self, answer: Path) -> tuple[int, str]:
        until = time.monotonic() + _JVM_START_S
        while not answer.exists():
            if self._closed or not self.alive or time.monotonic() > until:
                raise QueryFailed(
                    "Spark's JVM did not start", hint=f"Its log says why: {self._log}."
                )
            time.sleep(0.02)
        with answer.open("rb") as info:
            return read_int(info), UTF8Deserializer().loads(info)

    def _conf(self, java: str) -> dict[str, str]:
        settings, given = self._settings, properties.reveal(self._settings.conf)
        local = classes.jvm_options(class_archive(java), make=self._archive_classes)
        conf = _DEFAULTS | {
            "spark.master": settings.master,
            "spark.jars": ",".join(map(str, jars.jars("spark"))),
            "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
            **given,
            # it would replace what is hidden anyhow
            _REDACTION: "|".join(
                filter(None, (secret.SPARK_REDACTION_PATTERN, given.get(_REDACTION)))
            ),
        }
        conf = (_LOCAL_DEFAULTS if settings.is_local else _CLUSTER_DEFAULTS) | conf
        for side, more in (("driver", local), ("executor", [])):
            key = f"spark.{side}.extraJavaOptions"
            theirs = given.get(key, "")
            ours = _JVM_OPTIONS if _ANY_GC_OPTION.search(theirs) else (*_JVM_OPTIONS, _GC_OPTION)
            conf[key] = " ".join((*ours, *self._java_options, *more, theirs))
        return conf


def _listen_on_loopback_only(jvm: Any) -> None:
    """Have the wildcard address mean loopback in this JVM.

    Real-time Mode's shuffle listens on the wildcard, unauthenticated, and no setting of Spark's
    says otherwise. Java keeps the address in one field; `--add-opens java.net` is Spark's own.
    """
    try:
        impl = jvm.java.lang.Class.forName("java.net.InetAddress").getDeclaredField("impl")
        impl.setAccessible(True)
        held = impl.get(None)
        wildcard = held.getClass().getDeclaredField("anyLocalAddress")
        wildcard.setAccessible(True)
        wildcard.set(held, jvm.java.net.InetAddress.getByName("127.0.0.1"))
        kept = jvm.java.net.InetSocketAddress(0).getAddress().isLoopbackAddress()
    except Py4JJavaError as error:
        raise _listening_error(first_line(error.java_exception)) from error
    if not kept:
        raise _listening_error("the wildcard address stays what it is")


def _listening_error(why: str) -> MachineError:
    return MachineError(
        f"Spark's shuffle would listen on every address of this machine: {why}",
        hint="This Java is built another way: use Java 17 or 21 (JAVA_HOME).",
    )


def _disable_checksum_files(context: SparkContext) -> None:
    """Each would cost several processes, as Hadoop's native library is not there.

    Spark keeps checksums of its own for what is in a checkpoint. Hadoop hands the same object to
    all who ask; another class for local files would be refused where snapshots are copied.
    """
    jvm = context._jvm
    assert jvm is not None
    local = jvm.org.apache.hadoop.fs.FileSystem.getLocal(context._jsc.hadoopConfiguration())
    local.setWriteChecksum(False)


def _ping(spark: SparkSession) -> None:
    # that it ended is seen elsewhere
    with contextlib.suppress(Py4JError, OSError):
        spark.sparkContext._jsc.sc().isStopped()


@contextlib.contextmanager
def _properties_file(conf: dict[str, str]) -> Iterator[Path]:
    """The configuration in a file that only we can read: on a command line everybody could."""
    handle, name = tempfile.mkstemp(suffix=".conf")
    os.fchmod(handle, stat.S_IRUSR | stat.S_IWUSR)
    with os.fdopen(handle, "w") as file:
        for key, value in conf.items():
            if "\n" in value:
                raise MachineError(f"spark.conf: {key} holds a line break")
            escaped = value.replace("\\", "\\\\")
            file.write(f"{key}={escaped}\n")
    try:
        yield Path(name)
    finally:
        Path(name).unlink()


@contextlib.contextmanager
def _environment(**variables: str) -> Iterator[None]:
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
