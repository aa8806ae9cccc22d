"""The OpenAPI 3.1 document of the HTTP API. Tests compare it with the responses."""

from livejoin import __version__
from livejoin.tables.http.json_schemas import Json, schemas
from livejoin.tables.http.routes import ROUTES

_SECURITY: Json = {"token": {"type": "http", "scheme": "bearer"}}


def document() -> Json:
    """Return the document."""
    paths: Json = {}
    for route in ROUTES:
        if route.operation is not None:
            paths.setdefault(route.path, {})[route.method.lower()] = route.operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "livejoin",
            "version": __version__,
            "summary": "Kafka topics joined live, as tables under names that never change.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "security": [{"token": []}],
        "components": {"schemas": schemas(), "securitySchemes": _SECURITY},
    }
