"""The HTTP side: tables, topics, status, health, requests, the page."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

from livejoin.core import schema, spec
from livejoin.core.inbound import CLIENT_HEADER
from livejoin.core.messages import MAX_BYTES, Invalid, shown
from livejoin.errors import AskError, KafkaUnavailable, TopicMissing
from livejoin.tables import formats, openapi, query
from livejoin.tables.answering import answer
from livejoin.tables.asking import Asking, rollback
from livejoin.tables.decode import SCHEMAS
from livejoin.tables.figures import Figures
from livejoin.tables.health import Health
from livejoin.tables.host import Host
from livejoin.tables.live import Live
from livejoin.tables.metrics import Metrics
from livejoin.tables.problems import problem
from livejoin.tables.topics import MOST_MESSAGES, Topics

_STATIC = Path(__file__).with_name("static")


def api(host: Host, live: Live, asking: Asking) -> Starlette:
    """The application: everything that is served, except who may ask for it."""
    asked = _Asked(host, live)
    requests = _Requests(asking)
    health = Health(host)
    topics = _Topics(asking.topics)
    routes = [
        Route("/", _page),
        Route("/livez", health.livez),
        Route("/readyz", health.readyz),
        Route("/metrics", Metrics(host, live).serve),
        Route("/api/v1/tables", asked.tables),
        Route("/api/v1/tables/{name}", asked.table),
        Route("/api/v1/status", asked.status),
        Route("/api/v1/generations", asked.generations),
        Route("/api/v1/figures", Figures(host, live.__len__, asking.limits).serve),
        Route("/api/v1/topics", topics.listed),
        Route("/api/v1/topics/{name}/peek", topics.peeked),
        Route("/api/v1/schema/control.json", _schema),
        Route("/openapi.json", _openapi),
        Route("/api/v1/control", requests.control, methods=["POST"]),
        Route("/api/v1/preview", requests.preview, methods=["POST"]),
        Route("/api/v1/rollback", requests.rollback, methods=["POST"]),
        WebSocketRoute("/api/v1/live", live.serve),
        Mount("/engine", StaticFiles(directory=_engine())),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]
    handlers: dict[Any, Any] = {
        HTTPException: _refused,
        AskError: _wrong,
        Invalid: _invalid,
        KafkaUnavailable: _unavailable,
        TopicMissing: _missing,
    }
    return Starlette(routes=routes, exception_handlers=handlers)


class _Asked:
    """The routes that read the host."""

    def __init__(self, host: Host, live: Live) -> None:
        self._host = host
        self._live = live

    async def tables(self, _request: Request) -> Response:
        listed = [
            {
                "name": name,
                "rows": len(self._host.store(name)),
                "columns": [{"name": c.name, "type": c.type} for c in table.columns],
            }
            for name, table in spec.TABLES.items()
        ]
        return JSONResponse(
            {"generation": self._host.generation, "seq": self._host.seq, "tables": listed}
        )

    async def status(self, _request: Request) -> Response:
        host = self._host
        sources = host.counts()
        return JSONResponse(
            {
                **host.status,
                "viewers": len(self._live),
                "stale": host.stale or None,
                "sources": sources,
            }
        )

    async def generations(self, _request: Request) -> Response:
        self._host.count()
        rows = [dict(row) for row in self._host.system.generations()]
        table = pa.Table.from_pylist(rows, SCHEMAS[spec.GENERATIONS]).drop_columns("_id")
        return JSONResponse({"generations": formats.rows(table)})

    async def table(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in spec.TABLES:
            raise HTTPException(
                404, f"there is no table {name[:100]!r}; there are {', '.join(spec.TABLES)}"
            )
        return await answer(request, self._host, name)


class _Topics:
    """The routes that ask Kafka. Answers are ASCII: a message may hold half a character."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def listed(self, request: Request) -> Response:
        query.parameters(request.query_params.multi_items(), ())
        return _ascii(await self._topics.listed())

    async def peeked(self, request: Request) -> Response:
        asked = query.parameters(request.query_params.multi_items(), ("count",))
        count = query.count("count", asked.get("count", "10"), 1, MOST_MESSAGES)
        return _ascii(await self._topics.peeked(request.path_params["name"], count))


def _ascii(content: Any) -> Response:
    return Response(json.dumps(content, allow_nan=False), media_type="application/json")


class _Requests:
    """The routes that ask for a change. All of them write to the control topic."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def control(self, request: Request) -> Response:
        return await self._send(request, await _body(request))

    async def rollback(self, request: Request) -> Response:
        return await self._send(request, rollback(await _body(request, empty=True)))

    async def preview(self, request: Request) -> Response:
        return JSONResponse(await self._asking.preview(await _body(request)))

    async def _send(self, request: Request, raw: bytes) -> Response:
        outcome = await self._asking.send(raw, _by(request))
        if outcome["outcome"] == "rejected":
            return problem(422, "rejected", outcome["reason"], offset=outcome["offset"])
        return JSONResponse(outcome, 202 if outcome["outcome"] == "written" else 200)


async def _body(request: Request, *, empty: bool = False) -> bytes:
    """A message as it came, if it is small and said to be JSON: a form of another site is not."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            raise HTTPException(413, f"a control message has at most {MAX_BYTES >> 10} KiB")
    if kind != "application/json" and (body or not empty):
        raise HTTPException(415, "send the message as content-type application/json")
    return body


def _by(request: Request) -> str:
    """Who asked, for `control_raw`: what they use, and from where."""
    client = request.headers.get(CLIENT_HEADER, "http")
    known = client if client in ("page", "cli", "python") else "http"
    return f"{known} {request.client.host}" if request.client else known


async def _page(_request: Request) -> Response:
    return FileResponse(_STATIC / "index.html")


def _engine() -> Path:
    """The page's engine, out of the installed wheel."""
    found = importlib.util.find_spec("perspective")
    origin = found.origin if found else None
    assert origin is not None, "perspective-python is a dependency"
    return Path(origin).parent / "widget" / "static"


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if detail == "Not Found":  # no route, or no file
        detail += f": there is nothing at {shown(request.url.path)}; see /openapi.json"
    titles = {404: "not found", 405: "method not allowed", 413: "too large", 415: "not JSON"}
    return problem(error.status_code, titles.get(error.status_code, "refused"), detail)


async def _schema(_request: Request) -> Response:
    return JSONResponse(schema.CONTROL, media_type="application/schema+json")


async def _openapi(_request: Request) -> Response:
    return JSONResponse(openapi.document())


async def _invalid(_request: Request, error: Exception) -> Response:
    return problem(422, "rejected", str(error))


async def _unavailable(_request: Request, error: Exception) -> Response:
    return problem(503, "Kafka is out of reach", str(error))


async def _missing(_request: Request, error: Exception) -> Response:
    return problem(404, "not found", str(error))


async def _wrong(_request: Request, error: Exception) -> Response:
    return problem(400, "bad request", str(error))
