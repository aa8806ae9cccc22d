"""`livejoin run`: a table server that also takes part in the leader election."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import structlog

from livejoin import serving
from livejoin.config.settings import Settings
from livejoin.control import loop
from livejoin.control.control_topic import ControlTopic
from livejoin.control.executor import Executor, Inbox
from livejoin.control.leadership import JVM_SILENCE_S, Leadership, Term
from livejoin.control.ledger import Ledger
from livejoin.control.replies import ReplySender
from livejoin.core import facts
from livejoin.core.changelog import ChangelogRecord
from livejoin.core.decide import decide
from livejoin.core.names import Names
from livejoin.core.tokens import Role
from livejoin.errors import (
    KafkaUnavailable,
    LeadershipLost,
    LivejoinError,
    MachineError,
    NewerFormat,
    QueryFailed,
    TopicError,
)
from livejoin.kafka.clusters import Clusters
from livejoin.pipeline.pipeline import Pipeline
from livejoin.pipeline.queries import Queries
from livejoin.pipeline.spark_driver import SparkDriver
from livejoin.runtime import jars, processes
from livejoin.serving import Announce, TableServer, ThreadGroup
from livejoin.tables.auth import access_topics

log = structlog.get_logger()

_ATTEMPT_S = 5
_RETRY_S = 1.0
_POLL_S = 1.0
_NEWER_FORMAT_RETRY_S = 30.0
_WARNINGS_RETRY_S = 5.0

CountsByGeneration = Mapping[int, facts.RecordsCounted]  # by generation number


def run(settings: Settings, announce: Announce = lambda _url, _sign_in_url: None) -> int:
    """Serve the tables, and lead when elected, until a signal; return the exit code.

    `announce` gets the page's URL.
    """
    serving.check_exposure(settings)  # fail before jars are downloaded
    processes.find_java()
    jars.jars("spark")

    def start_leader(threads: ThreadGroup, server: TableServer) -> None:
        leader = Leader(
            *(settings, server.clusters, server.names, server.set_status),
            lambda: server.catalog.counted,
            server.catalog.request_rewrites,
        )
        threads.start("leader", leader.run)

    return serving.run(settings, announce, start_leader)


@dataclass(frozen=True)
class Leader:
    """Waits for Kafka, takes part in the election, and leads when elected."""

    settings: Settings
    clusters: Clusters
    names: Names
    set_status: Callable[[dict[str, Any]], None]  # until there is a ledger to write it to
    counts: Callable[[], CountsByGeneration]  # from this process's tables
    # current rows of these generations that an older record overtook in the changelog
    overtaken: Callable[[frozenset[int]], Mapping[int, Sequence[ChangelogRecord]]]

    def run(self, stop: threading.Event) -> None:
        """Follow or lead until `stop` is set."""
        while not stop.is_set():
            try:
                self.clusters.own.wait_until_reachable(_ATTEMPT_S)
                Leadership(self.clusters.own, self.names, self.lead).run(stop)
            except (KafkaUnavailable, TopicError) as error:
                log.warning("waiting for Kafka", why=str(error))
                self._show_waiting(str(error))
                stop.wait(_RETRY_S)
            except NewerFormat as error:
                # leave the election for a while, so that a newer livejoin can lead
                log.error("not leading", why=str(error))  # noqa: TRY400 - expected, needs no traceback
                self._show_waiting(str(error))
                stop.wait(_NEWER_FORMAT_RETRY_S)

    def lead(self, term: Term) -> None:
        """Lead for one term: start Spark and the control loop, and stop them at its end."""
        over = term.over
        Ledger(
            self.clusters.own, self.names, replies=self._reply_sender()
        ).check()  # fail before a JVM is started
        folder = _local_folder(self.settings)
        with contextlib.ExitStack() as stack:
            lock = self._lock_folder(folder, over, stack)
            if lock is None:
                return
            spark = stack.enter_context(
                SparkDriver(
                    self.settings.spark,
                    lock=lock,
                    log=folder / "spark.log",
                    java_options=self.clusters.java_options,
                    silent_s=JVM_SILENCE_S,
                )
            )
            term.on_loss = spark.kill
            # the JVM takes seconds to start; the ledger is read meanwhile
            starter = threading.Thread(target=_start_spark, args=(spark,), name="spark-start")
            starter.start()
            try:
                self._run_control(spark, over)
            finally:
                spark.close()  # it may still be starting
                starter.join()

    def _lock_folder(
        self, folder: Path, over: threading.Event, stack: contextlib.ExitStack
    ) -> int | None:
        """Return the folder's lock; while it is held, no earlier leader's query runs here."""
        while not over.is_set():
            try:
                lock = processes.file_lock(folder / "livejoin.lock", "checkpoints", _ATTEMPT_S)
                return stack.enter_context(lock)
            except MachineError as error:
                log.warning("waiting for the lock of the checkpoint folder", why=str(error))
                self._show_waiting(str(error))
        return None

    def _run_control(self, spark: SparkDriver, over: threading.Event) -> None:
        """Take over the ledger and run the control loop with its threads until `over` is set."""
        if over.is_set():
            return  # taking over would fence a new leader
        settings, clusters, names = self.settings, self.clusters, self.names
        kafka = clusters.own
        inbox: Inbox = queue.Queue()
        replies = self._reply_sender()
        ledger = Ledger(kafka, names, replies=replies)
        state = ledger.take_over()
        access_topics.create_topics(kafka, names)
        if not settings.http.insecure:
            _print_tokens(access_topics.create_first_tokens(kafka, names))
        queries = Queries(spark, clusters, names, settings.checkpoint_path, settings.spark)
        pipeline = Pipeline(clusters, names, queries, settings.start_positions)
        last_generation = self._last_generation(pipeline, over)
        executor = Executor(inbox, pipeline)
        control = ControlTopic(
            clusters, names, settings.rules, inbox, state.topic_id, state.position
        )
        threads = ThreadGroup(on_failure=over.set)
        threads.start("spark", spark.watch)
        threads.start("queries", partial(queries.watch, executor))
        threads.start("sources", partial(pipeline.watch_sources, executor))
        threads.start("warm-up", pipeline.run_warm_up)
        threads.start("figures", partial(self._report_counts, inbox))
        threads.start("rewrite", partial(self._rewrite_overtaken, pipeline))
        threads.start("control-topic", control.run)
        threads.start("ledger", ledger.watch)
        threads.start("warnings", partial(_log_warnings, clusters, settings.topics.control))
        if replies is not None:
            threads.start("replies", replies.run)
        started = facts.LeaderStarted(
            time.time(),
            time.monotonic(),
            settings.initial_choice,
            settings.limits,
            last_generation,
            settings.join_spec,
        )
        try:
            loop.run(decide(state, started), inbox, ledger, executor, over)
        except LeadershipLost:
            spark.kill()  # at once: another process leads already
            raise
        finally:
            spark.close()  # first: unblocks threads that wait for Spark, even if the JVM is frozen
            threads.stop()
            executor.close()
        threads.raise_failure()

    def _reply_sender(self) -> ReplySender | None:
        """For replies that cannot be in the ledger's transactions."""
        if not self.clusters.has_separate_control:
            return None
        return ReplySender(self.clusters.control, self.names)

    def _last_generation(self, pipeline: Pipeline, over: threading.Event) -> int:
        """Return the highest generation number in use; the end of the ledger may be lost."""
        while not over.is_set():
            try:
                return pipeline.highest_number()
            except QueryFailed as error:  # remote checkpoints are listed by the JVM
                log.warning("waiting for the checkpoints", why=str(error))
                self._show_waiting(str(error))
                over.wait(_RETRY_S)
        return 0

    def _report_counts(self, inbox: Inbox, stop: threading.Event) -> None:
        """Report changed counts to the control loop, which keeps them after a generation's end."""
        reported: CountsByGeneration = {}
        while not stop.wait(_POLL_S):
            current = self.counts()
            for number, fact in current.items():
                if fact != reported.get(number):
                    inbox.put(fact)
            reported = current

    def _rewrite_overtaken(self, pipeline: Pipeline, stop: threading.Event) -> None:
        """Write current rows again, after the older records that overtook them."""
        done: Mapping[int, Sequence[ChangelogRecord]] = {}
        try:
            while not stop.wait(_POLL_S):
                current = self.overtaken(pipeline.caught_up())
                if current is done:
                    continue
                for number, records in current.items():
                    try:
                        pipeline.rewrite(number, records)
                    except LivejoinError as error:  # retried at the next poll
                        log.warning("cannot rewrite overtaken rows yet", why=str(error))
                done = current
        finally:
            self.overtaken(frozenset())  # stop looking for overtaken rows

    def _show_waiting(self, reason: str) -> None:
        self.set_status({"state": "waiting", "progress": 0, "message": reason})


