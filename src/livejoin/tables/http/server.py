"""The web server: one socket, one event loop, which also owns the tables."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import uvicorn

from livejoin.errors import MachineError
from livejoin.tables.auth.audit import Audit
from livejoin.tables.auth.identity import Identities
from livejoin.tables.auth.middleware import AuthMiddleware
from livejoin.tables.auth.origin_check import AllowedOrigins, OriginMiddleware
from livejoin.tables.auth.sign_in import SignInRoutes
from livejoin.tables.auth.sign_outs import SignOutPublisher
from livejoin.tables.http.connection_limits import ConnectionLimits, LimitedListener, ServerConfig
from livejoin.tables.http.control_producer import ControlProducer
from livejoin.tables.http.routes import api
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.live.socket import LiveSocket

_MAX_VIEWER_MESSAGE_BYTES = 64 << 10  # a subscription is a few hundred
_SHUTDOWN_S = 3
_TICK_S = 1.0
_BACKLOG = 1024  # connections that the system has made and we have not seen yet
_ACCEPTS_PER_WAKEUP = (
    16  # of them are taken in one go: each costs 0.2 ms, and viewers wait meanwhile
)


@dataclass(frozen=True)
class Access:
    """Who is let in, under which names, over what, and how many."""

    identities: Identities
    audit: Audit
    sign_outs: SignOutPublisher
    doors: ConnectionLimits
    certificate: str = ""  # files, PEM; without one there is no TLS
    key: str = ""
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()


def listen(host: str, port: int) -> socket.socket:
    """Take the port, or say who to ask."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # said to be TCP: else asyncio leaves Nagle's algorithm on, and small frames wait for 40 ms
    taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
        taken.listen()  # from now on nobody else can take it
    except OSError as error:
        taken.close()
        raise MachineError(
            f"{host}:{port} cannot be used: {error.strerror}",
            hint="Choose another one with http.port or --port.",
        ) from error
    return taken


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the application's to handle."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Many may wait to be accepted; asyncio accepts as many in one go as it thinks may wait."""
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(_BACKLOG)


def _config(
    host: Catalog, live: LiveSocket, asking: ControlProducer, access: Access, port: int
) -> ServerConfig:
    guests, audit = access.identities, access.audit
    tls = bool(access.certificate)
    names = AllowedOrigins.from_settings(port, tls=tls, hosts=access.hosts, others=access.origins)
    signing_in = SignInRoutes(guests, names, audit, access.sign_outs, port)
    app = api(host, live, asking, signing_in, audit)
    return ServerConfig(
        OriginMiddleware(AuthMiddleware(app, guests, names, audit, port), names, audit),
        access.doors,
        log_level="warning",
        access_log=False,
        lifespan="off",
        backlog=_ACCEPTS_PER_WAKEUP,
        proxy_headers=False,  # anybody can send them
        server_header=False,
        ssl_certfile=access.certificate or None,
        ssl_keyfile=access.key or None,
        ws_max_size=_MAX_VIEWER_MESSAGE_BYTES,
        ws_per_message_deflate=False,  # it would compress every frame once per viewer
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )


async def serve(
    host: Catalog,
    asking: ControlProducer,
    taken: socket.socket,
    stop: asyncio.Event,
    access: Access,
) -> None:
    """Serve until told to stop; then send the viewers away and finish."""
    live = LiveSocket(host, access.identities)
    port = taken.getsockname()[1]
    server = _Server(_config(host, live, asking, access, port))
    serving = asyncio.create_task(server.serve([LimitedListener(taken, access.doors)]))
    beating = asyncio.create_task(live.run_heartbeat())
    ticking = asyncio.create_task(_tick(access.audit))
    stopping = asyncio.create_task(stop.wait())
    others = {beating, ticking, stopping}
    done, _ = await asyncio.wait({serving, *others}, return_when=asyncio.FIRST_COMPLETED)
    await live.close(_SHUTDOWN_S)
    server.should_exit = True
    await serving
    for late in list(server.server_state.connections):  # they came while it ended
        if late.transport is not None:
            late.transport.abort()
    await asyncio.sleep(0)  # until they are let go of
    for task in others:
        task.cancel()
    for ended in done - {stopping}:
        ended.result()  # raises what ended it


async def _tick(audit: Audit) -> None:
    while True:
        await asyncio.sleep(_TICK_S)
        audit.tick()
