"""The routes of signing in and out, and of one-time codes and WebSocket tickets."""

from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from livejoin.core.json_object import parse_object
from livejoin.tables.auth.audit import Audit, audit_row
from livejoin.tables.auth.authentication import Identities
from livejoin.tables.auth.authorization import AccessDenied, cookie_name, read_cookie, set_cookie
from livejoin.tables.auth.origin_check import AllowedOrigins, client_address
from livejoin.tables.auth.sessions_and_codes import (
    ANONYMOUS,
    Identity,
    SignOutPublisher,
    Unauthenticated,
)
from livejoin.tables.http.json_bodies import problem, read_json_body

_MAX_BYTES = 4096
_EXPECTED = 'expected {"token": "lj_…"}, {"code": "…"} or {"renew": true} as application/json'


def identity_of(request: Request) -> Identity:
    """Return the caller's identity, as set by AuthMiddleware."""
    found: Identity = request.state.who
    return found


class SignInRoutes:
    """The routes of sessions, codes and tickets."""

    def __init__(
        self,
        identities: Identities,
        origins: AllowedOrigins,
        audit: Audit,
        sign_outs: SignOutPublisher,
    ) -> None:
        self._identities = identities
        self._origins = origins
        self._audit = audit
        self._sign_outs = sign_outs

    async def whoami(self, request: Request) -> Response:
        """Return the caller's identity."""
        return _no_store(_identity_json(identity_of(request)))

    async def ticket(self, request: Request) -> Response:
        """Issue a ticket for one WebSocket, because a token must not be in a URL."""
        return _no_store({"ticket": self._identities.tickets.issue(identity_of(request))})

    async def code(self, request: Request) -> Response:
        """Issue a one-time code that signs a browser in as the caller."""
        return _no_store({"code": self._identities.codes.issue(identity_of(request))})

    async def sign_in(self, request: Request) -> Response:
        """Start or renew a session."""
        self._check_origin(request.headers)
        credentials = await _read_credentials(request)
        try:
            identity = self._authenticate(credentials, request.headers)
        except Unauthenticated as error:
            if error.retriable:
                raise AccessDenied(503, "service unavailable", f"{error}; retry shortly") from error
            raise AccessDenied(401, "unauthorized", str(error)) from error
        if "renew" not in credentials:
            method = "by token" if "token" in credentials else "by code"
            address = client_address(request.scope)
            self._audit.append_counted(
                audit_row(
                    identity.display_name, identity.role, address, "sign in", "done", detail=method
                )
            )
        response = _no_store(_identity_json(identity))
        if identity.id != ANONYMOUS.id:
            sessions = self._identities.sessions
            session = (
                sessions.renew(identity) if "renew" in credentials else sessions.start(identity)
            )
            cookie = cookie_name(self._origins.port, request.headers)
            response.headers["set-cookie"] = set_cookie(cookie, session, request.headers)
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the caller's session, here and then on the other servers."""
        identity, failure = identity_of(request), ""
        if identity.session:
            failure = await self._sign_outs.publish(*self._identities.sessions.end(identity))
            address, outcome = client_address(request.scope), "here alone" if failure else "done"
            self._audit.append_counted(
                audit_row(
                    identity.display_name,
                    identity.role,
                    address,
                    "sign out",
                    outcome,
                    detail=failure,
                )
            )
        response = Response(status_code=204)
        if failure:
            detail = f"signed out on this server; other servers were not notified yet: {failure}"
            response = problem(503, "signed out on this server only", detail)
        cookie = cookie_name(self._origins.port, request.headers)
        response.headers["set-cookie"] = set_cookie(cookie, "", request.headers, lifetime_s=0)
        return response

    def _check_origin(self, headers: Headers) -> None:
        """Refuse pages of other sites: only our own pages may receive a session cookie."""
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._origins.own:
            raise AccessDenied(403, "forbidden", "a page of another site cannot start a session")

    def _authenticate(self, credentials: dict[str, Any], headers: Headers) -> Identity:
        identities = self._identities
        if identities.insecure:
            return ANONYMOUS
        match credentials:
            case {"token": str(text)}:
                return identities.by_token(text.strip())
            case {"code": str(text)}:
                identity = identities.codes.redeem(text)
                if identity is None or not identities.still_valid(identity):
                    raise Unauthenticated("this code is unknown, already used or expired")
                return identity
            case {"renew": True}:
                return identities.by_session(
                    read_cookie(headers, cookie_name(self._origins.port, headers))
                )
            case _:
                raise HTTPException(400, _EXPECTED)


def _identity_json(identity: Identity) -> dict[str, str]:
    return {"id": identity.id, "role": identity.role, "label": identity.label}


async def _read_credentials(request: Request) -> dict[str, Any]:
    too_large = f"a sign-in request is limited to {_MAX_BYTES >> 10} KiB"
    body = await read_json_body(request, _MAX_BYTES, too_large=too_large, not_json=_EXPECTED)
    credentials = parse_object(body)
    if credentials is None:
        raise HTTPException(400, _EXPECTED)
    return credentials


def _no_store(content: dict[str, str]) -> JSONResponse:
    return JSONResponse(content, headers={"cache-control": "no-store"})
