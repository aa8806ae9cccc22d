"""The HTTP interface as an OpenAPI 3.1 document: plain data, from the shapes that are served.

A test compares it with the routes of the application and with what they answer.
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
    named = ref(content) if isinstance(content, str) else content
    return {"description": description, "content": {media_type: {"schema": named}}}


def _problem(description: str) -> Json:
    return _response(description, "Problem", "application/problem+json")


# Any answer may be one of these; see `tables/security.py` and `tables/gate.py`.
_DENIED = {
    "401": _problem("without a token that counts"),
    "403": _problem("for another role; or another site, or a name that is not ours"),
}
_BAD_REQUEST = {"400": _problem("a parameter is unknown or wrong")}
_KAFKA_UNAVAILABLE = {"503": _problem("Kafka is out of reach")}
_TOKENS_UNREAD = {"503": _problem("the tokens have not been read yet")}
_SECURITY: Json = {"token": {"type": "http", "scheme": "bearer"}}


def _get(name: str, summary: str, good: Json, **more: Any) -> Json:
    answers = {"200": good, **_DENIED, **more.pop("answers", {})}
    return {"get": {"operationId": name, "summary": summary, "responses": answers, **more}}


def _post_control(name: str, summary: str, message: Json, answers: Json) -> Json:
    body = {"required": True, "content": {"application/json": {"schema": message}}}
    bad = {
        "413": _problem("larger than a control message may be"),
        "415": _problem("not said to be JSON"),
        "422": _problem("rejected, with the reason; nothing has changed"),
    }
    responses = {**answers, **_DENIED, **bad, **_KAFKA_UNAVAILABLE}
    return {
        "post": {"operationId": name, "summary": summary, "requestBody": body}
        | {"responses": responses}
    }


def _post_auth(name: str, summary: str, answer: str, body: Json | None = None) -> Json:
    given = {"requestBody": {"required": True, "content": {"application/json": {"schema": body}}}}
    bad = {
        "400": _problem("not what can be asked for"),
        "413": _problem("larger than it may be"),
        "415": _problem("not said to be JSON"),
    }
    answers = {**_DENIED, **(bad if body else {}), **_TOKENS_UNREAD}
    return {
        "post": {
            "operationId": name,
            "summary": summary,
            **(given if body else {}),
            "responses": {"200": _response("It is made.", answer), **answers},
        }
    }


def _query_parameter(name: str, description: str, shape: Json, example: Any) -> Json:
    where = {"in": "query", "name": name, "description": description}
    return {**where, "schema": shape, "example": example}


def _path_parameter(name: str, description: str, shape: Json, example: str) -> Json:
    return {**_query_parameter(name, description, shape, example), "in": "path", "required": True}


def _table() -> Json:
    good = {
        "description": "The rows, streamed.",
        "headers": {
            "etag": {"description": "for If-None-Match", "schema": TEXT},
            GENERATION_HEADER: {"description": "the live generation, if any", "schema": COUNT},
            SEQ_HEADER: {"description": "how far its changelog was read", "schema": COUNT},
            TOTAL_HEADER: {"description": "rows after the filter", "schema": COUNT},
        },
        "content": {
            form.media_type: {"schema": ref("Table")} if name == "json" else {}
            for name, form in FORMATS.items()
        },
    }
    parameters = [
        _path_parameter(
            "name", "a table; audit is for operators", {"enum": list(spec.ALL_TABLES)}, spec.FINAL
        ),
        _query_parameter("format", "json if left out", {"enum": list(FORMATS)}, "json"),
        _query_parameter(
            "columns", "names with commas between; all if left out", TEXT, "userId,age"
        ),
        _query_parameter(
            "filter", "see docs/http.md", TEXT, 'age>=30 and (name~"ad" or _ts is null)'
        ),
        _query_parameter("sort", "columns with commas between, - for downwards", TEXT, "-age,name"),
        _query_parameter("limit", "how many rows at most", COUNT, 10),
        _query_parameter("offset", "how many rows to leave out first", COUNT, 0),
        {
            "in": "header",
            "name": "If-None-Match",
            "description": "the etag of an earlier answer: 304 if nothing has changed",
            "schema": TEXT,
        },
    ]
    answers = {
        "304": {"description": "what the asker has is still so"},
        **_BAD_REQUEST,
        "404": _problem("there is no such table"),
    }
    what = "A table's rows, filtered, sorted and cut."
    return _get("getTable", what, good, parameters=parameters, answers=answers)


def _paths() -> Json:
    written = {
        "200": _response("What became of it.", "Outcome"),
        "202": _response("It is written, and nobody has decided yet.", "Outcome"),
    }
    name = _path_parameter("name", "a topic", TEXT, "users")
    shape = {"type": "integer", "minimum": 1, "maximum": MAX_MESSAGES, "default": 10}
    count = _query_parameter("count", "how many messages at most", shape, 10)
    message, previewed = ref("ControlMessage"), {"200": _response("The plan.", "Preview")}
    rollback = {"type": "object", "description": "may be left out; id, expectedGeneration"}
    return {
        "/livez": _get("alive", "Whether it runs.", _response("It runs.", "Alive")),
        "/readyz": _get(
            "ready",
            "Whether rows are served.",
            _response("They are.", "Ready"),
            parameters=[_query_parameter("verbose", "say each check", TEXT, "")],
            answers={"503": _response("Not yet, and why.", "NotReady", "application/problem+json")},
        ),
        "/metrics": _get(
            "getMetrics",
            "Figures for Prometheus.",
            _response("Its text format.", TEXT, CONTENT_TYPE_PLAIN_0_0_4),
        ),
        "/openapi.json": _get(
            "getOpenapi", "This document.", _response("OpenAPI 3.1.", {"type": "object"})
        ),
        "/api/v1/tables": _get(
            "listTables", "All tables.", _response("Names, columns, how many rows.", "Tables")
        ),
        "/api/v1/tables/{name}": _table(),
        "/api/v1/status": _get(
            "getStatus", "What is live and how it fares.", _response("The status.", "Status")
        ),
        "/api/v1/generations": _get(
            "listGenerations", "Builds, the newest first.", _response("The builds.", "Generations")
        ),
        "/api/v1/figures": _get(
            "getFigures",
            "Records, lag and matches of what is live.",
            _response("The figures.", "Figures"),
        ),
        "/api/v1/topics": _get(
            "listTopics",
            "The cluster's topics.",
            _response("Topics by name.", "Topics"),
            answers={**_BAD_REQUEST, **_KAFKA_UNAVAILABLE},
        ),
        "/api/v1/topics/{name}/peek": _get(
            "peekTopic",
            "The newest messages of a topic.",
            _response("Messages, the newest first.", "Peek"),
            parameters=[name, count],
            answers={
                **_BAD_REQUEST,
                "404": _problem("there is no such topic"),
                **_KAFKA_UNAVAILABLE,
            },
        ),
        "/api/v1/schema/control.json": _get(
            "getControlSchema",
            "The JSON Schema of a control message.",
            _response("The schema.", {"type": "object"}, "application/schema+json"),
        ),
        "/api/v1/whoami": _get("whoami", "Who the asker is.", _response("They are.", "Who")),
        "/api/v1/session": {
            **_post_auth("signIn", "Begin a session, or renew it.", "Who", body=ref("SignIn")),
            "delete": {
                "operationId": "signOut",
                "summary": "End the session.",
                "responses": {
                    "204": {"description": "it has ended"},
                    **_DENIED,
                    "503": _problem("it has ended at this server alone: Kafka is out of reach"),
                },
            },
        },
        "/api/v1/code": _post_auth("makeCode", "A code that signs a browser in, once.", "Code"),
        "/api/v1/ticket": _post_auth("makeTicket", "A ticket for one socket.", "Ticket"),
        "/api/v1/control": _post_control(
            "control", "Ask for other topics or a join.", message, written
        ),
        "/api/v1/preview": _post_control("preview", "What a message would do.", message, previewed),
        "/api/v1/rollback": _post_control(
            "rollback", "Go back to what stands by.", rollback, written
        ),
    }


def document() -> Json:
    """The whole document."""
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
