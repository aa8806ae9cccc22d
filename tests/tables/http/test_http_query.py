"""Table queries over HTTP: filter, sort, formats, streaming and ETags."""

import csv
import http.client
import io
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pytest

from livejoin.core import spec
from livejoin.tables.http.row_formats import FORMATS
from livejoin.tables.ingest.catalog import Catalog
from tables.live_server import LIMIT_S, HttpResponse, RunningServer, run_server
from tables.samples import chunk, final, line, live, user

NAMES = ["Ada", "=1+1", "+1", "-1", "@x", "\tx", "\rx", "'x", "a=b", ""]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """Serve generation 3 with ten users; read-only."""
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    catalog.apply_state(live(3))
    users = [user(i, name=name, age=-i, ts=1000 * i + 7) for i, name in enumerate(NAMES)]
    catalog.apply(chunk(3, 12, *users, final(0, "Ada")))
    catalog.system.add_log_lines([line(i, f"line {i}") for i in range(1, 4)])
    with run_server(catalog) as server:
        yield server


def ask(server: RunningServer, table: str = "users_ui", **parameters: str) -> HttpResponse:
    return server.request(f"/api/v1/tables/{table}?{urlencode(parameters)}")


def rows(response: HttpResponse, form: str) -> list[dict[str, Any]]:
    """Decode the rows of a response; CSV cells are all text."""
    assert response.headers["content-type"] == FORMATS[form].media_type
    match form:
        case "json":
            found: list[dict[str, Any]] = response.json()["rows"]
            return found
        case "ndjson":
            return [json.loads(line) for line in response.body.splitlines()]
        case "csv":
            return list(csv.DictReader(io.StringIO(response.body.decode(), newline="")))
        case _:
            with pa.ipc.open_stream(response.body) as stream:
                read: list[dict[str, Any]] = stream.read_all().to_pylist()
            return read


@pytest.mark.parametrize("form", FORMATS)
def test_a_query_returns_the_same_rows_in_every_format(server: RunningServer, form: str) -> None:
    response = ask(
        server,
        format=form,
        columns="userId,age",
        filter='age<=-3 and not userId="u5"',
        sort="-userId",
        limit="3",
        offset="1",
    )
    assert response.status == 200
    expected = [{"userId": f"u{i}", "age": -i} for i in (8, 7, 6)]
    if form == "csv":
        assert rows(response, form) == [{k: str(v) for k, v in row.items()} for row in expected]
    else:
        assert rows(response, form) == expected
    assert response.headers["livejoin-total"] == "6"
    assert (response.headers["livejoin-generation"], response.headers["livejoin-seq"]) == (
        "3",
        "12",
    )


def test_json_has_the_total_before_the_limit(server: RunningServer) -> None:
    body = ask(server, limit="0", filter="age<-4").json()
    assert body == {"table": "users_ui", "generation": 3, "seq": 12, "total": 5, "rows": []}


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_times_keep_their_milliseconds(server: RunningServer, form: str) -> None:
    response = ask(server, format=form, filter="_ts = 1970-01-01T00:00:03.007Z")
    assert [(row["userId"], row["_ts"]) for row in rows(response, form)] == [
        ("u3", "1970-01-01T00:00:03.007Z")
    ]


def test_csv_escapes_spreadsheet_formulas(server: RunningServer) -> None:
    found = rows(ask(server, format="csv"), "csv")
    assert [row["name"] for row in found] == [
        "Ada",
        "'=1+1",
        "'+1",
        "'-1",
        "'@x",
        "'\tx",
        "'\rx",
        "'x",
        "a=b",
        "",
    ]
    assert [row["age"] for row in found] == [str(-i) for i in range(10)]
    assert rows(ask(server), "json")[1]["name"] == "=1+1"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"filter": "agee=1"}, "Did you mean age?"),
        ({"filter": "(" * 4000}, "nested more than 32 levels deep"),
        ({"filter": "x" * 5000}, "larger than 4 KiB"),
        ({"columns": "nam"}, "Did you mean name?"),
        ({"sort": "-ag"}, "Did you mean age?"),
        ({"limit": "-1"}, "expected a whole number"),
        ({"offset": "1e3"}, "expected a whole number"),
        ({"fromat": "csv"}, "Did you mean format?"),
        ({"format": "xml"}, "Known formats: json, csv, arrow, ndjson"),
    ],
)
def test_an_invalid_query_is_a_problem_with_the_reason(
    server: RunningServer, parameters: dict[str, str], message: str
) -> None:
    response = ask(server, **parameters)
    assert response.status == 400
    assert response.headers["content-type"] == "application/problem+json"
    assert message in response.json()["detail"]


