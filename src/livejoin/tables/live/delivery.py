"""Frames into sockets: small ones at once, large ones in fragments, as fast as they are taken.

Of a message in fragments a slow viewer's socket holds one or two, and the rest stays in parts that
viewers share. Large frames go one after the other: a viewer has its turn for as long as it takes
what is written, and between two fragments there is time for everybody else.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect

from livejoin.tables.live import frames
from livejoin.tables.live.frame_cache import FrameCache
from livejoin.tables.live.viewer import BUFFER_BYTES, OutgoingFrame, Viewer

log = structlog.get_logger()

FRAGMENT_BYTES = 64 << 10
_MAX_FRAGMENTS = 1000  # of a frame, at most; then they are larger. Clients take a few thousand
# A large frame is taken at least so fast while others wait for the memory that it holds. Two
# hundred viewers that share 100 MB/s take twice as much each.
MIN_BYTES_PER_S = 256 << 10
TAKE_S = 10.0  # until it is looked at how fast it is taken
_RECHECK_S = 0.5
# Large parts that are not the newest any more, and are still being taken: so many bytes, and one
# frame more, may be in memory.
OLD_BYTES = 128 << 20


_Fragment = tuple[bytes | memoryview, bool]  # of a frame, and whether more follow


@dataclass(eq=False)
class _LargeSend:
    """A large frame on its way."""

    frame: OutgoingFrame
    socket: WebSocket
    sent_bytes: int = 0  # bytes

    def __post_init__(self) -> None:
        self.started_at = _now()
        self.fragments = _fragments(self.frame)  # that are left

    def next_fragment(self) -> _Fragment | None:
        """What is to be sent next."""
        piece = next(self.fragments, None)
        self.sent_bytes += len(piece[0]) if piece else 0
        return piece

    @property
    def bytes_per_s(self) -> float:
        """How fast it is taken, after a time in which nobody can tell."""
        took_s = _now() - self.started_at
        return self.sent_bytes / took_s if took_s > TAKE_S else math.inf


class Delivery:
    """All frames of a server that are on their way."""

    def __init__(self, showing: FrameCache) -> None:
        self._frame_cache = showing
        self._send_lock, self._memory_lock = asyncio.Lock(), asyncio.Lock()
        self._large_sends: list[_LargeSend] = []  # in the order in which they began
        self._send_ended = asyncio.Event()  # set whenever one has ended, then replaced
        self._waiting_viewers: dict[Viewer, WebSocket] = {}  # who wait for theirs

    async def send(self, socket: WebSocket, viewer: Viewer, frame: OutgoingFrame) -> None:
        """Send a frame that waited."""
        if frame.size <= FRAGMENT_BYTES:
            await socket.send_bytes(b"".join(frame.pieces))
            return
        for piece in _fragments(frame):
            if viewer.closing:
                return
            await _send_fragment(socket, viewer, piece)

    async def send_missed(
        self, socket: WebSocket, viewer: Viewer, make: Callable[[], OutgoingFrame]
    ) -> OutgoingFrame:
        """Send what was missed, which is made when it can be sent, and may be large."""
        self._waiting_viewers[viewer] = socket
        try:
            await self._wait_for_memory()
            frame = make()
            if frame.size > BUFFER_BYTES:
                del frame  # it is made anew when its turn has come: rows change meanwhile
                return await self._send_large(socket, viewer, make)
            await self.send(socket, viewer, frame)
            return frame
        finally:
            del self._waiting_viewers[viewer]

    async def send_keepalives(self) -> None:
        """Send an empty frame to those who hold rows and wait for large ones: we are here."""
        for viewer, socket in list(self._waiting_viewers.items()):
            held = viewer.cursor
            if (
                held is None
                or viewer.nothing_sent
                or viewer.mid_frame
                or not socket.state.writable.is_set()
            ):
                continue
            header = {"type": "data", **held._asdict(), "at": int(time.time() * 1000)}
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await socket.send_bytes(frames.encode_frame(header))

    async def _send_large(
        self, socket: WebSocket, viewer: Viewer, make: Callable[[], OutgoingFrame]
    ) -> OutgoingFrame:
        taking: _LargeSend | None = None
        writable: asyncio.Event = socket.state.writable
        try:
            while True:
                await writable.wait()
                async with self._send_lock:
                    if taking is None and not self._sends_to_wait_for():
                        taking = _LargeSend(make(), socket)
                        self._large_sends.append(taking)
                    while taking is not None and writable.is_set():
                        piece = taking.next_fragment()
                        if piece is None or viewer.closing:
                            return taking.frame
                        await _send_fragment(socket, viewer, piece)
                if taking is None:
                    await self._wait_for_memory()
        finally:
            self._large_sends = [one for one in self._large_sends if one is not taking]
            self._send_ended.set()
            self._send_ended = asyncio.Event()

    def _sends_to_wait_for(self) -> list[_LargeSend]:
        """Those who hold what nobody else needs any more, if it is too much to make another one."""
        old: dict[int, int] = {}
        holders = []
        for taking in self._large_sends:
            mine = [part for part in taking.frame.parts if self._frame_cache.is_stale(part)]
            old |= {id(part): len(part.payload) for part in mine}
            holders += [taking] if mine else []
        return holders if sum(old.values()) > OLD_BYTES else []

    async def _wait_for_memory(self) -> None:
        """Wait until there is memory for another large frame.

        Whoever takes an old one too slowly meanwhile is cut off, and may come back.
        """
        async with self._memory_lock:  # one of those who wait sees to it
            while holders := self._sends_to_wait_for():
                slowest = min(holders, key=lambda one: one.bytes_per_s)
                if slowest.bytes_per_s < MIN_BYTES_PER_S:
                    log.warning("viewer is too slow", bytes_per_s=int(slowest.bytes_per_s))
                    slowest.socket.state.abort()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_RECHECK_S):
                        await self._send_ended.wait()


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _send_fragment(socket: WebSocket, viewer: Viewer, piece: _Fragment) -> None:
    data, more = piece
    await socket.send({"type": "websocket.send", "bytes": data, "more": more})
    viewer.mid_frame = more
    await asyncio.sleep(0)


def _fragments(frame: OutgoingFrame) -> Iterator[_Fragment]:
    """The fragments of a frame, and whether more follow."""
    left = frame.size
    for data in frames.split_fragments(
        frame.pieces, max(FRAGMENT_BYTES, frame.size // _MAX_FRAGMENTS)
    ):
        left -= len(data)
        yield data, left > 0
