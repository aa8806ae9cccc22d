"""The web server: one listening socket, on the event loop that owns the tables.

The application has the routes of the table, with their handlers, and error responses.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute

from livejoin.core.control_messages import InvalidMessage, excerpt
from livejoin.errors import (
    KafkaUnavailable,
    MachineError,
    NotAuthorized,
    RequestError,
    TopicMissing,
)
from livejoin.tables.auth.audit import Audit
from livejoin.tables.auth.authentication import Identities
from livejoin.tables.auth.authorization import AccessDenied, AuthMiddleware, Rights
from livejoin.tables.auth.origin_check import AllowedOrigins, OriginMiddleware
from livejoin.tables.auth.sessions_and_codes import SignOutPublisher
from livejoin.tables.auth.sign_in_routes import SignInRoutes
from livejoin.tables.http.connection_limits import ConnectionLimits, LimitedListener, ServerConfig
from livejoin.tables.http.control_requests import ControlProducer, ControlRoutes
from livejoin.tables.http.handlers import CatalogRoutes, DocumentRoutes, Handlers, TopicRoutes
from livejoin.tables.http.json_bodies import problem
from livejoin.tables.http.routes import ROUTES, ApiRoute, openapi_document
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.live.socket import LiveSocket
from livejoin.tables.observe.health import Figures, HealthRoutes
from livejoin.tables.observe.metrics import Metrics

_MAX_VIEWER_MESSAGE_BYTES = 64 << 10  # a subscription has a few hundred bytes
_SHUTDOWN_S = 3
_TICK_S = 1.0
_BACKLOG = 1024  # connections that wait to be accepted
_ACCEPTS_PER_WAKEUP = 16  # each blocks the loop for 0.2 ms


@dataclass(frozen=True)
class Access:
    """Access control: authentication, audit, connection limits, TLS, hosts and origins."""

    identities: Identities
    audit: Audit
    sign_outs: SignOutPublisher
    connection_limits: ConnectionLimits
    certificate: str = ""  # PEM files; TLS is off without a certificate
    key: str = ""
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()


def listen(host: str, port: int) -> socket.socket:
    """Open the listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with IPPROTO_TCP asyncio disables Nagle's algorithm, which delays small frames by 40 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # reserves the port
    except OSError as error:
        listener.close()
        raise MachineError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            hint="Choose another port with http.port or --port.",
        ) from error
    return listener


async def serve(
    catalog: Catalog,
    producer: ControlProducer,
    listener: socket.socket,
    stop: asyncio.Event,
    access: Access,
) -> None:
    """Serve until `stop` is set, then close all viewers and connections."""
    live = LiveSocket(catalog, access.identities)
    port = listener.getsockname()[1]
    server = _Server(_config(catalog, live, producer, access, port))
    serving = asyncio.create_task(
        server.serve([LimitedListener(listener, access.connection_limits)])
    )
    heartbeat = asyncio.create_task(live.run_heartbeat())
    audit_tick = asyncio.create_task(_tick(access.audit))
    stopping = asyncio.create_task(stop.wait())
    background = {heartbeat, audit_tick, stopping}
    done, _ = await asyncio.wait({serving, *background}, return_when=asyncio.FIRST_COMPLETED)
    await live.close(_SHUTDOWN_S)
    server.should_exit = True
    await serving
    for connection in list(server.server_state.connections):  # connected during shutdown
        if connection.transport is not None:
            connection.transport.abort()
    await asyncio.sleep(0)  # lets the transports close
    for task in background:
        task.cancel()
    for task in done - {stopping}:
        task.result()  # raises the error of a failed task


async def _tick(audit: Audit) -> None:
    while True:
        await asyncio.sleep(_TICK_S)
        audit.tick()


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signal handling to the application."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Raise the backlog; asyncio's `backlog` also sets how many it accepts per wake-up."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)


def _config(
    catalog: Catalog, live: LiveSocket, producer: ControlProducer, access: Access, port: int
) -> ServerConfig:
    identities, audit = access.identities, access.audit
    tls = bool(access.certificate)
    origins = AllowedOrigins.from_settings(port, tls=tls, hosts=access.hosts, others=access.origins)
    sign_in = SignInRoutes(identities, origins, audit, access.sign_outs)
    app = api(catalog, live, producer, sign_in, audit)
    authorized = AuthMiddleware(app, Rights(ROUTES), identities, origins, audit)
    return ServerConfig(
        OriginMiddleware(authorized, origins, audit),
        access.connection_limits,
        log_level="warning",
        access_log=False,
        lifespan="off",
        backlog=_ACCEPTS_PER_WAKEUP,
        proxy_headers=False,  # clients can forge them
        server_header=False,
        ssl_certfile=access.certificate or None,
        ssl_keyfile=access.key or None,
        ws_max_size=_MAX_VIEWER_MESSAGE_BYTES,
        ws_per_message_deflate=False,  # would compress every frame once per viewer
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )


def api(
    catalog: Catalog,
    live: LiveSocket,
    producer: ControlProducer,
    sign_in: SignInRoutes,
    audit: Audit,
) -> Starlette:
    """Return the application, without the middleware that authorizes requests."""
    handlers = Handlers(
        documents=DocumentRoutes(
            lambda: openapi_document(catalog.spec, producer.control_spec), producer.control_spec
        ),
        health=HealthRoutes(catalog),
        metrics=Metrics(catalog, live),
        catalog=CatalogRoutes(catalog, live, producer.control_spec),
        figures=Figures(catalog, live.__len__, producer.limits),
        topics=TopicRoutes(producer.topics, catalog),
        control=ControlRoutes(producer, catalog, audit),
        sign_in=sign_in,
        live=live,
    )

    async def access_denied(request: Request, error: Exception) -> Response:
        assert isinstance(error, AccessDenied)
        audit.append_counted(error.audit_row(request.scope))
        return error.response

    error_handlers: dict[Any, Any] = {
        HTTPException: _http_error,
        AccessDenied: access_denied,
        RequestError: _bad_request,
        InvalidMessage: _rejected,
        KafkaUnavailable: _kafka_unavailable,
        NotAuthorized: _kafka_denied_access,
        TopicMissing: _topic_missing,
    }
    routes = [_bind(route, handlers) for route in ROUTES]
    return Starlette(routes=routes, exception_handlers=error_handlers)


def _bind(route: ApiRoute, handlers: Handlers) -> BaseRoute:
    """Return a route with its handler."""
    handler = route.handler(handlers)
    if route.folder:
        return Mount(route.path, handler)
    if route.method == "SOCKET":
        return WebSocketRoute(route.path, handler)
    return Route(route.path, handler, methods=[route.method])


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if detail == "Not Found":  # no route, or no file
        detail += f": no route or file at {excerpt(request.url.path)}; see /openapi.json"
    title = HTTPStatus(error.status_code).phrase.lower()
    return problem(error.status_code, title, detail)


async def _rejected(_request: Request, error: Exception) -> Response:
    return problem(422, "rejected", str(error))


async def _kafka_unavailable(_request: Request, error: Exception) -> Response:
    return problem(503, "Kafka is unavailable", str(error))


async def _kafka_denied_access(_request: Request, error: Exception) -> Response:
    # not 403: that is about the caller's role, this about livejoin's own Kafka user
    return problem(502, "Kafka denied access", str(error))


async def _topic_missing(_request: Request, error: Exception) -> Response:
    return problem(404, "not found", str(error))


async def _bad_request(_request: Request, error: Exception) -> Response:
    return problem(400, "bad request", str(error))
