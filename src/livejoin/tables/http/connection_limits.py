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

HEADER_BYTES = 32 << 10  # the longest filter, and a browser's cookies
ASK_S = 10.0  # for a whole request; a person's takes one packet
TAKE_S = 60.0  # until some of an answer, or of a frame, was taken
NEW_AT_ONCE = 20  # connections of one address: each costs a millisecond, and all others wait
CLOSE_S = 1.0  # until one that was sent away has to be gone
_READ_BYTES = 2 << 10  # of a viewer in one go: 62 small frames, parsed in 0.2 ms; others wait
_WAITING_BYTES = 64 << 10  # for a viewer, in a socket's buffer; more waits until it is taken
_REFUSED_AT_ONCE = 64  # then it is everybody else's turn
_RESET = struct.pack("ii", 1, 0)  # a refused one leaves nothing behind, not even in the system
_TURN_S = 5.0  # a new one waits at most so long for its turn
_SAY_S = 10.0
_REMEMBERED = 10_000
Peer = tuple[str, int]  # address and port


@dataclass
class Doors:
    """Who is inside, by address."""

    most: int
    most_of_one: int
    new_per_s: float  # of one address
    inside: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    clock: Callable[[], float] = time.monotonic
    _said_at: float = 0.0
    _even: dict[str, float] = field(default_factory=dict)  # when an address has waited enough
    _waits: dict[Peer, float] = field(default_factory=dict)  # of those who are inside already

    def let_in(self, peer: Peer) -> bool:
        """Whether one more may come in; if so, it is counted until it leaves."""
        wait_s = self.enter(peer[0])
        if wait_s:
            self._waits[peer] = wait_s
        return wait_s is not None

    def wait_s(self, peer: Peer) -> float:
        """For how long somebody who was let in is not listened to yet."""
        return self._waits.pop(peer, 0.0)

    def enter(self, address: str) -> float | None:
        """After how many seconds one more is listened to; None: it may not come in."""
        wait_s = self._turn(address)
        full = self.inside.total() >= self.most or self.inside[address] >= self.most_of_one
        if full or wait_s is None:
            self.refused += 1
            if self.clock() > self._said_at + _SAY_S:
                self._said_at = self.clock()
                log.warning("too many connections", of=address, refused=self.refused)
            return None
        self.inside[address] += 1
        return wait_s

    def _turn(self, address: str) -> float | None:
        """Those who come faster than others can bear wait; those who would wait long go."""
        now = self.clock()
        if len(self._even) > _REMEMBERED:
            self._even = {one: at for one, at in self._even.items() if at > now}
        even = max(now, self._even.get(address, now)) + 1 / self.new_per_s
        wait_s = max(0.0, even - now - NEW_AT_ONCE / self.new_per_s)
        if wait_s > _TURN_S:
            return None
        self._even[address] = even
        return wait_s

    def leave(self, peer: Peer) -> None:
        """One less."""
        address = peer[0]
        self._waits.pop(peer, None)
        self.inside[address] -= 1
        if not self.inside[address]:
            del self.inside[address]


class Entrance(socket.socket):
    """A socket that listens. Who may not come in is sent away before anything is made for them.

    Nothing of asyncio or uvicorn is made for one that is refused: others would wait for that.
    """

    def __init__(self, taken: socket.socket, doors: Doors) -> None:
        super().__init__(taken.family, taken.type, taken.proto, taken.detach())
        self._doors = doors

    def accept(self) -> tuple[socket.socket, Any]:
        """The next one that may come in."""
        for _ in range(_REFUSED_AT_ONCE):
            made, address = super().accept()
            if self._doors.let_in(address[:2]):
                return _Inside(made, self._doors, address[:2]), address
            with contextlib.suppress(OSError):  # it has left by itself
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            made.close()
        raise BlockingIOError  # as if there were no more


class _Inside(socket.socket):
    """A connection, which counts until it is closed, whatever becomes of it before."""

    def __init__(self, made: socket.socket, doors: Doors, peer: Peer) -> None:
        super().__init__(made.family, made.type, made.proto, made.detach())
        self._peer: Peer | None = peer
        self._doors = doors

    def close(self) -> None:
        """Close it, and count it out once."""
        if self._peer is not None:
            self._doors.leave(self._peer)
            self._peer = None
        super().close()


class Config(uvicorn.Config):
    """Uvicorn's, with the doors that its connections go through."""

    def __init__(self, app: Any, doors: Doors, **more: Any) -> None:
        super().__init__(
            app, http=Asking, ws=Watching, h11_max_incomplete_event_size=HEADER_BYTES, **more
        )
        self.doors = doors


class Asking(H11Protocol):
    """A connection that asks. A request must be whole in time, and its answer be taken."""

    config: Config
    upgraded = False

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.whole = _Limit(self, ASK_S)  # a request
        self.taken = _Limit(self, TAKE_S)  # some more of an answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Listen to it, once its turn has come."""
        super().connection_made(transport)
        self.whole.start()
        wait_s = self.config.doors.wait_s(self.client) if self.client else 0.0
        if wait_s:
            transport.pause_reading()
            self.loop.call_later(wait_s, transport.resume_reading)

    def data_received(self, data: bytes) -> None:
        """Take more of a request; the clock runs from its first byte to its last."""
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self.upgraded:
            self.whole.start()
        else:
            self.whole.stop()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From now on it watches."""
        self.upgraded = True
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        """The asker takes nothing at the moment."""
        super().pause_writing()
        self.taken.start()

    def resume_writing(self) -> None:
        """The asker goes on."""
        super().resume_writing()
        self.taken.stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget its limits."""
        self.whole.stop()
        self.taken.stop()
        super().connection_lost(exc)


class Watching(WebSocketsSansIOProtocol):
    """A socket, which an asking connection has become."""

    config: Config
    late = 0  # bytes that came after it was sent away
    taken_at = -math.inf  # when it last took some of what waited for it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the application cut it off: closing it in good form waits for the other side."""
        super().connection_made(transport)
        more = {"abort": self.transport.abort, "writable": self.writable}
        self.app_state = {**self.app_state, **more}
        self.transport.set_write_buffer_limits(_WAITING_BYTES)  # TLS would take 512 KiB
        self.close_timeout = CLOSE_S
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
        self.taken_at = self.loop.time()

    def keepalive_timeout(self) -> None:
        """Cut it off, unless it is only slow: a ping waits behind what it has not taken yet."""
        if self.loop.time() - self.taken_at < TAKE_S:
            self.pong_timer = self.loop.call_later(self.ping_timeout or 0, self.keepalive_timeout)
        else:
            super().keepalive_timeout()

    def data_received(self, data: bytes) -> None:
        """Read on; of one that was sent away little more than that it has seen it."""
        if self.close_sent:
            self.late += len(data)
            if self.late > _READ_BYTES:
                self.transport.pause_reading()  # it is cut off when its time is up
                return
        super().data_received(data)


class _Limit:
    """A time after which a connection is cut off, unless it is stopped before."""

    def __init__(self, of: H11Protocol, seconds: float) -> None:
        self._of = of
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Let it run; one that runs goes on."""
        if self._timer is None:
            of = self._of
            self._timer = of.loop.call_later(self._seconds, of.transport.abort)

    def stop(self) -> None:
        """Forget it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
