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
def shown() -> Iterator[RunningServer]:
    """Serve generation 3 with ten users; read-only."""
    host = Catalog(logs_kept=100, rejects_kept=100)
    host.apply_state(live(3))
    users = [user(i, name=name, age=-i, ts=1000 * i + 7) for i, name in enumerate(NAMES)]
    host.apply(chunk(3, 12, *users, final(0, "Ada")))
    host.system.add_log_lines([line(i, f"line {i}") for i in range(1, 4)])
    with run_server(host) as serving:
        yield serving


def ask(shown: RunningServer, table: str = "users_ui", **parameters: str) -> HttpResponse:
    return shown.request(f"/api/v1/tables/{table}?{urlencode(parameters)}")


def rows(answer: HttpResponse, form: str) -> list[dict[str, Any]]:
    """Decode the rows of a response; CSV cells are all text."""
    assert answer.headers["content-type"] == FORMATS[form].media_type
    match form:
        case "json":
            found: list[dict[str, Any]] = answer.json()["rows"]
            return found
        case "ndjson":
            return [json.loads(line) for line in answer.body.splitlines()]
        case "csv":
            return list(csv.DictReader(io.StringIO(answer.body.decode(), newline="")))
        case _:
            with pa.ipc.open_stream(answer.body) as stream:
                read: list[dict[str, Any]] = stream.read_all().to_pylist()
            return read


@pytest.mark.parametrize("form", FORMATS)
def test_a_query_returns_the_same_rows_in_every_format(shown: RunningServer, form: str) -> None:
    answer = ask(
        shown,
        format=form,
        columns="userId,age",
        filter='age<=-3 and not userId="u5"',
        sort="-userId",
        limit="3",
        offset="1",
    )
    assert answer.status == 200
    expected = [{"userId": f"u{i}", "age": -i} for i in (8, 7, 6)]
    if form == "csv":
        assert rows(answer, form) == [{k: str(v) for k, v in row.items()} for row in expected]
    else:
        assert rows(answer, form) == expected
    assert answer.headers["livejoin-total"] == "6"
    assert (answer.headers["livejoin-generation"], answer.headers["livejoin-seq"]) == ("3", "12")


def test_json_has_the_total_before_the_limit(shown: RunningServer) -> None:
    body = ask(shown, limit="0", filter="age<-4").json()
    assert body == {"table": "users_ui", "generation": 3, "seq": 12, "total": 5, "rows": []}


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_times_keep_their_milliseconds(shown: RunningServer, form: str) -> None:
    answer = ask(shown, format=form, filter="_ts = 1970-01-01T00:00:03.007Z")
    assert [(row["userId"], row["_ts"]) for row in rows(answer, form)] == [
        ("u3", "1970-01-01T00:00:03.007Z")
    ]


def test_csv_escapes_spreadsheet_formulas(shown: RunningServer) -> None:
    found = rows(ask(shown, format="csv"), "csv")
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
    assert rows(ask(shown), "json")[1]["name"] == "=1+1"


@pytest.mark.parametrize(
    ("parameters", "said"),
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
    shown: RunningServer, parameters: dict[str, str], said: str
) -> None:
    answer = ask(shown, **parameters)
    assert answer.status == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert said in answer.json()["detail"]


def test_a_repeated_parameter_is_refused(shown: RunningServer) -> None:
    answer = shown.request("/api/v1/tables/users_ui?limit=1&limit=2")
    assert (answer.status, answer.json()["detail"].partition(".")[0]) == (
        400,
        "limit is given twice",
    )


# --- conditional requests


def _with(shown: RunningServer, path: str, tag: str) -> HttpResponse:
    headers: dict[str, Any] = {"If-None-Match": tag}
    return shown.request(path, **headers)


def again(shown: RunningServer, answer: HttpResponse, path: str) -> int:
    return _with(shown, path, answer.headers["etag"]).status


@pytest.mark.parametrize("table", spec.TABLES)
@pytest.mark.parametrize("form", FORMATS)
def test_an_unchanged_table_is_304(shown: RunningServer, table: str, form: str) -> None:
    path = f"/api/v1/tables/{table}?format={form}"
    first = shown.request(path)
    second = _with(shown, path, first.headers["etag"])
    assert (second.status, second.body) == (304, b"")
    assert second.headers["etag"] == first.headers["etag"]
    assert second.headers["cache-control"] == "no-cache"


def test_the_etag_depends_on_table_query_and_format(shown: RunningServer) -> None:
    paths = ["users_ui", "accounts_ui", "users_ui?format=csv", "users_ui?limit=1"]
    paths += ["users_ui?limit=2", "users_ui?filter=age%3D1", "users_ui?columns=age"]
    tags = [shown.request(f"/api/v1/tables/{path}").headers["etag"] for path in paths]
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
    shown: RunningServer, given: str, status: int
) -> None:
    path = "/api/v1/tables/users_ui"
    tag = shown.request(path).headers["etag"]
    header = given.format(tag=tag, strong=tag.removeprefix("W/"))
    assert _with(shown, path, header).status == status


def test_the_etag_changes_exactly_when_rows_change() -> None:
    with run_server() as serving:
        serving.follow(live(1))
        paths = [f"/api/v1/tables/{name}" for name in ("users_ui", "final_ui", "orchestrator_logs")]

        def changed() -> list[bool]:
            return [again(serving, first, path) == 200 for path, first in kept.items()]

        kept = {path: serving.request(path) for path in paths}
        assert changed() == [False, False, False]
        serving.run_on_loop(lambda host: host.system.add_log_lines([line(1)]))
        assert changed() == [False, False, True]
        kept = {path: serving.request(path) for path in paths}
        serving.apply(1, 1, user(0))
        assert changed() == [True, True, False]
        kept = {path: serving.request(path) for path in paths}
        serving.follow(live(2))
        assert changed() == [True, True, False]


# --- large responses


@pytest.fixture(scope="module")
def large() -> Iterator[RunningServer]:
    host = Catalog(logs_kept=100, rejects_kept=100)
    host.apply_state(live(1))
    host.apply(chunk(1, 60_000, *(user(i, name=f"n{i}") for i in range(60_000))))
    with run_server(host) as serving:
        yield serving


@pytest.mark.parametrize("form", FORMATS)
def test_a_large_response_is_chunked_and_complete(large: RunningServer, form: str) -> None:
    answer = large.request(f"/api/v1/tables/users_ui?format={form}&sort=_ts")
    assert answer.headers["transfer-encoding"] == "chunked"
    assert [row["name"] for row in rows(answer, form)] == [f"n{i}" for i in range(60_000)]


def test_a_client_that_disconnects_midway_does_no_harm(large: RunningServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", large.port, timeout=LIMIT_S)
    with closing(connection):
        connection.request("GET", "/api/v1/tables/users_ui")
        assert connection.getresponse().read(100)
    assert large.request("/livez").status == 200


def test_head_returns_no_body(large: RunningServer) -> None:
    path = "/api/v1/tables/users_ui?format=csv"
    answer = large.request(path, "HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["etag"] == large.request(path).headers["etag"]
    assert answer.headers["livejoin-total"] == "60000"
