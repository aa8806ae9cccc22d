"""Connection limits and timeouts for slow or large requests (D8, small scale)."""

import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from websockets.exceptions import ConnectionClosed

from livejoin.errors import RequestError
from livejoin.tables.http import connection_limits
from livejoin.tables.http.connection_limits import ConnectionLimits
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.live import socket as live_socket
from rig.running import until
from tables.live_server import (
    LIMIT_S,
    RunningServer,
    insecure_access,
    read_until_closed,
    run_server,
)
from tables.samples import chunk, final, live, user

MAX_PER_ADDRESS = 8


def _has_other_addresses() -> bool:
    try:
        with socket.create_server(("127.0.0.2", 0)):
            return True
    except OSError:
        return False


needs_second_address = pytest.mark.skipif(
    not _has_other_addresses(), reason="the loopback has one address only"
)


@pytest.fixture
def limits() -> ConnectionLimits:
    return ConnectionLimits(12, MAX_PER_ADDRESS, 1000)


@pytest.fixture
def server(limits: ConnectionLimits, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningServer]:
    monkeypatch.setattr(connection_limits, "REQUEST_TIMEOUT_S", 0.5)
    monkeypatch.setattr(connection_limits, "WRITE_TIMEOUT_S", 0.5)
    catalog = Catalog()
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 2, final(0, "Ada")))
    with run_server(catalog, access=replace(insecure_access(), connection_limits=limits)) as one:
        yield one


def _head(server: RunningServer, more: str = "", method: str = "GET") -> bytes:
    return f"{method} /livez HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{more}".encode()


# --- number of connections


@needs_second_address
def test_one_address_cannot_use_all_connections(
    server: RunningServer, limits: ConnectionLimits
) -> None:
    with ExitStack() as stack:
        for _ in range(MAX_PER_ADDRESS):
            stack.enter_context(server.connect_tcp("127.0.0.2"))
        until(
            lambda: limits.open_by_address["127.0.0.2"] == MAX_PER_ADDRESS,
            "they are connected",
            LIMIT_S,
        )
        assert server.refuses_connection("127.0.0.2")
        assert limits.refused == 1
        assert server.request("/livez").status == 200
    until(lambda: limits.open_by_address["127.0.0.2"] == 0, "they are disconnected", LIMIT_S)


@needs_second_address
def test_the_total_is_limited_and_closed_connections_free_it(
    server: RunningServer, limits: ConnectionLimits
) -> None:
    with ExitStack() as stack:
        for n in range(12):
            stack.enter_context(server.connect_tcp(f"127.0.0.{2 + n % 2}"))
        until(lambda: limits.open_by_address.total() == 12, "they are connected", LIMIT_S)
        assert server.refuses_connection()
        assert limits.refused == 1
    until(lambda: not limits.open_by_address, "they are disconnected", LIMIT_S)
    assert server.request("/livez").status == 200


def test_a_websocket_is_counted_until_it_closes(
    server: RunningServer, limits: ConnectionLimits
) -> None:
    with server.viewer("final_ui") as one:
        one.next_frame()
        assert limits.open_by_address.total() == 1
    until(lambda: not limits.open_by_address, "it is disconnected", LIMIT_S)


def test_connections_over_the_rate_are_delayed_then_refused() -> None:
    now = 0.0
    limits = ConnectionLimits(10**6, 10**6, 100, clock=lambda: now)
    waits = [limits.acquire("here") for _ in range(3000)]
    assert waits[: connection_limits.NEW_CONNECTION_BURST] == pytest.approx(
        [0.0] * connection_limits.NEW_CONNECTION_BURST
    )
    come = [wait for wait in waits if wait is not None]
    assert come == sorted(come)
    assert 4.9 < come[-1] <= 5
    assert len(come) == pytest.approx(connection_limits.NEW_CONNECTION_BURST + 5 * 100, abs=1)
    assert limits.acquire("elsewhere") == 0
    now += 10
    assert limits.acquire("here") == 0


def test_the_number_of_remembered_addresses_is_bounded() -> None:
    now = 0.0
    limits = ConnectionLimits(10**6, 10**6, 100, clock=lambda: now)
    for number in range(15_000):
        now += 0.01
        limits.acquire(str(number))
    assert len(limits._next_allowed_at) <= 10_001


# --- slow clients


@pytest.mark.parametrize("sent", ["", "GET /li", "GET /livez HTTP/1.1\r\nHost: x\r\nX-A: "])
def test_an_incomplete_request_is_aborted(
    server: RunningServer, limits: ConnectionLimits, sent: str
) -> None:
    with server.connect_tcp() as slow:
        slow.sendall(sent.encode())
        assert read_until_closed(slow) == b""
    until(lambda: not limits.open_by_address, "it is disconnected", LIMIT_S)


def test_a_request_that_trickles_in_is_aborted(server: RunningServer) -> None:
    began = time.monotonic()
    with server.connect_tcp() as slow:
        slow.sendall(_head(server))
        try:
            while time.monotonic() < began + LIMIT_S:
                slow.sendall(b"X: y\r\n")
                time.sleep(0.05)
        except ConnectionError:
            pass
    assert time.monotonic() - began < 5


