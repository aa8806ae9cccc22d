import csv
import io
import json
import re
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import pyarrow as pa
import pytest

from livejoin import __version__
from livejoin.core import spec
from livejoin.errors import MachineError
from livejoin.tables.http.server import listen
from livejoin.tables.ingest.catalog import Catalog
from tables.live_server import HttpResponse, RunningServer, run_server
from tables.samples import (
    SCHEMAS,
    building,
    chunk,
    final,
    line,
    live,
    plain,
    reject,
    tombstone,
    user,
)

LOWEST, HIGHEST = -(2**63), 2**63 - 1


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """Serve generation 3 with extreme values; read-only."""
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    catalog.apply_state(live(3))
    users = [
        user(0, name='ä€😀 "quoted", \n', age=HIGHEST, ts=1_700_000_000_123),
        user(1, name="", age=LOWEST),
        user(2, name="Ada", age=None),
    ]
    catalog.apply(
        chunk(3, 9, *users, final(0, "Ada"), reject("users", 3), tombstone("accounts", 0))
    )
    catalog.system.add_log_lines([line(1, "hello")])
    catalog.set_status({"state": "live", "generation": 3, "progress": 100, "message": "live"})
    with run_server(catalog) as server:
        yield server


def _problem(response: HttpResponse) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == response.status
    assert problem["title"]
    return problem


# --- tables


def test_json_is_the_default_and_keeps_64_bit_integers_and_unicode(server: RunningServer) -> None:
    response = server.request("/api/v1/tables/users_ui")
    assert (response.status, response.headers["content-type"]) == (200, "application/json")
    body = response.json()
    assert (body["table"], body["generation"], body["seq"]) == ("users_ui", 3, 9)
    assert [row["age"] for row in body["rows"]] == [HIGHEST, LOWEST, None]
    assert body["rows"][0] == {
        "userId": "u0",
        "name": 'ä€😀 "quoted", \n',
        "email": None,
        "age": HIGHEST,
        "_id": "0-0",
        "_ts": "2023-11-14T22:13:20.123Z",
    }


def test_json_may_be_requested(server: RunningServer) -> None:
    asked = server.request("/api/v1/tables/users_ui?format=json")
    assert asked.body == server.request("/api/v1/tables/users_ui").body


def test_csv_has_a_header_and_one_line_per_row(server: RunningServer) -> None:
    response = server.request("/api/v1/tables/users_ui?format=csv")
    assert (response.status, response.headers["content-type"]) == (200, "text/csv; charset=utf-8")
    rows = list(csv.reader(io.StringIO(response.body.decode(), newline="")))
    assert rows[0] == SCHEMAS["users_ui"].names
    assert [row[1] for row in rows[1:]] == ['ä€😀 "quoted", \n', "", "Ada"]
    assert [row[3] for row in rows[1:]] == [str(HIGHEST), str(LOWEST), ""]


def test_arrow_is_a_stream_with_the_types_of_the_table(server: RunningServer) -> None:
    response = server.request("/api/v1/tables/users_ui?format=arrow")
    assert response.headers["content-type"] == "application/vnd.apache.arrow.stream"
    with pa.ipc.open_stream(response.body) as stream:
        rows = stream.read_all()
    assert rows.schema == SCHEMAS["users_ui"]
    assert rows.column("age").to_pylist() == [HIGHEST, LOWEST, None]
    assert plain(rows)[0]["_ts"] == 1_700_000_000_123


@pytest.mark.parametrize("form", ["json", "csv", "arrow", "ndjson"])
@pytest.mark.parametrize("table", spec.DEFAULT.tables)
def test_every_table_is_served_in_every_format(
    server: RunningServer, table: str, form: str
) -> None:
    assert server.request(f"/api/v1/tables/{table}?format={form}").status == 200


@pytest.mark.parametrize("form", ["json", "csv", "arrow", "ndjson"])
@pytest.mark.parametrize("table", ["users_ui", "rejects_ui"])
def test_a_table_without_rows_is_served_in_every_format(table: str, form: str) -> None:
    with run_server() as server:
        response = server.request(f"/api/v1/tables/{table}?format={form}")
        assert response.status == 200
        if form == "json":
            assert response.json() == {
                "table": table,
                "generation": None,
                "seq": 0,
                "total": 0,
                "rows": [],
            }


