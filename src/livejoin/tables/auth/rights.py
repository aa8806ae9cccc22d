"""The role that each route requires; a route that is not listed requires operator.

A test compares the table with the application's routes.
"""

from typing import Literal

from starlette.routing import compile_path

from livejoin.core.tokens import Role

RequiredRole = Role | Literal["public"]

# Viewers read the tables. Operators also change what is live, and for that read messages of other
# topics and preview requests.
RULES: dict[tuple[str, str], RequiredRole] = {
    ("GET", "/"): "public",
    ("GET", "/static"): "public",
    ("GET", "/engine"): "public",
    ("GET", "/livez"): "public",
    ("GET", "/readyz"): "public",  # viewer with `verbose`
    ("POST", "/api/v1/session"): "public",  # the sign-in itself
    ("DELETE", "/api/v1/session"): "viewer",
    ("GET", "/api/v1/whoami"): "viewer",
    ("POST", "/api/v1/code"): "viewer",
    ("POST", "/api/v1/ticket"): "viewer",
    ("GET", "/metrics"): "viewer",
    ("GET", "/openapi.json"): "viewer",
    ("GET", "/api/v1/tables"): "viewer",
    ("GET", "/api/v1/tables/{name}"): "viewer",  # operator for `audit`
    ("GET", "/api/v1/status"): "viewer",
    ("GET", "/api/v1/generations"): "viewer",
    ("GET", "/api/v1/figures"): "viewer",
    ("GET", "/api/v1/topics"): "viewer",
    ("GET", "/api/v1/topics/{name}/peek"): "operator",
    ("GET", "/api/v1/schema/control.json"): "viewer",
    ("POST", "/api/v1/control"): "operator",
    ("POST", "/api/v1/preview"): "operator",
    ("POST", "/api/v1/rollback"): "operator",
    ("SOCKET", "/api/v1/live"): "viewer",
}
_PUBLIC_FOLDERS = ("/static", "/engine")
_PATTERNS = [(method, path, compile_path(path)[0], role) for (method, path), role in RULES.items()]


def required_role(method: str, path: str, query: bytes = b"") -> RequiredRole:
    """Return the role required for a request. `method` is SOCKET for a WebSocket."""
    method = "GET" if method == "HEAD" else method
    if method == "GET" and path.startswith(tuple(f"{folder}/" for folder in _PUBLIC_FOLDERS)):
        return "public"
    for rule_method, route, pattern, role in _PATTERNS:
        if rule_method == method and pattern.match(path):
            # `verbose` can be encoded in many ways, so any query counts as it
            return "viewer" if route == "/readyz" and query else role
    return "operator"
