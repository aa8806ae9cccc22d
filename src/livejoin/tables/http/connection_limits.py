"""Limits on the number and rate of connections, and timeouts for slow clients."""

import asyncio
import contextlib
import math
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import h11
import structlog
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

log = structlog.get_logger()

MAX_HEADER_BYTES = 32 << 10  # room for the longest filter and a browser's cookies
REQUEST_TIMEOUT_S = 10.0  # for a whole request, which usually is one packet
WRITE_TIMEOUT_S = 60.0  # without progress of a blocked response or frame
NEW_CONNECTION_BURST = 20  # per address; accepting one blocks the loop for 1 ms
CLOSE_TIMEOUT_S = 1.0  # for a closed WebSocket to disconnect
_READ_BYTES = 2 << 10  # per read of a viewer: 62 small frames, 0.2 ms
_SEND_BUFFER_BYTES = 64 << 10  # per viewer; writers wait above it
_MAX_REFUSALS_PER_ACCEPT = 64  # then the loop serves others first
_LINGER_RESET = struct.pack("ii", 1, 0)  # closes with RST, so no TIME_WAIT remains
_MAX_DELAY_S = 5.0  # a connection that would wait longer is refused
_LOG_INTERVAL_S = 10.0
_MAX_ADDRESSES = 10_000
Peer = tuple[str, int]  # address and port


@dataclass
class ConnectionLimits:
    """Counts open connections and limits new ones, in total and per address."""

    max_total: int
    max_per_address: int
    new_per_s: float  # per address
    open_by_address: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    clock: Callable[[], float] = time.monotonic
    _logged_at: float = 0.0
    # by address: when its next connection is due
    _next_allowed_at: dict[str, float] = field(default_factory=dict)
    # of accepted connections that are not read from yet
    _delays: dict[Peer, float] = field(default_factory=dict)

    def admit(self, peer: Peer) -> bool:
        """Whether to accept a connection; an accepted one is counted until it is released."""
        delay_s = self.acquire(peer[0])
        if delay_s:
            self._delays[peer] = delay_s
        return delay_s is not None

    def pop_delay_s(self, peer: Peer) -> float:
        """Return for how many seconds not to read from an accepted connection, once."""
        return self._delays.pop(peer, 0.0)

    def acquire(self, address: str) -> float | None:
        """Count a connection; return the delay before reading from it, or None to refuse it."""
        delay_s = self._rate_delay_s(address)
        full = (
            self.open_by_address.total() >= self.max_total
            or self.open_by_address[address] >= self.max_per_address
        )
        if full or delay_s is None:
            self.refused += 1
            if self.clock() > self._logged_at + _LOG_INTERVAL_S:
                self._logged_at = self.clock()
                log.warning("too many connections", of=address, refused=self.refused)
            return None
        self.open_by_address[address] += 1
        return delay_s

    def _rate_delay_s(self, address: str) -> float | None:
        """Return the delay that keeps an address within its rate; None if it is too long."""
        now = self.clock()
        if len(self._next_allowed_at) > _MAX_ADDRESSES:
            self._next_allowed_at = {
                known: due_at for known, due_at in self._next_allowed_at.items() if due_at > now
            }
        due_at = max(now, self._next_allowed_at.get(address, now)) + 1 / self.new_per_s
        delay_s = max(0.0, due_at - now - NEW_CONNECTION_BURST / self.new_per_s)
        if delay_s > _MAX_DELAY_S:
            return None
        self._next_allowed_at[address] = due_at
        return delay_s

    def release(self, peer: Peer) -> None:
        """Stop counting a closed connection."""
        address = peer[0]
        self._delays.pop(peer, None)
        self.open_by_address[address] -= 1
        if not self.open_by_address[address]:
            del self.open_by_address[address]


