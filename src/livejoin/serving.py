"""A table server: follows Kafka and serves the tables until a signal.

Needs neither Java nor Spark. `livejoin run` starts the threads of a leader next to it.
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
from livejoin.kafka.clusters import Clusters
from livejoin.runtime import processes
from livejoin.tables.auth import authentication, sessions_and_codes
from livejoin.tables.auth.audit import Audit
from livejoin.tables.auth.sessions_and_codes import SignOutPublisher
from livejoin.tables.auth.token_follower import TokenFollower
from livejoin.tables.http.connection_limits import ConnectionLimits
from livejoin.tables.http.control_requests import ControlProducer, RequestSigner
from livejoin.tables.http.server import Access, listen, serve
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.follower import LedgerFollower, Post
from livejoin.tables.observe.cluster_watch import ClusterWatch
from livejoin.tables.observe.end_offsets import EndOffsetPoller

log = structlog.get_logger()

_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
_WILDCARD_HOSTS = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound to
_FLUSH_S = 2.0

Announce = Callable[[str, str], None]  # the page's URL, and one that signs in, once


class ThreadGroup:
    """Threads that are stopped and joined together; `on_failure` is called when one dies."""

    def __init__(self, on_failure: Callable[[], object]) -> None:
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None
        self._on_failure = on_failure

    def start(self, name: str, target: Callable[[threading.Event], None]) -> None:
        """Start a thread; its target returns once the event is set."""
        thread = threading.Thread(target=self._run, args=(target,), name=name)
        self._threads.append(thread)
        thread.start()

    def _run(self, target: Callable[[threading.Event], None]) -> None:
        try:
            target(self._stop)
        except BaseException as error:  # noqa: BLE001 - raise_failure raises it
            self._failure = error
            self._on_failure()

    def stop(self) -> None:
        """Stop and join all threads."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def raise_failure(self) -> None:
        """Raise the error that a thread died of, if any."""
        if self._failure is not None:
            raise self._failure


@dataclass(frozen=True)
class TableServer:
    """The parts of a table server that a leader in the same process uses."""

    clusters: Clusters
    names: Names
    catalog: Catalog
    post: Post  # runs a function on the event loop, which owns the catalog

    def set_status(self, row: dict[str, Any]) -> None:
        """Show a status row until the ledger provides one."""
        self.post(lambda: self.catalog.set_status(row))


StartThreads = Callable[[ThreadGroup, TableServer], None]


def run(
    settings: Settings,
    announce: Announce,
    start_threads: StartThreads = lambda _threads, _server: None,
) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit code. `announce` gets the page's URL."""
    check_exposure(settings)
    for warning in settings.warnings:
        log.warning("questionable setting", what=warning)
    http, names = settings.http, Names(settings.name)
    clusters = Clusters.connect(settings.kafka_blocks, settings.own_topics.rules)
    kafka = clusters.own
    key = (
        b""
        if http.insecure
        else sessions_and_codes.load_session_key(
            processes.state_folder() / settings.name / "session"
        )
    )
    access = Access(
        authentication.Identities(
            authentication.TokenRegistry(), sessions_and_codes.Sessions(key), insecure=http.insecure
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
    with listen(http.host, http.port) as listener:
        scheme = "https" if http.tls.certificate else "http"
        url = f"{scheme}://{_url_host(http)}:{listener.getsockname()[1]}/"
        code = access.identities.console_code()
        announce(url, url if http.insecure else f"{url}#code={code}")
        if http.insecure:
            log.warning("INSECURE: anyone who can connect has full access", url=url)
        return asyncio.run(_serve(settings, clusters, names, access, listener, start_threads))


def check_exposure(settings: Settings) -> None:
    """Raise if others could connect without TLS, or the TLS files cannot be used."""
    http = settings.http
    if http.host not in _LOOPBACK_HOSTS and not http.tls.certificate and not http.insecure:
        raise SettingsError(
            f"http.host is {http.host}, which others can reach, and there is no TLS",
            hint="Name a certificate in http.tls.certificate and http.tls.key, or serve on"
            f" {_LOOPBACK_HOSTS[0]} behind a proxy with TLS, or use --insecure.",
        )
    if http.tls.certificate:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(http.tls.certificate, http.tls.key or None)
        except OSError as error:  # includes SSLError
            raise SettingsError(
                f"http.tls: {error.strerror or error}",
                hint="http.tls.certificate and http.tls.key must name matching PEM files.",
            ) from error


def _url_host(http: HttpSettings) -> str:
    """Return the host part of this server's URL."""
    if http.host in _WILDCARD_HOSTS:
        return http.hosts[0].partition(":")[0] if http.hosts else _LOOPBACK_HOSTS[0]
    return f"[{http.host}]" if ":" in http.host else http.host


async def _serve(  # noqa: PLR0913, PLR0917 - one caller
    settings: Settings,
    clusters: Clusters,
    names: Names,
    access: Access,
    listener: socket.socket,
    start_threads: StartThreads,
) -> int:
    catalog = Catalog(
        settings.join_spec,
        logs_kept=settings.logs_kept,
        rejects_kept=settings.rejects_kept,
        control_kept=settings.control_kept,
        viewer_rows=settings.viewer_rows,
        spark_ui=settings.spark.ui,
    )
    stop, exit_code = asyncio.Event(), 0
    loop = asyncio.get_running_loop()

    def on_signal(signal_exit_code: int) -> None:
        nonlocal exit_code
        exit_code = signal_exit_code
        stop.set()

    loop.add_signal_handler(signal.SIGTERM, on_signal, 0)
    loop.add_signal_handler(signal.SIGINT, on_signal, 130)

    post = loop.call_soon_threadsafe
    kafka = clusters.own
    for cluster in clusters.each:
        # created before threads share it: if two create it, one gets no responses
        _ = cluster.admin
    threads = ThreadGroup(on_failure=lambda: post(stop.set))
    follower = LedgerFollower(kafka, names, catalog, post, logs_kept=settings.logs_kept)
    threads.start("follower", follower.run)
    if len(clusters.each) > 1:
        for one in clusters.each:
            threads.start(f"watch-{one.section}", ClusterWatch(one, catalog.liveness, post).run)
    threads.start("ends", EndOffsetPoller(clusters.data, names, catalog, post).run)
    signer = RequestSigner(kafka, names)
    threads.start("tokens", TokenFollower(kafka, names, access, signer, catalog, post).run)
    start_threads(threads, TableServer(clusters, names, catalog, post))
    producer = ControlProducer(clusters, settings.rules, settings.limits, catalog, signer)
    gc.collect()
    gc.freeze()  # imported modules stay: later collections skip them and pause viewers for less
    try:
        await serve(catalog, producer, listener, stop, access)
    finally:
        log.info("stopping")
        clusters.stop_waiting()
        await asyncio.to_thread(threads.stop)
        await asyncio.to_thread(access.audit.close, _FLUSH_S)
        await asyncio.to_thread(access.sign_outs.close, _FLUSH_S)
    threads.raise_failure()
    return exit_code
