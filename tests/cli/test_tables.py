"""The reading commands, against a real server over an in-memory Kafka."""

import csv
import io
import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.processes import LIMIT_S, LIVEJOIN, read_until
from livejoin.cli import main
from livejoin.cli.output import TableLayout, format_cell, format_table, format_time, wrap
from livejoin.core import control_messages, spec
from livejoin.errors import RequestError
from livejoin.kafka.range_reader import ScanLimits
from livejoin.tables.http import topic_browser
from livejoin.tables.ingest.catalog import Catalog
from tables.fake_kafka import FakeKafka, Message
from tables.live_server import RunningServer, run_server
from tables.samples import chunk, live, user

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
KAFKA = FakeKafka(
    {
        "users": {
            0: [Message(0, 4, b'{"userId": "u1"}', 1000)],
            1: [Message(1, 0, b"[\x1b[31m", 2000), Message(1, 1, None, 3000)],
        },
        "events": {
            0: [
                Message(0, 0, b'{"n": 0}', 1000, raw_headers=(("by", b"ada"), ("raw", b"\xff"))),
                Message(0, 1, None, 2000),
                *(Message(0, n, b'{"n": %d}' % n, 1000 * n, raw_key=b"k%d" % n) for n in (2, 3)),
                Message(0, 4, b"x" * 5000, 5000),
            ],
            1: [Message(1, 0, b'{"n": 10}', 9000)],
        },
        "control": {0: []},
        "broken": {0: []},
    },
    broken=["broken"],
)
pytestmark = pytest.mark.usefixtures("no_settings")


@pytest.fixture(scope="module")
def serving() -> Iterator[RunningServer]:
    host = Catalog()
    host.apply_state(live(3))
    users = [user(i, name=f"n{i}", age=i) for i in range(30)]
    host.apply(chunk(3, 31, *users, user(30, name="\x1b[31mred\n", age=None)))
    host.set_status({"usersTopic": "users", "state": "live", "generation": 3, "progress": 100})
    with run_server(host, kafka=KAFKA) as server:
        yield server


@pytest.fixture
def url(serving: RunningServer) -> str:
    return f"http://127.0.0.1:{serving.port}/"


def _run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main.cli, [*arguments, "--url", url])


def _json(url: str, *arguments: str) -> Any:
    done = _run(url, *arguments, "--output", "json")
    assert done.exit_code == 0
    return json.loads(done.stdout)


# --- tables and rows


def test_tables_lists_rows_and_columns(url: str) -> None:
    lines = _run(url, "tables").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(spec.DEFAULT.all_tables)
    assert lines[0].split(maxsplit=2)[1:] == ["31", "userId, name, email, age, _id, _ts"]
    assert [table["name"] for table in _json(url, "tables")["tables"]] == list(
        spec.DEFAULT.all_tables
    )


def test_show_prints_the_first_rows_without_hidden_columns(url: str) -> None:
    done = _run(url, "show", "users_ui")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["userId", "name", "email", "age"]
    assert lines[1].split() == ["u0", "n0", "–", "0"]
    assert len(lines) == 21
    assert done.stderr == "20 of 31 rows of generation 3\n"


def test_show_passes_its_options_to_the_server(url: str) -> None:
    options = ["--columns", "_id,age", "--filter", 'age>=10 and name~"N2"', "--sort", "-age"]
    done = _run(url, "show", "users_ui", *options, "--limit", "2", "--offset", "1")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["_id", "age"],
        ["0-28", "28"],
        ["0-27", "27"],
    ]
    assert done.stderr == "2 of 10 rows of generation 3\n"


def test_show_escapes_control_characters_in_cells(url: str) -> None:
    done = _run(url, "show", "users_ui", "--filter", "age is null")
    assert r"\x1b[31mred\n" in done.stdout
    assert "\x1b" not in done.stdout


