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

MOST_OF_ONE = 4


@dataclass(frozen=True)
class Locked:
    """A TLS server, its certificate authority and its access control."""

    shown: RunningServer
    door: AuthFixture
    doors: ConnectionLimits
    ca: Path

    @property
    def origin(self) -> str:
        return f"https://127.0.0.1:{self.shown.port}"

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca))


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Locked]:
    authority, door, doors = Authority(), AuthFixture(), ConnectionLimits(100, MOST_OF_ONE, 1000)
    own = authority.sign("livejoin").keystore(tmp_path / "own.pem")
    host = Catalog()
    host.apply_state(live(1))
    host.apply(chunk(1, 2, final(0, "Ada")))
    access = replace(door.access(certificate=str(own)), connection_limits=doors)
    with run_server(host, access=access) as shown:
        yield Locked(shown, door, doors, authority.file(tmp_path / "ca.pem"))


def _ask(
    locked: Locked, trust: ssl.SSLContext, path: str, **given: str
) -> http.client.HTTPResponse:
    connection = http.client.HTTPSConnection(
        "127.0.0.1", locked.shown.port, timeout=LIMIT_S, context=trust
    )
    with contextlib.closing(connection):
        body = given.pop("body", None)
        connection.request("GET" if body is None else "POST", path, body, given)
        answer = connection.getresponse()
        answer.read()
        return answer


def test_requests_and_sockets_go_over_tls(locked: Locked) -> None:
    bearer = locked.door.bearer("viewer")
    assert _ask(locked, locked.trust(), "/api/v1/tables/final_ui", **bearer).status == 200
    uri = locked.origin.replace("https", "wss") + "/api/v1/live"
    options = {"uri": uri, "ssl": locked.trust(), "additional_headers": bearer}
    with locked.shown.viewer("final_ui", **options) as viewer:
        viewer.next_frame()
        locked.shown.apply(1, 3, final(1, "Alan"))
        viewer.next_frame("data")
        assert [row["name"] for row in viewer.view["final_ui"].values()] == ["Ada", "Alan"]


def test_the_python_client_uses_the_system_trust_store(
    locked: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(locked.ca))
    with connect(f"{locked.origin}/", locked.door.texts["viewer"]) as one:
        assert one.table("final_ui").to_arrow()["name"].to_pylist() == ["Ada"]


def test_an_untrusted_certificate_is_refused(locked: Locked) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        _ask(locked, ssl.create_default_context(), "/livez")


def test_the_session_cookie_is_secure(locked: Locked) -> None:
    answer = _ask(
        locked, locked.trust(), "/api/v1/session",
        body=json.dumps({"token": locked.door.texts["viewer"]}), Origin=locked.origin,
        **{"content-type": "application/json"},
    )  # fmt: skip
    assert answer.status == 200
    assert "Secure" in (answer.headers["set-cookie"] or "")


def test_plain_http_gets_no_response(locked: Locked) -> None:
    with locked.shown.connect_tcp() as clear:
        clear.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert b"HTTP" not in clear.recv(65536)


def test_unfinished_handshakes_are_counted_until_they_close(locked: Locked) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(MOST_OF_ONE):
            stack.enter_context(locked.shown.connect_tcp())
        until(
            lambda: locked.doors.open_by_address.total() == MOST_OF_ONE,
            "they are connected",
            LIMIT_S,
        )
        assert locked.shown.refuses_connection()
        assert locked.doors.refused == 1
    until(lambda: not locked.doors.open_by_address, "they are disconnected", LIMIT_S)
    assert _ask(locked, locked.trust(), "/livez").status == 200
