"""Checks Host and Origin of each request, against DNS rebinding and cross-site requests.

Listening on loopback only is no protection: pages of other sites can reach it from the browser.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from livejoin.core.control_records import CLIENT_HEADER
from livejoin.tables.auth.audit import Audit, audit_row
from livejoin.tables.http.json_bodies import problem

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_DEFAULT_PORTS = {"http": 80, "https": 443}  # omitted by browsers
SECURITY_HEADERS = {
    "content-security-policy": "default-src 'self';"
    " script-src 'self' 'wasm-unsafe-eval' blob:; worker-src 'self' blob:;"
    " style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:;"
    " connect-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",  # allowed origins use CORS
}
_PREFLIGHT_HEADERS = {
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-allow-headers": f"authorization, content-type, if-none-match, {CLIENT_HEADER}",
    "access-control-max-age": "600",
}
_EXPOSED_HEADERS = "etag, livejoin-generation, livejoin-seq, livejoin-total"


@dataclass(frozen=True)
class AllowedOrigins:
    """Our port, the accepted Host values, the origins of our own pages and other allowed ones."""

    port: int
    hosts: frozenset[str]
    own: frozenset[str]
    others: frozenset[str] = frozenset()

    @staticmethod
    def from_settings(
        port: int, *, tls: bool = False, hosts: Sequence[str] = (), others: Iterable[str] = ()
    ) -> "AllowedOrigins":
        """Build from the settings. A host without a port is also accepted with our port.

        A proxy may terminate TLS, so pages under a configured host may always be https.
        """
        scheme = "https" if tls else "http"
        loopback = {f"{name}:{port}" for name in LOOPBACK}
        loopback |= set(LOOPBACK) if port == _DEFAULT_PORTS[scheme] else set()
        configured = {name.lower() for name in hosts}
        configured |= {
            f"{name}:{port}" for name in configured if ":" not in name.rpartition("]")[2]
        }
        own = {f"{scheme}://{name}" for name in loopback | configured} | {
            f"https://{n}" for n in configured
        }
        return AllowedOrigins(
            port,
            frozenset(loopback | configured),
            frozenset(own),
            frozenset(origin.lower() for origin in others),
        )

    def reject_reason(self, headers: Headers) -> str:
        """Return why a request is refused, or an empty string."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host.lower() not in self.hosts:
            names = ", ".join(sorted(self.hosts))
            return (
                f"Host {host[:100]!r} is not allowed; use one of {names}, or add it to http.hosts"
            )
        if origin is not None and origin.lower() not in self.own | self.others:
            return f"Origin {origin[:100]!r} is not allowed; add it to http.origins to allow it"
        return ""


class OriginMiddleware:
    """Refuses unknown Host and Origin headers, and adds the security headers."""

    def __init__(self, app: ASGIApp, origins: AllowedOrigins, audit: Audit) -> None:
        self._app = app
        self._origins = origins
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond with 403, or pass the request on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin", "").lower()
        send_with_headers = _with_headers(send, origin if origin in self._origins.others else "")
        if reason := self._origins.reject_reason(headers):
            self._audit.append_counted(
                audit_row(
                    "",
                    "",
                    client_address(scope),
                    request_line(scope),
                    "refused: another site",
                    detail=reason,
                )
            )
            if scope["type"] == "websocket":
                await deny_websocket(
                    problem(403, "forbidden", reason), scope, receive, send_with_headers
                )
            else:
                await problem(403, "forbidden", reason)(scope, receive, send_with_headers)
        elif scope["type"] == "http" and scope["method"] == "OPTIONS" and origin:
            allowed = _PREFLIGHT_HEADERS if origin in self._origins.others else {}
            await Response(status_code=204, headers=allowed)(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)


async def deny_websocket(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Respond to a WebSocket handshake with an error."""
    socket = WebSocket(scope, receive, send)
    await socket.receive()  # the connect message
    await socket.send_denial_response(response)


def client_address(scope: Scope) -> str:
    """Return the peer's address. X-Forwarded-For is not trusted."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def request_line(scope: Scope) -> str:
    """Return method and path, without the query, which may hold a ticket."""
    method = "SOCKET" if scope["type"] == "websocket" else scope["method"]
    return f"{method} {scope['path']}"


def _with_headers(send: Send, cors_origin: str) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            headers = MutableHeaders(scope=message)
            headers.update(SECURITY_HEADERS)
            headers.add_vary_header("origin")
            if cors_origin:
                headers["access-control-allow-origin"] = cors_origin
                headers["access-control-expose-headers"] = _EXPOSED_HEADERS
        await send(message)

    return send_with_headers
