"""The OpenAPI 3.1 document of the HTTP API, and the parts of its operations.

The table of routes has the operations themselves. Tests compare the document with the responses.
"""

from collections.abc import Sequence
from typing import Any

from livejoin import __version__
from livejoin.core import spec
from livejoin.core.spec import JoinSpec
from livejoin.core.start_position import START_EXPECTED
from livejoin.tables.http.json_bodies import COUNT, TEXT, Json, ref, schemas
from livejoin.tables.http.peek_request import DEFAULT_MESSAGES, MAX_MESSAGES, MAX_SEARCH_CHARS
from livejoin.tables.http.row_formats import FORMATS
from livejoin.tables.http.table_route import GENERATION_HEADER, SEQ_HEADER, TOTAL_HEADER

_SECURITY: Json = {"token": {"type": "http", "scheme": "bearer"}}


def document(paths: Json, join_spec: JoinSpec, control_spec: JoinSpec) -> Json:
    """Return the document; `paths` has the operations by path and method."""
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
        "components": {"schemas": schemas(join_spec, control_spec), "securitySchemes": _SECURITY},
    }


def response(description: str, content: str | Json, media_type: str = "application/json") -> Json:
    """Return a response; its content is a schema or the name of one."""
    schema = ref(content) if isinstance(content, str) else content
    return {"description": description, "content": {media_type: {"schema": schema}}}


def ok(description: str, content: str | Json, media_type: str = "application/json") -> Json:
    """Return the response of status 200, by its status."""
    return {"200": response(description, content, media_type)}


def problem(description: str, schema: str = "Problem") -> Json:
    """Return an error response."""
    return response(description, schema, "application/problem+json")


# Any route may respond with these; see `auth/authorization.py` and `auth/origin_check.py`.
_DENIED = {
    "401": problem("no valid token or session"),
    "403": problem("insufficient role, or a Host or Origin that is not allowed"),
}
BAD_REQUEST = {"400": problem("a parameter is unknown or invalid")}
KAFKA_UNAVAILABLE = {"503": problem("Kafka is unavailable")}
KAFKA_DENIED_ACCESS = {"502": problem("Kafka denies livejoin's own user access to the topic")}
TOKENS_UNREAD = {"503": problem("the tokens have not been loaded yet")}
_NOT_JSON = {"415": problem("the content-type is not application/json")}
CONTROL_ERRORS = {
    "413": problem("the message is too large"),
    **_NOT_JSON,
    "422": problem("the message was rejected; nothing has changed"),
    **KAFKA_UNAVAILABLE,
}
SIGN_IN_ERRORS = {
    "400": problem("the body is not a valid request"),
    "413": problem("the body is too large"),
    **_NOT_JSON,
    **TOKENS_UNREAD,
}
CONTROL_OUTCOME = {
    **ok("The outcome.", "Outcome"),
    "202": response("Written to the control topic; not decided yet.", "Outcome"),
}


def operation(  # noqa: PLR0913 - one argument per part of an operation
    name: str,
    summary: str,
    success: Json,
    others: Json | None = None,
    *,
    parameters: Sequence[Json] = (),
    body: Json | None = None,
) -> Json:
    """Return an operation; responses are by status, `body` is the schema of the request body."""
    content = {"required": True, "content": {"application/json": {"schema": body}}}
    return {
        "operationId": name,
        "summary": summary,
        **({"requestBody": content} if body else {}),
        "responses": {**success, **_DENIED, **(others or {})},
        **({"parameters": list(parameters)} if parameters else {}),
    }


def query_parameter(name: str, description: str, schema: Json, example: Any = None) -> Json:
    """Return a parameter of the query; those of an operation that have an example fit together."""
    where = {"in": "query", "name": name, "description": description, "schema": schema}
    return where if example is None else {**where, "example": example}


def path_parameter(name: str, description: str, schema: Json, example: str) -> Json:
    """Return a parameter of the path."""
    return {**query_parameter(name, description, schema, example), "in": "path", "required": True}


def table_query(join_spec: JoinSpec) -> Json:
    """Return the operation of a table query."""
    key = join_spec.key.name
    others = [column for column in join_spec.driver.fields if column.name != join_spec.driver.key]
    text = next((column.name for column in others if column.type == "string"), key)
    number = next((c.name for c in others if c.type in ("int64", "double")), spec.TS.name)
    condition = f"{number} is not null" if number == spec.TS.name else f"{number}>=30"
    rows = {
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
        path_parameter(
            "name",
            "table name; audit requires operator",
            {"enum": list(join_spec.all_tables)},
            spec.FINAL,
        ),
        query_parameter("format", "default: json", {"enum": list(FORMATS)}, "json"),
        query_parameter("columns", "comma-separated names; default: all", TEXT, f"{key},{number}"),
        query_parameter(
            "filter", "see docs/http.md", TEXT, f'{condition} and ({text}~"ad" or _ts is null)'
        ),
        query_parameter(
            "sort", "comma-separated columns, - for descending", TEXT, f"-{number},{text}"
        ),
        query_parameter("limit", "maximum number of rows", COUNT, 10),
        query_parameter("offset", "number of rows to skip", COUNT, 0),
        {
            "in": "header",
            "name": "If-None-Match",
            "description": "etag of an earlier response; 304 if nothing has changed",
            "schema": TEXT,
        },
    ]
    other_responses = {
        "304": {"description": "not modified"},
        **BAD_REQUEST,
        "404": problem("no such table"),
    }
    summary = "Rows of a table, filtered, sorted and paged."
    return operation("getTable", summary, {"200": rows}, other_responses, parameters=parameters)


def peek_parameters(join_spec: JoinSpec) -> list[Json]:
    """Return the parameters of a peek."""
    count = {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_MESSAGES,
        "default": DEFAULT_MESSAGES,
    }
    search = {**TEXT, "maxLength": MAX_SEARCH_CHARS}
    return [
        path_parameter("name", "topic name", TEXT, join_spec.driver.name),
        query_parameter("count", "maximum number of messages", count, 10),
        query_parameter("partition", "default: all", COUNT, 0),
        query_parameter("offset", "read from here on; needs partition", COUNT, 0),
        query_parameter("time", f"read from here on: {START_EXPECTED}", TEXT),
        query_parameter("older", "read what precedes an answer: its `older`", TEXT),
        query_parameter("newer", "read what follows an answer: its `newer`", TEXT),
        query_parameter("search", "text in key or value, in either case", search, "a"),
    ]
