"""Who may ask for what: every route with the role that it needs. What is not here needs the most.

A test compares the table with the application's routes.
"""

from typing import Literal

from starlette.routing import compile_path

from livejoin.core.tokens import Role

RequiredRole = Role | Literal["public"]

# Viewers see what the tables show. Who may change it also sees what a change would show: messages
# of other topics, and what a request would do.
RULES: dict[tuple[str, str], RequiredRole] = {
    ("GET", "/"): "public",
    ("GET", "/static"): "public",
    ("GET", "/engine"): "public",
    ("GET", "/livez"): "public",
    ("GET", "/readyz"): "public",  # with `verbose` a viewer's
    ("POST", "/api/v1/session"): "public",  # that is how one becomes more
    ("DELETE", "/api/v1/session"): "viewer",
    ("GET", "/api/v1/whoami"): "viewer",
    ("POST", "/api/v1/code"): "viewer",
    ("POST", "/api/v1/ticket"): "viewer",
    ("GET", "/metrics"): "viewer",
    ("GET", "/openapi.json"): "viewer",
    ("GET", "/api/v1/tables"): "viewer",
    ("GET", "/api/v1/tables/{name}"): "viewer",  # `audit` is an operator's
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
_PATTERNS = [(method, path, compile_path(path)[0], need) for (method, path), need in RULES.items()]


def required_role(method: str, path: str, query: bytes = b"") -> RequiredRole:
    """What one must be to ask for this. `method` is SOCKET for a socket."""
    asked = "GET" if method == "HEAD" else method
    if asked == "GET" and path.startswith(tuple(f"{folder}/" for folder in _PUBLIC_FOLDERS)):
        return "public"
    for known, route, pattern, need in _PATTERNS:
        if known == asked and pattern.match(path):
            # `verbose` can be spelt in many ways: any parameter at all counts as it
            return "viewer" if route == "/readyz" and query else need
    return "operator"
