"""How many connections there may be, and how long one may take to say what it wants."""

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

MAX_HEADER_BYTES = 32 << 10  # the longest filter, and a browser's cookies
ASK_S = 10.0  # for a whole request; a person's takes one packet
TAKE_S = 60.0  # until some of an answer, or of a frame, was taken
NEW_CONNECTION_BURST = (
    20  # connections of one address: each costs a millisecond, and all others wait
)
CLOSE_TIMEOUT_S = 1.0  # until one that was sent away has to be gone
_READ_BYTES = 2 << 10  # of a viewer in one go: 62 small frames, parsed in 0.2 ms; others wait
_SEND_BUFFER_BYTES = 64 << 10  # for a viewer, in a socket's buffer; more waits until it is taken
_MAX_REFUSALS_PER_ACCEPT = 64  # then it is everybody else's turn
_LINGER_RESET = struct.pack(
    "ii", 1, 0
)  # a refused one leaves nothing behind, not even in the system
_MAX_DELAY_S = 5.0  # a new one waits at most so long for its turn
_LOG_INTERVAL_S = 10.0
_MAX_ADDRESSES = 10_000
Peer = tuple[str, int]  # address and port


@dataclass
class ConnectionLimits:
    """Who is inside, by address."""

    max_total: int
    max_per_address: int
    new_per_s: float  # of one address
    open_by_address: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    clock: Callable[[], float] = time.monotonic
    _logged_at: float = 0.0
    _next_allowed_at: dict[str, float] = field(
        default_factory=dict
    )  # when an address has waited enough
    _delays: dict[Peer, float] = field(default_factory=dict)  # of those who are inside already

    def admit(self, peer: Peer) -> bool:
        """Whether one more may come in; if so, it is counted until it leaves."""
        wait_s = self.acquire(peer[0])
        if wait_s:
            self._delays[peer] = wait_s
        return wait_s is not None

    def pop_delay_s(self, peer: Peer) -> float:
        """For how long somebody who was let in is not listened to yet."""
        return self._delays.pop(peer, 0.0)

    def acquire(self, address: str) -> float | None:
        """After how many seconds one more is listened to; None: it may not come in."""
        wait_s = self._rate_delay_s(address)
        full = (
            self.open_by_address.total() >= self.max_total
            or self.open_by_address[address] >= self.max_per_address
        )
        if full or wait_s is None:
            self.refused += 1
            if self.clock() > self._logged_at + _LOG_INTERVAL_S:
                self._logged_at = self.clock()
                log.warning("too many connections", of=address, refused=self.refused)
            return None
        self.open_by_address[address] += 1
        return wait_s

    def _rate_delay_s(self, address: str) -> float | None:
        """Those who come faster than others can bear wait; those who would wait long go."""
        now = self.clock()
        if len(self._next_allowed_at) > _MAX_ADDRESSES:
            self._next_allowed_at = {
                one: at for one, at in self._next_allowed_at.items() if at > now
            }
        even = max(now, self._next_allowed_at.get(address, now)) + 1 / self.new_per_s
        wait_s = max(0.0, even - now - NEW_CONNECTION_BURST / self.new_per_s)
        if wait_s > _MAX_DELAY_S:
            return None
        self._next_allowed_at[address] = even
        return wait_s

    def release(self, peer: Peer) -> None:
        """One less."""
        address = peer[0]
        self._delays.pop(peer, None)
        self.open_by_address[address] -= 1
        if not self.open_by_address[address]:
            del self.open_by_address[address]


class LimitedListener(socket.socket):
    """A socket that listens. Who may not come in is sent away before anything is made for them.

    Nothing of asyncio or uvicorn is made for one that is refused: others would wait for that.
    """

    def __init__(self, taken: socket.socket, doors: ConnectionLimits) -> None:
        super().__init__(taken.family, taken.type, taken.proto, taken.detach())
        self._limits = doors

    def accept(self) -> tuple[socket.socket, Any]:
        """The next one that may come in."""
        for _ in range(_MAX_REFUSALS_PER_ACCEPT):
            made, address = super().accept()
            if self._limits.admit(address[:2]):
                return _CountedSocket(made, self._limits, address[:2]), address
            with contextlib.suppress(OSError):  # it has left by itself
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
            made.close()
        raise BlockingIOError  # as if there were no more


