"""A table server: follows Kafka, serves the tables until a signal, all closed by the same `with`.

Needs neither Java nor Spark. Who also leads is put to work beside it.
"""

import asyncio
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from livejoin.core.names import Names
from livejoin.errors import SettingsError
from livejoin.kafka import Kafka
from livejoin.settings import Settings
from livejoin.tables.asking import Asking
from livejoin.tables.follow import Follower, Post
from livejoin.tables.host import Host
from livejoin.tables.lag import Ends
from livejoin.tables.server import listen, serve

log = structlog.get_logger()

_LOOPBACK = ("127.0.0.1", "localhost", "::1")

Announce = Callable[[str], None]


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


@dataclass(frozen=True)
class TableServer:
    """What works beside a table server may use of it."""

    kafka: Kafka
    names: Names
    host: Host
    post: Post  # has something done on the thread that owns the host

    def show_status(self, row: dict[str, Any]) -> None:
        """Show a status until there is a ledger that tells one."""
        self.post(lambda: self.host.show_status(row))


Hire = Callable[[Crew, TableServer], None]


def run(settings: Settings, announce: Announce, hire: Hire = lambda _crew, _server: None) -> int:
    """Serve until a signal says to stop; the exit code. `announce` is told the page's address."""
    check(settings)
    for warning in settings.warnings:
        log.warning("settings", what=warning)
    with listen(settings.http.host, settings.http.port) as taken:
        host = f"[{settings.http.host}]" if ":" in settings.http.host else settings.http.host
        announce(f"http://{host}:{taken.getsockname()[1]}/")
        return asyncio.run(_serve(settings, taken, hire))


def check(settings: Settings) -> None:
    """Refuse what must not be served."""
    if settings.http.host not in _LOOPBACK:
        raise SettingsError(
            f"http.host is {settings.http.host}, which others can reach",
            hint=f"There is no sign-in yet: use {_LOOPBACK[0]}.",
        )


async def _serve(settings: Settings, taken: socket.socket, hire: Hire) -> int:
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

    post = here.call_soon_threadsafe
    kafka, names = Kafka(settings.kafka), Names(settings.name)
    crew = Crew(on_failure=lambda: post(stop.set))
    follower = Follower(kafka, names, host, post, logs_kept=settings.logs_kept)
    crew.hire("follower", follower.run)
    crew.hire("ends", Ends(kafka, names, host, post).run)
    hire(crew, TableServer(kafka, names, host, post))
    asking = Asking(kafka, settings.rules, settings.limits, host)
    try:
        await serve(host, asking, taken, stop)
    finally:
        log.info("stopping")
        await asyncio.to_thread(crew.dismiss)
    crew.raise_failure()
    return code
