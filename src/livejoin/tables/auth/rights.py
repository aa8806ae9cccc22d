"""The role that a request requires: its route's, or operator if no route matches."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from starlette.routing import compile_path

from livejoin.core.tokens import Role

RequiredRole = Role | Literal["public"]
Method = Literal["GET", "POST", "DELETE", "SOCKET"]  # SOCKET: a WebSocket; GET includes HEAD


@dataclass(frozen=True)
class RouteRule:
    """The role that one route requires."""

    method: Method
    path: str
    role: RequiredRole
    role_with_query: RequiredRole | None = field(default=None, kw_only=True)  # None: the same
    folder: bool = field(default=False, kw_only=True)  # includes everything below the path


class Rights:
    """Decides by the rules of all routes."""

    def __init__(self, rules: Iterable[RouteRule]) -> None:
        self._rules = [(rule, compile_path(rule.path)[0]) for rule in rules]

    def required_role(self, method: str, path: str, query: bytes = b"") -> RequiredRole:
        """Return the role that a request requires."""
        method = "GET" if method == "HEAD" else method
        for rule, pattern in self._rules:
            below = rule.folder and path.startswith(f"{rule.path}/")
            if rule.method == method and (below or pattern.match(path)):
                return rule.role_with_query or rule.role if query else rule.role
        return "operator"
