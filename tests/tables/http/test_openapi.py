"""The OpenAPI document matches the table of routes and the server's responses."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from livejoin.core import spec
from livejoin.core.control_messages import MAX_BYTES
from livejoin.core.spec import DEFAULT
from livejoin.tables.http import peek_request
from livejoin.tables.http.query import PARAMETERS
from livejoin.tables.http.routes import ROUTES, openapi_document
from livejoin.tables.http.row_formats import FORMATS
from livejoin.tables.ingest.catalog import Catalog
from tables.fake_kafka import FakeKafka, Message
from tables.live_server import HttpResponse, RunningServer, run_server
from tables.samples import chunk, final, line, live, reject, user

DOCUMENT = openapi_document(DEFAULT, DEFAULT)
KAFKA = FakeKafka({"users": {0: [Message(0, 0, b'{"a": 1}', 5), Message(0, 1, None, 6)]}})
GETS = [path for path, item in DOCUMENT["paths"].items() if "get" in item]
POSTS = [path for path, one in DOCUMENT["paths"].items() if "requestBody" in one.get("post", {})]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    catalog = Catalog()
    catalog.apply_state(live(3))
    catalog.apply(chunk(3, 5, user(0, age=41), final(0, "Ada"), reject("users", 2)))
    catalog.system.add_log_lines([line(1)])
    catalog.set_status({"state": "live", "generation": 3, "progress": 100, "message": "live"})
    catalog.system.put_generations({3: {"generation": 3, "state": "live"}})
    with run_server(catalog, kafka=KAFKA) as server:
        yield server


@pytest.fixture(scope="module")
def idle_server() -> Iterator[RunningServer]:
    with run_server(kafka=KAFKA) as server:
        yield server


def test_every_route_is_described_but_the_page_its_files_and_the_socket() -> None:
    undescribed = {(route.method, route.path) for route in ROUTES if route.operation is None}
    assert undescribed == {
        ("GET", "/"),
        ("GET", "/example"),
        ("GET", "/static"),
        ("GET", "/engine"),
        ("SOCKET", "/api/v1/live"),
    }
    described = {(verb.upper(), path) for path, item in DOCUMENT["paths"].items() for verb in item}
    assert described == {(route.method, route.path) for route in ROUTES} - undescribed


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from _nodes(one)


def _resolved(reference: str) -> Any:
    assert reference.startswith("#/")
    found: Any = DOCUMENT
    for part in reference[2:].split("/"):
        found = found[part]
    return found


def test_every_reference_resolves_and_every_schema_is_used() -> None:
    references = {node["$ref"] for node in _nodes(DOCUMENT) if "$ref" in node}
    assert all(isinstance(_resolved(reference), dict) for reference in references)
    schemas = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert references == schemas


def test_the_document_has_the_fields_openapi_requires() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    assert {"title", "version"} <= DOCUMENT["info"].keys()
    operations = [one for item in DOCUMENT["paths"].values() for one in item.values()]
    ids = [one["operationId"] for one in operations]
    assert len(set(ids)) == len(ids)
    assert all(
        response["description"] for one in operations for response in one["responses"].values()
    )
    for path, item in DOCUMENT["paths"].items():
        for operation in item.values():
            named = [one for one in operation.get("parameters", []) if one["in"] == "path"]
            assert [f"{{{one['name']}}}" in path for one in named] == [True] * path.count("{")
            assert all(one["required"] for one in named)


def test_the_parameters_and_formats_of_a_table_query_are_documented() -> None:
    operation = DOCUMENT["paths"]["/api/v1/tables/{name}"]["get"]
    described = {one["name"] for one in operation["parameters"] if one["in"] == "query"}
    assert described == set(PARAMETERS)
    assert set(operation["responses"]["200"]["content"]) == {
        form.media_type for form in FORMATS.values()
    }


def test_the_parameters_of_a_peek_are_documented() -> None:
    operation = DOCUMENT["paths"]["/api/v1/topics/{name}/peek"]["get"]
    described = {one["name"] for one in operation["parameters"] if one["in"] == "query"}
    assert described == set(peek_request.PARAMETERS)


def _example(path: str, **instead: str) -> str:
    """Return the URL of the documented example."""
    query: dict[str, Any] = {}
    for one in DOCUMENT["paths"][path]["get"].get("parameters", []):
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", quote(str(one["example"])))
        elif one["in"] == "query" and "example" in one:
            query[one["name"]] = one["example"]
    return f"{path}?{urlencode(query | instead)}"


def _documented(path: str, verb: str, response: HttpResponse) -> dict[str, Any]:
    """Return the documented schema of a response."""
    responses = DOCUMENT["paths"][path][verb]["responses"]
    assert str(response.status) in responses
    content = responses[str(response.status)].get("content", {})
    assert response.headers["content-type"] in content
    shape: dict[str, Any] = content[response.headers["content-type"]].get("schema", {})
    return shape


TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def _misfit(value: Any, shape: dict[str, Any], where: str = "") -> str:
    """Return where a value violates its schema, or an empty string; supports what we use."""
    if "$ref" in shape:
        return _misfit(value, _resolved(shape["$ref"]), where)
    if "anyOf" in shape:
        found = [_misfit(value, one, where) for one in shape["anyOf"]]
        return "" if "" in found else found[0]
    if ("enum" in shape and value not in shape["enum"]) or shape.get("const", value) != value:
        return f"{where}: {value!r}"
    kinds: str | list[str] = shape.get("type", [])
    allowed = [kinds] if isinstance(kinds, str) else kinds
    if allowed and not any(isinstance(value, TYPES[one]) for one in allowed):
        return f"{where}: {value!r} is not {allowed}"
    if isinstance(value, dict):
        properties = shape.get("properties", {})
        if missing := set(shape.get("required", [])) - value.keys():
            return f"{where}: no {missing}"
        if properties and (more := value.keys() - properties.keys()):
            return f"{where}: also {more}"
        parts = [
            (value[name], one, f"{where}.{name}")
            for name, one in properties.items()
            if name in value
        ]
    elif isinstance(value, list):
        parts = [(one, shape["items"], f"{where}[]") for one in value]
    else:
        parts = []
    return next((wrong for part in parts if (wrong := _misfit(*part))), "")


def _fits(path: str, verb: str, response: HttpResponse) -> None:
    shape = _documented(path, verb, response)
    if response.headers["content-type"].endswith(("/json", "+json")):
        assert _misfit(response.json(), shape) == ""


def test_the_schema_check_finds_mismatches() -> None:
    table: dict[str, Any] = {"table": "users_ui", "generation": 1, "seq": 1, "total": 1}
    shape = {"$ref": "#/components/schemas/Table"}
    assert _misfit({**table, "rows": [{"age": 1}]}, shape) == ""
    wrongs: list[dict[str, Any]] = [{}, {"rows": {}}]
    wrongs += [{"rows": [{"age": "1"}]}, {"rows": [{"agee": 1}]}]
    for wrong in wrongs:
        assert _misfit({**table, **wrong}, shape)
    assert _misfit({**table, "rows": [], "table": "nope"}, shape)


@pytest.mark.parametrize("path", GETS)
def test_a_documented_example_returns_the_documented_response(
    server: RunningServer, path: str
) -> None:
    response = server.request(_example(path))
    assert response.status == 200
    _fits(path, "get", response)


@pytest.mark.parametrize("path", GETS)
def test_responses_before_anything_is_live_are_documented(
    idle_server: RunningServer, path: str
) -> None:
    _fits(path, "get", idle_server.request(_example(path)))


@pytest.mark.parametrize("path", GETS)
def test_a_refused_origin_gets_the_documented_response(server: RunningServer, path: str) -> None:
    response = server.request(_example(path), Origin="http://evil.example")
    assert response.status == 403
    assert _misfit(response.json(), _documented(path, "get", response)) == ""


@pytest.mark.parametrize("table", spec.DEFAULT.tables)
@pytest.mark.parametrize("form", FORMATS)
def test_every_table_and_format_matches_the_document(
    server: RunningServer, table: str, form: str
) -> None:
    response = server.request(f"/api/v1/tables/{table}?format={form}")
    assert response.status == 200
    _fits("/api/v1/tables/{name}", "get", response)
    headers = DOCUMENT["paths"]["/api/v1/tables/{name}"]["get"]["responses"]["200"]["headers"]
    assert headers.keys() <= response.headers.keys()
    if form == "json":
        row = DOCUMENT["components"]["schemas"][f"Row_{table}"]
        assert [_misfit(one, row) for one in response.json()["rows"] if _misfit(one, row)] == []


@pytest.mark.parametrize(
    ("path", "instead", "status"),
    [
        ("/api/v1/tables/{name}", {"filter": "agee=1"}, 400),
        ("/api/v1/topics/{name}/peek", {"count": "0"}, 400),
        ("/api/v1/topics", {"x": "1"}, 400),
    ],
)
def test_an_invalid_request_gets_the_documented_response(
    server: RunningServer, path: str, instead: dict[str, str], status: int
) -> None:
    response = server.request(_example(path, **instead))
    assert response.status == status
    assert _misfit(response.json(), _documented(path, "get", response)) == ""


@pytest.mark.parametrize(
    ("path", "there"),
    [("/api/v1/tables/{name}", "tables/nope"), ("/api/v1/topics/{name}/peek", "topics/nope/peek")],
)
def test_a_missing_resource_gets_the_documented_response(
    server: RunningServer, path: str, there: str
) -> None:
    response = server.request(f"/api/v1/{there}")
    assert response.status == 404
    assert _misfit(response.json(), _documented(path, "get", response)) == ""


def test_a_topic_that_kafka_denies_gets_the_documented_response() -> None:
    path = "/api/v1/topics/{name}/peek"
    with run_server(kafka=FakeKafka({"users": {0: []}}, unreadable=["users"])) as server:
        response = server.request(_example(path))
    assert response.status == 502
    assert _misfit(response.json(), _documented(path, "get", response)) == ""


@pytest.mark.parametrize("path", POSTS)
def test_an_invalid_body_gets_the_documented_response(server: RunningServer, path: str) -> None:
    for body, kind, status in (
        (b"{}", "text/plain", 415),
        (b"x" * (MAX_BYTES + 1), "application/json", 413),
    ):
        response = server.request(path, "POST", body, **{"content-type": kind})
        assert response.status == status
        assert _misfit(response.json(), _documented(path, "post", response)) == ""


def test_the_document_is_served(server: RunningServer) -> None:
    assert server.request("/openapi.json").json() == DOCUMENT
