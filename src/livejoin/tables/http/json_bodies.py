"""The JSON bodies of the HTTP API: reads requests, writes errors, has the schemas of all.

Errors are application/problem+json (RFC 9457). The schemas are derived from the tables and fields
of the core.
"""

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from livejoin.core import control_messages, spec
from livejoin.core.spec import JoinSpec
from livejoin.core.tokens import ROLES

Json = dict[str, Any]

_TYPES: dict[str, Json] = {
    "string": {"type": ["string", "null"]},
    "int64": {"type": ["integer", "null"], "format": "int64"},
    "double": {"type": ["number", "null"]},
    "timestamp": {"type": ["string", "null"], "format": "date-time"},
}
_FIELD_TYPES: dict[str, Json] = {"boolean": {"type": ["boolean", "null"]}}  # of sources alone
_DECIMAL: Json = {"type": ["string", "null"], "description": "a decimal number as text"}
TEXT: Json = {"type": "string"}
COUNT: Json = {"type": "integer", "minimum": 0}
_BOOLEAN: Json = {"type": "boolean"}
_NULLABLE_INTEGER: Json = {"type": ["integer", "null"]}
_TIME: Json = _TYPES["timestamp"]
_NULLABLE_STRING: Json = _TYPES["string"]


async def read_json_body(
    request: Request, max_bytes: int, *, too_large: str, not_json: str, may_be_empty: bool = False
) -> bytes:
    """Return the body unparsed; raises 413 if it is too large, 415 if it is not declared as JSON.

    The content-type is required because a form of another site cannot set it.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise HTTPException(413, too_large)
    if content_type != "application/json" and (body or not may_be_empty):
        raise HTTPException(415, not_json)
    return body


def problem(status: int, title: str, detail: str, **more: object) -> JSONResponse:
    """Return an error response with the reason in `detail`."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return JSONResponse(body, status, media_type="application/problem+json")


def ref(name: str) -> Json:
    """Return a reference to a named schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _row_schema(columns: tuple[spec.Column, ...]) -> Json:
    """Return the schema of a row; no column is required, as a query may select some."""
    return {"type": "object", "properties": {c.name: _column_schema(c.type) for c in columns}}


def _column_schema(kind: spec.Type) -> Json:
    return {**_TYPES, **_FIELD_TYPES}.get(kind, _DECIMAL)


def _column_types(join_spec: JoinSpec) -> list[spec.Type]:
    """Return the types that columns may have: those of livejoin's own, then those of fields."""
    fields = {column.type for source in join_spec.sources for column in source.fields}
    return [*_TYPES, *sorted(fields - _TYPES.keys())]


def _with_checks(shape: Json) -> Json:
    """Add the optional results of each check."""
    checks = _list(_object(name=TEXT, why=TEXT, required=_BOOLEAN, ok=_BOOLEAN))
    return _with_optional(shape, checks=checks)


def _with_optional(shape: Json, **properties: Json) -> Json:
    """Add properties that may be absent."""
    return {**shape, "properties": {**shape["properties"], **properties}}


def _row_schema_name(table: str) -> str:
    return f"Row_{table}"