def test_an_incomplete_second_request_is_aborted(server: RunningServer) -> None:
    with server.connect_tcp() as slow:
        slow.sendall(_head(server, "\r\n"))
        answer = b""
        while b"alive" not in answer:
            answer += slow.recv(65536)
        slow.sendall(b"G")
        assert read_until_closed(slow) == b""


def test_an_incomplete_body_is_aborted(server: RunningServer) -> None:
    with server.connect_tcp() as slow:
        head = _head(
            server, "content-type: application/json\r\ncontent-length: 100\r\n\r\n", "POST"
        )
        slow.sendall(head.replace(b"/livez", b"/api/v1/session") + b"{")
        assert b"HTTP/1.1 200" not in read_until_closed(slow)


def test_a_client_that_does_not_read_its_response_is_aborted(
    limits: ConnectionLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "WRITE_TIMEOUT_S", 0.5)
    catalog = Catalog()
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 3000, *(user(n, name="x" * 5000) for n in range(3000))))
    access = replace(insecure_access(), connection_limits=limits)
    with run_server(catalog, send_buffer=4096, access=access) as one, one.connect_tcp() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(_head(one, "\r\n").replace(b"/livez", b"/api/v1/tables/users_ui"))
        until(lambda: limits.open_by_address.total() == 1, "it is connected", LIMIT_S)
        until(lambda: not limits.open_by_address, "it is aborted", LIMIT_S)


# --- large requests and frames


def test_headers_are_limited(server: RunningServer) -> None:
    with server.connect_tcp() as large:
        large.sendall(_head(server, "X: ").ljust(connection_limits.MAX_HEADER_BYTES + 1, b"x"))
        assert read_until_closed(large).startswith(b"HTTP/1.1 400")
    with server.connect_tcp() as whole:
        whole.sendall(_head(server, "X: ").ljust(connection_limits.MAX_HEADER_BYTES, b"x"))
        whole.sendall(b"\r\n\r\n")
        assert b"HTTP/1.1 200" in read_until_closed(whole)


def _opened(server: RunningServer) -> socket.socket:
    """Open a WebSocket without a library, so that tests can violate the protocol."""
    raw = server.connect_tcp()
    key = "dGhlIHNhbXBsZSBub25jZQ=="
    more = (
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: livejoin.v1\r\n"
        "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
    )
    raw.sendall(_head(server, more).replace(b"/livez", b"/api/v1/live"))
    head = b""
    while b"\r\n\r\n" not in head:
        head += raw.recv(4096)
    assert b"101" in head.splitlines()[0]
    assert b"permessage-deflate" not in head
    return raw


def _closed_with(raw: socket.socket) -> int:
    """Return the code of the server's close frame."""
    found = read_until_closed(raw)
    at = found.index(b"\x88")
    return int(struct.unpack("!H", found[at + 2 : at + 4])[0])


def test_a_frame_of_64_mb_is_refused_by_its_header(server: RunningServer) -> None:
    with _opened(server) as raw:
        raw.sendall(b"\x81\xff" + struct.pack("!Q", 64 << 20) + b"mask" + b"x" * 1000)
        assert _closed_with(raw) == 1009


def test_a_large_fragmented_message_is_refused(server: RunningServer) -> None:
    with _opened(server) as raw:
        piece = b"\xfe" + struct.pack("!H", 40_000) + b"\0\0\0\0" + b"x" * 40_000
        raw.sendall(b"\x01" + piece + b"\x00" + piece)
        assert _closed_with(raw) == 1009


def test_a_compressed_frame_is_refused(server: RunningServer) -> None:
    with _opened(server) as raw:
        raw.sendall(b"\xc1\x84" + b"mask" + os.urandom(4))
        assert _closed_with(raw) == 1002


def test_a_flood_of_subscriptions_closes_the_socket(server: RunningServer) -> None:
    with server.viewer("final_ui") as one, server.viewer("final_ui") as other:
        one.next_frame()
        try:
            for _ in range(10_000):
                one.subscribe("final_ui")
            while True:
                one.next_frame()
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd else None
        assert code == 1008
        server.apply(1, 3, final(0, "Grace", 1))
        while other.next_frame("data").kinds != [("final_ui", "upsert")]:
            pass


def test_subscriptions_are_allowed_again_after_a_while() -> None:
    now = 0.0
    asks = live_socket.SubscriptionLimit(lambda: now)
    for _ in range(live_socket.SUBSCRIPTION_BURST):
        asks.count()
    now += live_socket.SUBSCRIPTION_INTERVAL_S
    asks.count()
    with pytest.raises(RequestError, match="too many"):
        asks.count()


def test_a_subscription_message_is_limited(server: RunningServer) -> None:
    with server.viewer() as one:
        one.connection.send(json.dumps({"subscribe": ["final_ui"] * 10_000}))
        try:
            while True:
                one.next_frame()
        except ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd else None
        assert code == 1009


def test_refused_handshakes_log_nothing(
    server: RunningServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with server.connect_tcp() as raw:
        more = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        more += "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://evil.example\r\n\r\n"
        raw.sendall(_head(server, more).replace(b"/livez", b"/api/v1/live"))
        assert read_until_closed(raw).startswith(b"HTTP/1.1 403")
    assert server.request("/livez").status == 200
    assert [record.message for record in caplog.records] == []
    assert "ASGI" not in capfd.readouterr().err
