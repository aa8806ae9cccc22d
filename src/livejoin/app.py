"""Puts the rooms together: settings in, a running livejoin out, all closed by the same `with`."""

import asyncio
import contextlib
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import structlog

from livejoin import jars, processes
from livejoin.control import loop
from livejoin.control.executor import Executor, Inbox
from livejoin.control.inbox import ControlTopic
from livejoin.control.leadership import Leadership
from livejoin.control.ledger import Ledger
from livejoin.core import facts
from livejoin.core.decide import decide
from livejoin.core.names import Names
from livejoin.errors import KafkaUnavailable, LivejoinError, MachineError, SettingsError
from livejoin.kafka import Kafka, wait_until_reachable
from livejoin.pipeline.pipeline import Pipeline
from livejoin.pipeline.queries import Queries
from livejoin.pipeline.session import Session
from livejoin.settings import Settings
from livejoin.tables.asking import Asking
from livejoin.tables.follow import Follower
from livejoin.tables.host import Host
from livejoin.tables.server import listen, serve

log = structlog.get_logger()

_LOOPBACK = ("127.0.0.1", "localhost", "::1")

_TRY_S = 5
_COUNT_S = 1.0

Figures = Mapping[int, Mapping[str, int]]  # of generations, by number and column


def run(settings: Settings, announce: Callable[[str], None] = lambda _url: None) -> int:
    """Run until a signal says to stop; the exit code. `announce` is told the page's address."""
    if settings.http.host not in _LOOPBACK:
        raise SettingsError(
            f"http.host is {settings.http.host}, which others can reach",
            hint=f"There is no sign-in yet: use {_LOOPBACK[0]}.",
        )
    processes.java()
    jars.jars("spark")
    with listen(settings.http.host, settings.http.port) as taken:
        host = f"[{settings.http.host}]" if ":" in settings.http.host else settings.http.host
        announce(f"http://{host}:{taken.getsockname()[1]}/")
        return asyncio.run(_serve(settings, taken))


async def _serve(settings: Settings, taken: socket.socket) -> int:
    kafka, names = Kafka(settings.kafka), Names(settings.name)
    host = Host(
        logs_kept=settings.logs_kept,
        rejects_kept=settings.rejects_kept,
        control_kept=settings.control_kept,
        viewer_rows=settings.viewer_rows,
    )
    stop, code = asyncio.Event(), 0
    here = asyncio.get_running_loop()

    def stopped_by(signal_code: int) -> None:
        nonlocal code
        code = signal_code
        stop.set()

    here.add_signal_handler(signal.SIGTERM, stopped_by, 0)
    here.add_signal_handler(signal.SIGINT, stopped_by, 130)

    def show_status(row: dict[str, Any]) -> None:
        here.call_soon_threadsafe(host.show_status, row)

    follower = Follower(kafka, names, host, here.call_soon_threadsafe, logs_kept=settings.logs_kept)
    crew = Crew(on_failure=lambda: here.call_soon_threadsafe(stop.set))
    crew.hire("follower", follower.run)
    crew.hire("leader", Leader(settings, kafka, names, show_status, lambda: host.figures).run)
    asking = Asking(kafka, settings.rules, settings.limits, host)
    try:
        await serve(host, asking, taken, stop)
    finally:
        log.info("stopping")
        await asyncio.to_thread(crew.dismiss)
    crew.raise_failure()
    return code


