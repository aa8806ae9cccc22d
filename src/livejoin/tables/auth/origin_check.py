"""Which names are ours and which sites may ask: loopback alone does not protect.

A page elsewhere can reach it, under a name that is rebound to it, or by asking across sites.
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
_DEFAULT_PORTS = {"http": 80, "https": 443}  # browsers leave them out
SECURITY_HEADERS = {
    "content-security-policy": "default-src 'self';"
    " script-src 'self' 'wasm-unsafe-eval' blob:; worker-src 'self' blob:;"
    " style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:;"
    " connect-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",  # pages of named sites ask by CORS
}
_PREFLIGHT_HEADERS = {
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-allow-headers": f"authorization, content-type, if-none-match, {CLIENT_HEADER}",
    "access-control-max-age": "600",
}
_EXPOSED_HEADERS = "etag, livejoin-generation, livejoin-seq, livejoin-total"


@dataclass(frozen=True)
class AllowedOrigins:
    """The names that we answer to, our own pages' origins, and those of others that may ask."""

    hosts: frozenset[str]
    own: frozenset[str]
    others: frozenset[str] = frozenset()

    @staticmethod
    def from_settings(
        port: int, *, tls: bool = False, hosts: Sequence[str] = (), others: Iterable[str] = ()
    ) -> "AllowedOrigins":
        """From what is set. A name without a port is also ours with our port.

        Without TLS of our own a proxy may have it: then pages under a name that was set are https.
        """
        scheme = "https" if tls else "http"
        here = {f"{name}:{port}" for name in LOOPBACK}
        here |= set(LOOPBACK) if port == _DEFAULT_PORTS[scheme] else set()
        named = {name.lower() for name in hosts}
        named |= {f"{name}:{port}" for name in named if ":" not in name.rpartition("]")[2]}
        own = {f"{scheme}://{name}" for name in here | named} | {f"https://{n}" for n in named}
        return AllowedOrigins(
            frozenset(here | named), frozenset(own), frozenset(one.lower() for one in others)
        )

    def reject_reason(self, headers: Headers) -> str:
        """Why a request is not answered; empty: it is."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host.lower() not in self.hosts:
            ours = ", ".join(sorted(self.hosts))
            return f"Host {host[:100]!r} is not ours; use one of {ours}, or add it to http.hosts"
        if origin is not None and origin.lower() not in self.own | self.others:
            return f"Origin {origin[:100]!r} is another site; http.origins can allow it"
        return ""


class OriginMiddleware:
    """Refuses a Host (a rebound name) and an Origin (another site's page) that are not ours."""

    def __init__(self, app: ASGIApp, names: AllowedOrigins, audit: Audit) -> None:
        self._app = app
        self._origins = names
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403, or pass on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin", "").lower()
        sending = _with_headers(send, origin if origin in self._origins.others else "")
        if why := self._origins.reject_reason(headers):
            self._audit.append_counted(
                audit_row(
                    "",
                    "",
                    client_address(scope),
                    f"{request_line(scope)}",
                    "refused: another site",
                    detail=why,
                )
            )
            if scope["type"] == "websocket":
                await deny_websocket(problem(403, "refused", why), scope, receive, sending)
            else:
                await problem(403, "refused", why)(scope, receive, sending)
        elif scope["type"] == "http" and scope["method"] == "OPTIONS" and origin:
            allowed = _PREFLIGHT_HEADERS if origin in self._origins.others else {}
            await Response(status_code=204, headers=allowed)(scope, receive, sending)
        else:
            await self._app(scope, receive, sending)


async def deny_websocket(answer: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a handshake with an error."""
    socket = WebSocket(scope, receive, send)
    await socket.receive()  # that somebody wants to connect
    await socket.send_denial_response(answer)


def client_address(scope: Scope) -> str:
    """Where a request comes from. What a proxy says about that is not believed."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def request_line(scope: Scope) -> str:
    """What a request is, for people; without its query, which may hold a ticket."""
    method = "SOCKET" if scope["type"] == "websocket" else scope["method"]
    return f"{method} {scope['path']}"


def _with_headers(send: Send, other: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            headers = MutableHeaders(scope=message)
            headers.update(SECURITY_HEADERS)
            headers.add_vary_header("origin")
            if other:
                headers["access-control-allow-origin"] = other
                headers["access-control-expose-headers"] = _EXPOSED_HEADERS
        await send(message)

    return sending
