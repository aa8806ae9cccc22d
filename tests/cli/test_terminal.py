"""Untrusted text never reaches a terminal as control characters."""

import contextlib
import json
import logging
import os
import pty
import re
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, get_args

import pytest
import structlog
from typer.testing import CliRunner

from livejoin.cli import colours, main
from livejoin.cli.console_log import configure_logging
from livejoin.cli.output import escape_unprintable
from livejoin.core import spec
from livejoin.core.state import Level, Outcome
from livejoin.errors import RequestError
from livejoin.tables.ingest.catalog import Catalog
from tables.live_server import run_server
from tables.samples import chunk, final, live

pytestmark = pytest.mark.usefixtures("no_settings")

# sets the title, a C1 colour, text direction; carriage return and backspace overwrite
HOSTILE = "\x1b]0;owned\x07\x9b31m\u202eevil\u2066\r\x08\x00"
HIDDEN = ("NO_COLOR", "COLUMNS", "LINES")  # what this terminal has, and its user wants
LIVEJOIN = Path(sys.executable).with_name("livejoin")


def _assert_escaped(text: str) -> None:
    unprintable = {char for char in text if not char.isprintable()} - {"\n"}
    assert not unprintable, (unprintable, text)
    assert "evil" in text


# --- commands


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    host = Catalog()
    host.apply_state(live(1))
    host.apply(chunk(1, 2, final(0, HOSTILE)))
    host.set_status({"usersTopic": HOSTILE, "state": "live", "message": HOSTILE})
    with run_server(host) as serving:
        yield f"http://127.0.0.1:{serving.port}"


class _HostileHandler(BaseHTTPRequestHandler):
    """A proxy or a compromised livejoin can send anything."""

    def do_GET(self) -> None:
        self._answer({
            "tables": [{"name": HOSTILE, "rows": 1, "columns": [{"name": HOSTILE}]}],
            "topics": [{"name": HOSTILE, "trouble": HOSTILE}],
            "total": 2,
            "messages": [{
                "partition": HOSTILE, "offset": 1, "timestamp": HOSTILE,
                "key": HOSTILE, "value": HOSTILE, "reason": HOSTILE,
                "headers": [{"name": HOSTILE, "text": HOSTILE, "base64": None}],
            }],
            "complete": False, "scanned": HOSTILE, "reached": HOSTILE, "older": HOSTILE,
            "rows": [{HOSTILE: HOSTILE}],
            "generation": HOSTILE,
            "sources": {HOSTILE: {HOSTILE: HOSTILE}},
            "capped": {HOSTILE: {"rows": HOSTILE, "from": 1_700_000_000_000}},
            HOSTILE: HOSTILE,
        })  # fmt: skip

    def do_POST(self) -> None:
        if self.path.endswith("rollback"):
            self._answer({"detail": HOSTILE}, 409)
            return
        self._answer({
            "outcome": HOSTILE, "reason": HOSTILE, "generation": HOSTILE, "code": HOSTILE,
            "build": HOSTILE, "topics": {HOSTILE: {"records": HOSTILE, "partitions": HOSTILE}},
            "slots": dict.fromkeys(("needed", "held", "total"), HOSTILE),
            "now": {"live": HOSTILE}, "afterwards": {"live": HOSTILE, "standby": HOSTILE},
            "stopped": [HOSTILE], "warnings": [HOSTILE],
        })  # fmt: skip

    def _answer(self, content: Any, status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def hostile_url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _HostileHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("command", [("show", "final_ui"), ("status",)])
def test_rows_and_topic_names_are_escaped(url: str, command: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main.cli, [*command, "--url", url])
    assert done.exit_code == 0, done.output
    _assert_escaped(done.stdout)


@pytest.mark.parametrize(
    "command",
    [
        *(("show", "x"), ("status",), ("tables",), ("topics",), ("peek", "x")),
        *(("send", "--join", "inner"), ("preview", "--join", "inner"), ("token", "sign-in")),
    ],
)
def test_responses_are_escaped(hostile_url: str, command: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main.cli, [*command, "--url", hostile_url])
    assert done.exit_code == 0, done.output
    _assert_escaped(done.output)


def test_an_error_response_is_escaped(hostile_url: str) -> None:
    done = subprocess.run(
        [LIVEJOIN, "rollback", "--url", hostile_url], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 1
    _assert_escaped(done.stderr.decode())


def _run_in_terminal(*command: str, columns: int = 80, **environment: str) -> str:
    """Return the output of a command on a terminal."""
    terminal, child_end = pty.openpty()
    termios.tcsetwinsize(child_end, (24, columns))
    env = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    env |= {"TERM": "xterm", **environment}
    with subprocess.Popen(
        [LIVEJOIN, *command], stdin=child_end, stdout=child_end, stderr=child_end, env=env
    ) as process:
        os.close(child_end)
        output = b""
        with contextlib.suppress(OSError):  # EIO is the end of a terminal
            while chunk := os.read(terminal, 65536):
                output += chunk
        os.close(terminal)
        assert process.wait(60) == 0
    return output.decode().replace("\r\n", "\n")  # added by the terminal


@pytest.mark.parametrize("form", ["csv", "json", "ndjson"])
def test_machine_formats_are_escaped_on_a_terminal_and_raw_elsewhere(url: str, form: str) -> None:
    command = ("show", "final_ui", "--format", form, "--url", url)
    _assert_escaped(_run_in_terminal(*command))
    done = subprocess.run([LIVEJOIN, *command], capture_output=True, check=True, timeout=60)
    raw = done.stdout.decode()
    assert "\u202e" in raw or "\\u202e" in raw


# --- wrapping and colours

LONG = " ".join(f"word{number}" for number in range(40))  # 270 characters


@pytest.fixture(scope="module")
def plain_url() -> Iterator[str]:
    host = Catalog()
    host.apply_state(live(1, next_one=2))
    host.apply(chunk(1, 3, final(0, LONG), final(1, None)))
    host.system.put_generations({
        1: {"generation": 1, "state": "live"}, 2: {"generation": 2, "state": "failed"},
    })  # fmt: skip
    host.set_status({"state": "building", "message": LONG})
    with run_server(host) as serving:
        yield f"http://127.0.0.1:{serving.port}"


def test_long_cells_wrap_on_a_terminal_and_are_one_line_elsewhere(plain_url: str) -> None:
    command = ("show", "final_ui", "--columns", "userId,name", "--url", plain_url)
    lines = _run_in_terminal(*command, NO_COLOR="1").splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines[1:-1]).split()) == f"u0 {LONG}"
    wide = _run_in_terminal(*command, "--wide", NO_COLOR="1").splitlines()
    assert wide[1] == f"u0      {LONG}"
    piped = subprocess.run([LIVEJOIN, *command], capture_output=True, check=True, timeout=60)
    assert piped.stdout.decode().splitlines()[1] == f"u0      {LONG}"


