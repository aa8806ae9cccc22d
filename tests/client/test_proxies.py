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
from rig.proxy import RecordedRequests, proxy
from tables.auth_fixture import AuthFixture
from tables.live_server import RunningServer, run_server
from tables.samples import chunk, final, live

ELSEWHERE = "livejoin.invalid"  # an unresolvable name
LIVEJOIN = Path(sys.executable).with_name("livejoin")


@pytest.fixture(scope="module")
def auth() -> AuthFixture:
    return AuthFixture()


@pytest.fixture(scope="module")
def server(auth: AuthFixture) -> Iterator[RunningServer]:
    catalog = Catalog()
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 2, final(0, "Ada")))
    with run_server(catalog, access=auth.access()) as running:
        yield running


@pytest.fixture
def recording_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedRequests]:
    """The proxy that the environment sets for all URLs."""
    for name in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with proxy() as recording:
        monkeypatch.setenv("http_proxy", recording.url)
        monkeypatch.setenv("https_proxy", recording.url)
        yield recording


@pytest.fixture
def token(auth: AuthFixture, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LIVEJOIN_TOKEN", auth.texts["operator"])
    return auth.texts["operator"]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(LIVEJOIN), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("catalog", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("command", [("status",), ("show", "audit"), ("token", "sign-in")])
@pytest.mark.usefixtures("token")
def test_a_command_uses_no_proxy_for_loopback(
    server: RunningServer, recording_proxy: RecordedRequests, catalog: str, command: tuple[str, ...]
) -> None:
    result = _run(*command, "--url", f"http://{catalog}:{server.port}/")
    assert recording_proxy.heads == []
    assert result.returncode == 0, result.stderr


@pytest.mark.usefixtures("token")
def test_a_command_uses_the_proxy_for_other_hosts_unless_in_no_proxy(
    recording_proxy: RecordedRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://{ELSEWHERE}:10000/"
    assert _run("status", "--url", url).returncode == 1
    (head,) = recording_proxy.heads
    assert head.startswith(f"GET {url}api/v1/status ")
    monkeypatch.setenv("NO_PROXY", f"other.invalid,{ELSEWHERE}")
    assert _run("status", "--url", url).returncode == 1
    assert len(recording_proxy.heads) == 1


@pytest.mark.parametrize("catalog", ["127.0.0.1", "localhost"])
def test_the_client_uses_no_proxy_for_loopback(
    server: RunningServer, recording_proxy: RecordedRequests, token: str, catalog: str
) -> None:
    url = f"http://{catalog}:{server.port}/"
    with client.connect(url, token) as connection:
        assert connection.status()
        assert connection.table("final_ui").to_arrow().num_rows == 1

    async def read_async() -> None:
        async with client.aconnect(url, token) as connection:
            assert (await (await connection.table("final_ui")).to_arrow()).num_rows == 1

    asyncio.run(read_async())
    assert recording_proxy.heads == []


def test_the_client_uses_the_proxy_for_other_hosts_unless_in_no_proxy(
    recording_proxy: RecordedRequests, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://{ELSEWHERE}:10000/"
    with pytest.raises(Unreachable):
        client.connect(url, token)
    assert [head.split()[:2] for head in recording_proxy.heads] == [["GET", f"{url}api/v1/tables"]]
    monkeypatch.setenv("no_proxy", ELSEWHERE)
    with pytest.raises(Unreachable):
        client.connect(url, token)
    assert len(recording_proxy.heads) == 1


def _open_socket(url: str) -> None:
    """Open a socket with the client's options."""
    address = Endpoint(url, "lj_x")
    with pytest.raises((OSError, WebSocketException)):
        connect(address.socket_url, **BaseConnection(address)._socket_options)


def test_the_socket_uses_the_proxy_for_other_hosts_unless_in_no_proxy(
    recording_proxy: RecordedRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    _open_socket(f"http://{ELSEWHERE}:10000/")
    assert [head.split()[:2] for head in recording_proxy.heads] == [
        ["CONNECT", f"{ELSEWHERE}:10000"]
    ]
    assert "lj_x" not in recording_proxy.heads[0]
    monkeypatch.setenv("no_proxy", ELSEWHERE)
    _open_socket(f"http://{ELSEWHERE}:10000/")
    assert len(recording_proxy.heads) == 1


@pytest.mark.parametrize(
    ("url", "connection"),
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
def test_loopback_urls(url: str, *, connection: bool) -> None:
    assert is_loopback(url) is connection
