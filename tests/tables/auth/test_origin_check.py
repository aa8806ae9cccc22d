import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest
from starlette.datastructures import Headers
from websockets.exceptions import InvalidStatus

from livejoin.tables.auth.origin_check import AllowedOrigins
from livejoin.tables.http.server import listen
from livejoin.tables.ingest.catalog import Catalog
from tables.live_server import RunningServer, insecure_access, run_server
from tables.samples import live

FOREIGN_ORIGINS = [
    "http://evil.example",
    "https://127.0.0.1:{port}",
    "http://127.0.0.1:1",
    "http://127.0.0.1",
    "http://127.0.0.1:{port}.evil.example",
    "null",
    "",
]
WRONG_HOSTS = ["evil.example:{port}", "127.0.0.1:1", "127.0.0.1", "", "localhost.evil.example"]
PATHS = ["/", "/api/v1/tables/users_ui", "/api/v1/status", "/readyz", "/static/page.js", "/nope"]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    catalog.apply_state(live(1))
    with run_server(catalog) as running:
        yield running


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_a_foreign_origin_is_refused(server: RunningServer, origin: str, path: str) -> None:
    response = server.request(path, Origin=origin.format(port=server.port))
    assert response.status == 403
    assert response.headers["content-type"] == "application/problem+json"
    assert "add it to http.origins" in response.json()["detail"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("host", WRONG_HOSTS)
def test_an_unknown_host_is_refused(server: RunningServer, host: str, path: str) -> None:
    response = server.request(path, Host=host.format(port=server.port))
    assert response.status == 403
    assert "add it to http.hosts" in response.json()["detail"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_own_hosts_and_origins_are_served(server: RunningServer, host: str) -> None:
    ours = f"{host}:{server.port}"
    assert server.request("/readyz", Host=ours).status == 200
    assert server.request("/readyz", Host=ours.upper(), Origin=f"http://{ours}").status == 200


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_a_foreign_origin_gets_no_socket(server: RunningServer, origin: str) -> None:
    headers = {"Origin": origin.format(port=server.port)}
    with (
        pytest.raises(InvalidStatus) as refused,
        server.viewer("users_ui", additional_headers=headers),
    ):
        pass
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize("host", ["evil.example:{port}", "127.0.0.1:1", "evil.example"])
def test_an_unknown_host_gets_no_socket(server: RunningServer, host: str) -> None:
    uri = f"ws://{host.format(port=server.port)}/api/v1/live"
    with (
        socket.create_connection(("127.0.0.1", server.port)) as raw,
        pytest.raises(InvalidStatus) as refused,
        server.viewer("users_ui", uri=uri, sock=raw),
    ):
        pass
    assert refused.value.response.status_code == 403


def test_the_own_origin_gets_a_socket(server: RunningServer) -> None:
    origin = f"http://127.0.0.1:{server.port}"
    with server.viewer("users_ui", origin=origin) as viewer:
        assert viewer.next_frame().kinds == [("users_ui", "snapshot")]


@pytest.mark.parametrize("path", ["/", "/example", "/api/v1/status", "/static/page.js"])
def test_every_response_has_the_security_headers(server: RunningServer, path: str) -> None:
    headers = server.request(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


# --- configured origins and hosts

OTHER = "https://app.example.com"


@pytest.fixture(scope="module")
def configured() -> Iterator[RunningServer]:
    access = replace(insecure_access(), origins=[OTHER], hosts=["live.example.com", "proxy:8443"])
    with run_server(access=access) as running:
        yield running


@pytest.mark.parametrize("path", ["/api/v1/status", "/static/livejoin.js", "/api/v1/nope"])
def test_an_allowed_origin_gets_cors_headers(configured: RunningServer, path: str) -> None:
    headers = configured.request(path, Origin=OTHER).headers
    assert headers["access-control-allow-origin"] == OTHER
    assert "origin" in headers["vary"]
    assert "etag" in headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in headers
    assert "access-control-allow-origin" not in configured.request(path).headers


def test_only_an_allowed_origin_passes_a_preflight(configured: RunningServer) -> None:
    preflight_headers = {"Access-Control-Request-Method": "POST"}
    response = configured.request("/api/v1/control", "OPTIONS", Origin=OTHER, **preflight_headers)
    assert (response.status, response.body) == (204, b"")
    assert response.headers["access-control-allow-origin"] == OTHER
    assert "authorization" in response.headers["access-control-allow-headers"]
    assert (
        configured.request("/api/v1/control", "OPTIONS", Origin="https://evil.example").status
        == 403
    )
    own = configured.request(
        "/api/v1/control", "OPTIONS", Origin=f"http://127.0.0.1:{configured.port}"
    )
    assert "access-control-allow-methods" not in own.headers


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("live.example.com", None, 200),
        ("LIVE.example.com:{port}", None, 200),
        ("live.example.com", "https://live.example.com", 200),  # a proxy terminates TLS
        ("live.example.com", "http://live.example.com", 200),
        ("proxy:8443", "https://proxy:8443", 200),
        ("proxy", None, 403),
        ("proxy:{port}", None, 403),
        ("live.example.com:1", None, 403),
        ("live.example.com", "https://live.example.com.evil.example", 403),
        ("127.0.0.1:{port}", "https://127.0.0.1:{port}", 403),
    ],
)
def test_configured_hosts_are_accepted_exactly_as_set(
    configured: RunningServer, host: str, origin: str | None, status: int
) -> None:
    headers = {"Host": host.format(port=configured.port)}
    headers |= {"Origin": origin.format(port=configured.port)} if origin else {}
    assert configured.request("/readyz?", **headers).status in (
        status,
        503 if status == 200 else status,
    )


def test_with_tls_own_origins_are_https_only() -> None:
    ours = AllowedOrigins.from_settings(443, tls=True, hosts=["live.example.com"])
    assert ours.own >= {"https://live.example.com", "https://localhost"}
    assert not [one for one in ours.own if one.startswith("http:")]


def test_on_port_80_hosts_need_no_port() -> None:
    ours = AllowedOrigins.from_settings(80)
    assert ours.reject_reason(Headers({"host": "localhost", "origin": "http://localhost"})) == ""
    assert "add it to http.hosts" in ours.reject_reason(Headers({"host": "evil.example"}))
    assert "add it to http.origins" in ours.reject_reason(
        Headers({"host": "localhost", "origin": "http://evil.example"})
    )


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        pytest.param("::1", marks=pytest.mark.skipif(not _has_ipv6(), reason="no IPv6 here")),
    ],
)
def test_the_server_listens_on_every_loopback_name(host: str) -> None:
    with listen(host, 0) as listener:
        assert listener.getsockname()[1] > 0
