"""Puts the rooms together: settings in, a running livejoin out, all closed by the same `with`."""

import asyncio
import contextlib
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import structlog

from livejoin import jars, processes
from livejoin.control import loop
from livejoin.control.executor import Executor, Inbox
from livejoin.control.ledger import Ledger
from livejoin.core.names import Names
from livejoin.errors import KafkaUnavailable, LivejoinError, SettingsError
from livejoin.kafka import Kafka, wait_until_reachable
from livejoin.pipeline.pipeline import Pipeline
from livejoin.pipeline.queries import Queries
from livejoin.pipeline.session import Session
from livejoin.settings import Settings
from livejoin.tables.follow import Follower
from livejoin.tables.host import Host
from livejoin.tables.server import listen, serve

log = structlog.get_logger()

_LOOPBACK = ("127.0.0.1", "localhost", "::1")

_TRY_S = 5


def run(settings: Settings, announce: Callable[[str], None] = lambda _url: None) -> int:
    """Run until a signal says to stop; the exit code. `announce` is told the page's address."""
    if settings.http.host not in _LOOPBACK:
        raise SettingsError(
            f"http.host is {settings.http.host}, which others can reach",
            hint=f"There is no sign-in yet: use {_LOOPBACK[0]}.",
        )
    folder = _local_folder(settings)
    processes.java()
    jars.jars("spark")
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context(processes.only_one(folder / "livejoin.lock", "checkpoints"))
        taken = stack.enter_context(listen(settings.http.host, settings.http.port))
        host = f"[{settings.http.host}]" if ":" in settings.http.host else settings.http.host
        announce(f"http://{host}:{taken.getsockname()[1]}/")
        session = stack.enter_context(Session(settings.spark, lock=lock, log=folder / "spark.log"))
        return asyncio.run(_serve(settings, session, taken))


async def _serve(settings: Settings, session: Session, taken: socket.socket) -> int:
    kafka, names = Kafka(settings.kafka), Names(settings.name)
    host = Host(logs_kept=settings.logs_kept, rejects_kept=settings.rejects_kept)
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
    crew.hire("control", Leader(settings, kafka, names, session, show_status).run)
    try:
        await serve(host, taken, stop)
    finally:
        log.info("stopping")
        await asyncio.to_thread(crew.dismiss)
    crew.raise_failure()
    return code


@dataclass(frozen=True)
class Leader:
    """Waits for Kafka, then leads."""

    settings: Settings
    kafka: Kafka
    names: Names
    session: Session
    show_status: Callable[[dict[str, Any]], None]  # until there is a ledger to write it to

    def run(self, stop: threading.Event) -> None:
        """Lead until told to stop."""
        warm = threading.Thread(target=_warm, args=(self.session,), name="warm-up")
        warm.start()  # the JVM takes seconds to start, and needs nothing from Kafka
        try:
            self._wait_for_kafka(stop)
            if not stop.is_set():
                self._lead(stop)
        finally:
            warm.join()

    def _wait_for_kafka(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                wait_until_reachable(self.kafka, _TRY_S)
            except KafkaUnavailable as error:
                log.warning("waiting for Kafka", why=str(error))
                self.show_status({"state": "waiting", "progress": 0, "message": str(error)})
            else:
                return

    def _lead(self, stop: threading.Event) -> None:
        settings, kafka, names = self.settings, self.kafka, self.names
        inbox: Inbox = queue.Queue()
        ledger = Ledger(kafka, names)
        queries = Queries(self.session, kafka, names, settings.checkpoint_path, settings.spark)
        executor = Executor(inbox, ledger, Pipeline(kafka, names, queries, settings.start_at))
        watching = threading.Thread(target=queries.watch, args=(executor, stop), name="watch")
        watching.start()
        try:
            loop.run(inbox, ledger, executor, settings.choice, stop)
        finally:
            stop.set()
            watching.join()
            executor.close()


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
