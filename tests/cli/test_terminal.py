"""Untrusted text never reaches a terminal as control characters."""

import contextlib
import json
import logging
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner

from livejoin.cli import main
from livejoin.cli.output import configure_logging, escape_unprintable
from livejoin.errors import AskError
from livejoin.tables.ingest.catalog import Catalog
from tables.live_server import run_server
from tables.samples import chunk, final, live

pytestmark = pytest.mark.usefixtures("no_settings")

# sets the title, a C1 colour, text direction; carriage return and backspace overwrite
HOSTILE = "\x1b]0;owned\x07\x9b31m\u202eevil\u2066\r\x08\x00"
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
            }],
            "complete": True,
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


@contextlib.contextmanager
def _run_in_terminal(*command: str) -> Iterator[str]:
    """The output of a command on a terminal."""
    terminal, child_end = pty.openpty()
    with subprocess.Popen([LIVEJOIN, *command], stdout=child_end, stderr=child_end) as process:
        os.close(child_end)
        output = b""
        with contextlib.suppress(OSError):  # EIO is the end of a terminal
            while chunk := os.read(terminal, 65536):
                output += chunk
        os.close(terminal)
        assert process.wait(60) == 0
    yield output.decode().replace("\r\n", "\n")  # added by the terminal


@pytest.mark.parametrize("form", ["csv", "json", "ndjson"])
def test_machine_formats_are_escaped_on_a_terminal_and_raw_elsewhere(url: str, form: str) -> None:
    command = ("show", "final_ui", "--format", form, "--url", url)
    with _run_in_terminal(*command) as output:
        _assert_escaped(output)
    done = subprocess.run([LIVEJOIN, *command], capture_output=True, check=True, timeout=60)
    raw = done.stdout.decode()
    assert "\u202e" in raw or "\\u202e" in raw


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
    log.warning("failed", exc_info=AskError(HOSTILE))
    logging.getLogger("elsewhere").warning("about %s", HOSTILE)
    output = capsys.readouterr().err
    _assert_escaped(output)
    assert "\nlivejoin.errors.AskError: " in output
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