class _CountedSocket(socket.socket):
    """A connection, which counts until it is closed, whatever becomes of it before."""

    def __init__(self, made: socket.socket, doors: ConnectionLimits, peer: Peer) -> None:
        super().__init__(made.family, made.type, made.proto, made.detach())
        self._peer: Peer | None = peer
        self._limits = doors

    def close(self) -> None:
        """Close it, and count it out once."""
        if self._peer is not None:
            self._limits.release(self._peer)
            self._peer = None
        super().close()


class ServerConfig(uvicorn.Config):
    """Uvicorn's, with the doors that its connections go through."""

    def __init__(self, app: Any, doors: ConnectionLimits, **more: Any) -> None:
        super().__init__(
            app,
            http=HttpConnection,
            ws=WebSocketConnection,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            **more,
        )
        self.limits = doors


class HttpConnection(H11Protocol):
    """A connection that asks. A request must be whole in time, and its answer be taken."""

    config: ServerConfig
    upgraded = False

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.request_timer = _AbortTimer(self, ASK_S)  # a request
        self.response_timer = _AbortTimer(self, TAKE_S)  # some more of an answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Listen to it, once its turn has come."""
        super().connection_made(transport)
        self.request_timer.start()
        wait_s = self.config.limits.pop_delay_s(self.client) if self.client else 0.0
        if wait_s:
            transport.pause_reading()
            self.loop.call_later(wait_s, transport.resume_reading)

    def data_received(self, data: bytes) -> None:
        """Take more of a request; the clock runs from its first byte to its last."""
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self.upgraded:
            self.request_timer.start()
        else:
            self.request_timer.stop()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From now on it watches."""
        self.upgraded = True
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        """The asker takes nothing at the moment."""
        super().pause_writing()
        self.response_timer.start()

    def resume_writing(self) -> None:
        """The asker goes on."""
        super().resume_writing()
        self.response_timer.stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget its limits."""
        self.request_timer.stop()
        self.response_timer.stop()
        super().connection_lost(exc)


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A socket, which an asking connection has become."""

    config: ServerConfig
    bytes_after_close = 0  # bytes that came after it was sent away
    drained_at = -math.inf  # when it last took some of what waited for it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the application cut it off: closing it in good form waits for the other side."""
        super().connection_made(transport)
        more = {"abort": self.transport.abort, "writable": self.writable}
        self.app_state = {**self.app_state, **more}
        self.transport.set_write_buffer_limits(_SEND_BUFFER_BYTES)  # TLS would take 512 KiB
        self.close_timeout = CLOSE_TIMEOUT_S
        if hasattr(transport, "max_size"):  # asyncio's, of one read; TLS has records of its own
            transport.max_size = _READ_BYTES

    async def send(self, message: Any) -> None:
        """Send; an answer instead of a handshake ends it too, which uvicorn would complain of."""
        if "more" in message:
            await self._send_fragment(message["bytes"], last=not message["more"])
            return
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True

    async def _send_fragment(self, data: bytes | memoryview, *, last: bool) -> None:
        """Send some of a message: whoever is slow takes no more memory than this much of it."""
        await self.writable.wait()
        if self.disconnected or self.close_sent or self.conn.state is not State.OPEN:
            raise ClientDisconnected
        if self.conn.expect_continuation_frame:
            self.conn.send_continuation(data, last)
        else:
            self.conn.send_binary(data, last)
        self.transport.write(b"".join(self.conn.data_to_send()))

    def resume_writing(self) -> None:
        """It has taken what waited."""
        super().resume_writing()
        self.drained_at = self.loop.time()

    def keepalive_timeout(self) -> None:
        """Cut it off, unless it is only slow: a ping waits behind what it has not taken yet."""
        if self.loop.time() - self.drained_at < TAKE_S:
            self.pong_timer = self.loop.call_later(self.ping_timeout or 0, self.keepalive_timeout)
        else:
            super().keepalive_timeout()

    def data_received(self, data: bytes) -> None:
        """Read on; of one that was sent away little more than that it has seen it."""
        if self.close_sent:
            self.bytes_after_close += len(data)
            if self.bytes_after_close > _READ_BYTES:
                self.transport.pause_reading()  # it is cut off when its time is up
                return
        super().data_received(data)


class _AbortTimer:
    """A time after which a connection is cut off, unless it is stopped before."""

    def __init__(self, of: H11Protocol, seconds: float) -> None:
        self._protocol = of
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Let it run; one that runs goes on."""
        if self._timer is None:
            of = self._protocol
            self._timer = of.loop.call_later(self._seconds, of.transport.abort)

    def stop(self) -> None:
        """Forget it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
