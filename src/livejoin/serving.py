"""A table server: follows Kafka, serves the tables until a signal, all closed by the same `with`.

Needs neither Java nor Spark. Who also leads is put to work beside it.
"""

import asyncio
import gc
import signal
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from livejoin.config.sections import HttpSettings
from livejoin.config.settings import Settings
from livejoin.core.names import Names
from livejoin.errors import SettingsError
from livejoin.kafka.cluster import Kafka
from livejoin.runtime import processes
from livejoin.tables.auth import identity
from livejoin.tables.auth.audit import Audit
from livejoin.tables.auth.request_signing import RequestSigner
from livejoin.tables.auth.sign_outs import SignOutPublisher
from livejoin.tables.auth.token_follower import TokenFollower
from livejoin.tables.http.connection_limits import ConnectionLimits
from livejoin.tables.http.control_producer import ControlProducer
from livejoin.tables.http.server import Access, listen, serve
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.follower import LedgerFollower, Post
from livejoin.tables.observe.lag import EndOffsetPoller

log = structlog.get_logger()

_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
_WILDCARD_HOSTS = ("0.0.0.0", "::")  # noqa: S104 - no names that anybody could use
_FLUSH_S = 2.0

Announce = Callable[[str, str], None]  # the page's address, and the same that signs in, once


class ThreadGroup:
    """Threads that are stopped and joined together; when one fails, all stop and it is raised."""

    def __init__(self, on_failure: Callable[[], object]) -> None:
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None
        self._on_failure = on_failure

    def start(self, name: str, work: Callable[[threading.Event], None]) -> None:
        """Start a thread."""
        thread = threading.Thread(target=self._run, args=(work,), name=name)
        self._threads.append(thread)
        thread.start()

    def _run(self, work: Callable[[threading.Event], None]) -> None:
        try:
            work(self._stop)
        except BaseException as error:  # noqa: BLE001 - raised again by whoever joins
            self._failure = error
            self._on_failure()

    def stop(self) -> None:
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
    catalog: Catalog
    post: Post  # has something done on the thread that owns the host

    def show_status(self, row: dict[str, Any]) -> None:
        """Show a status until there is a ledger that tells one."""
        self.post(lambda: self.catalog.set_status(row))


StartThreads = Callable[[ThreadGroup, TableServer], None]


def run(
    settings: Settings, announce: Announce, hire: StartThreads = lambda _crew, _server: None
) -> int:
    """Serve until a signal says to stop; the exit code. `announce` is told the page's address."""
    check_exposure(settings)
    for warning in settings.warnings:
        log.warning("settings", what=warning)
    http, kafka, names = settings.http, Kafka(settings.kafka), Names(settings.name)
    key = (
        b""
        if http.insecure
        else identity.load_session_key(processes.state_folder() / settings.name / "session")
    )
    access = Access(
        identity.Identities(
            identity.TokenRegistry(), identity.Sessions(key), insecure=http.insecure
        ),
        Audit(kafka, names),
        SignOutPublisher(kafka, names),
        ConnectionLimits(
            http.connections, http.connections_per_address, http.connections_per_second
        ),
        certificate=http.tls.certificate,
        key=http.tls.key,
        hosts=[
            *http.hosts,
            *([] if http.host in (*_LOOPBACK_HOSTS, *_WILDCARD_HOSTS) else [_url_host(http)]),
        ],
        origins=http.origins,
    )
    with listen(http.host, http.port) as taken:
        scheme = "https" if http.tls.certificate else "http"
        url = f"{scheme}://{_url_host(http)}:{taken.getsockname()[1]}/"
        code = access.identities.console_code()
        announce(url, url if http.insecure else f"{url}#code={code}")
        if http.insecure:
            log.warning("INSECURE: whoever can reach this may read and change everything", at=url)
        return asyncio.run(_serve(settings, kafka, names, access, taken, hire))


def check_exposure(settings: Settings) -> None:
    """Refuse what must not be served."""
    http = settings.http
    if http.host not in _LOOPBACK_HOSTS and not http.tls.certificate and not http.insecure:
        raise SettingsError(
            f"http.host is {http.host}, which others can reach, and there is no TLS",
            hint="Name a certificate in http.tls.certificate and http.tls.key, or serve on"
            f" {_LOOPBACK_HOSTS[0]} behind a proxy that has one, or say --insecure.",
        )
    if http.tls.certificate:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(http.tls.certificate, http.tls.key or None)
        except OSError as error:  # an SSLError is one
            raise SettingsError(
                f"http.tls: {error.strerror or error}",
                hint="http.tls.certificate and http.tls.key name PEM files that belong together.",
            ) from error


def _url_host(http: HttpSettings) -> str:
    """How to call us in an address."""
    if http.host in _WILDCARD_HOSTS:
        return http.hosts[0].partition(":")[0] if http.hosts else _LOOPBACK_HOSTS[0]
    return f"[{http.host}]" if ":" in http.host else http.host


async def _serve(  # noqa: PLR0913, PLR0917 - all that is closed together
    settings: Settings,
    kafka: Kafka,
    names: Names,
    access: Access,
    taken: socket.socket,
    hire: StartThreads,
) -> int:
    host = Catalog(
        logs_kept=settings.logs_kept,
        rejects_kept=settings.rejects_kept,
        control_kept=settings.control_kept,
        viewer_rows=settings.viewer_rows,
        spark_ui=settings.spark.ui,
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
    _ = kafka.admin  # made before threads share it: of two that make it, one loses its answers
    crew = ThreadGroup(on_failure=lambda: post(stop.set))
    follower = LedgerFollower(kafka, names, host, post, logs_kept=settings.logs_kept)
    crew.start("follower", follower.run)
    crew.start("ends", EndOffsetPoller(kafka, names, host, post).run)
    vouching = RequestSigner(kafka, names)
    crew.start("tokens", TokenFollower(kafka, names, access, vouching, host, post).run)
    hire(crew, TableServer(kafka, names, host, post))
    asking = ControlProducer(kafka, settings.rules, settings.limits, host, vouching)
    gc.collect()
    gc.freeze()  # what was imported stays: later collections need not look at it, and viewers wait
    try:
        await serve(host, asking, taken, stop, access)
    finally:
        log.info("stopping")
        kafka.stop_waiting()
        await asyncio.to_thread(crew.stop)
        await asyncio.to_thread(access.audit.close, _FLUSH_S)
        await asyncio.to_thread(access.sign_outs.close, _FLUSH_S)
    crew.raise_failure()
    return code
