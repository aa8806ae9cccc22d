"""The application: the routes of the table, with their handlers, and error responses."""

from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute

from livejoin.core.control_messages import InvalidMessage, excerpt
from livejoin.errors import AskError, KafkaUnavailable, TopicUnusable
from livejoin.tables.auth.audit import Audit
from livejoin.tables.auth.middleware import AccessDenied
from livejoin.tables.auth.sign_in_routes import SignInRoutes
from livejoin.tables.http import openapi
from livejoin.tables.http.control_producer import ControlProducer
from livejoin.tables.http.control_routes import ControlRoutes
from livejoin.tables.http.handlers import CatalogRoutes, DocumentRoutes, Handlers, TopicRoutes
from livejoin.tables.http.json_bodies import problem
from livejoin.tables.http.routes import ROUTES, ApiRoute
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.live.socket import LiveSocket
from livejoin.tables.observe.figures import Figures
from livejoin.tables.observe.metrics import Metrics
from livejoin.tables.observe.readiness import HealthRoutes


def api(
    catalog: Catalog,
    live: LiveSocket,
    producer: ControlProducer,
    sign_in: SignInRoutes,
    audit: Audit,
) -> Starlette:
    """Return the application, without the middleware that authorizes requests."""
    handlers = Handlers(
        documents=DocumentRoutes(openapi.document()),
        health=HealthRoutes(catalog),
        metrics=Metrics(catalog, live),
        catalog=CatalogRoutes(catalog, live),
        figures=Figures(catalog, live.__len__, producer.limits),
        topics=TopicRoutes(producer.topics),
        control=ControlRoutes(producer, catalog, audit),
        sign_in=sign_in,
        live=live,
    )

    async def access_denied(request: Request, error: Exception) -> Response:
        assert isinstance(error, AccessDenied)
        audit.append_counted(error.audit_row(request.scope))
        return error.response

    error_handlers: dict[Any, Any] = {
        HTTPException: _http_error,
        AccessDenied: access_denied,
        AskError: _bad_request,
        InvalidMessage: _rejected,
        KafkaUnavailable: _kafka_unavailable,
        TopicUnusable: _topic_missing,
    }
    routes = [_bind(route, handlers) for route in ROUTES]
    return Starlette(routes=routes, exception_handlers=error_handlers)


def _bind(route: ApiRoute, handlers: Handlers) -> BaseRoute:
    """Return a route with its handler."""
    handler = route.handler(handlers)
    if route.folder:
        return Mount(route.path, handler)
    if route.method == "SOCKET":
        return WebSocketRoute(route.path, handler)
    return Route(route.path, handler, methods=[route.method])


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if detail == "Not Found":  # no route, or no file
        detail += f": no route or file at {excerpt(request.url.path)}; see /openapi.json"
    title = HTTPStatus(error.status_code).phrase.lower()
    return problem(error.status_code, title, detail)


async def _rejected(_request: Request, error: Exception) -> Response:
    return problem(422, "rejected", str(error))


async def _kafka_unavailable(_request: Request, error: Exception) -> Response:
    return problem(503, "Kafka is unavailable", str(error))


async def _topic_missing(_request: Request, error: Exception) -> Response:
    return problem(404, "not found", str(error))


async def _bad_request(_request: Request, error: Exception) -> Response:
    return problem(400, "bad request", str(error))
