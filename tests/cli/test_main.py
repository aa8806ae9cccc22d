import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from errno import ECONNREFUSED
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner, Result

from livejoin import __version__
from livejoin.cli import main
from livejoin.errors import RequestError
from livejoin.runtime import running_demo
from livejoin.tables.ingest.catalog import Catalog
from tables.live_server import run_server
from tables.samples import chunk, live, reject, user

Java = Callable[[str], Path]
COMMANDS = [
    *("demo", "run", "serve", "status", "tables", "show", "topics", "sources", "peek"),
    *("send", "preview", "rollback", "schema", "config", "doctor", "token"),
]
LIVEJOIN = Path(sys.executable).with_name("livejoin")
LIMIT_S = 60
pytestmark = pytest.mark.usefixtures("no_settings")


def _run(*arguments: str) -> Result:
    """Run in this process: fast, but errors are raised instead of becoming exit codes."""
    return CliRunner().invoke(main.cli, arguments)


def _run_process(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run as a child process."""
    return subprocess.run(
        [LIVEJOIN, *arguments], capture_output=True, text=True, check=False, timeout=LIMIT_S
    )


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that refuses connections: bound, but not listening."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield int(bound.getsockname()[1])


# --- usage


def test_version_option_prints_the_version() -> None:
    done = _run_process("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"livejoin {__version__}\n", "")


def test_help_lists_every_command_with_a_summary() -> None:
    done = _run("--help")
    assert done.exit_code == 0
    for command in COMMANDS:
        assert re.search(rf"^  {command} +[A-Z]", done.stdout, re.MULTILINE), command
    listed = [*main.cli.registered_commands, *main.cli.registered_groups]
    assert len(listed) == len(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    done = _run(command, "--help")
    assert done.exit_code == 0
    assert f"{command} [OPTIONS]" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "No such command 'nope'"),
        (["--nope"], "No such option: --nope"),
        (["run", "--port", "abc"], "Invalid value for '--port'"),
        (["status", "--output", "xml"], "'xml' is not one of"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], message: str) -> None:
    done = _run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_send_without_a_field_is_wrong_usage() -> None:
    done = _run("send", "--no-wait", "--url", "http://127.0.0.1:1/")
    assert done.exit_code == 2
    command = typer.main.get_command(main.cli).commands["send"]  # type: ignore[attr-defined]
    others = {"wait", "limit", "url", "output", "help"}
    fields = [option.opts[-1] for option in command.params if option.name not in others]
    assert len(fields) == 4
    assert "--NAME-topic" in done.stderr
    assert [name for name in fields if name not in " ".join(done.stderr.split())] == []


def test_a_wrong_setting_exits_with_2_and_one_line(tmp_path: Path) -> None:
    file = tmp_path / "livejoin.yaml"
    file.write_text("topics: {user: x}")
    done = _run_process("run", "-c", str(file))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "livejoin: unknown setting topics.user: did you mean users?\n"


# --- status


def test_status_of_an_unreachable_server_exits_with_1_and_a_hint(closed_port: int) -> None:
    done = _run_process("status", "--url", f"http://127.0.0.1:{closed_port}/")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        f"livejoin: no livejoin responds at http://127.0.0.1:{closed_port}/:"
        f" [Errno {ECONNREFUSED}] {os.strerror(ECONNREFUSED)}\n"
        "  Start one with `livejoin demo`, or set its URL with --url.\n"
    )


@pytest.fixture
def url() -> Iterator[str]:
    host = Catalog(logs_kept=10, rejects_kept=10)
    host.apply_state(live(3))
    host.apply(chunk(3, 3, user(0), user(1), reject("users", 2)))
    host.set_status({"usersTopic": "users", "lastApplied": None, "state": "live"})
    with run_server(host) as serving:
        yield f"http://127.0.0.1:{serving.port}"


def test_status_prints_the_status_row_and_the_counts(url: str) -> None:
    done = _run("status", "--url", url)
    assert done.exit_code == 0
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert ["usersTopic", "users"] in lines
    assert ["state", "live"] in lines
    assert ["lastApplied", "–"] in lines
    assert ["users", "3 read, 2 rows, 1 rejected, 0 tombstones"] in lines


def test_status_prints_which_tables_are_capped_and_since_when() -> None:
    host = Catalog()
    host.apply_state(live(1, max_rows=2))
    host.apply(chunk(1, 3, *(user(n, ts=1_700_000_000_000 + 1000 * n) for n in range(3))))
    with run_server(host) as full:
        done = _run("status", "--url", f"http://127.0.0.1:{full.port}")
    assert done.exit_code == 0, done.output
    expected = "users_ui       newest 2 rows, since 2023-11-14T22:13:21.000Z"
    assert done.stdout.splitlines()[-1] == expected


def test_status_prints_json(url: str) -> None:
    done = _run("status", "--url", f"{url}/", "--output", "json")
    assert json.loads(done.stdout)["sources"]["users"]["read"] == 3


def test_the_url_can_come_from_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEJOIN_URL", url)
    assert _run("status").exit_code == 0


@pytest.fixture
def foreign_server() -> Iterator[Callable[[bytes], str]]:
    """Starts a server that sends one fixed response."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threads = []

        def start(response: bytes) -> str:
            def serve() -> None:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(response)

            threads.append(threading.Thread(target=serve))
            threads[0].start()
            return f"http://127.0.0.1:{listening.getsockname()[1]}"

        yield start
        for thread in threads:
            thread.join()


OK = b"HTTP/1.0 200 OK\r\n\r\n"


# urllib leaves the socket of a response that is not HTTP to the garbage collector
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize(
    "response",
    [
        pytest.param(OK + b"<html>", id="HTML"),
        pytest.param(b"HTTP/1.0 404 Not Found\r\n\r\n", id="not found"),
        pytest.param(b"", id="empty"),
        pytest.param(b"\x15\x03\x03\0\x02\x02\n", id="not HTTP"),
        pytest.param(OK + b"[1]", id="JSON list"),
        pytest.param(OK + b"{}", id="other JSON object"),
    ],
)
def test_status_rejects_a_server_that_is_not_livejoin(
    foreign_server: Callable[[bytes], str], response: bytes
) -> None:
    assert isinstance(_run("status", "--url", foreign_server(response)).exception, RequestError)


# --- doctor


@pytest.fixture
def config(
    tmp_path: Path, closed_port: int, java_home: Java, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Settings with an unreachable broker, on a machine that has Java."""
    java_home("#!/bin/sh\necho 'openjdk version \"17.0.15\"' >&2\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "livejoin.yaml"
    file.write_text(f"kafka: {{bootstrap.servers: '127.0.0.1:{closed_port}'}}")
    return file


def test_doctor_fails_if_kafka_is_unreachable(config: Path, closed_port: int) -> None:
    done = _run("doctor", "-c", str(config))
    assert done.exit_code == 1
    machine, cluster, last = done.stdout.split("\n\n")
    assert [line.split()[:2] for line in machine.splitlines()] == [
        ["ok", "system"],
        ["ok", "java"],
        ["ok", "jars"],
        ["ok", "settings"],
        ["ok", "port"],
        ["ok", "checkpoints"],
        ["ok", "state"],
    ]
    lines = cluster.splitlines()
    assert lines[0] == "kafka (own topics, sources, control)"
    assert lines[2] == f"BAD      connect        127.0.0.1:{closed_port}: Connection refused"
    assert lines[3].strip() == "Check that the brokers run, their port, and firewalls."
    assert all(line.startswith("skipped  ") for line in lines[4:])
    assert last.startswith("skipped  task slots ")


@pytest.mark.parametrize("option", [("--output", "json"), ("--json",)])
def test_doctor_prints_json(config: Path, option: tuple[str, ...]) -> None:
    done = _run("doctor", "-c", str(config), *option)
    assert done.exit_code == 1
    checks = json.loads(done.stdout)
    assert {name: check[name] for check in checks for name in check}.keys() == {
        *("cluster", "check", "ok", "severity", "found", "advice")
    }
    assert {c["check"] for c in checks if not c["ok"]} == {"connect"}
    assert {c["severity"] for c in checks} == {"ok", "skipped", "BAD"}
    assert {c["cluster"] for c in checks} == {"", "kafka (own topics, sources, control)"}


def test_doctor_continues_if_java_is_missing(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    done = _run("doctor", "-c", str(config))
    assert done.exit_code == 1
    assert f"BAD      java           there is no java in JAVA_HOME={tmp_path}" in done.stdout
    assert "ok       settings" in done.stdout


def test_doctor_fails_on_wrong_settings(config: Path) -> None:
    config.write_text("nam: x")
    done = _run("doctor", "-c", str(config))
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-2:] == [
        "BAD      settings       unknown setting nam: did you mean name?",
        "skipped  kafka          the settings are not valid",
    ]


def test_doctor_fails_on_an_unknown_kafka_property(config: Path) -> None:
    config.write_text(f"{config.read_text()[:-1]}, no.such.property: 1}}")
    done = _run("doctor", "-c", str(config))
    assert "no.such.property" in done.stdout
    assert done.exit_code == 1


# --- a running demo


@pytest.fixture
def demo(
    tmp_path: Path, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, object]]:
    """A demo that runs, as far as its file says; its broker is a closed port."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    address = f"127.0.0.1:{closed_port}"
    values: dict[str, object] = {"name": "of-the-demo", "kafka": {"bootstrap.servers": address}}
    url = f"http://{address}/"
    with running_demo.announced(running_demo.RunningDemo(address, url, values)):
        yield values


def test_doctor_without_settings_checks_the_running_demo(
    demo: dict[str, object], closed_port: int
) -> None:
    done = _run("doctor")
    assert (
        f"ok       settings       those of the running demo, whose broker is at"
        f" 127.0.0.1:{closed_port}"
    ) in done.stdout
    assert f"127.0.0.1:{closed_port}: Connection refused" in done.stdout
    assert "of-the-demo" in done.stdout


def test_token_commands_without_settings_use_the_running_demo(
    demo: dict[str, object], closed_port: int
) -> None:
    done = _run("token", "list")
    assert f"the running demo, whose broker is at 127.0.0.1:{closed_port}" in done.stderr
    assert f"Kafka at 127.0.0.1:{closed_port} cannot be reached" in str(done.exception)


def test_sign_in_without_a_url_is_for_the_running_demo(
    demo: dict[str, object], closed_port: int
) -> None:
    done = _run("token", "sign-in")
    assert f"this is for the running demo at http://127.0.0.1:{closed_port}/" in done.stderr
    assert f"no livejoin responds at http://127.0.0.1:{closed_port}/" in str(done.exception)
    other = _run("token", "sign-in", "--url", "http://127.0.0.1:1/")
    assert "demo" not in other.stderr
    assert "no livejoin responds at http://127.0.0.1:1/" in str(other.exception)


@pytest.mark.parametrize("given", ["file", "environment"])
def test_given_settings_win_over_a_running_demo(
    demo: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    options = []
    if given == "file":
        file = tmp_path / "own.yaml"
        file.write_text("name: own")
        options = ["-c", str(file)]
    else:
        monkeypatch.setenv("LIVEJOIN_NAME", "own")
    done = _run("doctor", *options)
    assert "demo" not in done.stdout
    assert "state/livejoin/own" in done.stdout