@dataclass(frozen=True)
class Leader:
    """Waits for Kafka, then stands for election, and leads when it is our turn."""

    settings: Settings
    kafka: Kafka
    names: Names
    show_status: Callable[[dict[str, Any]], None]  # until there is a ledger to write it to
    figures: Callable[[], Figures]  # as our tables hold them

    def run(self, stop: threading.Event) -> None:
        """Stand by or lead, until told to stop."""
        while not stop.is_set():
            try:
                wait_until_reachable(self.kafka, _TRY_S)
                Leadership(self.kafka, self.names, self.lead).run(stop)
            except KafkaUnavailable as error:
                log.warning("waiting for Kafka", why=str(error))
                self._waiting(str(error))

    def lead(self, over: threading.Event) -> None:
        """Lead until it is over. Nothing of ours runs before or after."""
        folder = _local_folder(self.settings)
        with contextlib.ExitStack() as stack:
            lock = self._lock(folder, over, stack)
            if lock is None:
                return
            settings = self.settings.spark
            session = stack.enter_context(Session(settings, lock=lock, log=folder / "spark.log"))
            warm = threading.Thread(target=_warm, args=(session,), name="warm-up")
            warm.start()  # the JVM takes seconds to start, and the ledger can be read meanwhile
            try:
                self._lead(session, over)
            finally:
                warm.join()

    def _lock(self, folder: Path, over: threading.Event, stack: contextlib.ExitStack) -> int | None:
        """The folder's lock: once we have it, no query of an earlier leader runs here any more."""
        while not over.is_set():
            try:
                one = processes.only_one(folder / "livejoin.lock", "checkpoints", _TRY_S)
                return stack.enter_context(one)
            except MachineError as error:
                log.warning("waiting for the folder", why=str(error))
                self._waiting(str(error))
        return None

    def _lead(self, session: Session, over: threading.Event) -> None:
        settings, kafka, names = self.settings, self.kafka, self.names
        inbox: Inbox = queue.Queue()
        ledger = Ledger(kafka, names)
        state = ledger.last()
        queries = Queries(session, kafka, names, settings.checkpoint_path, settings.spark)
        pipeline = Pipeline(kafka, names, queries, settings.start_at)
        executor = Executor(inbox, pipeline)
        control = ControlTopic(kafka, names, settings.rules, inbox, state.topic_id, state.position)
        crew = Crew(on_failure=over.set)
        crew.hire("spark", session.watch)
        crew.hire("queries", partial(queries.watch, executor))
        crew.hire("sources", partial(pipeline.watch, executor))
        crew.hire("figures", partial(self._count, inbox))
        crew.hire("control-topic", control.run)
        started = facts.Started(time.time(), settings.choice, settings.limits)
        try:
            loop.run(decide(state, started), inbox, ledger, executor, over)
        finally:
            session.close()  # first: it ends whatever waits for Spark, even for a frozen JVM
            crew.dismiss()
            executor.close()
        crew.raise_failure()

    def _count(self, inbox: Inbox, stop: threading.Event) -> None:
        """Tell the figures: they are the last row of a generation whose tables are gone."""
        told: Figures = {}
        while not stop.wait(_COUNT_S):
            now = self.figures()
            for number, figures in now.items():
                if figures != told.get(number):
                    inbox.put(facts.Counted(number, figures))
            told = now

    def _waiting(self, why: str) -> None:
        self.show_status({"state": "waiting", "progress": 0, "message": why})


def _warm(session: Session) -> None:
    began = time.monotonic()
    try:
        session.spark()
    except LivejoinError as error:
        # the first build tries again and reports it
        log.error("spark did not start", why=str(error))  # noqa: TRY400 - no trace for people
    else:
        log.info("spark is ready", took_s=round(time.monotonic() - began, 1))


class Crew:
    """Threads that are stopped and joined together; when one fails, all stop and it is raised."""

    def __init__(self, on_failure: Callable[[], object]) -> None:
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None
        self._on_failure = on_failure

    def hire(self, name: str, work: Callable[[threading.Event], None]) -> None:
        """Start a thread."""
        thread = threading.Thread(target=self._do, args=(work,), name=name)
        self._threads.append(thread)
        thread.start()

    def _do(self, work: Callable[[threading.Event], None]) -> None:
        try:
            work(self._stop)
        except BaseException as error:  # noqa: BLE001 - raised again by whoever joins
            self._failure = error
            self._on_failure()

    def dismiss(self) -> None:
        """Stop and join all."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def raise_failure(self) -> None:
        """Raise what a thread died of."""
        if self._failure is not None:
            raise self._failure


def _local_folder(settings: Settings) -> Path:
    """A local folder for the lock and Spark's log: the checkpoints' own, where that is local."""
    where = urlparse(settings.checkpoint_path)
    local = where.scheme in ("", "file")
    folder = Path(where.path) if local else processes.state_folder() / settings.name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
