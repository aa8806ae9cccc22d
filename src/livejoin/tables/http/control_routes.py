"""The routes that ask for a change, or what one would do. Each leaves a row in the audit."""

import contextlib
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from livejoin.core.control_messages import MAX_BYTES, InvalidMessage
from livejoin.core.control_records import CLIENT_HEADER
from livejoin.errors import LivejoinError
from livejoin.tables.auth.audit import Audit, audit_row
from livejoin.tables.auth.identity import ANONYMOUS
from livejoin.tables.auth.origin_check import client_address
from livejoin.tables.auth.sign_in import identity_of
from livejoin.tables.http.control_producer import ControlProducer, rollback_message
from livejoin.tables.http.json_bodies import problem, read_json_body
from livejoin.tables.ingest.catalog import Catalog


class ControlRoutes:
    """The routes that ask for a change. All of them write to the control topic."""

    def __init__(self, asking: ControlProducer, host: Catalog, audit: Audit) -> None:
        self._producer = asking
        self._catalog = host
        self._audit = audit

    async def control(self, request: Request) -> Response:
        """Ask for other topics or another join."""
        return await self._send(request, "control", await _read_message(request))

    async def rollback(self, request: Request) -> Response:
        """Go back to what stands by."""
        return await self._send(
            request, "roll back", rollback_message(await _read_message(request, may_be_empty=True))
        )

    async def preview(self, request: Request) -> Response:
        """Say what a request would do."""
        raw = await _read_message(request)
        with self._audited(request, "preview", raw) as note:
            plan = await self._producer.preview(raw)
            note["outcome"] = str(plan["outcome"])
        return JSONResponse(plan)

    async def _send(self, request: Request, action: str, raw: bytes) -> Response:
        with self._audited(request, action, raw) as note:
            outcome = await self._producer.send(raw, _requester(request))
            note["outcome"], note["detail"] = outcome["outcome"], outcome["reason"] or ""
            if outcome["generation"] is not None:
                note["outcome"] += f": generation {outcome['generation']}"
        if outcome["outcome"] == "rejected":
            return problem(422, "rejected", outcome["reason"], offset=outcome["offset"])
        return JSONResponse(outcome, 202 if outcome["outcome"] == "written" else 200)

    @contextlib.contextmanager
    def _audited(self, request: Request, action: str, raw: bytes) -> Iterator[dict[str, str]]:
        """A row of the audit for what is done here, whatever comes of it."""
        one, live = identity_of(request), self._catalog.state.live
        before = f"generation {live.number}: {live.choice}" if live else "nothing is live"
        note = {"outcome": "failed", "detail": ""}
        try:
            yield note
        except LivejoinError as error:
            note["detail"] = str(error)
            raise
        except InvalidMessage as error:
            note["outcome"], note["detail"] = "rejected", str(error)
            raise
        finally:
            where, asked = client_address(request.scope), raw.decode(errors="backslashreplace")
            self._audit.append(
                audit_row(
                    one.display_name, one.role, where, action, before=before, after=asked, **note
                )
            )


async def _read_message(request: Request, *, may_be_empty: bool = False) -> bytes:
    """A message as it came."""
    return await read_json_body(
        request,
        MAX_BYTES,
        too_large=f"a control message has at most {MAX_BYTES >> 10} KiB",
        not_json="send the message as content-type application/json",
        may_be_empty=may_be_empty,
    )


def _requester(request: Request) -> str:
    """Who asked, for `control_raw`: what they use, and from where."""
    client = request.headers.get(CLIENT_HEADER, "http")
    known = client if client in ("page", "cli", "python") else "http"
    one = identity_of(request)
    named = [known] if one == ANONYMOUS else [known, one.display_name]
    return " ".join([*named, client_address(request.scope)])
