"""The OpenAPI 3.1 document of the HTTP API.

Tests compare it with the application's routes and with their responses.
"""

from typing import Any

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from livejoin import __version__
from livejoin.core import spec
from livejoin.tables.http.json_schemas import COUNT, TEXT, Json, ref, schemas
from livejoin.tables.http.row_formats import FORMATS
from livejoin.tables.http.table_route import GENERATION_HEADER, SEQ_HEADER, TOTAL_HEADER
from livejoin.tables.http.topic_browser import MAX_MESSAGES


def _response(description: str, content: str | Json, media_type: str = "application/json") -> Json:
    schema = ref(content) if isinstance(content, str) else content
    return {"description": description, "content": {media_type: {"schema": schema}}}


def _problem(description: str) -> Json:
    return _response(description, "Problem", "application/problem+json")


# Any route may respond with these; see `auth/middleware.py` and `auth/origin_check.py`.
_DENIED = {
    "401": _problem("no valid token or session"),
    "403": _problem("insufficient role, or a Host or Origin that is not allowed"),
}
_BAD_REQUEST = {"400": _problem("a parameter is unknown or invalid")}
_KAFKA_UNAVAILABLE = {"503": _problem("Kafka is unavailable")}
_TOKENS_UNREAD = {"503": _problem("the tokens have not been loaded yet")}
_SECURITY: Json = {"token": {"type": "http", "scheme": "bearer"}}


def _get(name: str, summary: str, ok_response: Json, **more: Any) -> Json:
    other_responses = {"200": ok_response, **_DENIED, **more.pop("other_responses", {})}
    return {"get": {"operationId": name, "summary": summary, "responses": other_responses, **more}}


def _post_control(name: str, summary: str, message: Json, other_responses: Json) -> Json:
    body = {"required": True, "content": {"application/json": {"schema": message}}}
    errors = {
        "413": _problem("the message is too large"),
        "415": _problem("the content-type is not application/json"),
        "422": _problem("the message was rejected; nothing has changed"),
    }
    responses = {**other_responses, **_DENIED, **errors, **_KAFKA_UNAVAILABLE}
    return {
        "post": {"operationId": name, "summary": summary, "requestBody": body}
        | {"responses": responses}
    }


def _post_auth(name: str, summary: str, schema_name: str, body: Json | None = None) -> Json:
    request_body = {
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}}
    }
    errors = {
        "400": _problem("the body is not a valid request"),
        "413": _problem("the body is too large"),
        "415": _problem("the content-type is not application/json"),
    }
    other_responses = {**_DENIED, **(errors if body else {}), **_TOKENS_UNREAD}
    return {
        "post": {
            "operationId": name,
            "summary": summary,
            **(request_body if body else {}),
            "responses": {"200": _response("Success.", schema_name), **other_responses},
        }
    }


def _query_parameter(name: str, description: str, schema: Json, example: Any) -> Json:
    where = {"in": "query", "name": name, "description": description}
    return {**where, "schema": schema, "example": example}


def _path_parameter(name: str, description: str, schema: Json, example: str) -> Json:
    return {**_query_parameter(name, description, schema, example), "in": "path", "required": True}


def _table() -> Json:
    ok_response = {
        "description": "The rows, streamed.",
        "headers": {
            "etag": {"description": "for If-None-Match", "schema": TEXT},
            GENERATION_HEADER: {"description": "live generation, if any", "schema": COUNT},
            SEQ_HEADER: {
                "description": "offset up to which its changelog was read",
                "schema": COUNT,
            },
            TOTAL_HEADER: {"description": "rows after the filter", "schema": COUNT},
        },
        "content": {
            form.media_type: {"schema": ref("Table")} if name == "json" else {}
            for name, form in FORMATS.items()
        },
    }
    parameters = [
        _path_parameter(
            "name",
            "table name; audit requires operator",
            {"enum": list(spec.ALL_TABLES)},
            spec.FINAL,
        ),
        _query_parameter("format", "default: json", {"enum": list(FORMATS)}, "json"),
        _query_parameter("columns", "comma-separated names; default: all", TEXT, "userId,age"),
        _query_parameter(
            "filter", "see docs/http.md", TEXT, 'age>=30 and (name~"ad" or _ts is null)'
        ),
        _query_parameter("sort", "comma-separated columns, - for descending", TEXT, "-age,name"),
        _query_parameter("limit", "maximum number of rows", COUNT, 10),
        _query_parameter("offset", "number of rows to skip", COUNT, 0),
        {
            "in": "header",
            "name": "If-None-Match",
            "description": "etag of an earlier response; 304 if nothing has changed",
            "schema": TEXT,
        },
    ]
    other_responses = {
        "304": {"description": "not modified"},
        **_BAD_REQUEST,
        "404": _problem("no such table"),
    }
    what = "Rows of a table, filtered, sorted and paged."
    return _get(
        "getTable", what, ok_response, parameters=parameters, other_responses=other_responses
    )