def test_show_supports_every_format(url: str) -> None:
    rows = list(
        csv.DictReader(io.StringIO(_run(url, "show", "users_ui", "--format", "csv").stdout))
    )
    assert [row["age"] for row in rows] == [str(i) for i in range(20)]
    lines = _run(url, "show", "users_ui", "--all", "--format", "ndjson").stdout.splitlines()
    assert [json.loads(line)["age"] for line in lines] == [*range(30), None]
    body = _json(url, "show", "users_ui", "--limit", "1")
    assert (body["total"], len(body["rows"])) == (31, 1)


def test_show_of_an_empty_table_prints_only_the_count(url: str) -> None:
    done = _run(url, "show", "accounts_ui")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "0 of 0 rows of generation 3\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nope"], "there is no table 'nope'"),
        (["show", "a/b?c"], 'no route or file at "/api/v1/tables/a/b%3Fc"'),
        (["show", "users_ui", "--filter", "agee=1"], "Did you mean age?"),
        (["show", "users_ui", "--sort", "x", "--format", "csv"], 'sort: there is no column "x"'),
        (["peek", "usres"], "Did you mean users?"),
        (["peek", "events", "--partition", "2"], "it has partitions 0 to 1"),
        (["peek", "events", "--time", "soon"], "or an age such as 1h"),
    ],
)
def test_errors_from_the_server_are_raised(url: str, arguments: list[str], message: str) -> None:
    error = _run(url, *arguments).exception
    assert isinstance(error, RequestError)
    assert message in str(error)


@pytest.mark.parametrize(
    "arguments",
    [
        ["show"],
        ["show", "t", "--limit", "-1"],
        ["peek", "t", "--count", "101"],
        ["peek", "t", "--raw", "--output", "json"],
    ],
)
def test_wrong_usage_exits_with_2(url: str, arguments: list[str]) -> None:
    assert _run(url, *arguments).exit_code == 2


# --- topics


def test_topics_lists_kind_partitions_records_and_newest(url: str) -> None:
    lines = [line.split(maxsplit=4) for line in _run(url, "topics").stdout.splitlines()]
    assert lines[0][:4] == ["name", "kind", "partitions", "records"]
    assert lines[1][:3] == ["broken", "data", "1"]
    assert "Kafka failed on topic" in " ".join(lines[1])
    assert lines[2][:4] == ["control", "control", "1", "0"]
    assert lines[2][4].split() == ["–", "–"]
    assert lines[3][:4] == ["events", "data", "2", "6"]
    assert lines[4][:4] == ["users", "data", "2", "3"]
    assert lines[4][4].split() == ["1970-01-01T00:00:03.000Z", "–"]
    assert _json(url, "topics")["total"] == 4


def test_peek_prints_messages_and_why_a_value_is_not_a_record(url: str) -> None:
    assert _run(url, "peek", "users").stdout.splitlines() == [
        "1/1  1970-01-01T00:00:03.000Z",
        "    –",
        "    null: a tombstone, which is counted and ignored",
        "1/0  1970-01-01T00:00:02.000Z",
        r"    [\x1b[31m",
        "    value: not valid JSON: Expecting value: line 1 column 2 (char 1)",
        "0/4  1970-01-01T00:00:01.000Z",
        '    {"userId": "u1"}',
    ]
    (message,) = _json(url, "peek", "users", "--count", "1")["messages"]
    assert (message["partition"], message["offset"], message["value"]) == (1, 1, None)


def test_peek_reads_from_a_position_on_and_says_how_to_go_on(url: str) -> None:
    done = _run(url, "peek", "events", "--partition", "0", "--offset", "0", "--count", "2")
    assert done.stdout.splitlines() == [
        "0/0  1970-01-01T00:00:01.000Z",
        "    headers by=ada, raw=base64:/w==",
        '    {"n": 0}',
        "0/1  1970-01-01T00:00:02.000Z",
        "    –",
        "    null: a tombstone, which is counted and ignored",
    ]
    assert done.stderr == "2 messages; go on with --newer 0:2\n"
    done = _run(url, "peek", "events", "--newer", "0:2", "--count", "1")
    assert done.stdout.splitlines() == ["0/2  1970-01-01T00:00:02.000Z  key k2", '    {"n": 2}']
    assert (
        _run(url, "peek", "events", "--time", "1h").stderr
        == "0 messages; go on with --newer 0:5,1:1\n"
    )
    older = _json(url, "peek", "events", "--older", "0:4,1:0", "--count", "1")["messages"]
    assert [one["offset"] for one in older] == [3]


