"""The routes of control requests and previews. Each request is audited."""

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
from livejoin.tables.auth.sign_in_routes import identity_of
from livejoin.tables.http.control_requests import ControlProducer, rollback_message
from livejoin.tables.http.json_bodies import problem, read_json_body
from livejoin.tables.ingest.catalog import Catalog


class ControlRoutes:
    """The routes `control`, `rollback` and `preview`."""

    def __init__(self, producer: ControlProducer, catalog: Catalog, audit: Audit) -> None:
        self._producer = producer
        self._catalog = catalog
        self._audit = audit

    async def control(self, request: Request) -> Response:
        """Request other topics or another join."""
        return await self._send(request, "control", await _read_message(request))

    async def rollback(self, request: Request) -> Response:
        """Roll back to the standby generation."""
        return await self._send(
            request, "roll back", rollback_message(await _read_message(request, may_be_empty=True))
        )

    async def preview(self, request: Request) -> Response:
        """Return what a request would do."""
        raw = await _read_message(request)
        with self._audited(request, "preview", raw) as result:
            plan = await self._producer.preview(raw)
            result["outcome"] = str(plan["outcome"])
        return JSONResponse(plan)

    async def _send(self, request: Request, action: str, raw: bytes) -> Response:
        with self._audited(request, action, raw) as result:
            outcome = await self._producer.send(raw, _requester(request))
            result["outcome"], result["detail"] = outcome["outcome"], outcome["reason"] or ""
            if outcome["generation"] is not None:
                result["outcome"] += f": generation {outcome['generation']}"
        if outcome["outcome"] == "rejected":
            return problem(422, "rejected", outcome["reason"], offset=outcome["offset"])
        return JSONResponse(outcome, 202 if outcome["outcome"] == "written" else 200)

    @contextlib.contextmanager
    def _audited(self, request: Request, action: str, raw: bytes) -> Iterator[dict[str, str]]:
        """Append an audit row when the block ends, whether it fails or not."""
        identity, live = identity_of(request), self._catalog.state.live
        before = f"generation {live.number}: {live.choice}" if live else "nothing is live"
        result = {"outcome": "failed", "detail": ""}
        try:
            yield result
        except LivejoinError as error:
            result["detail"] = str(error)
            raise
        except InvalidMessage as error:
            result["outcome"], result["detail"] = "rejected", str(error)
            raise
        finally:
            address, message = client_address(request.scope), raw.decode(errors="backslashreplace")
            self._audit.append(
                audit_row(
                    identity.display_name,
                    identity.role,
                    address,
                    action,
                    before=before,
                    after=message,
                    **result,
                )
            )


async def _read_message(request: Request, *, may_be_empty: bool = False) -> bytes:
    """Return the request body unchanged."""
    return await read_json_body(
        request,
        MAX_BYTES,
        too_large=f"a control message is limited to {MAX_BYTES >> 10} KiB",
        not_json="send the message as content-type application/json",
        may_be_empty=may_be_empty,
    )


def _requester(request: Request) -> str:
    """Return the requester for `control_raw`: client program, name, address."""
    client = request.headers.get(CLIENT_HEADER, "http")
    program = client if client in ("page", "cli", "python") else "http"
    identity = identity_of(request)
    parts = [program] if identity == ANONYMOUS else [program, identity.display_name]
    return " ".join([*parts, client_address(request.scope)])
