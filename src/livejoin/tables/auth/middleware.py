"""The gate before the application: nobody passes without the right that a route needs."""

from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from livejoin.core.tokens import Role, includes
from livejoin.tables.auth import rights
from livejoin.tables.auth.audit import Audit, Row, row
from livejoin.tables.auth.identity import ANYBODY, SESSION_S, Guests, NotLetIn, Who
from livejoin.tables.auth.origin_check import Names, address, asked, refuse_socket
from livejoin.tables.http.problems import problem

_SAFE = ("GET", "HEAD", "OPTIONS")


class Shown(NamedTuple):
    """Somebody, and whether a cookie said so."""

    who: Who
    by_cookie: bool = False


class Refused(Exception):
    """An answer instead of the one that was asked for, and whom it was given."""

    def __init__(self, status: int, title: str, detail: str, who: Who | None = None) -> None:
        super().__init__(detail)
        self.who = who
        self.answer: JSONResponse = problem(status, title, detail)
        if status == 401:
            self.answer.headers["www-authenticate"] = 'Bearer realm="livejoin"'
        elif status == 503:
            self.answer.headers["retry-after"] = "1"

    def row(self, scope: Scope) -> Row:
        """What the audit says of it."""
        named = (self.who.name, self.who.role) if self.who else ("", "")
        outcome = f"refused: {self.answer.status_code}"
        return row(*named, address(scope), asked(scope), outcome, detail=str(self))


class Gate:
    """Lets through whoever may, with `who` in the request's state."""

    def __init__(self, app: ASGIApp, guests: Guests, names: Names, audit: Audit, port: int) -> None:
        self._app = app
        self._guests = guests
        self._names = names
        self._audit = audit
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, 403 or 503, or pass on."""
        if scope["type"] in ("http", "websocket"):
            try:
                shown = self._let_in(scope)
            except Refused as refused:
                self._audit.often(refused.row(scope))
                await _answer(refused.answer, scope, receive, send)
                return
            scope.setdefault("state", {})["who"] = shown.who if shown else None
        await self._app(scope, receive, send)

    def _let_in(self, scope: Scope) -> Shown | None:
        """Who it is, where that is asked for, or why they may not."""
        method = "SOCKET" if scope["type"] == "websocket" else scope["method"]
        need = rights.needed(method, scope["path"], scope["query_string"])
        if self._guests.insecure:
            return Shown(ANYBODY)
        if need == "public":
            return None
        try:
            shown = self._shown(scope)
        except NotLetIn as error:
            if error.later:
                raise Refused(503, "not yet", f"{error}; try again") from error
            raise Refused(401, "who are you?", str(error)) from error
        check_role(shown.who, need)
        if shown.by_cookie and method not in _SAFE:
            self._check_that_the_page_asks(method, Headers(scope=scope), shown.who)
        return shown

    def _shown(self, scope: Scope) -> Shown:
        headers = Headers(scope=scope)
        if (given := headers.get("authorization")) is not None:
            scheme, _, text = given.partition(" ")
            if scheme.lower() != "bearer" or not text.strip():
                raise NotLetIn("the header Authorization should read `Bearer` and a token")
            return Shown(self._guests.by_token(text.strip()))
        if scope["type"] == "websocket" and (ticket := _ticket(scope)) is not None:
            who = self._guests.tickets.take(ticket)
            if who is None or not self._guests.still(who):
                raise NotLetIn("this ticket is not known, was used, or is too old")
            return Shown(who)
        session = read_cookie(headers, cookie_name(self._port, headers))
        # a browser adds it to whatever any page asks for: it counts for our own pages only
        if session and headers.get("origin", "").lower() not in self._names.others:
            return Shown(self._guests.by_session(session), by_cookie=True)
        raise NotLetIn("this needs a token; `livejoin token make` makes one")

    def _check_that_the_page_asks(self, method: str, headers: Headers, who: Who) -> None:
        """A cookie alone does not show that its owner wants what is asked for."""
        own = headers.get("origin", "").lower() in self._names.own
        if not own and (method == "SOCKET" or headers.get("sec-fetch-site") != "same-origin"):
            why = "with a session this can be asked for by livejoin's own page only"
            raise Refused(403, "refused", why, who)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and kind != "application/json":
            why = "with a session a request must have the content-type application/json"
            raise Refused(403, "refused", why, who)


def check_role(who: Who, need: Role) -> None:
    """Refuse whoever has another role."""
    if not includes(who.role, need):
        raise Refused(403, "not allowed", f"this needs the role {need}; you are {who.role}", who)


def cookie_name(port: int, headers: Headers) -> str:
    """A browser keeps cookies by host, whatever the port: two livejoins have two of them.

    They may differ in the port that they have, or in the one by which a browser reaches them.
    """
    reached = headers.get("host", "").rpartition("]")[2].partition(":")[2]
    return f"livejoin_{port}" if reached in ("", str(port)) else f"livejoin_{port}_{reached}"


def set_cookie(name: str, value: str, headers: Headers, life_s: int = SESSION_S) -> str:
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


def _ticket(scope: Scope) -> str | None:
    found = parse_qs(scope["query_string"].decode("latin-1")).get("ticket")
    return found[0] if found else None


async def _answer(answer: JSONResponse, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await refuse_socket(answer, scope, receive, send)
    else:
        await answer(scope, receive, send)