def _paths() -> Json:
    written = {
        "200": _response("The outcome.", "Outcome"),
        "202": _response("Written to the control topic; not decided yet.", "Outcome"),
    }
    name = _path_parameter("name", "topic name", TEXT, "users")
    schema = {"type": "integer", "minimum": 1, "maximum": MAX_MESSAGES, "default": 10}
    count = _query_parameter("count", "maximum number of messages", schema, 10)
    message, previewed = ref("ControlMessage"), {"200": _response("The plan.", "Preview")}
    rollback = {"type": "object", "description": "optional: id, expectedGeneration"}
    return {
        "/livez": _get("alive", "Liveness.", _response("Alive.", "Alive")),
        "/readyz": _get(
            "ready",
            "Readiness: whether rows are served.",
            _response("Ready.", "Ready"),
            parameters=[_query_parameter("verbose", "list each check", TEXT, "")],
            other_responses={
                "503": _response(
                    "Not ready, with the reason.", "NotReady", "application/problem+json"
                )
            },
        ),
        "/metrics": _get(
            "getMetrics",
            "Metrics for Prometheus.",
            _response("Prometheus text format.", TEXT, CONTENT_TYPE_PLAIN_0_0_4),
        ),
        "/openapi.json": _get(
            "getOpenapi", "This document.", _response("OpenAPI 3.1.", {"type": "object"})
        ),
        "/api/v1/tables": _get(
            "listTables", "All tables.", _response("Names, columns, row counts.", "Tables")
        ),
        "/api/v1/tables/{name}": _table(),
        "/api/v1/status": _get(
            "getStatus", "The live generation and its state.", _response("The status.", "Status")
        ),
        "/api/v1/generations": _get(
            "listGenerations",
            "All generations, newest first.",
            _response("The generations.", "Generations"),
        ),
        "/api/v1/figures": _get(
            "getFigures",
            "Records, lag and matches of the live generation.",
            _response("The figures.", "Figures"),
        ),
        "/api/v1/topics": _get(
            "listTopics",
            "Topics of the Kafka cluster.",
            _response("Topics by name.", "Topics"),
            other_responses={**_BAD_REQUEST, **_KAFKA_UNAVAILABLE},
        ),
        "/api/v1/topics/{name}/peek": _get(
            "peekTopic",
            "The newest messages of a topic.",
            _response("Messages, newest first.", "Peek"),
            parameters=[name, count],
            other_responses={
                **_BAD_REQUEST,
                "404": _problem("no such topic"),
                **_KAFKA_UNAVAILABLE,
            },
        ),
        "/api/v1/schema/control.json": _get(
            "getControlSchema",
            "The JSON Schema of a control message.",
            _response("The schema.", {"type": "object"}, "application/schema+json"),
        ),
        "/api/v1/whoami": _get(
            "whoami", "The caller's identity.", _response("The identity.", "Who")
        ),
        "/api/v1/session": {
            **_post_auth("signIn", "Start or renew a session.", "Who", body=ref("SignIn")),
            "delete": {
                "operationId": "signOut",
                "summary": "End the session.",
                "responses": {
                    "204": {"description": "the session has ended"},
                    **_DENIED,
                    "503": _problem("ended on this server only: Kafka is unavailable"),
                },
            },
        },
        "/api/v1/code": _post_auth("makeCode", "A one-time code that signs a browser in.", "Code"),
        "/api/v1/ticket": _post_auth("makeTicket", "A ticket for one WebSocket.", "Ticket"),
        "/api/v1/control": _post_control(
            "control", "Request other topics or another join.", message, written
        ),
        "/api/v1/preview": _post_control("preview", "What a message would do.", message, previewed),
        "/api/v1/rollback": _post_control(
            "rollback", "Roll back to the standby generation.", rollback, written
        ),
    }


def document() -> Json:
    """Return the document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "livejoin",
            "version": __version__,
            "summary": "Kafka topics joined live, as tables under names that never change.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": _paths(),
        "security": [{"token": []}],
        "components": {"schemas": schemas(), "securitySchemes": _SECURITY},
    }
