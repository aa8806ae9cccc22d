"""The routes that ask for a change, or what one would do. Each leaves a row in the audit."""

import contextlib
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from livejoin.core.control_messages import MAX_BYTES, Invalid
from livejoin.core.control_records import CLIENT_HEADER
from livejoin.errors import LivejoinError
from livejoin.tables.auth.audit import Audit, row
from livejoin.tables.auth.identity import ANYBODY
from livejoin.tables.auth.origin_check import address
from livejoin.tables.auth.sign_in import who
from livejoin.tables.http import request_body
from livejoin.tables.http.control_producer import Asking, rollback
from livejoin.tables.http.problems import problem
from livejoin.tables.ingest.catalog import Host


class Requests:
    """The routes that ask for a change. All of them write to the control topic."""

    def __init__(self, asking: Asking, host: Host, audit: Audit) -> None:
        self._asking = asking
        self._host = host
        self._audit = audit

    async def control(self, request: Request) -> Response:
        """Ask for other topics or another join."""
        return await self._send(request, "control", await _body(request))

    async def rollback(self, request: Request) -> Response:
        """Go back to what stands by."""
        return await self._send(request, "roll back", rollback(await _body(request, empty=True)))

    async def preview(self, request: Request) -> Response:
        """Say what a request would do."""
        raw = await _body(request)
        with self._noted(request, "preview", raw) as note:
            plan = await self._asking.preview(raw)
            note["outcome"] = str(plan["outcome"])
        return JSONResponse(plan)

    async def _send(self, request: Request, action: str, raw: bytes) -> Response:
        with self._noted(request, action, raw) as note:
            outcome = await self._asking.send(raw, _by(request))
            note["outcome"], note["detail"] = outcome["outcome"], outcome["reason"] or ""
            if outcome["generation"] is not None:
                note["outcome"] += f": generation {outcome['generation']}"
        if outcome["outcome"] == "rejected":
            return problem(422, "rejected", outcome["reason"], offset=outcome["offset"])
        return JSONResponse(outcome, 202 if outcome["outcome"] == "written" else 200)

    @contextlib.contextmanager
    def _noted(self, request: Request, action: str, raw: bytes) -> Iterator[dict[str, str]]:
        """A row of the audit for what is done here, whatever comes of it."""
        one, live = who(request), self._host.state.live
        before = f"generation {live.number}: {live.choice}" if live else "nothing is live"
        note = {"outcome": "failed", "detail": ""}
        try:
            yield note
        except LivejoinError as error:
            note["detail"] = str(error)
            raise
        except Invalid as error:
            note["outcome"], note["detail"] = "rejected", str(error)
            raise
        finally:
            where, asked = address(request.scope), raw.decode(errors="backslashreplace")
            self._audit.note(
                row(one.name, one.role, where, action, before=before, after=asked, **note)
            )


async def _body(request: Request, *, empty: bool = False) -> bytes:
    """A message as it came."""
    return await request_body.read(
        request,
        MAX_BYTES,
        too_large=f"a control message has at most {MAX_BYTES >> 10} KiB",
        not_json="send the message as content-type application/json",
        empty=empty,
    )


def _by(request: Request) -> str:
    """Who asked, for `control_raw`: what they use, and from where."""
    client = request.headers.get(CLIENT_HEADER, "http")
    known = client if client in ("page", "cli", "python") else "http"
    one = who(request)
    named = [known] if one == ANYBODY else [known, one.name]
    return " ".join([*named, address(request.scope)])
