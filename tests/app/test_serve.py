"""`livejoin serve` as a process, without Java and without a broker."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.running import LIVEJOIN, until

Java = Callable[[str], Path]
STOP_S = 20
pytestmark = pytest.mark.usefixtures("no_settings")


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that refuses connections: bound, but not listening."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield int(bound.getsockname()[1])


def _get(url: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_it_serves_without_a_broker_reports_it_and_starts_no_java(
    tmp_path: Path, closed_port: int, java_home: Java
) -> None:
    marker = tmp_path / "java was started"
    java_home(f"#!/bin/sh\ntouch '{marker}'\n")
    file = tmp_path / "livejoin.yaml"
    broker = f"127.0.0.1:{closed_port}"
    file.write_text(f"name: crm\nkafka: {{bootstrap.servers: '{broker}'}}\n")
    command = [str(LIVEJOIN), "serve", "-c", str(file), "--port", "0", "--insecure"]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(process.kill)
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("livejoin: the page is at ").strip()
        assert process.stdout.readline().startswith("livejoin: INSECURE, anyone who can connect")
        assert process.stdout.readline() == f"livejoin: following crm.ledger at {broker}\n"
        assert _get(f"{url}livez")[0] == 200
        until(lambda: broker in _get(f"{url}readyz")[1]["detail"], "/readyz names the broker", 30)
        status, problem = _get(f"{url}readyz?verbose")
        checks = {check["name"]: check for check in problem["checks"]}
        assert status == 503
        assert broker in checks["kafka"]["why"]
        assert not checks["ledger"]["ok"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0, (tmp_path / "log").read_text()
    assert "INSECURE: anyone who can connect" in (tmp_path / "log").read_text()
    assert not marker.exists()


def test_it_does_not_import_spark() -> None:
    code = "import sys, livejoin.serving; print([m for m in sys.modules if 'pyspark' in m])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def test_it_requires_a_token_and_prints_no_sign_in_code_to_a_log(
    tmp_path: Path, closed_port: int
) -> None:
    file = tmp_path / "livejoin.yaml"
    file.write_text(f"name: crm\nkafka: {{bootstrap.servers: '127.0.0.1:{closed_port}'}}\n")
    command = [str(LIVEJOIN), "serve", "-c", str(file), "--port", "0"]
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=env
        ) as process,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(process.kill)
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("livejoin: the page is at ").strip()
        assert "#" not in url
        assert _get(f"{url}livez")[0] == 200
        assert _get(f"{url}api/v1/status")[0] == 401
        assert _get(f"{url}readyz?verbose")[0] == 401
    assert (tmp_path / "livejoin" / "crm" / "session").stat().st_mode & 0o777 == 0o600
    assert "INSECURE" not in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("http", "message"),
    [
        ("{host: 0.0.0.0}", "http.host is 0.0.0.0, which others can reach, and there is no TLS"),
        ("{host: '::'}", "http.host is ::, which others can reach"),
        ("{tls: {certificate: /nowhere.pem}}", "http.tls: No such file or directory"),
        ("{tls: {key: /nowhere.pem}}", "tls.key needs tls.certificate"),
        ("{hosts: ['https://x.org']}", "hosts: 'https://x.org' is not a name like"),
        ("{origins: ['*']}", "origins: '*' is not an origin like"),
        ("{origins: ['https://x.org/']}", "is not an origin like"),
    ],
)
def test_it_rejects_unsafe_http_settings(tmp_path: Path, http: str, message: str) -> None:
    file = tmp_path / "livejoin.yaml"
    file.write_text(f"http: {http}")
    command = [str(LIVEJOIN), "serve", "-c", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