class LimitedListener(socket.socket):
    """A listening socket that refuses connections over the limits right after accepting them.

    asyncio and uvicorn create nothing for a refused connection, which would delay other clients.
    """

    def __init__(self, listener: socket.socket, limits: ConnectionLimits) -> None:
        super().__init__(listener.family, listener.type, listener.proto, listener.detach())
        self._limits = limits

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept the next connection within the limits."""
        for _ in range(_MAX_REFUSALS_PER_ACCEPT):
            connection, address = super().accept()
            if self._limits.admit(address[:2]):
                return _CountedSocket(connection, self._limits, address[:2]), address
            with contextlib.suppress(OSError):  # the client is gone already
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
            connection.close()
        raise BlockingIOError  # asyncio stops accepting until the next event


class _CountedSocket(socket.socket):
    """A connection that is counted until its socket is closed."""

    def __init__(self, connection: socket.socket, limits: ConnectionLimits, peer: Peer) -> None:
        super().__init__(connection.family, connection.type, connection.proto, connection.detach())
        self._peer: Peer | None = peer
        self._limits = limits

    def close(self) -> None:
        """Close the socket and release its count once."""
        if self._peer is not None:
            self._limits.release(self._peer)
            self._peer = None
        super().close()


class ServerConfig(uvicorn.Config):
    """Uvicorn's configuration with our protocols and connection limits."""

    def __init__(self, app: Any, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(
            app,
            http=HttpConnection,
            ws=WebSocketConnection,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            **options,
        )
        self.limits = limits


class HttpConnection(H11Protocol):
    """An HTTP connection with timeouts for receiving a request and sending its response."""

    config: ServerConfig
    upgraded = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request_timer = _AbortTimer(self, REQUEST_TIMEOUT_S)
        self.response_timer = _AbortTimer(self, WRITE_TIMEOUT_S)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start reading, after the delay that the rate limit imposes."""
        super().connection_made(transport)
        self.request_timer.start()
        delay_s = self.config.limits.pop_delay_s(self.client) if self.client else 0.0
        if delay_s:
            transport.pause_reading()
            self.loop.call_later(delay_s, transport.resume_reading)

    def data_received(self, data: bytes) -> None:
        """Receive part of a request; the timer runs until its last byte."""
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self.upgraded:
            self.request_timer.start()
        else:
            self.request_timer.stop()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Stop the request timer: the connection becomes a WebSocket."""
        self.upgraded = True
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        """Start the response timer: the client is not reading."""
        super().pause_writing()
        self.response_timer.start()

    def resume_writing(self) -> None:
        """Stop the response timer: the client reads again."""
        super().resume_writing()
        self.response_timer.stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self.request_timer.stop()
        self.response_timer.stop()
        super().connection_lost(exc)


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket connection; the application may abort it, and send frames in fragments."""

    config: ServerConfig
    bytes_after_close = 0  # bytes received after our close frame
    drained_at = -math.inf  # when its write buffer was last drained

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the application abort it: a closing handshake would wait for the client."""
        super().connection_made(transport)
        extra = {"abort": self.transport.abort, "writable": self.writable}
        self.app_state = {**self.app_state, **extra}
        self.transport.set_write_buffer_limits(_SEND_BUFFER_BYTES)  # TLS defaults to 512 KiB
        self.close_timeout = CLOSE_TIMEOUT_S
        if hasattr(transport, "max_size"):  # asyncio's read size; TLS reads by record
            transport.max_size = _READ_BYTES

    async def send(self, message: Any) -> None:
        """Send a message; a denial response completes the handshake, or uvicorn logs an error."""
        if "more" in message:
            await self._send_fragment(message["bytes"], last=not message["more"])
            return
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True

    async def _send_fragment(self, data: bytes | memoryview, *, last: bool) -> None:
        """Send one fragment, so that a slow client buffers no more than this."""
        await self.writable.wait()
        if self.disconnected or self.close_sent or self.conn.state is not State.OPEN:
            raise ClientDisconnected
        if self.conn.expect_continuation_frame:
            self.conn.send_continuation(data, last)
        else:
            self.conn.send_binary(data, last)
        self.transport.write(b"".join(self.conn.data_to_send()))

    def resume_writing(self) -> None:
        """Note that the write buffer was drained."""
        super().resume_writing()
        self.drained_at = self.loop.time()

    def keepalive_timeout(self) -> None:
        """Abort it unless it is merely slow: its pong waits behind the data it still reads."""
        if self.loop.time() - self.drained_at < WRITE_TIMEOUT_S:
            self.pong_timer = self.loop.call_later(self.ping_timeout or 0, self.keepalive_timeout)
        else:
            super().keepalive_timeout()

    def data_received(self, data: bytes) -> None:
        """Receive data; after our close frame only enough to see the client's."""
        if self.close_sent:
            self.bytes_after_close += len(data)
            if self.bytes_after_close > _READ_BYTES:
                self.transport.pause_reading()  # the close timeout aborts it
                return
        super().data_received(data)


class _AbortTimer:
    """A timer that aborts a connection unless it is stopped in time."""

    def __init__(self, protocol: H11Protocol, seconds: float) -> None:
        self._protocol = protocol
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the timer, unless it is running."""
        if self._timer is None:
            protocol = self._protocol
            self._timer = protocol.loop.call_later(self._seconds, protocol.transport.abort)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
