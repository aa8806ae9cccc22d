"""ASGI middleware that authenticates each request and checks the role its route requires.

A request that no route matches requires operator.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Literal, NamedTuple
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from livejoin.core.tokens import Role, role_includes
from livejoin.tables.auth.audit import Audit, Row, audit_row
from livejoin.tables.auth.authentication import Identities
from livejoin.tables.auth.origin_check import (
    AllowedOrigins,
    client_address,
    deny_websocket,
    request_line,
)
from livejoin.tables.auth.sessions_and_codes import (
    ANONYMOUS,
    SESSION_IDLE_S,
    Identity,
    Unauthenticated,
)
from livejoin.tables.http.json_bodies import problem

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

RequiredRole = Role | Literal["public"]
Method = Literal["GET", "POST", "DELETE", "SOCKET"]  # SOCKET: a WebSocket; GET includes HEAD


@dataclass(frozen=True)
class RouteRule:
    """The role that one route requires."""

    method: Method
    path: str
    role: RequiredRole
    role_with_query: RequiredRole | None = field(default=None, kw_only=True)  # None: the same
    folder: bool = field(default=False, kw_only=True)  # includes everything below the path


class Rights:
    """Decides by the rules of all routes."""

    def __init__(self, rules: Iterable[RouteRule]) -> None:
        self._rules = [(rule, compile_path(rule.path)[0]) for rule in rules]

    def required_role(self, method: str, path: str, query: bytes = b"") -> RequiredRole:
        """Return the role that a request requires."""
        method = "GET" if method == "HEAD" else method
        for rule, pattern in self._rules:
            below = rule.folder and path.startswith(f"{rule.path}/")
            if rule.method == method and (below or pattern.match(path)):
                return rule.role_with_query or rule.role if query else rule.role
        return "operator"


class Caller(NamedTuple):
    """An authenticated identity, and whether a session cookie proved it."""

    identity: Identity
    by_cookie: bool = False


class AccessDenied(Exception):
    """A request is refused with this problem response; `identity` is the caller, if known."""

    def __init__(
        self, status: int, title: str, detail: str, identity: Identity | None = None
    ) -> None:
        super().__init__(detail)
        self.identity = identity
        self.response: JSONResponse = problem(status, title, detail)
        if status == 401:
            self.response.headers["www-authenticate"] = 'Bearer realm="livejoin"'
        elif status == 503:
            self.response.headers["retry-after"] = "1"

    def audit_row(self, scope: Scope) -> Row:
        """Return the audit row of this refusal."""
        named = (self.identity.display_name, self.identity.role) if self.identity else ("", "")
        outcome = f"refused: {self.response.status_code}"
        return audit_row(
            *named, client_address(scope), request_line(scope), outcome, detail=str(self)
        )


class AuthMiddleware:
    """Passes authorized requests on, with the identity as `who` in the request's state."""

    def __init__(
        self,
        app: ASGIApp,
        rights: Rights,
        identities: Identities,
        origins: AllowedOrigins,
        audit: Audit,
    ) -> None:
        self._app = app
        self._rights = rights
        self._identities = identities
        self._origins = origins
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond with 401, 403 or 503, or pass the request on."""
        if scope["type"] in ("http", "websocket"):
            try:
                caller = self._authorize(scope)
            except AccessDenied as denied:
                self._audit.append_counted(denied.audit_row(scope))
                await _send_response(denied.response, scope, receive, send)
                return
            scope.setdefault("state", {})["who"] = caller.identity if caller else None
        await self._app(scope, receive, send)

    def _authorize(self, scope: Scope) -> Caller | None:
        """Return the caller, or None for a public route; raises AccessDenied."""
        method = "SOCKET" if scope["type"] == "websocket" else scope["method"]
        required = self._rights.required_role(method, scope["path"], scope["query_string"])
        if self._identities.insecure:
            return Caller(ANONYMOUS)
        if required == "public":
            return None
        try:
            caller = self._authenticate(scope)
        except Unauthenticated as error:
            if error.retriable:
                raise AccessDenied(503, "service unavailable", f"{error}; retry shortly") from error
            raise AccessDenied(401, "unauthorized", str(error)) from error
        check_role(caller.identity, required)
        if caller.by_cookie and method not in _SAFE_METHODS:
            self._check_same_origin(method, Headers(scope=scope), caller.identity)
        return caller

    def _authenticate(self, scope: Scope) -> Caller:
        headers = Headers(scope=scope)
        if (authorization := headers.get("authorization")) is not None:
            scheme, _, text = authorization.partition(" ")
            if scheme.lower() != "bearer" or not text.strip():
                raise Unauthenticated("malformed Authorization header: expected `Bearer <token>`")
            return Caller(self._identities.by_token(text.strip()))
        if scope["type"] == "websocket" and (ticket := _ticket_parameter(scope)) is not None:
            identity = self._identities.tickets.redeem(ticket)
            if identity is None or not self._identities.still_valid(identity):
                raise Unauthenticated("this ticket is unknown, already used or expired")
            return Caller(identity)
        session = read_cookie(headers, cookie_name(self._origins.port, headers))
        # browsers attach the cookie to requests of any page; accept it from our own pages only
        if session and headers.get("origin", "").lower() not in self._origins.others:
            return Caller(self._identities.by_session(session), by_cookie=True)
        raise Unauthenticated("a token is required; create one with `livejoin token make`")

    def _check_same_origin(self, method: str, headers: Headers, identity: Identity) -> None:
        """Refuse a state-changing request with a cookie unless our own page sent it (CSRF)."""
        own = headers.get("origin", "").lower() in self._origins.own
        if not own and (method == "SOCKET" or headers.get("sec-fetch-site") != "same-origin"):
            reason = "a session cookie is accepted from livejoin's own page only"
            raise AccessDenied(403, "forbidden", reason, identity)
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and content_type != "application/json":
            reason = "a request with a session cookie must have content-type application/json"
            raise AccessDenied(403, "forbidden", reason, identity)


def check_role(identity: Identity, required: Role) -> None:
    """Refuse an identity that lacks the required role."""
    if not role_includes(identity.role, required):
        raise AccessDenied(
            403, "forbidden", f"the role {required} is required; yours is {identity.role}", identity
        )


def cookie_name(port: int, headers: Headers) -> str:
    """Return the session cookie's name, which is distinct per port.

    Browsers share cookies between all ports of a host, so the name holds the port that livejoin
    listens on, and the one that the browser connects to where that differs.
    """
    public_port = headers.get("host", "").rpartition("]")[2].partition(":")[2]
    return (
        f"livejoin_{port}" if public_port in ("", str(port)) else f"livejoin_{port}_{public_port}"
    )


def set_cookie(name: str, value: str, headers: Headers, lifetime_s: int = SESSION_IDLE_S) -> str:
    """Return a Set-Cookie header for a cookie hidden from scripts and from other sites."""
    secure = "; Secure" if headers.get("origin", "").startswith("https://") else ""
    return f"{name}={value}; Max-Age={lifetime_s}; Path=/; HttpOnly; SameSite=Strict{secure}"


def read_cookie(headers: Headers, name: str) -> str:
    """Return the value of a request's cookie, or an empty string."""
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return cookie.value if cookie else ""


def _ticket_parameter(scope: Scope) -> str | None:
    values = parse_qs(scope["query_string"].decode("latin-1")).get("ticket")
    return values[0] if values else None


async def _send_response(
    response: JSONResponse, scope: Scope, receive: Receive, send: Send
) -> None:
    if scope["type"] == "websocket":
        await deny_websocket(response, scope, receive, send)
    else:
        await response(scope, receive, send)
