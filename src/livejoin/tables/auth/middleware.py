"""The gate before the application: nobody passes without the right that a route needs."""

from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from livejoin.core.tokens import Role, role_includes
from livejoin.tables.auth import rights
from livejoin.tables.auth.audit import Audit, Row, audit_row
from livejoin.tables.auth.identity import (
    ANONYMOUS,
    SESSION_IDLE_S,
    Identities,
    Identity,
    Unauthenticated,
)
from livejoin.tables.auth.origin_check import (
    AllowedOrigins,
    client_address,
    deny_websocket,
    request_line,
)
from livejoin.tables.http.json_bodies import problem

_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class Caller(NamedTuple):
    """Somebody, and whether a cookie said so."""

    identity: Identity
    by_cookie: bool = False


class AccessDenied(Exception):
    """An answer instead of the one that was asked for, and whom it was given."""

    def __init__(self, status: int, title: str, detail: str, who: Identity | None = None) -> None:
        super().__init__(detail)
        self.identity = who
        self.response: JSONResponse = problem(status, title, detail)
        if status == 401:
            self.response.headers["www-authenticate"] = 'Bearer realm="livejoin"'
        elif status == 503:
            self.response.headers["retry-after"] = "1"

    def audit_row(self, scope: Scope) -> Row:
        """What the audit says of it."""
        named = (self.identity.display_name, self.identity.role) if self.identity else ("", "")
        outcome = f"refused: {self.response.status_code}"
        return audit_row(
            *named, client_address(scope), request_line(scope), outcome, detail=str(self)
        )


class AuthMiddleware:
    """Lets through whoever may, with `who` in the request's state."""

    def __init__(
        self, app: ASGIApp, guests: Identities, names: AllowedOrigins, audit: Audit, port: int
    ) -> None:
        self._app = app
        self._identities = guests
        self._origins = names
        self._audit = audit
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, 403 or 503, or pass on."""
        if scope["type"] in ("http", "websocket"):
            try:
                shown = self._authorize(scope)
            except AccessDenied as refused:
                self._audit.append_counted(refused.audit_row(scope))
                await _send_response(refused.response, scope, receive, send)
                return
            scope.setdefault("state", {})["who"] = shown.identity if shown else None
        await self._app(scope, receive, send)

    def _authorize(self, scope: Scope) -> Caller | None:
        """Who it is, where that is asked for, or why they may not."""
        method = "SOCKET" if scope["type"] == "websocket" else scope["method"]
        need = rights.required_role(method, scope["path"], scope["query_string"])
        if self._identities.insecure:
            return Caller(ANONYMOUS)
        if need == "public":
            return None
        try:
            shown = self._authenticate(scope)
        except Unauthenticated as error:
            if error.retriable:
                raise AccessDenied(503, "not yet", f"{error}; try again") from error
            raise AccessDenied(401, "who are you?", str(error)) from error
        check_role(shown.identity, need)
        if shown.by_cookie and method not in _SAFE_METHODS:
            self._check_same_origin(method, Headers(scope=scope), shown.identity)
        return shown

    def _authenticate(self, scope: Scope) -> Caller:
        headers = Headers(scope=scope)
        if (given := headers.get("authorization")) is not None:
            scheme, _, text = given.partition(" ")
            if scheme.lower() != "bearer" or not text.strip():
                raise Unauthenticated("the header Authorization should read `Bearer` and a token")
            return Caller(self._identities.by_token(text.strip()))
        if scope["type"] == "websocket" and (ticket := _ticket_parameter(scope)) is not None:
            who = self._identities.tickets.redeem(ticket)
            if who is None or not self._identities.still_valid(who):
                raise Unauthenticated("this ticket is not known, was used, or is too old")
            return Caller(who)
        session = read_cookie(headers, cookie_name(self._port, headers))
        # a browser adds it to whatever any page asks for: it counts for our own pages only
        if session and headers.get("origin", "").lower() not in self._origins.others:
            return Caller(self._identities.by_session(session), by_cookie=True)
        raise Unauthenticated("this needs a token; `livejoin token make` makes one")

    def _check_same_origin(self, method: str, headers: Headers, who: Identity) -> None:
        """A cookie alone does not show that its owner wants what is asked for."""
        own = headers.get("origin", "").lower() in self._origins.own
        if not own and (method == "SOCKET" or headers.get("sec-fetch-site") != "same-origin"):
            why = "with a session this can be asked for by livejoin's own page only"
            raise AccessDenied(403, "refused", why, who)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and kind != "application/json":
            why = "with a session a request must have the content-type application/json"
            raise AccessDenied(403, "refused", why, who)


def check_role(who: Identity, need: Role) -> None:
    """Refuse whoever has another role."""
    if not role_includes(who.role, need):
        raise AccessDenied(
            403, "not allowed", f"this needs the role {need}; you are {who.role}", who
        )


def cookie_name(port: int, headers: Headers) -> str:
    """A browser keeps cookies by host, whatever the port: two livejoins have two of them.

    They may differ in the port that they have, or in the one by which a browser reaches them.
    """
    reached = headers.get("host", "").rpartition("]")[2].partition(":")[2]
    return f"livejoin_{port}" if reached in ("", str(port)) else f"livejoin_{port}_{reached}"


def set_cookie(name: str, value: str, headers: Headers, life_s: int = SESSION_IDLE_S) -> str:
    """A cookie that scripts cannot read and that no other site's request carries."""
    secure = "; Secure" if headers.get("origin", "").startswith("https://") else ""
    return f"{name}={value}; Max-Age={life_s}; Path=/; HttpOnly; SameSite=Strict{secure}"


def read_cookie(headers: Headers, name: str) -> str:
    """A cookie that a browser sent, or nothing."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def _ticket_parameter(scope: Scope) -> str | None:
    found = parse_qs(scope["query_string"].decode("latin-1")).get("ticket")
    return found[0] if found else None


async def _send_response(answer: JSONResponse, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await deny_websocket(answer, scope, receive, send)
    else:
        await answer(scope, receive, send)