def test_peek_searches_and_prints_raw_values(url: str) -> None:
    found = _run(url, "peek", "events", "--search", "K3", "--raw")
    assert (found.stdout, found.stderr) == ('{"n": 3}\n', "1 message\n")
    raw = _run(
        url, "peek", "events", "--time", "earliest", "--raw", "--count", "4", "--partition", "0"
    )
    assert raw.stdout == '{"n": 0}\n{"n": 2}\n{"n": 3}\n', "a tombstone has no value"
    cut = _run(url, "peek", "events", "--search", "xxx", "--raw")
    assert (cut.stdout, cut.stderr) == (f"{'x' * 4096}\n", "1 message; 1 cut at 4 KiB\n")


def test_a_search_that_was_limited_says_how_far_it_got(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_browser, "LIMITS", ScanLimits(seconds=9, records=4, size=1 << 20))
    done = _run(url, "peek", "events", "--search", "nobody", "--partition", "0", "--count", "1")
    back = "stopped after reading 2, back to 1970-01-01T00:00:03.000Z"
    assert done.stderr == f"0 messages; {back}; go on with --older 0:3\n"


# --- schema


def test_schema_prints_the_schema_of_control_messages() -> None:
    done = CliRunner().invoke(main.cli, ["schema"])
    assert json.loads(done.stdout) == control_messages.message_schema(spec.DEFAULT)
    listed = CliRunner().invoke(main.cli, ["schema", "--output", "table"]).stdout.splitlines()
    fields = [line.split()[0] for line in listed]
    assert fields == ["field", *control_messages.message_schema(spec.DEFAULT)["properties"]]


# --- status --watch


@pytest.mark.usefixtures("interruptible")
def test_watch_prints_a_line_per_change_to_a_pipe() -> None:
    host = Catalog()
    host.set_status({"state": "waiting", "message": "no users"})
    with run_server(host) as server:
        command = [LIVEJOIN, "status", "--watch", "--url", f"http://127.0.0.1:{server.port}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            fd = process.stdout.fileno()
            first = read_until(process, fd, b"message=no users\n")
            server.run_on_loop(lambda host: host.set_status({"state": "live", "generation": 1}))
            second = read_until(process, fd, b"generation=1\n")
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert (rest, errors) == (b"", b"")
    lines = (first + second).decode().splitlines()
    assert [line.split()[1] for line in lines] == ["waiting", "live"]
    assert all(TIME.fullmatch(line.split()[0]) for line in lines)
    assert "usersTopic" not in lines[0]  # it has no value yet


@pytest.mark.usefixtures("interruptible")
def test_watch_as_json_continues_while_livejoin_is_unreachable() -> None:
    host = Catalog()
    with run_server(host) as server:
        command = [LIVEJOIN, "status", "--watch", "--output", "json"]
        command += ["--url", f"http://127.0.0.1:{server.port}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        fd = process.stdout.fileno()
        output = read_until(process, fd, b"\n")
    with process:
        output += read_until(process, fd, b"unreachable")
        process.send_signal(signal.SIGINT)
        output += process.communicate(timeout=LIMIT_S)[0]
    states = [json.loads(line)["state"] for line in output.decode().splitlines()]
    assert states == ["starting", "unreachable"]
    assert process.returncode == 130


@pytest.mark.usefixtures("interruptible")
def test_watch_redraws_in_place_on_a_terminal(url: str) -> None:
    terminal, child_end = pty.openpty()
    command = [LIVEJOIN, "status", "--watch", "--url", url]
    with subprocess.Popen(command, stdout=child_end, stderr=child_end) as process:
        os.close(child_end)
        output = read_until(process, terminal, b"F\x1b[J")  # cursor up, then erase
        process.send_signal(signal.SIGINT)
        process.wait(LIMIT_S)
    os.close(terminal)
    assert process.returncode == 130
    assert output.startswith(b"\x1b[JusersTopic     users")


# --- formatting


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        ("", ""),
        (2**63 - 1, "9223372036854775807"),
        (True, "true"),
        (0.1, "0.1"),
        ({"a": "ä"}, '{"a": "ä"}'),
        ("a\x1b]0;x\x07\u202eb", r"a\x1b]0;x\x07\u202eb"),
        ("\ud800", r"\ud800"),
        ("x" * 5000, "x" * 5000),
    ],
)
def test_a_cell_is_one_escaped_line(value: Any, text: str) -> None:
    assert format_cell(value) == text


