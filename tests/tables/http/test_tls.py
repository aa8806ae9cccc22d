"""Serving over TLS: certificates, secure cookies, and the same connection limits."""

import contextlib
import http.client
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from livejoin.client import connect
from livejoin.tables.http.connection_limits import ConnectionLimits
from livejoin.tables.ingest.catalog import Catalog
from rig.authority import Authority
from rig.running import until
from tables.auth_fixture import AuthFixture
from tables.live_server import LIMIT_S, RunningServer, run_server
from tables.samples import chunk, final, live

MAX_PER_ADDRESS = 4


@dataclass(frozen=True)
class TlsServer:
    """A TLS server, its certificate authority and its access control."""

    server: RunningServer
    auth: AuthFixture
    limits: ConnectionLimits
    ca: Path

    @property
    def origin(self) -> str:
        return f"https://127.0.0.1:{self.server.port}"

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca))


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[TlsServer]:
    authority, auth, limits = (
        Authority(),
        AuthFixture(),
        ConnectionLimits(100, MAX_PER_ADDRESS, 1000),
    )
    own = authority.sign("livejoin").keystore(tmp_path / "own.pem")
    catalog = Catalog()
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 2, final(0, "Ada")))
    access = replace(auth.access(certificate=str(own)), connection_limits=limits)
    with run_server(catalog, access=access) as server:
        yield TlsServer(server, auth, limits, authority.file(tmp_path / "ca.pem"))


def _ask(
    tls: TlsServer, trust: ssl.SSLContext, path: str, **given: str
) -> http.client.HTTPResponse:
    connection = http.client.HTTPSConnection(
        "127.0.0.1", tls.server.port, timeout=LIMIT_S, context=trust
    )
    with contextlib.closing(connection):
        body = given.pop("body", None)
        connection.request("GET" if body is None else "POST", path, body, given)
        response = connection.getresponse()
        response.read()
        return response


def test_requests_and_sockets_go_over_tls(tls: TlsServer) -> None:
    bearer = tls.auth.bearer("viewer")
    assert _ask(tls, tls.trust(), "/api/v1/tables/final_ui", **bearer).status == 200
    uri = tls.origin.replace("https", "wss") + "/api/v1/live"
    options = {"uri": uri, "ssl": tls.trust(), "additional_headers": bearer}
    with tls.server.viewer("final_ui", **options) as viewer:
        viewer.next_frame()
        tls.server.apply(1, 3, final(1, "Alan"))
        viewer.next_frame("data")
        assert [row["name"] for row in viewer.view["final_ui"].values()] == ["Ada", "Alan"]


def test_the_python_client_uses_the_system_trust_store(
    tls: TlsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tls.ca))
    with connect(f"{tls.origin}/", tls.auth.texts["viewer"]) as one:
        assert one.table("final_ui").to_arrow()["name"].to_pylist() == ["Ada"]


def test_an_untrusted_certificate_is_refused(tls: TlsServer) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        _ask(tls, ssl.create_default_context(), "/livez")


def test_the_session_cookie_is_secure(tls: TlsServer) -> None:
    response = _ask(
        tls, tls.trust(), "/api/v1/session",
        body=json.dumps({"token": tls.auth.texts["viewer"]}), Origin=tls.origin,
        **{"content-type": "application/json"},
    )  # fmt: skip
    assert response.status == 200
    assert "Secure" in (response.headers["set-cookie"] or "")


def test_plain_http_gets_no_response(tls: TlsServer) -> None:
    with tls.server.connect_tcp() as clear:
        clear.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert b"HTTP" not in clear.recv(65536)


def test_unfinished_handshakes_are_counted_until_they_close(tls: TlsServer) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_PER_ADDRESS):
            stack.enter_context(tls.server.connect_tcp())
        until(
            lambda: tls.limits.open_by_address.total() == MAX_PER_ADDRESS,
            "they are connected",
            LIMIT_S,
        )
        assert tls.server.refuses_connection()
        assert tls.limits.refused == 1
    until(lambda: not tls.limits.open_by_address, "they are disconnected", LIMIT_S)
    assert _ask(tls, tls.trust(), "/livez").status == 200
