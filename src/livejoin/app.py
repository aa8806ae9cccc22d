"""`livejoin run`: a table server that also stands for election, and leads when it is its turn."""

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
from livejoin.control.leadership import SESSION_S, Leadership, Term
from livejoin.control.ledger import Ledger
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
    TopicUnusable,
)
from livejoin.kafka.cluster import Kafka
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
# We may have been heard by the group 2 s before we fell silent: our JVM is gone when its session is
_JVM_SILENCE_S = SESSION_S - 3
_NEWER_FORMAT_RETRY_S = 30.0

CountsByGeneration = Mapping[int, facts.RecordsCounted]  # generation


def run(settings: Settings, announce: Announce = lambda _url, _signing_in: None) -> int:
    """Serve the tables, and lead when it is our turn, until a signal says to stop; the exit code.

    `announce` is told the page's address.
    """
    serving.check_exposure(settings)  # before anything is downloaded
    processes.find_java()
    jars.jars("spark")

    def stand(crew: ThreadGroup, of: TableServer) -> None:
        leader = Leader(
            *(settings, of.kafka, of.names, of.show_status),
            lambda: of.catalog.counted,
            of.catalog.request_rewrites,
        )
        crew.start("leader", leader.run)

    return serving.run(settings, announce, stand)


@dataclass(frozen=True)
class Leader:
    """Waits for Kafka, then stands for election, and leads when it is our turn."""

    settings: Settings
    kafka: Kafka
    names: Names
    show_status: Callable[[dict[str, Any]], None]  # until there is a ledger to write it to
    counts: Callable[[], CountsByGeneration]  # as our tables hold them
    # winners that an older record followed, of these generations
    overtaken: Callable[[frozenset[int]], Mapping[int, Sequence[ChangelogRecord]]]

    def run(self, stop: threading.Event) -> None:
        """Stand by or lead, until told to stop."""
        while not stop.is_set():
            try:
                self.kafka.wait_until_reachable(_ATTEMPT_S)
                Leadership(self.kafka, self.names, self.lead).run(stop)
            except (KafkaUnavailable, TopicUnusable) as error:
                log.warning("waiting for Kafka", why=str(error))
                self._show_waiting(str(error))
                stop.wait(_RETRY_S)
            except NewerFormat as error:
                # out of the election for a while: one that knows the format can lead
                log.error("not leading", why=str(error))  # noqa: TRY400 - no trace for people
                self._show_waiting(str(error))
                stop.wait(_NEWER_FORMAT_RETRY_S)

    def lead(self, term: Term) -> None:
        """Lead until it is over. Nothing of ours runs before or after."""
        over = term.over
        Ledger(self.kafka, self.names).check()  # before a JVM is started for nothing
        folder = _local_folder(self.settings)
        with contextlib.ExitStack() as stack:
            lock = self._lock_folder(folder, over, stack)
            if lock is None:
                return
            settings = self.settings.spark
            session = stack.enter_context(
                SparkDriver(
                    settings,
                    lock=lock,
                    log=folder / "spark.log",
                    java_options=self.kafka.java_options,
                    silent_s=_JVM_SILENCE_S,
                )
            )
            term.on_loss = session.kill
            warm = threading.Thread(target=_start_spark, args=(session,), name="warm-up")
            warm.start()  # the JVM takes seconds to start, and the ledger can be read meanwhile
            try:
                self._run_control(session, over)
            finally:
                session.close()  # it may still be starting
                warm.join()

    def _lock_folder(
        self, folder: Path, over: threading.Event, stack: contextlib.ExitStack
    ) -> int | None:
        """The folder's lock: once we have it, no query of an earlier leader runs here any more."""
        while not over.is_set():
            try:
                one = processes.file_lock(folder / "livejoin.lock", "checkpoints", _ATTEMPT_S)
                return stack.enter_context(one)
            except MachineError as error:
                log.warning("waiting for the folder", why=str(error))
                self._show_waiting(str(error))
        return None

    def _run_control(self, session: SparkDriver, over: threading.Event) -> None:
        if over.is_set():
            return  # another one may lead by now, and would be fenced
        settings, kafka, names = self.settings, self.kafka, self.names
        inbox: Inbox = queue.Queue()
        ledger = Ledger(kafka, names)
        state = ledger.take_over()
        access_topics.create_topics(kafka, names)
        if not settings.http.insecure:
            _print_tokens(access_topics.create_first_tokens(kafka, names))
        queries = Queries(session, kafka, names, settings.checkpoint_path, settings.spark)
        pipeline = Pipeline(kafka, names, queries, settings.start_positions)
        used = self._last_generation(pipeline, over)
        executor = Executor(inbox, pipeline)
        control = ControlTopic(kafka, names, settings.rules, inbox, state.topic_id, state.position)
        crew = ThreadGroup(on_failure=over.set)
        crew.start("spark", session.watch)
        crew.start("queries", partial(queries.watch, executor))
        crew.start("sources", partial(pipeline.watch_sources, executor))
        crew.start("rehearsal", pipeline.run_warm_up)
        crew.start("figures", partial(self._report_counts, inbox))
        crew.start("rewrite", partial(self._rewrite_overtaken, pipeline))
        crew.start("control-topic", control.run)
        crew.start("ledger", ledger.watch)
        started = facts.LeaderStarted(
            time.time(), time.monotonic(), settings.initial_choice, settings.limits, used
        )
        try:
            loop.run(decide(state, started), inbox, ledger, executor, over)
        except LeadershipLost:
            session.kill()  # another one leads already
            raise
        finally:
            session.close()  # first: it ends whatever waits for Spark, even for a frozen JVM
            crew.stop()
            executor.close()
        crew.raise_failure()

    def _last_generation(self, pipeline: Pipeline, over: threading.Event) -> int:
        """The highest number that something of ours has: the ledger may have lost its end."""
        while not over.is_set():
            try:
                return pipeline.highest_number()
            except QueryFailed as error:  # checkpoints elsewhere, which Spark's JVM must list
                log.warning("waiting for the checkpoints", why=str(error))
                self._show_waiting(str(error))
                over.wait(_RETRY_S)
        return 0

    def _report_counts(self, inbox: Inbox, stop: threading.Event) -> None:
        """Tell the figures: they are the last row of a generation whose tables are gone."""
        told: CountsByGeneration = {}
        while not stop.wait(_POLL_S):
            now = self.counts()
            for number, fact in now.items():
                if fact != told.get(number):
                    inbox.put(fact)
            told = now

    def _rewrite_overtaken(self, pipeline: Pipeline, stop: threading.Event) -> None:
        """Write winners again, behind the older records that followed them."""
        done: Mapping[int, Sequence[ChangelogRecord]] = {}
        try:
            while not stop.wait(_POLL_S):
                now = self.overtaken(pipeline.caught_up())
                if now is done:
                    continue
                for number, changes in now.items():
                    try:
                        pipeline.rewrite(number, changes)
                    except LivejoinError as error:  # they are still overtaken at the next look
                        log.warning("rows are not written again yet", why=str(error))
                done = now
        finally:
            self.overtaken(frozenset())  # nobody writes any more, so nobody need look

    def _show_waiting(self, why: str) -> None:
        self.show_status({"state": "waiting", "progress": 0, "message": why})


def _print_tokens(made: list[tuple[Role, str]]) -> None:
    """To the console, past all logs: nobody can see them again."""
    for role, text in made:
        print(f"livejoin: a token for the role {role}, shown only now: {text}", flush=True)


def _start_spark(session: SparkDriver) -> None:
    began = time.monotonic()
    try:
        session.spark()
    except LivejoinError as error:
        # the first build tries again and reports it
        log.error("spark did not start", why=str(error))  # noqa: TRY400 - no trace for people
    else:
        log.info("spark is ready", took_s=round(time.monotonic() - began, 1))


def _local_folder(settings: Settings) -> Path:
    """A local folder for the lock and Spark's log: the checkpoints' own, where that is local."""
    where = urlparse(settings.checkpoint_path)
    local = where.scheme in ("", "file")
    folder = Path(where.path) if local else processes.state_folder() / settings.name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
