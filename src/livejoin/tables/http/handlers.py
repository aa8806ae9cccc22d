"""The objects whose methods handle requests; the table of routes names them."""

import asyncio
import importlib.util
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles

from livejoin.core import control_messages, spec
from livejoin.core.spec import JoinSpec
from livejoin.core.tokens import role_includes
from livejoin.tables.auth.authorization import check_role
from livejoin.tables.auth.sign_in_routes import SignInRoutes, identity_of
from livejoin.tables.http import peek_request, query, row_formats
from livejoin.tables.http.control_requests import ControlRoutes
from livejoin.tables.http.json_bodies import Json
from livejoin.tables.http.reject_reasons import add_reject_reasons
from livejoin.tables.http.table_route import SnapshotReader, table_response
from livejoin.tables.http.topic_browser import TopicBrowser
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.live.socket import LiveSocket
from livejoin.tables.observe.health import Figures, HealthRoutes
from livejoin.tables.observe.metrics import Metrics

_STATIC = Path(__file__).parents[1] / "static"


class CatalogRoutes:
    """The routes that read the catalog."""

    def __init__(self, catalog: Catalog, live: LiveSocket, control_spec: JoinSpec) -> None:
        self._catalog = catalog
        self._live = live
        self._control_spec = control_spec
        self._snapshots = SnapshotReader(catalog)

    async def tables(self, request: Request) -> Response:
        """List the tables that the caller may read."""
        tables = [
            {"name": name, "rows": len(self._catalog.store(name)), "columns": _columns(table)}
            for name, table in self._visible_tables(request).items()
        ]
        return JSONResponse(
            {"generation": self._catalog.generation, "seq": self._catalog.seq, "tables": tables}
        )

    async def join_spec(self, request: Request) -> Response:
        """Return what the served generation joins, and what control messages may name."""
        served, control = self._catalog.spec, self._control_spec
        sources = [
            {**fields, "table": source.table}
            for source, fields in zip(served.sources, served.to_json()["sources"], strict=True)
        ]
        return JSONResponse(
            {
                "generation": self._catalog.generation,
                "sources": sources,
                "driver": served.driver.name,
                "lookups": [source.name for source in served.lookups],
                "tables": [
                    {"name": name, "columns": _columns(table)}
                    for name, table in self._visible_tables(request).items()
                ],
                "control": {
                    "sources": [{"name": s.name, "field": s.topic_field} for s in control.sources],
                    "joins": list(control.joins),
                },
            }
        )

    async def status(self, _request: Request) -> Response:
        """Return the live generation and its state."""
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
        """List all generations, newest first."""
        self._catalog.update_figures()
        rows = [dict(row) for row in self._catalog.system.generations()]
        columns = self._catalog.store(spec.GENERATIONS).schema
        table = pa.Table.from_pylist(rows, columns).drop_columns("_id")
        return JSONResponse({"generations": row_formats.to_json_rows(table)})

    async def table(self, request: Request) -> Response:
        """Return rows of a table; restricted tables require operator."""
        name, visible = request.path_params["name"], self._visible_tables(request)
        if name in spec.RESTRICTED:
            check_role(identity_of(request), "operator")
        if name not in visible:
            tables = ", ".join(visible)
            raise HTTPException(404, f"there is no table {name[:100]!r}; the tables are {tables}")
        return await table_response(request, self._catalog, self._snapshots, name)

    def _visible_tables(self, request: Request) -> dict[str, spec.TableSpec]:
        """Return the tables that the caller may read."""
        served = self._catalog.spec
        is_operator = role_includes(identity_of(request).role, "operator")
        return served.all_tables if is_operator else served.tables


def _columns(table: spec.TableSpec) -> list[dict[str, str]]:
    return [{"name": column.name, "type": column.type} for column in table.columns]


class TopicRoutes:
    """The routes that query Kafka. Responses are ASCII, as messages may hold lone surrogates."""

    def __init__(self, browser: TopicBrowser, catalog: Catalog) -> None:
        self._browser = browser
        self._catalog = catalog

    async def list_topics(self, request: Request) -> Response:
        """List the topics of the cluster."""
        query.parse_parameters(request.query_params.multi_items(), ())
        return _ascii_json(await self._browser.list_topics())

    async def peek(self, request: Request) -> Response:
        """Return messages of a topic. What is read stops soon after the client has gone."""
        parameters = query.parse_parameters(
            request.query_params.multi_items(), peek_request.PARAMETERS
        )
        peek, topic = peek_request.parse_peek(parameters), request.path_params["name"]
        cancelled = threading.Event()
        watch = asyncio.create_task(_wait_until_gone(request))
        watch.add_done_callback(lambda _: cancelled.set())
        try:
            body = await self._browser.peek(topic, peek, cancelled)
        finally:
            watch.cancel()
        add_reject_reasons(body, self._catalog)
        return _ascii_json(body)


async def _wait_until_gone(request: Request) -> None:
    """Wait until the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _ascii_json(content: Any) -> Response:
    return Response(json.dumps(content, allow_nan=False), media_type="application/json")


class DocumentRoutes:
    """The page with its files, and the documents that describe the API."""

    def __init__(self, openapi: Callable[[], Json], control_spec: JoinSpec) -> None:
        self._openapi = openapi
        self._control_spec = control_spec
        self.static = StaticFiles(directory=_STATIC)
        self.engine = StaticFiles(directory=_engine_folder())

    async def page(self, _request: Request) -> Response:
        """Return the page."""
        return FileResponse(_STATIC / "index.html")

    async def example(self, _request: Request) -> Response:
        """Return the example of a page that uses the published module."""
        return FileResponse(_STATIC / "example.html")

    async def openapi(self, _request: Request) -> Response:
        """Return the OpenAPI document."""
        return JSONResponse(self._openapi())

    async def control_schema(self, _request: Request) -> Response:
        """Return the JSON Schema of a control message."""
        return JSONResponse(
            control_messages.message_schema(self._control_spec),
            media_type="application/schema+json",
        )


def _engine_folder() -> Path:
    """Return the folder of the page's engine inside the installed perspective wheel."""
    package = importlib.util.find_spec("perspective")
    origin = package.origin if package else None
    assert origin is not None, "perspective-python is a dependency"
    return Path(origin).parent / "widget" / "static"


@dataclass(frozen=True)
class Handlers:
    """The handlers of one application."""

    documents: DocumentRoutes
    health: HealthRoutes
    metrics: Metrics
    catalog: CatalogRoutes
    figures: Figures
    topics: TopicRoutes
    control: ControlRoutes
    sign_in: SignInRoutes
    live: LiveSocket