def test_a_repeated_parameter_is_refused(server: RunningServer) -> None:
    response = server.request("/api/v1/tables/users_ui?limit=1&limit=2")
    assert (response.status, response.json()["detail"].partition(".")[0]) == (
        400,
        "limit is given twice",
    )


# --- conditional requests


def _with(server: RunningServer, path: str, tag: str) -> HttpResponse:
    headers: dict[str, Any] = {"If-None-Match": tag}
    return server.request(path, **headers)


def again(server: RunningServer, response: HttpResponse, path: str) -> int:
    return _with(server, path, response.headers["etag"]).status


@pytest.mark.parametrize("table", spec.DEFAULT.tables)
@pytest.mark.parametrize("form", FORMATS)
def test_an_unchanged_table_is_304(server: RunningServer, table: str, form: str) -> None:
    path = f"/api/v1/tables/{table}?format={form}"
    first = server.request(path)
    second = _with(server, path, first.headers["etag"])
    assert (second.status, second.body) == (304, b"")
    assert second.headers["etag"] == first.headers["etag"]
    assert second.headers["cache-control"] == "no-cache"


def test_the_etag_depends_on_table_query_and_format(server: RunningServer) -> None:
    paths = ["users_ui", "accounts_ui", "users_ui?format=csv", "users_ui?limit=1"]
    paths += ["users_ui?limit=2", "users_ui?filter=age%3D1", "users_ui?columns=age"]
    tags = [server.request(f"/api/v1/tables/{path}").headers["etag"] for path in paths]
    assert len(set(tags)) == len(paths)


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("*", 304),
        ('"a", {tag}', 304),
        ("{strong}", 304),
        ('"a"', 200),
        ('W/"a", "b"', 200),
        ("", 200),
    ],
)
def test_if_none_match_accepts_lists_and_the_wildcard(
    server: RunningServer, given: str, status: int
) -> None:
    path = "/api/v1/tables/users_ui"
    tag = server.request(path).headers["etag"]
    header = given.format(tag=tag, strong=tag.removeprefix("W/"))
    assert _with(server, path, header).status == status


def test_the_etag_changes_exactly_when_rows_change() -> None:
    with run_server() as server:
        server.follow(live(1))
        paths = [f"/api/v1/tables/{name}" for name in ("users_ui", "final_ui", "orchestrator_logs")]

        def changed() -> list[bool]:
            return [again(server, first, path) == 200 for path, first in kept.items()]

        kept = {path: server.request(path) for path in paths}
        assert changed() == [False, False, False]
        server.run_on_loop(lambda catalog: catalog.system.add_log_lines([line(1)]))
        assert changed() == [False, False, True]
        kept = {path: server.request(path) for path in paths}
        server.apply(1, 1, user(0))
        assert changed() == [True, True, False]
        kept = {path: server.request(path) for path in paths}
        server.follow(live(2))
        assert changed() == [True, True, False]


# --- large responses


@pytest.fixture(scope="module")
def large() -> Iterator[RunningServer]:
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 60_000, *(user(i, name=f"n{i}") for i in range(60_000))))
    with run_server(catalog) as server:
        yield server


@pytest.mark.parametrize("form", FORMATS)
def test_a_large_response_is_chunked_and_complete(large: RunningServer, form: str) -> None:
    response = large.request(f"/api/v1/tables/users_ui?format={form}&sort=_ts")
    assert response.headers["transfer-encoding"] == "chunked"
    assert [row["name"] for row in rows(response, form)] == [f"n{i}" for i in range(60_000)]


def test_a_client_that_disconnects_midway_does_no_harm(large: RunningServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", large.port, timeout=LIMIT_S)
    with closing(connection):
        connection.request("GET", "/api/v1/tables/users_ui")
        assert connection.getresponse().read(100)
    assert large.request("/livez").status == 200


def test_head_returns_no_body(large: RunningServer) -> None:
    path = "/api/v1/tables/users_ui?format=csv"
    response = large.request(path, "HEAD")
    assert (response.status, response.body) == (200, b"")
    assert response.headers["etag"] == large.request(path).headers["etag"]
    assert response.headers["livejoin-total"] == "60000"