def _log_warnings(clusters: Clusters, control_topic: str, stop: threading.Event) -> None:
    """Log once, when all clusters have answered, what only they know and a start does not need."""
    while not stop.is_set():
        try:
            found = clusters.warnings(control_topic, _ATTEMPT_S)
        except (KafkaUnavailable, TopicError):  # reported by those who need the cluster or topic
            stop.wait(_WARNINGS_RETRY_S)
            continue
        for one in found:
            log.warning("questionable setting", what=str(one))
        return


def _print_tokens(tokens: list[tuple[Role, str]]) -> None:
    """Print new tokens to standard output, not to the log: they cannot be shown again."""
    for role, token in tokens:
        print(f"livejoin: token for the role {role}, shown only once: {token}", flush=True)


def _start_spark(spark: SparkDriver) -> None:
    began = time.monotonic()
    try:
        spark.spark()
    except LivejoinError as error:
        # the first build retries and reports it
        log.error("spark did not start", why=str(error))  # noqa: TRY400 - expected, needs no traceback
    else:
        log.info("spark is ready", took_s=round(time.monotonic() - began, 1))


def _local_folder(settings: Settings) -> Path:
    """Return the folder of the lock and Spark's log: the checkpoints' one if that is local."""
    url = urlparse(settings.checkpoint_path)
    is_local = url.scheme in ("", "file")
    folder = Path(url.path) if is_local else processes.state_folder() / settings.name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
