"""No proxy for loopback; for other hosts the proxy of the environment."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from livejoin import client
from livejoin.client.base_connection import BaseConnection
from livejoin.client.endpoint import Endpoint, is_loopback
from livejoin.errors import Unreachable
from livejoin.tables.ingest.catalog import Catalog
from rig.proxy import Noted, proxy
from tables.auth_fixture import AuthFixture
from tables.live_server import RunningServer, run_server
from tables.samples import chunk, final, live

ELSEWHERE = "livejoin.invalid"  # a name that nobody has
LIVEJOIN = Path(sys.executable).with_name("livejoin")


@pytest.fixture(scope="module")
def door() -> AuthFixture:
    return AuthFixture()


@pytest.fixture(scope="module")
def serving(door: AuthFixture) -> Iterator[RunningServer]:
    host = Catalog()
    host.apply_state(live(1))
    host.apply(chunk(1, 2, final(0, "Ada")))
    with run_server(host, access=door.access()) as one:
        yield one


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Noted]:
    """The proxy that the environment sets for all URLs."""
    for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with proxy() as one:
        monkeypatch.setenv("http_proxy", one.url)
        monkeypatch.setenv("https_proxy", one.url)
        yield one


@pytest.fixture
def token(door: AuthFixture, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LIVEJOIN_TOKEN", door.texts["operator"])
    return door.texts["operator"]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(LIVEJOIN), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("command", [("status",), ("show", "audit"), ("token", "sign-in")])
@pytest.mark.usefixtures("token")
def test_a_command_uses_no_proxy_for_loopback(
    serving: RunningServer, noted: Noted, host: str, command: tuple[str, ...]
) -> None:
    done = _run(*command, "--url", f"http://{host}:{serving.port}/")
    assert noted.heads == []
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("token")
def test_a_command_uses_the_proxy_for_other_hosts_unless_in_no_proxy(
    noted: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://{ELSEWHERE}:10000/"
    assert _run("status", "--url", url).returncode == 1
    (head,) = noted.heads
    assert head.startswith(f"GET {url}api/v1/status ")
    monkeypatch.setenv("NO_PROXY", f"other.invalid,{ELSEWHERE}")
    assert _run("status", "--url", url).returncode == 1
    assert len(noted.heads) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_client_uses_no_proxy_for_loopback(
    serving: RunningServer, noted: Noted, token: str, host: str
) -> None:
    url = f"http://{host}:{serving.port}/"
    with client.connect(url, token) as here:
        assert here.status()
        assert here.table("final_ui").to_arrow().num_rows == 1

    async def asking() -> None:
        async with client.aconnect(url, token) as there:
            assert (await (await there.table("final_ui")).to_arrow()).num_rows == 1

    asyncio.run(asking())
    assert noted.heads == []


def test_the_client_uses_the_proxy_for_other_hosts_unless_in_no_proxy(
    noted: Noted, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://{ELSEWHERE}:10000/"
    with pytest.raises(Unreachable):
        client.connect(url, token)
    assert [head.split()[:2] for head in noted.heads] == [["GET", f"{url}api/v1/tables"]]
    monkeypatch.setenv("no_proxy", ELSEWHERE)
    with pytest.raises(Unreachable):
        client.connect(url, token)
    assert len(noted.heads) == 1


def _open(url: str) -> None:
    """Open a socket with the client's options."""
    address = Endpoint(url, "lj_x")
    with pytest.raises((OSError, WebSocketException)):
        connect(address.socket_url, **BaseConnection(address)._socket_options)


def test_the_socket_uses_the_proxy_for_other_hosts_unless_in_no_proxy(
    noted: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    _open(f"http://{ELSEWHERE}:10000/")
    assert [head.split()[:2] for head in noted.heads] == [["CONNECT", f"{ELSEWHERE}:10000"]]
    assert "lj_x" not in noted.heads[0]
    monkeypatch.setenv("no_proxy", ELSEWHERE)
    _open(f"http://{ELSEWHERE}:10000/")
    assert len(noted.heads) == 1


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:1/", True),
        ("http://127.8.9.1/", True),
        ("http://127.1:10000/", True),
        ("https://[::1]:1/", True),
        ("http://[::ffff:127.0.0.1]/", True),
        ("http://LOCALHOST./", True),
        ("http://tables.localhost/", True),
        ("http://0.0.0.0:1/", True),
        ("http://localhost.example.com/", False),
        ("http://10.0.0.1/", False),
        ("http://[2001:db8::1]/", False),
        ("http://127.0.0.1.example.com/", False),
        ("http:///", False),
    ],
)
def test_loopback_urls(url: str, *, here: bool) -> None:
    assert is_loopback(url) is here
