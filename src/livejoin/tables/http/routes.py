"""The application's routes and error responses."""

import importlib.util
import json
from http import HTTPStatus
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
from livejoin.tables.auth.sign_in_routes import SignInRoutes, identity_of
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
    catalog: Catalog,
    live: LiveSocket,
    producer: ControlProducer,
    sign_in: SignInRoutes,
    audit: Audit,
) -> Starlette:
    """Return the application, without the middleware that authorizes requests."""
    catalog_routes = _CatalogRoutes(catalog, live)
    control_routes = ControlRoutes(producer, catalog, audit)
    health = HealthRoutes(catalog)
    topic_routes = _TopicRoutes(producer.topics)
    routes = [
        Route("/", _page),
        Route("/livez", health.livez),
        Route("/readyz", health.readyz),
        Route("/metrics", Metrics(catalog, live).serve),
        Route("/api/v1/tables", catalog_routes.tables),
        Route("/api/v1/tables/{name}", catalog_routes.table),
        Route("/api/v1/status", catalog_routes.status),
        Route("/api/v1/generations", catalog_routes.generations),
        Route("/api/v1/figures", Figures(catalog, live.__len__, producer.limits).serve),
        Route("/api/v1/topics", topic_routes.list_topics),
        Route("/api/v1/topics/{name}/peek", topic_routes.peek),
        Route("/api/v1/schema/control.json", _schema),
        Route("/openapi.json", _openapi),
        Route("/api/v1/control", control_routes.control, methods=["POST"]),
        Route("/api/v1/preview", control_routes.preview, methods=["POST"]),
        Route("/api/v1/rollback", control_routes.rollback, methods=["POST"]),
        Route("/api/v1/whoami", sign_in.whoami),
        Route("/api/v1/session", sign_in.sign_in, methods=["POST"]),
        Route("/api/v1/session", sign_in.sign_out, methods=["DELETE"]),
        Route("/api/v1/code", sign_in.code, methods=["POST"]),
        Route("/api/v1/ticket", sign_in.ticket, methods=["POST"]),
        WebSocketRoute("/api/v1/live", live.serve),
        Mount("/engine", StaticFiles(directory=_engine_folder())),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]

    async def access_denied(request: Request, error: Exception) -> Response:
        assert isinstance(error, AccessDenied)
        audit.append_counted(error.audit_row(request.scope))
        return error.response

    handlers: dict[Any, Any] = {
        HTTPException: _http_error,
        AccessDenied: access_denied,
        AskError: _bad_request,
        InvalidMessage: _rejected,
        KafkaUnavailable: _kafka_unavailable,
        TopicUnusable: _topic_missing,
    }
    return Starlette(routes=routes, exception_handlers=handlers)


class _CatalogRoutes:
    """The routes that read the catalog."""

    def __init__(self, catalog: Catalog, live: LiveSocket) -> None:
        self._catalog = catalog
        self._live = live
        self._snapshots = SnapshotReader(catalog)

    async def tables(self, request: Request) -> Response:
        tables = [
            {
                "name": name,
                "rows": len(self._catalog.store(name)),
                "columns": [{"name": c.name, "type": c.type} for c in table.columns],
            }
            for name, table in _visible_tables(request).items()
        ]
        return JSONResponse(
            {"generation": self._catalog.generation, "seq": self._catalog.seq, "tables": tables}
        )

    async def status(self, _request: Request) -> Response:
        catalog = self._catalog
        sources = catalog.counts()
        return JSONResponse(
            {
                **catalog.status,
                "viewers": len(self._live),
                "stale": catalog.stale_reason or None,
                "sources": sources,
                "capped": catalog.capped(),
            }
        )

    async def generations(self, _request: Request) -> Response:
        self._catalog.update_figures()
        rows = [dict(row) for row in self._catalog.system.generations()]
        table = pa.Table.from_pylist(rows, SCHEMAS[spec.GENERATIONS]).drop_columns("_id")
        return JSONResponse({"generations": row_formats.to_json_rows(table)})

    async def table(self, request: Request) -> Response:
        name, visible = request.path_params["name"], _visible_tables(request)
        if name in spec.RESTRICTED:
            check_role(identity_of(request), "operator")
        if name not in visible:
            tables = ", ".join(visible)
            raise HTTPException(404, f"there is no table {name[:100]!r}; the tables are {tables}")
        return await table_response(request, self._catalog, self._snapshots, name)


def _visible_tables(request: Request) -> dict[str, spec.TableSpec]:
    """Return the tables that the caller may read."""
    return spec.ALL_TABLES if role_includes(identity_of(request).role, "operator") else spec.TABLES


class _TopicRoutes:
    """The routes that query Kafka. Responses are ASCII, as messages may hold lone surrogates."""

    def __init__(self, browser: TopicBrowser) -> None:
        self._browser = browser

    async def list_topics(self, request: Request) -> Response:
        query.parse_parameters(request.query_params.multi_items(), ())
        return _ascii_json(await self._browser.list_topics())

    async def peek(self, request: Request) -> Response:
        parameters = query.parse_parameters(request.query_params.multi_items(), ("count",))
        count = query.parse_count("count", parameters.get("count", "10"), 1, MAX_MESSAGES)
        return _ascii_json(await self._browser.peek(request.path_params["name"], count))


def _ascii_json(content: Any) -> Response:
    return Response(json.dumps(content, allow_nan=False), media_type="application/json")


async def _page(_request: Request) -> Response:
    return FileResponse(_STATIC / "index.html")


def _engine_folder() -> Path:
    """Return the folder of the page's engine inside the installed perspective wheel."""
    package = importlib.util.find_spec("perspective")
    origin = package.origin if package else None
    assert origin is not None, "perspective-python is a dependency"
    return Path(origin).parent / "widget" / "static"


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if detail == "Not Found":  # no route, or no file
        detail += f": no route or file at {excerpt(request.url.path)}; see /openapi.json"
    title = HTTPStatus(error.status_code).phrase.lower()
    return problem(error.status_code, title, detail)


async def _schema(_request: Request) -> Response:
    return JSONResponse(control_schema.CONTROL, media_type="application/schema+json")


async def _openapi(_request: Request) -> Response:
    return JSONResponse(openapi.document())


async def _rejected(_request: Request, error: Exception) -> Response:
    return problem(422, "rejected", str(error))


async def _kafka_unavailable(_request: Request, error: Exception) -> Response:
    return problem(503, "Kafka is unavailable", str(error))


async def _topic_missing(_request: Request, error: Exception) -> Response:
    return problem(404, "not found", str(error))


async def _bad_request(_request: Request, error: Exception) -> Response:
    return problem(400, "bad request", str(error))