def schemas(join_spec: JoinSpec, control_spec: JoinSpec) -> Json:
    """Return all schemas by name; control messages may be for another spec than the tables."""
    status = {c.name: _TYPES[c.type] for c in join_spec.tables[spec.STATUS].columns if c != spec.ID}
    generation = join_spec.tables[spec.GENERATIONS].columns[:-1]  # without `_id`
    matches = _object(matched=COUNT, unmatched=COUNT)
    counts = _object(read=COUNT, rows=COUNT, rejected=COUNT, tombstones=COUNT)
    behind = _object(
        **counts["properties"],
        lag={**_NULLABLE_INTEGER, "description": "unread records"},
        behind={
            "type": ["number", "null"],
            "description": "age of the oldest unread record, in seconds",
        },
    )
    partition = _object(
        partition=COUNT,
        newestOffset={**_NULLABLE_INTEGER, "description": "of the topic; null: none or unknown"},
        nextOffset={**COUNT, "description": "to be read"},
        lag=behind["properties"]["lag"],
        behind=behind["properties"]["behind"],
    )
    error = _object(type=TEXT, title=TEXT, status={"type": "integer"}, detail=TEXT)
    return {
        "Problem": {
            **error,
            "description": "An error: what is wrong and what to do (RFC 9457).",
        },
        **{
            _row_schema_name(name): _row_schema(table.columns)
            for name, table in join_spec.all_tables.items()
        },
        "Table": _object(
            table={"enum": list(join_spec.all_tables)},
            generation=_NULLABLE_INTEGER,
            seq=COUNT,
            total={**COUNT, "description": "rows after the filter, before limit and offset"},
            rows=_list({"anyOf": [ref(_row_schema_name(name)) for name in join_spec.all_tables]}),
        ),
        "Tables": _object(
            generation=_NULLABLE_INTEGER,
            seq=COUNT,
            tables=_list(
                _object(
                    name=TEXT,
                    rows=COUNT,
                    columns=_list(_object(name=TEXT, type={"enum": _column_types(join_spec)})),
                )
            ),
        ),
        "Status": _object(
            **status,
            viewers=COUNT,
            stale={**_NULLABLE_STRING, "description": "why the rows may be stale"},
            sources=_object(**{source.name: counts for source in join_spec.sources}),
            capped={
                "type": "object",
                "description": "tables at the `max_rows` limit: number of rows and oldest `_ts`",
                "additionalProperties": _object(
                    rows=COUNT, **{"from": {"type": "integer", "description": "ms"}}
                ),
            },
        ),
        "Figures": _object(
            generation=_NULLABLE_INTEGER,
            seq=COUNT,
            viewers=COUNT,
            sources=_object(**{source.name: behind for source in join_spec.sources}),
            partitions={
                "type": "object",
                "description": "by source",
                "additionalProperties": _object(
                    topic=TEXT,
                    count={**COUNT, "description": "partitions of the topic"},
                    worst={
                        **_list(partition),
                        "description": "those with the most unread records",
                    },
                ),
            },
            matched=_object(**{join_spec.driver.name: COUNT, **matches["properties"]}),
            lookups=_object(**{source.name: matches for source in join_spec.lookups}),
            lagTrouble={**_NULLABLE_STRING, "description": "why the lag is unknown"},
            standbyUntil={
                **_NULLABLE_INTEGER,
                "description": "ms; null: no standby, or kept indefinitely",
            },
            standbySeconds={"type": ["number", "null"], "description": "seconds until then"},
            sparkUi={**_NULLABLE_STRING, "description": "URL of Spark's web UI"},
        ),
        "Generations": _object(generations=_list(_row_schema(generation))),
        "Topics": _object(
            total=COUNT,
            topics=_list(
                _object(
                    name=TEXT,
                    kind={"enum": ["data", "control", "livejoin"]},
                    partitions=COUNT,
                    records=_NULLABLE_INTEGER,
                    newest=_TIME,
                    trouble={**_NULLABLE_STRING, "description": "why the topic could not be read"},
                )
            ),
        ),
        "Peek": _object(
            topic=TEXT,
            complete={"type": "boolean", "description": "false: a limit was reached first"},
            scanned={**COUNT, "description": "messages read, found or not"},
            reached={**_TIME, "description": "all messages up to here were read; null: all"},
            older={**_NULLABLE_STRING, "description": "what precedes; null: nothing"},
            newer={**TEXT, "description": "what follows"},
            partitions=_list(_object(partition=COUNT, start=COUNT, end=COUNT)),
            messages=_list(
                _object(
                    partition=COUNT,
                    offset=COUNT,
                    timestamp=_TIME,
                    key=_NULLABLE_STRING,
                    keyBytes=_NULLABLE_INTEGER,
                    value=_NULLABLE_STRING,
                    valueBytes=_NULLABLE_INTEGER,
                    cut={"type": "boolean", "description": "key or value were cut at 4 KiB"},
                    headers=_list(
                        _object(
                            name=TEXT,
                            text=_NULLABLE_STRING,
                            base64={**_NULLABLE_STRING, "description": "a value not in UTF-8"},
                            bytes=_NULLABLE_INTEGER,
                        )
                    ),
                    headersLeftOut=COUNT,
                    parsed={"type": ["object", "null"]},
                    reason=_NULLABLE_STRING,
                )
            ),
        ),
        "Outcome": _object(
            partition=COUNT,
            offset=COUNT,
            outcome=TEXT,
            reason=_NULLABLE_STRING,
            generation=_NULLABLE_INTEGER,
            warnings=_list(TEXT),
        ),
        "Preview": {"type": "object", "required": ["outcome"], "properties": {"outcome": TEXT}},
        "ControlMessage": control_messages.message_schema(control_spec),
        "Spec": {
            **_object(
                generation=_NULLABLE_INTEGER,
                sources=_list(
                    _object(
                        name=TEXT,
                        key=TEXT,
                        fields=_list(_with_optional(_object(name=TEXT, type=TEXT), path=TEXT)),
                        table=TEXT,
                    )
                ),
                driver=TEXT,
                lookups=_list(TEXT),
                tables=_list(_object(name=TEXT, columns=_list(_object(name=TEXT, type=TEXT)))),
                control=_object(sources=_list(_object(name=TEXT, field=TEXT)), joins=_list(TEXT)),
            ),
            "description": "What the served generation joins; what control messages may name.",
        },
        "Who": _object(id=TEXT, role={"enum": list(ROLES)}, label=TEXT),
        "SignIn": {
            "type": "object",
            "description": "exactly one of these properties",
            "properties": {"token": TEXT, "code": TEXT, "renew": {"const": True}},
        },
        "Code": _object(code=TEXT),
        "Ticket": _object(ticket=TEXT),
        "Alive": _object(status={"const": "alive"}, version=TEXT),
        "Ready": _with_checks(_object(status={"const": "ready"}, generation={"type": "integer"})),
        "NotReady": _with_checks(error),
    }