def test_a_table_is_aligned_with_wide_characters() -> None:
    rows: list[dict[str, Any]] = [
        {"a": "日本", "n": 1},
        {"a": "e\u0301", "n": None},
        {"a": "x", "n": 100},
    ]
    assert format_table(rows, ["a", "n"]) == [
        "a       n",
        "日本    1",
        "e\u0301       –",
        "x     100",
    ]


LONG = "a long text with many words, wider than the terminal that it is shown on"


def test_rows_wrap_at_words_where_the_line_does_not_fit() -> None:
    rows: list[dict[str, Any]]
    rows = [{"id": "u1", "balance": 9265.41, "note": LONG}, {"id": "u2", "balance": None}]
    layout = TableLayout(["id", "balance", "note"], width=40)
    assert layout.table(rows) == [
        "id  balance  note",
        "u1  9265.41  a long text with many",
        "             words, wider than the",
        "             terminal that it is shown",
        "             on",
        "u2        –  –",
    ]


def test_a_time_is_never_wrapped() -> None:
    row = {"ts": "2026-01-31T12:00:00.000Z", "raw": "0123456789abcdef"}
    lines = TableLayout(["ts", "raw"], width=37).table([row])
    assert lines[1:] == ["2026-01-31T12:00:00.000Z  0123456789a", " " * 26 + "bcdef"]


def test_a_number_is_never_wrapped_and_too_many_columns_become_a_list() -> None:
    rows = [{"id": "u1", "number": 12345678901234567890, "other": 1.5, "note": LONG}]
    lines = TableLayout(["id", "number", "other", "note"], width=30).table(rows)
    assert lines[:4] == [
        "id      u1",
        "number  12345678901234567890",
        "other   1.5",
        "note    a long text with many",
    ]
    assert lines[-1] == ""
    assert max(map(len, lines)) <= 30


def test_columns_widen_for_rows_that_come_later() -> None:
    layout = TableLayout(["id", "n"])
    assert layout.table([{"id": "a", "n": 1}]) == ["id  n", "a   1"]
    assert layout.rows([{"id": "abc", "n": 100}]) == [["abc  100"]]
    assert layout.rows([{"id": "a", "n": 1}]) == [["a      1"]]


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 5, [""]),
        ("12345", 5, ["12345"]),
        ("1234567", 5, ["12345", "67"]),
        ("123 567", 5, ["123", "567"]),
        ("12345 7", 5, ["12345", "7"]),
        ("a 4567890", 5, ["a 456", "7890"]),
        ("日本語", 5, ["日本", "語"]),
        ("日", 1, ["日"]),
        ("e\u0301e\u0301", 1, ["e\u0301", "e\u0301"]),
    ],
)
def test_a_text_is_wrapped_at_blanks_where_possible(
    text: str, width: int, lines: list[str]
) -> None:
    assert wrap(text, width) == lines


def test_a_time_is_written_in_one_way() -> None:
    assert format_time(1_700_000_001_234) == "2023-11-14T22:13:21.234Z"
