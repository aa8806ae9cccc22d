"""The table of routes. Router, required roles and OpenAPI document are derived from it.

Viewers read the tables. Operators also change what is live, and for that read messages of other
topics and preview requests. What is not in the table requires operator.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from livejoin.core.spec import JoinSpec
from livejoin.tables.auth.authorization import RouteRule
from livejoin.tables.http.handlers import Handlers
from livejoin.tables.http.json_bodies import TEXT, Json, ref
from livejoin.tables.http.openapi import (
    BAD_REQUEST,
    CONTROL_ERRORS,
    CONTROL_OUTCOME,
    KAFKA_DENIED_ACCESS,
    KAFKA_UNAVAILABLE,
    SIGN_IN_ERRORS,
    TOKENS_UNREAD,
    document,
    ok,
    operation,
    peek_parameters,
    problem,
    query_parameter,
    table_query,
)


@dataclass(frozen=True)
class ApiRoute(RouteRule):
    """A route: its rule, which of an application's handlers serves it, its OpenAPI operation."""

    handler: Callable[[Handlers], Callable[..., Any]]
    # None: not part of the HTTP API
    operation: Json | Callable[[JoinSpec], Json] | None = None


ROUTES = (
    ApiRoute("GET", "/", "public", lambda to: to.documents.page),
    ApiRoute("GET", "/example", "public", lambda to: to.documents.example),
    ApiRoute("GET", "/static", "public", lambda to: to.documents.static, folder=True),
    ApiRoute("GET", "/engine", "public", lambda to: to.documents.engine, folder=True),
    ApiRoute(
        "GET",
        "/livez",
        "public",
        lambda to: to.health.livez,
        operation("alive", "Liveness.", ok("Alive.", "Alive")),
    ),
    ApiRoute(
        "GET",
        "/readyz",
        "public",
        lambda to: to.health.readyz,
        operation(
            "ready",
            "Readiness: whether rows are served.",
            ok("Ready.", "Ready"),
            {"503": problem("Not ready, with the reason.", "NotReady")},
            parameters=[query_parameter("verbose", "list each check", TEXT, "")],
        ),
        role_with_query="viewer",  # `verbose` can be encoded in many ways, so any query counts
    ),
    ApiRoute(
        "GET",
        "/metrics",
        "viewer",
        lambda to: to.metrics.serve,
        operation(
            "getMetrics",
            "Metrics for Prometheus.",
            ok("Prometheus text format.", TEXT, CONTENT_TYPE_PLAIN_0_0_4),
        ),
    ),
    ApiRoute(
        "GET",
        "/openapi.json",
        "viewer",
        lambda to: to.documents.openapi,
        operation("getOpenapi", "This document.", ok("OpenAPI 3.1.", {"type": "object"})),
    ),
    ApiRoute(
        "GET",
        "/api/v1/tables",
        "viewer",
        lambda to: to.catalog.tables,
        operation("listTables", "All tables.", ok("Names, columns, row counts.", "Tables")),
    ),
    ApiRoute(
        "GET",
        "/api/v1/tables/{name}",
        "viewer",  # the handler requires operator for `audit`
        lambda to: to.catalog.table,
        table_query,
    ),
    ApiRoute(
        "GET",
        "/api/v1/status",
        "viewer",
        lambda to: to.catalog.status,
        operation("getStatus", "The live generation and its state.", ok("The status.", "Status")),
    ),
    ApiRoute(
        "GET",
        "/api/v1/generations",
        "viewer",
        lambda to: to.catalog.generations,
        operation(
            "listGenerations",
            "All generations, newest first.",
            ok("The generations.", "Generations"),
        ),
    ),
    ApiRoute(
        "GET",
        "/api/v1/figures",
        "viewer",
        lambda to: to.figures.serve,
        operation(
            "getFigures",
            "Records, lag and matches of the live generation.",
            ok("The figures.", "Figures"),
        ),
    ),
    ApiRoute(
        "GET",
        "/api/v1/topics",
        "viewer",
        lambda to: to.topics.list_topics,
        operation(
            "listTopics",
            "Topics of the Kafka cluster.",
            ok("Topics by name.", "Topics"),
            {**BAD_REQUEST, **KAFKA_UNAVAILABLE},
        ),
    ),
    ApiRoute(
        "GET",
        "/api/v1/topics/{name}/peek",
        "operator",
        lambda to: to.topics.peek,
        lambda join_spec: operation(
            "peekTopic",
            "Messages of a topic: the newest ones, or those from a position on.",
            ok("Messages in the direction of reading.", "Peek"),
            {
                **BAD_REQUEST,
                "404": problem("no such topic"),
                **KAFKA_DENIED_ACCESS,
                **KAFKA_UNAVAILABLE,
            },
            parameters=peek_parameters(join_spec),
        ),
    ),
    ApiRoute(
        "GET",
        "/api/v1/schema/control.json",
        "viewer",
        lambda to: to.documents.control_schema,
        operation(
            "getControlSchema",
            "The JSON Schema of a control message.",
            ok("The schema.", {"type": "object"}, "application/schema+json"),
        ),
    ),
    ApiRoute(
        "GET",
        "/api/v1/spec",
        "viewer",
        lambda to: to.catalog.join_spec,
        operation(
            "getSpec",
            "Sources, fields and tables, and what control messages may name.",
            ok("The spec of the served generation.", "Spec"),
        ),
    ),
    ApiRoute(
        "GET",
        "/api/v1/whoami",
        "viewer",
        lambda to: to.sign_in.whoami,
        operation("whoami", "The caller's identity.", ok("The identity.", "Who")),
    ),
    ApiRoute(
        "POST",
        "/api/v1/session",
        "public",  # the sign-in itself
        lambda to: to.sign_in.sign_in,
        operation(
            "signIn",
            "Start or renew a session.",
            ok("Success.", "Who"),
            SIGN_IN_ERRORS,
            body=ref("SignIn"),
        ),
    ),
    ApiRoute(
        "DELETE",
        "/api/v1/session",
        "viewer",
        lambda to: to.sign_in.sign_out,
        operation(
            "signOut",
            "End the session.",
            {"204": {"description": "the session has ended"}},
            {"503": problem("ended on this server only: Kafka is unavailable")},
        ),
    ),
    ApiRoute(
        "POST",
        "/api/v1/code",
        "viewer",
        lambda to: to.sign_in.code,
        operation(
            "makeCode",
            "A one-time code that signs a browser in.",
            ok("Success.", "Code"),
            TOKENS_UNREAD,
        ),
    ),
    ApiRoute(
        "POST",
        "/api/v1/ticket",
        "viewer",
        lambda to: to.sign_in.ticket,
        operation(
            "makeTicket", "A ticket for one WebSocket.", ok("Success.", "Ticket"), TOKENS_UNREAD
        ),
    ),
    ApiRoute(
        "POST",
        "/api/v1/control",
        "operator",
        lambda to: to.control.control,
        operation(
            "control",
            "Request other topics or another join.",
            CONTROL_OUTCOME,
            CONTROL_ERRORS,
            body=ref("ControlMessage"),
        ),
    ),
    ApiRoute(
        "POST",
        "/api/v1/preview",
        "operator",
        lambda to: to.control.preview,
        operation(
            "preview",
            "What a message would do.",
            ok("The plan.", "Preview"),
            CONTROL_ERRORS,
            body=ref("ControlMessage"),
        ),
    ),
    ApiRoute(
        "POST",
        "/api/v1/rollback",
        "operator",
        lambda to: to.control.rollback,
        operation(
            "rollback",
            "Roll back to the standby generation.",
            CONTROL_OUTCOME,
            CONTROL_ERRORS,
            body={"type": "object", "description": "optional: id, expectedGeneration"},
        ),
    ),
    ApiRoute("SOCKET", "/api/v1/live", "viewer", lambda to: to.live.serve),
)


@functools.lru_cache(maxsize=4)
def openapi_document(join_spec: JoinSpec, control_spec: JoinSpec) -> Json:
    """Return the OpenAPI document of all routes."""
    paths: Json = {}
    for route in ROUTES:
        if route.operation is not None:
            described = route.operation
            operation_json = described(join_spec) if callable(described) else described
            paths.setdefault(route.path, {})[route.method.lower()] = operation_json
    return document(paths, join_spec, control_spec)
