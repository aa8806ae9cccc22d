"""Spark's driver JVM and its session: configured for Real-time Mode, restarted when it dies."""

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

from livejoin import redaction
from livejoin.config.sections import SparkSettings
from livejoin.errors import MachineError, QueryFailed, first_line
from livejoin.kafka import properties
from livejoin.runtime import jars, processes

log = structlog.get_logger()

_SPARK_HOME = Path(pyspark.__file__).parent
_JVM_START_S = 180  # takes 3 s on an idle machine, 83 s with twenty busy threads
_PING_S = 5.0
_PING_TIMEOUT_S = 60.0  # far above a full garbage collection of a small heap
_JVM_OPTIONS = (
    # VARIANT recurses into JSON nested up to 1000 deep, which overflows the default of 1 MiB
    "-Xss8m",
    # the parser is one huge generated method; interpreted, it takes twice as long
    "-XX:-DontCompileHugeMethods",
    "-Djava.net.preferIPv6Addresses=false",
)
_GC_OPTION = "-XX:+UseParallelGC"
_ANY_GC_OPTION = re.compile(r"-XX:\+Use\w+GC\b")  # two of them would be an error
_DEFAULTS = {
    "spark.app.name": "livejoin",
    # RocksDB keeps the state off the heap; 140 MiB are live after a hundred swaps
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.default.parallelism": "2",  # not one per slot
    "spark.rpc.netty.dispatcher.numThreads": "4",  # the default is one per slot
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "2",  # 50 would be most of the latency
    "spark.sql.streaming.stopTimeout": "15s",  # the default has no limit
    # would cost a read for each written key, for a count that is not used
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # Closes the producers of stopped queries; the default is ten minutes. An open one refreshes its
    # metadata every five, and a broker that creates missing topics then recreates a changelog.
    "spark.kafka.producer.cache.timeout": "10s",
    "spark.kafka.producer.cache.evictorThreadRunInterval": "5s",
    # unloads the state of stopped queries; the default is a minute
    "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
    "spark.sql.adaptive.enabled": "false",  # the only batch job has one shuffle
    "spark.sql.variant.allowDuplicateKeys": "true",  # the last of duplicate keys counts
    "spark.sql.caseSensitive": "true",  # names of fields may differ by case only
    "spark.sql.session.timeZone": "UTC",
    # without it, anyone who reaches the driver's port can execute code (decision 23)
    "spark.authenticate": "true",
    # call sites for error messages would take several calls to the JVM per column
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

_LOG_LEVEL = "spark.log.level"
_REDACTION = "spark.redaction.regex"
# tasks contain Kafka secrets, which cross the network only on a cluster
_CLUSTER_DEFAULTS = {"spark.network.crypto.enabled": "true"}
_LOCAL_DEFAULTS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def class_archive(java: str) -> Path:
    """Path of the archive of Spark's loaded classes."""
    return jars.archive_path("spark", java, *(_SPARK_HOME / "jars").glob("*.jar"))


class SparkDriver:
    """Owns the one driver JVM of this process. `spark` starts it, and restarts it after it died."""

    def __init__(  # noqa: PLR0913 - keyword-only
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
        self._silent_s = silent_s  # the JVM is killed when this process is frozen for so long
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
        """Whether the JVM is running."""
        return self._jvm is not None and not self._jvm.exited

    @property
    def started(self) -> SparkSession | None:
        """The session, if it is started and its JVM is running."""
        return self._spark if self.alive else None

    def spark(self) -> SparkSession:
        """The session; starts the JVM if it is not running."""
        with self._starting:
            if self._closed:
                raise QueryFailed("Spark was stopped")
            if self._spark is None or not self.alive:
                self._discard_jvm()
                try:
                    self._spark = self._start()
                except (Py4JError, OSError) as error:  # killed during its start
                    raise QueryFailed(f"Spark's JVM exited: {first_line(error)}") from error
            return self._spark

    @property
    def shuffle_partitions(self) -> int:
        """Number of partitions of a query's state."""
        return self._settings.shuffle_partitions

    def watch(self, stop: threading.Event) -> None:
        """Kill a JVM that no longer answers, which also ends every wait for it."""
        while not stop.wait(_PING_S):
            jvm, spark = self._jvm, self._spark
            if jvm is None or spark is None or jvm.exited:
                continue
            ping = threading.Thread(target=_ping, args=(spark,), name="spark-ping", daemon=True)
            ping.start()
            ping.join(_PING_TIMEOUT_S)
            if ping.is_alive():
                log.error("spark does not answer, killing its jvm", waited_s=_PING_TIMEOUT_S)
                jvm.close(grace_s=5)

    def close(self) -> None:
        """Stop the JVM. The next one reads again what queries had not committed."""
        self._closed = True
        if self._jvm is not None and self._spark is None:
            self._jvm.close(grace_s=5)  # it is starting: end the wait for it
        with self._starting:
            self._discard_jvm()

    def kill(self) -> None:
        """Kill the JVM at once: leadership may be lost, and its queries must not write any more."""
        self._closed = True
        if self._jvm is not None:
            self._jvm.kill()

    def _discard_jvm(self) -> None:
        if self._jvm is not None:
            self._jvm.close(grace_s=60 if self._archive_classes else 5)
        self._jvm = self._spark = None
        if SparkContext._gateway is not None:
            # pyspark has no way to forget a dead JVM; these attributes are all that refer to it
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
            SparkSession._instantiatedSession = SparkSession._activeSession = None

    def _start(self) -> SparkSession:
        with (
            _properties_file(self._conf(processes.find_java())) as file,
            tempfile.TemporaryDirectory() as work,
        ):
            connection_file = Path(work) / "gateway"
            self._jvm = processes.Child(
                [
                    str(_SPARK_HOME / "bin/spark-submit"),
                    "--properties-file",
                    str(file),
                    "pyspark-shell",
                ],
                env={
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection_file),
                    "SPARK_CONNECT_MODE": "0",
                    **({"SPARK_LOCAL_IP": "127.0.0.1"} if self._settings.is_local else {}),
                },
                log=self._log,
                keep=[self._lock],
                silent_s=self._silent_s,
            )
            port, secret = self._gateway_address(connection_file)
        with _environment(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
            gateway = launch_gateway()
        if self._settings.is_local:
            _listen_on_loopback_only(gateway.jvm)
        context = SparkContext(conf=SparkConf(loadDefaults=True, _jvm=gateway.jvm), gateway=gateway)
        context.setLogLevel(context.getConf().get(_LOG_LEVEL, "WARN"))
        _disable_checksum_files(context)
        return SparkSession(context)

    def _gateway_address(self, connection_file: Path) -> tuple[int, str]:
        until = time.monotonic() + _JVM_START_S
        while not connection_file.exists():
            if self._closed or not self.alive or time.monotonic() > until:
                raise QueryFailed("Spark's JVM did not start", hint=f"See its log: {self._log}.")
            time.sleep(0.02)
        with connection_file.open("rb") as info:
            return read_int(info), UTF8Deserializer().loads(info)

    def _conf(self, java: str) -> dict[str, str]:
        settings, given = self._settings, properties.reveal(self._settings.conf)
        archive = jars.archive_options(class_archive(java), make=self._archive_classes)
        conf = _DEFAULTS | {
            "spark.master": settings.master,
            "spark.jars": ",".join(map(str, jars.jars("spark"))),
            "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
            **given,
            # extends the defaults instead of replacing them
            _REDACTION: "|".join(
                filter(None, (redaction.SPARK_REDACTION_PATTERN, given.get(_REDACTION)))
            ),
        }
        conf = (_LOCAL_DEFAULTS if settings.is_local else _CLUSTER_DEFAULTS) | conf
        for side, more in (("driver", archive), ("executor", [])):
            key = f"spark.{side}.extraJavaOptions"
            configured = given.get(key, "")
            ours = (
                _JVM_OPTIONS if _ANY_GC_OPTION.search(configured) else (*_JVM_OPTIONS, _GC_OPTION)
            )
            conf[key] = " ".join((*ours, *self._java_options, *more, configured))
        return conf


def _listen_on_loopback_only(jvm: Any) -> None:
    """Replace the wildcard address by loopback in this JVM.

    Real-time Mode's shuffle listens on the wildcard address without authentication, and Spark has
    no setting for it. Java keeps the address in one field, and Spark opens `java.net` itself.
    """
    try:
        impl = jvm.java.lang.Class.forName("java.net.InetAddress").getDeclaredField("impl")
        impl.setAccessible(True)
        implementation = impl.get(None)
        wildcard = implementation.getClass().getDeclaredField("anyLocalAddress")
        wildcard.setAccessible(True)
        wildcard.set(implementation, jvm.java.net.InetAddress.getByName("127.0.0.1"))
        is_loopback = jvm.java.net.InetSocketAddress(0).getAddress().isLoopbackAddress()
    except Py4JJavaError as error:
        raise _listening_error(first_line(error.java_exception)) from error
    if not is_loopback:
        raise _listening_error("the wildcard address cannot be replaced")


def _listening_error(why: str) -> MachineError:
    return MachineError(
        f"Spark's shuffle would listen on every address of this machine: {why}",
        hint="This Java is not supported: use Java 17 or 21 (JAVA_HOME).",
    )


def _disable_checksum_files(context: SparkContext) -> None:
    """Stop Hadoop from writing checksum files for local files.

    Each would start several processes, since Hadoop's native library is missing. Spark has its own
    checksums for checkpoints. This works on Hadoop's shared file system object; another file system
    class would be refused when Spark copies snapshots.
    """
    jvm = context._jvm
    assert jvm is not None
    local = jvm.org.apache.hadoop.fs.FileSystem.getLocal(context._jsc.hadoopConfiguration())
    local.setWriteChecksum(False)


def _ping(spark: SparkSession) -> None:
    # an exit is noticed elsewhere
    with contextlib.suppress(Py4JError, OSError):
        spark.sparkContext._jsc.sc().isStopped()


@contextlib.contextmanager
def _properties_file(conf: dict[str, str]) -> Iterator[Path]:
    """The configuration in a private file: command lines are visible to other users."""
    handle, name = tempfile.mkstemp(suffix=".conf")
    os.fchmod(handle, stat.S_IRUSR | stat.S_IWUSR)
    with os.fdopen(handle, "w") as file:
        for key, value in conf.items():
            if "\n" in value:
                raise MachineError(f"spark.conf: {key} contains a line break")
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
