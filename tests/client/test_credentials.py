"""Stored tokens of commands and the Python client, which are sent to their own URL only."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from client.pretender import fake_server
from livejoin import client
from livejoin.cli import main
from livejoin.cli.options import endpoint
from livejoin.client import credentials
from livejoin.errors import RequestError, Unreachable
from tables.auth_fixture import AuthFixture
from tables.live_server import RunningServer, run_server

pytestmark = pytest.mark.usefixtures("no_settings")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "livejoin"


@pytest.fixture(scope="module")
def auth() -> AuthFixture:
    return AuthFixture()


@pytest.fixture(scope="module")
def server(auth: AuthFixture) -> Iterator[RunningServer]:
    with run_server(access=auth.access()) as running:
        yield running


@pytest.fixture
def url(server: RunningServer) -> str:
    return f"http://127.0.0.1:{server.port}/"


def test_tokens_are_stored_by_url_and_private(folder: Path) -> None:
    credentials.store_token("http://127.0.0.1:10000/", "one")
    credentials.store_token("https://live.example.com/a/", "two")
    credentials.store_token("https://live.example.com:443/b", "three")
    assert credentials.find_token("http://127.0.0.1:10000") == "one"
    assert credentials.find_token("https://LIVE.example.com:443/a") == "two"
    assert credentials.find_token("https://live.example.com/b/") == "three"
    assert credentials.find_token("https://live.example.com/") is None
    assert credentials.find_token("https://127.0.0.1:10000/") is None
    assert credentials.find_token("http://127.0.0.1:10001/") is None
    assert credentials.path().stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o077 == 0
    assert list(folder.iterdir()) == [credentials.path()]


def test_the_environment_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials.store_token("http://x/", "kept")
    monkeypatch.setenv("LIVEJOIN_TOKEN", " given\n")
    assert credentials.find_token("http://x/") == "given"
    assert credentials.stored_token("http://x/") == "kept"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"http://x:80": 5}'])
def test_a_damaged_file_is_treated_as_empty(folder: Path, text: str) -> None:
    folder.mkdir()
    credentials.path().write_text(text)
    assert credentials.find_token("http://x/") is None
    credentials.store_token("http://x/", "new")
    assert credentials.find_token("http://x/") == "new"


def test_without_a_token_the_error_has_a_hint(url: str) -> None:
    with pytest.raises(RequestError) as refused:
        endpoint(url).call("api/v1/status")
    assert "a token is required" in refused.value.message
    assert refused.value.hint == "Set a token in the environment variable LIVEJOIN_TOKEN."


def test_a_command_sends_the_token_of_the_environment(
    url: str, auth: AuthFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIVEJOIN_TOKEN", auth.texts["viewer"])
    run = CliRunner()
    assert run.invoke(main.cli, ["status", "--url", url]).exit_code == 0
    assert run.invoke(main.cli, ["show", "generations", "--url", url]).exit_code == 0
    refused = run.invoke(main.cli, ["show", "audit", "--url", url])
    assert "the role operator is required; yours is viewer" in str(refused.exception)


def test_a_command_sends_the_stored_token(url: str, auth: AuthFixture) -> None:
    credentials.store_token(url, auth.texts["operator"])
    result = CliRunner().invoke(main.cli, ["tables", "--url", url])
    assert "audit" in result.stdout


def test_the_client_finds_url_and_token_as_commands_do(
    url: str, auth: AuthFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIVEJOIN_URL", url)
    with pytest.raises(RequestError, match="a token is required"):
        client.connect()
    credentials.store_token(url, auth.texts["operator"])
    with client.connect() as connection:
        assert connection.table("audit").to_arrow().num_rows == 0  # the socket has the token too
    with client.connect(url):
        pass
    monkeypatch.setenv("LIVEJOIN_TOKEN", auth.texts["wrong"])
    with pytest.raises(RequestError, match="LIVEJOIN_TOKEN"):
        client.connect()
    with client.connect(token=auth.texts["viewer"]) as connection:
        connection.table("generations").to_arrow()
    monkeypatch.setenv("LIVEJOIN_TOKEN", auth.texts["viewer"])
    with pytest.raises(RequestError, match="a token is required"):
        client.connect(token="")


def test_the_client_for_asyncio_finds_them_too(
    url: str, auth: AuthFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def state() -> Any:
        async with client.aconnect() as connection:
            return (await connection.status())["state"]

    monkeypatch.setenv("LIVEJOIN_URL", url)
    credentials.store_token(url, auth.texts["viewer"])
    assert asyncio.run(state()) == "starting"


def test_a_program_without_a_home_has_no_stored_token(
    url: str, folder: Path, auth: AuthFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write_text("not a folder")
    with client.connect(url, auth.texts["viewer"]):
        pass
    assert credentials.find_token(url) is None
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr(Path, "home", _no_home)
    assert credentials.find_token(url) is None


def _no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_sign_in_prints_a_url_with_a_valid_code(
    server: RunningServer, url: str, auth: AuthFixture
) -> None:
    credentials.store_token(url, auth.texts["viewer"])
    result = CliRunner().invoke(main.cli, ["token", "sign-in", "--url", url, "--output", "json"])
    address, _, code = json.loads(result.stdout)["url"].partition("#code=")
    assert address == url
    body = json.dumps({"code": code}).encode()
    headers = {"content-type": "application/json"}
    response = server.request("/api/v1/session", "POST", body, **headers)
    assert response.json()["role"] == "viewer"


def test_a_redirect_does_not_receive_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEJOIN_TOKEN", "secret")
    with fake_server(lambda _: (302, "")) as (address, received):
        refused = CliRunner().invoke(main.cli, ["status", "--url", address])
    assert isinstance(refused.exception, Unreachable)
    assert [request.headers["Authorization"] for request in received] == ["Bearer secret"]