def test_the_tables_wrap_on_a_terminal(plain_url: str) -> None:
    lines = _run_in_terminal("tables", "--url", plain_url, NO_COLOR="1").splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) > len(spec.DEFAULT.all_tables)


def test_the_status_wraps_on_a_terminal(plain_url: str) -> None:
    output = _run_in_terminal("status", "--url", plain_url, NO_COLOR="1")
    assert max(map(len, output.splitlines())) <= 80
    assert LONG in " ".join(output.split())


def test_states_are_coloured_on_a_terminal_only(plain_url: str) -> None:
    command = ("show", "generations", "--columns", "generation,state", "--url", plain_url)
    output = _run_in_terminal(*command)
    assert "\x1b[32mlive\x1b[0m" in output
    assert "\x1b[31mfailed\x1b[0m" in output
    plain = subprocess.run([LIVEJOIN, *command], capture_output=True, check=True, timeout=60)
    without = re.sub(r"\x1b\[\d+m", "", output)
    assert without.startswith(plain.stdout.decode())  # then the count, on standard error
    assert _run_in_terminal(*command, NO_COLOR="1") == without
    assert _run_in_terminal(*command, TERM="dumb") == without
    assert "\x1b" not in _run_in_terminal(*command, "--output", "json")


def test_the_status_is_coloured_on_a_terminal_only(plain_url: str) -> None:
    assert "\x1b[33mbuilding\x1b[0m" in _run_in_terminal("status", "--url", plain_url)
    assert "\x1b" not in _run_in_terminal("status", "--url", plain_url, "--output", "json")


def test_levels_are_coloured_and_nothing_else_that_data_says() -> None:
    assert {level: colours.style_of("level", level) for level in get_args(Level)} == {
        "INFO": "", "WARN": "33", "ERROR": "31",
    }  # fmt: skip
    assert colours.style_of("name", "failed") == ""
    assert colours.style_of("state", HOSTILE) == ""


def test_every_outcome_that_is_bad_differs_from_live() -> None:
    styles = {outcome: colours.style_of("outcome", outcome) for outcome in get_args(Outcome)}
    assert all(styles.values())
    assert [outcome for outcome, style in styles.items() if style == styles["live"]] == ["live"]


# --- log lines


@pytest.fixture
def restore_logging() -> Iterator[None]:
    before = logging.getLogger().handlers[:]
    yield
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = before


@pytest.mark.usefixtures("restore_logging")
def test_log_lines_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger().handlers.clear()  # pytest's own
    configure_logging()
    log = structlog.get_logger()
    log.warning(HOSTILE, why=HOSTILE, names=[HOSTILE])
    log.warning("failed", exc_info=RequestError(HOSTILE))
    logging.getLogger("elsewhere").warning("about %s", HOSTILE)
    output = capsys.readouterr().err
    _assert_escaped(output)
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", output)
    assert "\nlivejoin.errors.RequestError: " in output
    assert output.count("evil") >= 5


# --- the function escape_unprintable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ada Lovelace, 北京, naïve 🙂", "Ada Lovelace, 北京, naïve 🙂"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x85\x9b", "\\x85\\x9b"),
        ("\u202a\u202e\u2066\u2069\u200f", "\\u202a\\u202e\\u2066\\u2069\\u200f"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\ud800", "\\ud800"),
    ],
)
def test_unprintable_characters_are_escaped(text: str, expected: str) -> None:
    assert escape_unprintable(text) == expected


def test_line_breaks_can_be_kept() -> None:
    assert escape_unprintable("a\nb\x1b", keep="\n") == "a\nb\\x1b"
