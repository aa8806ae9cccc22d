"""`livejoin show --follow` as a process, against a real table server."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import termios
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.processes import LIMIT_S, LIVEJOIN, read_until
from livejoin.cli import main
from livejoin.errors import RequestError
from livejoin.runtime.broker import free_port
from livejoin.tables.ingest.catalog import Catalog
from tables.live_server import RunningServer, run_server
from tables.samples import chunk, final, live

pytestmark = pytest.mark.usefixtures("no_settings", "interruptible")


@dataclass
class Following:
    """A running `show final_ui --follow`."""

    process: "subprocess.Popen[bytes]"
    errors: int  # where it writes errors: a pipe
    text: str = field(default="", init=False)

    def expect(self, text: str) -> None:
        """Read on until this text was printed."""
        assert self.process.stdout is not None
        self.text += read_until(self.process, self.process.stdout.fileno(), text.encode()).decode()

    def expect_error(self, text: str) -> None:
        read_until(self.process, self.errors, text.encode())

    def stop(self) -> tuple[int, str]:
        """Press Ctrl-C; return the exit code and what else went to standard error."""
        self.process.send_signal(signal.SIGINT)
        output, errors = self.process.communicate(timeout=LIMIT_S)
        self.text += output.decode()
        return self.process.returncode, errors.decode()


@contextlib.contextmanager
def follow(port: int, *options: str) -> Iterator[Following]:
    command = [LIVEJOIN, "show", "final_ui", "--follow", *options]
    command += ["--url", f"http://127.0.0.1:{port}/"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            yield Following(process, process.stderr.fileno())
        finally:
            if process.poll() is None:
                process.kill()


def catalog() -> Catalog:
    """Generation 1 with five joined rows."""
    host = Catalog()
    host.apply_state(live(1))
    host.apply(chunk(1, 5, *(final(n, f"name{n}") for n in range(5))))
    return host


def swap(server: RunningServer, *names: str) -> None:
    """Make generation 2 live."""
    server.follow(live(1, next_one=2))
    server.apply(2, len(names), *(final(n, name) for n, name in enumerate(names)))
    server.follow(replace(live(2, ready_at=len(names)), standby=live(1).live))


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_newest_rows_then_every_change_through_a_swap() -> None:
    with run_server(catalog()) as server:
        options = ("--limit", "2", "--columns", "userId,name")
        with follow(server.port, *options) as following:
            following.expect("name4\n")
            server.apply(1, 8, final(7, "Ada"), final(3, "Grace", 1), final(0, None, 1))
            following.expect("- u0")
            swap(server, "Alan", "Barbara", "Leslie")
            following.expect("Leslie\n")
            assert following.stop() == (
                130,
                "2 of 5 rows of generation 1, then every change; Ctrl-C ends it\n",
            )
    rows = words(following.text)
    assert rows[:3] == [["userId", "name"], ["u3", "name3"], ["u4", "name4"]]
    # within one frame the order is the server's
    assert sorted(rows[3:6]) == [["+", "u7", "Ada"], ["-", "u0", "name0"], ["~", "u3", "Grace"]]
    assert following.text.splitlines()[6] == "= generation 2 is live: 2 of 3 rows"
    assert rows[7:] == [["userId", "name"], ["u1", "Barbara"], ["u2", "Leslie"]]


def test_it_survives_a_lost_connection_and_says_so() -> None:
    port = free_port()
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(contextlib.ExitStack())
        first.enter_context(run_server(catalog(), port=port))
        following = stack.enter_context(follow(port, "--columns", "name"))
        following.expect("name4\n")
        first.close()
        following.expect_error("stale: not connected: ")
        with run_server(catalog(), port=port) as server:
            following.expect_error("the rows are fresh again\n")
            server.apply(1, 8, final(7, "Ada"))
            following.expect("Ada\n")
            assert following.stop() == (130, "")


def test_as_json_each_line_is_an_object() -> None:
    options = ("--output", "json", "--limit", "1")
    with run_server(catalog()) as server, follow(server.port, *options) as following:
        following.expect("name4")
        server.apply(1, 6, final(7, "Ada"))
        following.expect("Ada")
        server.apply(1, 7, final(0, None, 1))
        following.expect("remove")
        swap(server, "Alan")
        following.expect("Alan")
        assert following.stop() == (130, "")
    lines = [json.loads(line) for line in following.text.splitlines()]
    summary = [
        (line["kind"], line["generation"], line["row"]["name"] if "row" in line else line["total"])
        for line in lines
    ]
    assert summary == [
        *(("snapshot", 1, 5), ("row", 1, "name4"), ("insert", 1, "Ada")),
        *(("remove", 1, "name0"), ("cutover", 2, 1), ("row", 2, "Alan")),
    ]
    assert lines[1]["row"] == {
        "userId": "u4",
        "name": "name4",
        "email": None,
        "age": None,
        "accountType": None,
        "balance": None,
        "_id": "0-4",
        "_ts": "1970-01-01T00:00:01.000Z",
    }


def test_a_row_that_no_longer_matches_the_filter_is_gone() -> None:
    with run_server(catalog()) as server:
        options = ("--filter", 'name~"name"', "--sort", "-name", "--limit", "1")
        with follow(server.port, *options, "--columns", "name") as following:
            following.expect("name4\n")
            server.apply(1, 6, final(7, "Ada"))
            server.apply(1, 7, final(0, "Grace", 1))
            following.expect("- name0\n")
            server.apply(1, 8, final(0, "name00", 2))
            following.expect("+ name00\n")
            following.stop()
    assert following.text.splitlines() == ["  name", "  name4", "- name0", "+ name00"]


def test_on_a_terminal_rows_wrap_and_marks_are_coloured() -> None:
    terminal, child_end = pty.openpty()
    termios.tcsetwinsize(child_end, (24, 40))
    hidden = ("NO_COLOR", "COLUMNS", "LINES")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    with run_server(catalog()) as server:
        command = [LIVEJOIN, "show", "final_ui", "--follow", "--columns", "userId,name"]
        command += ["--url", f"http://127.0.0.1:{server.port}/"]
        with subprocess.Popen(
            command,
            stdin=child_end,
            stdout=child_end,
            stderr=child_end,
            env=env | {"TERM": "xterm"},
        ) as process:
            os.close(child_end)
            read_until(process, terminal, b"name4")
            server.apply(1, 6, final(7, "a name that is longer than this terminal is wide"))
            output = read_until(process, terminal, b"wide\r\n").decode()
            process.send_signal(signal.SIGINT)
            process.wait(LIMIT_S)
    os.close(terminal)
    assert process.returncode == 130
    assert output.splitlines()[-2:] == [
        "\x1b[32m+\x1b[0m u7      a name that is longer than",
        "          this terminal is wide",
    ]


def test_a_reader_that_ends_ends_it() -> None:
    with run_server(catalog()) as server, follow(server.port) as following:
        following.expect("name4")
        assert following.process.stdout is not None
        following.process.stdout.close()
        for number in range(5, 9):
            server.apply(1, number + 1, final(number, "Ada"))
        following.process.wait(LIMIT_S)
        assert following.process.stderr is not None
        assert b"Traceback" not in following.process.stderr.read()


@pytest.mark.parametrize("options", [["--output", "csv"], ["--offset", "1"]])
def test_what_cannot_be_followed_is_wrong_usage(options: list[str]) -> None:
    done = CliRunner().invoke(main.cli, ["show", "final_ui", "--follow", *options])
    assert done.exit_code == 2
    assert "--follow prints a table or JSON" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "there is no table 'nope'"),
        (["final_ui", "--filter", "agee=1"], "Did you mean age?"),
        (["final_ui", "--columns", "x"], 'columns: there is no column "x"'),
    ],
)
def test_errors_name_what_is_wrong(arguments: list[str], message: str) -> None:
    with run_server(catalog()) as server:
        url = f"http://127.0.0.1:{server.port}/"
        done: Any = CliRunner().invoke(main.cli, ["show", *arguments, "--follow", "--url", url])
    assert isinstance(done.exception, RequestError)
    assert message in str(done.exception)
