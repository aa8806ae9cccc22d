"""Signing in and out: a token or a code becomes a session, a right a ticket for a socket."""

import json
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from livejoin.tables.auth.audit import Audit, row
from livejoin.tables.auth.identity import ANYBODY, Guests, NotLetIn, Who
from livejoin.tables.auth.middleware import Refused, cookie_name, read_cookie, set_cookie
from livejoin.tables.auth.origin_check import Names, address
from livejoin.tables.auth.sign_outs import SignOuts
from livejoin.tables.http import request_body
from livejoin.tables.http.problems import problem

_MOST_BYTES = 4096
_EXPECTED = 'expected {"token": "lj_…"}, {"code": "…"} or {"renew": true} as application/json'


def who(request: Request) -> Who:
    """Who asks, as the gate has found."""
    found: Who = request.state.who
    return found


class SigningIn:
    """The routes of whoever comes and goes."""

    def __init__(
        self, guests: Guests, names: Names, audit: Audit, sign_outs: SignOuts, port: int
    ) -> None:
        self._guests = guests
        self._names = names
        self._audit = audit
        self._sign_outs = sign_outs
        self._port = port

    async def whoami(self, request: Request) -> Response:
        """Who the asker is."""
        return _no_store(_described(who(request)))

    async def ticket(self, request: Request) -> Response:
        """A ticket for one socket, in place of a token, which must not stand in an address."""
        return _no_store({"ticket": self._guests.tickets.make(who(request))})

    async def code(self, request: Request) -> Response:
        """A code with which a browser signs in as the asker, once."""
        return _no_store({"code": self._guests.codes.make(who(request))})

    async def sign_in(self, request: Request) -> Response:
        """Begin a session, or have it go on."""
        self._check_page(request.headers)
        given = await _given(request)
        try:
            one = self._who(given, request.headers)
        except NotLetIn as error:
            if error.later:
                raise Refused(503, "not yet", f"{error}; try again") from error
            raise Refused(401, "who are you?", str(error)) from error
        if "renew" not in given:
            how = "by token" if "token" in given else "by code"
            where = address(request.scope)
            self._audit.often(row(one.name, one.role, where, "sign in", "done", detail=how))
        answer = _no_store(_described(one))
        if one.id != ANYBODY.id:
            sessions = self._guests.sessions
            session = sessions.renew(one) if "renew" in given else sessions.begin(one)
            cookie = cookie_name(self._port, request.headers)
            answer.headers["set-cookie"] = set_cookie(cookie, session, request.headers)
        return answer

    async def sign_out(self, request: Request) -> Response:
        """End a session, here and then everywhere."""
        one, why = who(request), ""
        if one.session:
            why = await self._sign_outs.tell(*self._guests.sessions.end(one))
            where, outcome = address(request.scope), "here alone" if why else "done"
            self._audit.often(row(one.name, one.role, where, "sign out", outcome, detail=why))
        answer = Response(status_code=204)
        if why:
            detail = f"you are signed out here; other servers may not know of it yet: {why}"
            answer = problem(503, "signed out here alone", detail)
        cookie = cookie_name(self._port, request.headers)
        answer.headers["set-cookie"] = set_cookie(cookie, "", request.headers, life_s=0)
        return answer

    def _check_page(self, headers: Headers) -> None:
        """A cookie is for our own pages: nobody else's may have one set, for whomever."""
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._names.own:
            raise Refused(403, "refused", "another site's page cannot begin a session here")

    def _who(self, given: dict[str, Any], headers: Headers) -> Who:
        guests = self._guests
        if guests.insecure:
            return ANYBODY
        match given:
            case {"token": str(text)}:
                return guests.by_token(text.strip())
            case {"code": str(text)}:
                one = guests.codes.take(text)
                if one is None or not guests.still(one):
                    raise NotLetIn("this code is not known, was used, or is too old")
                return one
            case {"renew": True}:
                return guests.by_session(read_cookie(headers, cookie_name(self._port, headers)))
            case _:
                raise HTTPException(400, _EXPECTED)


def _described(one: Who) -> dict[str, str]:
    return {"id": one.id, "role": one.role, "label": one.label}


async def _given(request: Request) -> dict[str, Any]:
    too_large = f"signing in takes at most {_MOST_BYTES >> 10} KiB"
    body = await request_body.read(request, _MOST_BYTES, too_large=too_large, not_json=_EXPECTED)
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise HTTPException(400, _EXPECTED)
    return given


def _no_store(content: dict[str, str]) -> JSONResponse:
    return JSONResponse(content, headers={"cache-control": "no-store"})
