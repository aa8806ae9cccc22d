"""Signing in and out: a token or a code becomes a session, a right a ticket for a socket."""

import json
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from livejoin.tables.auth.audit import Audit, audit_row
from livejoin.tables.auth.identity import ANONYMOUS, Identities, Identity, Unauthenticated
from livejoin.tables.auth.middleware import AccessDenied, cookie_name, read_cookie, set_cookie
from livejoin.tables.auth.origin_check import AllowedOrigins, client_address
from livejoin.tables.auth.sign_outs import SignOutPublisher
from livejoin.tables.http.json_bodies import problem, read_json_body

_MAX_BYTES = 4096
_EXPECTED = 'expected {"token": "lj_…"}, {"code": "…"} or {"renew": true} as application/json'


def identity_of(request: Request) -> Identity:
    """Who asks, as the gate has found."""
    found: Identity = request.state.who
    return found


class SignInRoutes:
    """The routes of whoever comes and goes."""

    def __init__(
        self,
        guests: Identities,
        names: AllowedOrigins,
        audit: Audit,
        sign_outs: SignOutPublisher,
        port: int,
    ) -> None:
        self._identities = guests
        self._origins = names
        self._audit = audit
        self._sign_outs = sign_outs
        self._port = port

    async def whoami(self, request: Request) -> Response:
        """Who the asker is."""
        return _no_store(_identity_json(identity_of(request)))

    async def ticket(self, request: Request) -> Response:
        """A ticket for one socket, in place of a token, which must not stand in an address."""
        return _no_store({"ticket": self._identities.tickets.issue(identity_of(request))})

    async def code(self, request: Request) -> Response:
        """A code with which a browser signs in as the asker, once."""
        return _no_store({"code": self._identities.codes.issue(identity_of(request))})

    async def sign_in(self, request: Request) -> Response:
        """Begin a session, or have it go on."""
        self._check_origin(request.headers)
        given = await _read_credentials(request)
        try:
            one = self._authenticate(given, request.headers)
        except Unauthenticated as error:
            if error.retriable:
                raise AccessDenied(503, "not yet", f"{error}; try again") from error
            raise AccessDenied(401, "who are you?", str(error)) from error
        if "renew" not in given:
            how = "by token" if "token" in given else "by code"
            where = client_address(request.scope)
            self._audit.append_counted(
                audit_row(one.display_name, one.role, where, "sign in", "done", detail=how)
            )
        answer = _no_store(_identity_json(one))
        if one.id != ANONYMOUS.id:
            sessions = self._identities.sessions
            session = sessions.renew(one) if "renew" in given else sessions.start(one)
            cookie = cookie_name(self._port, request.headers)
            answer.headers["set-cookie"] = set_cookie(cookie, session, request.headers)
        return answer

    async def sign_out(self, request: Request) -> Response:
        """End a session, here and then everywhere."""
        one, why = identity_of(request), ""
        if one.session:
            why = await self._sign_outs.publish(*self._identities.sessions.end(one))
            where, outcome = client_address(request.scope), "here alone" if why else "done"
            self._audit.append_counted(
                audit_row(one.display_name, one.role, where, "sign out", outcome, detail=why)
            )
        answer = Response(status_code=204)
        if why:
            detail = f"you are signed out here; other servers may not know of it yet: {why}"
            answer = problem(503, "signed out here alone", detail)
        cookie = cookie_name(self._port, request.headers)
        answer.headers["set-cookie"] = set_cookie(cookie, "", request.headers, life_s=0)
        return answer

    def _check_origin(self, headers: Headers) -> None:
        """A cookie is for our own pages: nobody else's may have one set, for whomever."""
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._origins.own:
            raise AccessDenied(403, "refused", "another site's page cannot begin a session here")

    def _authenticate(self, given: dict[str, Any], headers: Headers) -> Identity:
        guests = self._identities
        if guests.insecure:
            return ANONYMOUS
        match given:
            case {"token": str(text)}:
                return guests.by_token(text.strip())
            case {"code": str(text)}:
                one = guests.codes.redeem(text)
                if one is None or not guests.still_valid(one):
                    raise Unauthenticated("this code is not known, was used, or is too old")
                return one
            case {"renew": True}:
                return guests.by_session(read_cookie(headers, cookie_name(self._port, headers)))
            case _:
                raise HTTPException(400, _EXPECTED)


def _identity_json(one: Identity) -> dict[str, str]:
    return {"id": one.id, "role": one.role, "label": one.label}


async def _read_credentials(request: Request) -> dict[str, Any]:
    too_large = f"signing in takes at most {_MAX_BYTES >> 10} KiB"
    body = await read_json_body(request, _MAX_BYTES, too_large=too_large, not_json=_EXPECTED)
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise HTTPException(400, _EXPECTED)
    return given


def _no_store(content: dict[str, str]) -> JSONResponse:
    return JSONResponse(content, headers={"cache-control": "no-store"})