def test_the_list_of_tables_has_columns_and_row_counts(
    server: RunningServer,
) -> None:
    body = server.request("/api/v1/tables").json()
    assert (body["generation"], body["seq"]) == (3, 9)
    assert {table["name"]: table["rows"] for table in body["tables"]} == {
        "users_ui": 3,
        "accounts_ui": 0,
        "final_ui": 1,
        "rejects_ui": 1,
        "orchestrator_status": 1,
        "orchestrator_logs": 1,
        "control_raw": 0,
        "generations": 0,
        "audit": 0,
    }
    assert body["tables"][1]["columns"][:3] == [
        {"name": "userId", "type": "string"},
        {"name": "accountType", "type": "string"},
        {"name": "balance", "type": "double"},
    ]


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/api/v1/tables/nope", 404, "there is no table 'nope'; the tables are users_ui, "),
        (
            "/api/v1/tables/users_ui?format=xml",
            400,
            'unknown format "xml". Known formats: json, csv,',
        ),
        ("/api/v1/tables/users_ui?format=", 400, 'unknown format ""'),
        ("/api/v1/tables/users_ui?limt=1", 400, 'unknown parameter "limt". Did you mean limit?'),
        ("/api/v1/nope", 404, "Not Found"),
        ("/static/nope.js", 404, "Not Found"),
        ("/static/..%2f..%2ferrors.py", 404, "Not Found"),
    ],
    ids=[
        "table",
        "format",
        "an empty format",
        "parameter",
        "path",
        "file",
        "a file outside",
    ],
)
def test_a_missing_resource_is_a_problem_with_the_reason(
    server: RunningServer, path: str, status: int, detail: str
) -> None:
    response = server.request(path)
    assert response.status == status
    assert detail in _problem(response)["detail"]


@pytest.mark.parametrize("path", ["/api/v1/tables/users_ui", "/api/v1/status", "/readyz"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_read_only_routes_refuse_other_methods(
    server: RunningServer, path: str, method: str
) -> None:
    response = server.request(path, method)
    assert response.status == 405
    _problem(response)


# --- status and health


def test_the_status_adds_viewers_and_exact_counts_to_the_row(server: RunningServer) -> None:
    assert server.request("/api/v1/status").json() == {
        **dict.fromkeys(["usersTopic", "accountsTopic", "joinType", "lastApplied"]),
        "state": "live",
        "generation": 3,
        "progress": 100,
        "message": "live",
        "viewers": 0,
        "stale": None,
        "sources": {
            "users": {"read": 4, "rows": 3, "rejected": 1, "tombstones": 0},
            "accounts": {"read": 1, "rows": 0, "rejected": 0, "tombstones": 1},
        },
        "capped": {},
    }


def test_a_server_is_alive_before_anything_is_live() -> None:
    with run_server() as server:
        response = server.request("/livez")
    assert (response.status, response.json()) == (200, {"status": "alive", "version": __version__})


def test_a_server_is_ready_once_a_generation_is_live_and_gives_the_reason_before() -> None:
    with run_server() as server:
        response = server.request("/readyz")
        assert response.status == 503
        assert _problem(response)["detail"] == "reading the ledger"

        waiting = {"state": "waiting", "progress": 0, "message": "no users"}
        server.follow(building(1))
        server.run_on_loop(lambda catalog: catalog.set_status(waiting))
        problem = _problem(server.request("/readyz"))
        assert (problem["title"], problem["detail"]) == ("waiting", "no users")

        server.run_on_loop(lambda catalog: catalog.set_trouble("no broker"))
        assert _problem(server.request("/readyz"))["detail"] == "no broker"

        server.follow(live(1))
        response = server.request("/readyz")
        assert (response.status, response.json()) == (200, {"status": "ready", "generation": 1})


def test_the_status_has_the_reason_why_rows_are_stale() -> None:
    with run_server() as server:
        server.run_on_loop(lambda catalog: catalog.set_trouble("no broker"))
        assert server.request("/api/v1/status").json()["stale"] == "no broker"


# --- page and port


def test_the_page_and_everything_it_references_are_served(server: RunningServer) -> None:
    page = server.request("/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    named = re.findall(r'(?:src|href)="([^"]+)"', page.body.decode())
    script = server.request("/static/page.js").body.decode()
    imported = re.findall(r'^import .* from "([^"]+)"', script, re.MULTILINE)
    assert named
    assert imported
    paths = [urljoin("/", path) for path in named]
    paths += [urljoin("/static/page.js", path) for path in imported]
    assert {path: server.request(path).status for path in paths} == dict.fromkeys(paths, 200)


def test_the_error_for_a_port_in_use_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(MachineError, match=f"cannot listen on 127.0.0.1:{port}: .*--port"):
            listen("127.0.0.1", port)


def test_large_numbers_are_written_as_json_numbers(server: RunningServer) -> None:
    text = server.request("/api/v1/tables/users_ui").body.decode()
    assert f'"age":{HIGHEST}' in text
    assert json.loads(text, parse_int=str)["rows"][1]["age"] == str(LOWEST)
