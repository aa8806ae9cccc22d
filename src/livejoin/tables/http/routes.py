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

from livejoin.core import control_schema, spec
from livejoin.core.control_messages import InvalidMessage, excerpt
from livejoin.core.tokens import role_includes
from livejoin.errors import AskError, KafkaUnavailable, TopicUnusable
from livejoin.tables.auth.audit import Audit
from livejoin.tables.auth.middleware import AccessDenied, check_role
from livejoin.tables.auth.sign_in import SignInRoutes, identity_of
from livejoin.tables.http import openapi, query, row_formats
from livejoin.tables.http.control_producer import ControlProducer
from livejoin.tables.http.control_routes import ControlRoutes
from livejoin.tables.http.json_bodies import problem
from livejoin.tables.http.snapshots import SnapshotReader
from livejoin.tables.http.table_route import table_response
from livejoin.tables.http.topic_browser import MAX_MESSAGES, TopicBrowser
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.decode import SCHEMAS
from livejoin.tables.live.socket import LiveSocket
from livejoin.tables.observe.figures import Figures
from livejoin.tables.observe.metrics import Metrics
from livejoin.tables.observe.readiness import HealthRoutes

_STATIC = Path(__file__).parents[1] / "static"


def api(
    host: Catalog, live: LiveSocket, asking: ControlProducer, signing_in: SignInRoutes, audit: Audit
) -> Starlette:
    """The application: everything that is served, except who may ask for it."""
    reading = _CatalogRoutes(host, live)
    requests = ControlRoutes(asking, host, audit)
    health = HealthRoutes(host)
    topics = _TopicRoutes(asking.topics)
    routes = [
        Route("/", _page),
        Route("/livez", health.livez),
        Route("/readyz", health.readyz),
        Route("/metrics", Metrics(host, live).serve),
        Route("/api/v1/tables", reading.tables),
        Route("/api/v1/tables/{name}", reading.table),
        Route("/api/v1/status", reading.status),
        Route("/api/v1/generations", reading.generations),
        Route("/api/v1/figures", Figures(host, live.__len__, asking.limits).serve),
        Route("/api/v1/topics", topics.list_topics),
        Route("/api/v1/topics/{name}/peek", topics.peek),
        Route("/api/v1/schema/control.json", _schema),
        Route("/openapi.json", _openapi),
        Route("/api/v1/control", requests.control, methods=["POST"]),
        Route("/api/v1/preview", requests.preview, methods=["POST"]),
        Route("/api/v1/rollback", requests.rollback, methods=["POST"]),
        Route("/api/v1/whoami", signing_in.whoami),
        Route("/api/v1/session", signing_in.sign_in, methods=["POST"]),
        Route("/api/v1/session", signing_in.sign_out, methods=["DELETE"]),
        Route("/api/v1/code", signing_in.code, methods=["POST"]),
        Route("/api/v1/ticket", signing_in.ticket, methods=["POST"]),
        WebSocketRoute("/api/v1/live", live.serve),
        Mount("/engine", StaticFiles(directory=_engine_folder())),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]

    async def not_let_in(request: Request, error: Exception) -> Response:
        assert isinstance(error, AccessDenied)
        audit.append_counted(error.audit_row(request.scope))
        return error.response

    handlers: dict[Any, Any] = {
        HTTPException: _http_error,
        AccessDenied: not_let_in,
        AskError: _bad_request,
        InvalidMessage: _rejected,
        KafkaUnavailable: _kafka_unavailable,
        TopicUnusable: _topic_missing,
    }
    return Starlette(routes=routes, exception_handlers=handlers)


class _CatalogRoutes:
    """The routes that read the host."""

    def __init__(self, host: Catalog, live: LiveSocket) -> None:
        self._catalog = host
        self._live = live
        self._snapshots = SnapshotReader(host)

    async def tables(self, request: Request) -> Response:
        listed = [
            {
                "name": name,
                "rows": len(self._catalog.store(name)),
                "columns": [{"name": c.name, "type": c.type} for c in table.columns],
            }
            for name, table in _visible_tables(request).items()
        ]
        return JSONResponse(
            {"generation": self._catalog.generation, "seq": self._catalog.seq, "tables": listed}
        )

    async def status(self, _request: Request) -> Response:
        host = self._catalog
        sources = host.counts()
        return JSONResponse(
            {
                **host.status,
                "viewers": len(self._live),
                "stale": host.stale_reason or None,
                "sources": sources,
                "capped": host.capped(),
            }
        )

    async def generations(self, _request: Request) -> Response:
        self._catalog.update_figures()
        rows = [dict(row) for row in self._catalog.system.generations()]
        table = pa.Table.from_pylist(rows, SCHEMAS[spec.GENERATIONS]).drop_columns("_id")
        return JSONResponse({"generations": row_formats.rows(table)})

    async def table(self, request: Request) -> Response:
        name, there = request.path_params["name"], _visible_tables(request)
        if name in spec.RESTRICTED:
            check_role(identity_of(request), "operator")
        if name not in there:
            listed = ", ".join(there)
            raise HTTPException(404, f"there is no table {name[:100]!r}; there are {listed}")
        return await table_response(request, self._catalog, self._snapshots, name)


def _visible_tables(request: Request) -> dict[str, spec.Table]:
    """The tables that there are for whoever asks."""
    return spec.ALL_TABLES if role_includes(identity_of(request).role, "operator") else spec.TABLES


class _TopicRoutes:
    """The routes that ask Kafka. Answers are ASCII: a message may hold half a character."""

    def __init__(self, topics: TopicBrowser) -> None:
        self._browser = topics

    async def list_topics(self, request: Request) -> Response:
        query.parse_parameters(request.query_params.multi_items(), ())
        return _ascii_json(await self._browser.list_topics())

    async def peek(self, request: Request) -> Response:
        asked = query.parse_parameters(request.query_params.multi_items(), ("count",))
        count = query.parse_count("count", asked.get("count", "10"), 1, MAX_MESSAGES)
        return _ascii_json(await self._browser.peek(request.path_params["name"], count))


def _ascii_json(content: Any) -> Response:
    return Response(json.dumps(content, allow_nan=False), media_type="application/json")


async def _page(_request: Request) -> Response:
    return FileResponse(_STATIC / "index.html")


def _engine_folder() -> Path:
    """The page's engine, out of the installed wheel."""
    found = importlib.util.find_spec("perspective")
    origin = found.origin if found else None
    assert origin is not None, "perspective-python is a dependency"
    return Path(origin).parent / "widget" / "static"


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if detail == "Not Found":  # no route, or no file
        detail += f": there is nothing at {excerpt(request.url.path)}; see /openapi.json"
    titles = {404: "not found", 405: "method not allowed", 413: "too large", 415: "not JSON"}
    return problem(error.status_code, titles.get(error.status_code, "refused"), detail)


async def _schema(_request: Request) -> Response:
    return JSONResponse(control_schema.CONTROL, media_type="application/schema+json")


async def _openapi(_request: Request) -> Response:
    return JSONResponse(openapi.document())


async def _rejected(_request: Request, error: Exception) -> Response:
    return problem(422, "rejected", str(error))


async def _kafka_unavailable(_request: Request, error: Exception) -> Response:
    return problem(503, "Kafka is out of reach", str(error))


async def _topic_missing(_request: Request, error: Exception) -> Response:
    return problem(404, "not found", str(error))


async def _bad_request(_request: Request, error: Exception) -> Response:
    return problem(400, "bad request", str(error))
