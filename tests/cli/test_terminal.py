"""Nothing that livejoin is told reaches a terminal as anything but text."""

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
from livejoin.errors import AskError
from livejoin.runtime.terminal import escape_unprintable
from livejoin.tables.ingest.catalog import Catalog
from tables.live_server import run_server
from tables.samples import chunk, final, live

pytestmark = pytest.mark.usefixtures("no_settings")

# a title, a colour by C1, a line that is turned round, one that is written over
HOSTILE = "\x1b]0;owned\x07\x9b31m\u202eevil\u2066\r\x08\x00"
LIVEJOIN = Path(sys.executable).with_name("livejoin")


def _plain(text: str) -> None:
    bad = {one for one in text if not one.isprintable()} - {"\n"}
    assert not bad, (bad, text)
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


class _Evil(BaseHTTPRequestHandler):
    """Whoever answers, a proxy or a livejoin that was taken over, may say anything."""

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
            "stopped": [HOSTILE],
        })  # fmt: skip

    def _answer(self, content: Any, status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def evil() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Evil) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("command", [("show", "final_ui"), ("status",)])
def test_rows_and_names_of_topics_are_text(url: str, command: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main.cli, [*command, "--url", url])
    assert done.exit_code == 0, done.output
    _plain(done.stdout)


@pytest.mark.parametrize(
    "command",
    [
        *(("show", "x"), ("status",), ("tables",), ("topics",), ("peek", "x")),
        *(("send", "--join", "inner"), ("preview", "--join", "inner"), ("token", "sign-in")),
    ],
)
def test_whatever_is_answered_is_text(evil: str, command: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main.cli, [*command, "--url", evil])
    assert done.exit_code == 0, done.output
    _plain(done.output)


def test_so_is_a_refusal(evil: str) -> None:
    done = subprocess.run(
        [LIVEJOIN, "rollback", "--url", evil], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 1
    _plain(done.stderr.decode())


@contextlib.contextmanager
def _terminal(*command: str) -> Iterator[str]:
    """What a command prints on a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([LIVEJOIN, *command], stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        found = b""
        with contextlib.suppress(OSError):  # how a terminal ends
            while more := os.read(ours, 65536):
                found += more
        os.close(ours)
        assert process.wait(60) == 0
    yield found.decode().replace("\r\n", "\n")  # a terminal's own


@pytest.mark.parametrize("form", ["csv", "json", "ndjson"])
def test_formats_for_programs_are_text_on_a_terminal_and_bytes_elsewhere(
    url: str, form: str
) -> None:
    command = ("show", "final_ui", "--format", form, "--url", url)
    with _terminal(*command) as shown:
        _plain(shown)
    done = subprocess.run([LIVEJOIN, *command], capture_output=True, check=True, timeout=60)
    told = done.stdout.decode()
    assert "\u202e" in told or "\\u202e" in told


# --- log lines


@pytest.fixture
def logging_as_usual() -> Iterator[None]:
    before = logging.getLogger().handlers[:]
    yield
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = before


@pytest.mark.usefixtures("logging_as_usual")
def test_a_log_line_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    logging.getLogger().handlers.clear()  # pytest's own
    main.configure_logging()
    log = structlog.get_logger()
    log.warning(HOSTILE, why=HOSTILE, names=[HOSTILE])
    log.warning("failed", exc_info=AskError(HOSTILE))
    logging.getLogger("elsewhere").warning("about %s", HOSTILE)
    said = capsys.readouterr().err
    _plain(said)
    assert "\nlivejoin.errors.AskError: " in said
    assert said.count("evil") >= 5


# --- the function


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Ada Lovelace, 北京, naïve 🙂", "Ada Lovelace, 北京, naïve 🙂"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x85\x9b", "\\x85\\x9b"),
        ("\u202a\u202e\u2066\u2069\u200f", "\\u202a\\u202e\\u2066\\u2069\\u200f"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_does_not_print_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert escape_unprintable(text) == shown


def test_lines_can_be_kept() -> None:
    assert escape_unprintable("a\nb\x1b", keep="\n") == "a\nb\\x1b"
