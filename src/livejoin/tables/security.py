"""Who may talk to us at all: loopback alone does not protect, as a page elsewhere can reach it."""

from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from livejoin.tables.problems import problem

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_HTTP_PORT = 80  # browsers leave it out
HEADERS = {
    "content-security-policy": "default-src 'self';"
    " script-src 'self' 'wasm-unsafe-eval' blob:; worker-src 'self' blob:;"
    " style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:;"
    " connect-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


class SameSite:
    """Refuses a Host (a rebound name) and an Origin (another site's page) that are not ours."""

    def __init__(self, app: ASGIApp, port: int, hosts: Iterable[str] = _LOOPBACK) -> None:
        self._app = app
        self._hosts = {host if port == _HTTP_PORT else f"{host}:{port}" for host in hosts}
        self._origins = {f"http://{host}" for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403, or pass on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        why = self._wrong(Headers(scope=scope))
        if not why:
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await WebSocket(scope, receive, send).close()  # before it was accepted: answers 403
        else:
            await problem(403, "refused", why)(scope, receive, send)

    def _wrong(self, headers: Headers) -> str:
        host, origin = headers.get("host", ""), headers.get("origin")
        if host.lower() not in self._hosts:
            return f"Host {host[:100]!r} is not ours; use one of {', '.join(sorted(self._hosts))}"
        if origin is not None and origin.lower() not in self._origins:
            return f"Origin {origin[:100]!r} is another site"
        return ""


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message["headers"] = [*message.get("headers", ()), *own]
        await send(message)

    return sending
