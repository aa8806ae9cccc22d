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
from livejoin.tables.live.frame_cache import Showing
from livejoin.tables.live.viewer import BUFFER_BYTES, Frame, Viewer

log = structlog.get_logger()

FRAGMENT = 64 << 10
_FRAGMENTS = 1000  # of a frame, at most; then they are larger. Clients take a few thousand
# A large frame is taken at least so fast while others wait for the memory that it holds. Two
# hundred viewers that share 100 MB/s take twice as much each.
LEAST_PER_S = 256 << 10
TAKE_S = 10.0  # until it is looked at how fast it is taken
_LOOK_S = 0.5
# Large parts that are not the newest any more, and are still being taken: so many bytes, and one
# frame more, may be in memory.
OLD_BYTES = 128 << 20


_Piece = tuple[bytes | memoryview, bool]  # of a frame, and whether more follow


@dataclass(eq=False)
class _Taking:
    """A large frame on its way."""

    frame: Frame
    socket: WebSocket
    taken: int = 0  # bytes

    def __post_init__(self) -> None:
        self.began = _now()
        self.pieces = _pieces(self.frame)  # that are left

    def next(self) -> _Piece | None:
        """What is to be sent next."""
        piece = next(self.pieces, None)
        self.taken += len(piece[0]) if piece else 0
        return piece

    @property
    def per_s(self) -> float:
        """How fast it is taken, after a time in which nobody can tell."""
        took_s = _now() - self.began
        return self.taken / took_s if took_s > TAKE_S else math.inf


class Delivery:
    """All frames of a server that are on their way."""

    def __init__(self, showing: Showing) -> None:
        self._showing = showing
        self._turn, self._crowd = asyncio.Lock(), asyncio.Lock()
        self._taking: list[_Taking] = []  # in the order in which they began
        self._took = asyncio.Event()  # set whenever one has ended, then replaced
        self._waiting: dict[Viewer, WebSocket] = {}  # who wait for theirs

    async def send(self, socket: WebSocket, viewer: Viewer, frame: Frame) -> None:
        """Send a frame that waited."""
        if frame.size <= FRAGMENT:
            await socket.send_bytes(b"".join(frame.pieces))
            return
        for piece in _pieces(frame):
            if viewer.leaving:
                return
            await _send_some(socket, viewer, piece)

    async def send_missed(
        self, socket: WebSocket, viewer: Viewer, make: Callable[[], Frame]
    ) -> Frame:
        """Send what was missed, which is made when it can be sent, and may be large."""
        self._waiting[viewer] = socket
        try:
            await self._room()
            frame = make()
            if frame.size > BUFFER_BYTES:
                del frame  # it is made anew when its turn has come: rows change meanwhile
                return await self._send_large(socket, viewer, make)
            await self.send(socket, viewer, frame)
            return frame
        finally:
            del self._waiting[viewer]

    async def hold_on(self) -> None:
        """Send an empty frame to those who hold rows and wait for large ones: we are here."""
        for viewer, socket in list(self._waiting.items()):
            held = viewer.held
            if held is None or viewer.fresh or viewer.midway or not socket.state.writable.is_set():
                continue
            header = {"type": "data", **held._asdict(), "at": int(time.time() * 1000)}
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await socket.send_bytes(frames.frame(header))

    async def _send_large(
        self, socket: WebSocket, viewer: Viewer, make: Callable[[], Frame]
    ) -> Frame:
        taking: _Taking | None = None
        writable: asyncio.Event = socket.state.writable
        try:
            while True:
                await writable.wait()
                async with self._turn:
                    if taking is None and not self._crowded():
                        taking = _Taking(make(), socket)
                        self._taking.append(taking)
                    while taking is not None and writable.is_set():
                        piece = taking.next()
                        if piece is None or viewer.leaving:
                            return taking.frame
                        await _send_some(socket, viewer, piece)
                if taking is None:
                    await self._room()
        finally:
            self._taking = [one for one in self._taking if one is not taking]
            self._took.set()
            self._took = asyncio.Event()

    def _crowded(self) -> list[_Taking]:
        """Those who hold what nobody else needs any more, if it is too much to make another one."""
        old: dict[int, int] = {}
        holders = []
        for taking in self._taking:
            mine = [part for part in taking.frame.parts if self._showing.is_old(part)]
            old |= {id(part): len(part.payload) for part in mine}
            holders += [taking] if mine else []
        return holders if sum(old.values()) > OLD_BYTES else []

    async def _room(self) -> None:
        """Wait until there is memory for another large frame.

        Whoever takes an old one too slowly meanwhile is cut off, and may come back.
        """
        async with self._crowd:  # one of those who wait sees to it
            while holders := self._crowded():
                slowest = min(holders, key=lambda one: one.per_s)
                if slowest.per_s < LEAST_PER_S:
                    log.warning("viewer is too slow", bytes_per_s=int(slowest.per_s))
                    slowest.socket.state.abort()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await self._took.wait()


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _send_some(socket: WebSocket, viewer: Viewer, piece: _Piece) -> None:
    data, more = piece
    await socket.send({"type": "websocket.send", "bytes": data, "more": more})
    viewer.midway = more
    await asyncio.sleep(0)


def _pieces(frame: Frame) -> Iterator[_Piece]:
    """The fragments of a frame, and whether more follow."""
    left = frame.size
    for data in frames.fragments(frame.pieces, max(FRAGMENT, frame.size // _FRAGMENTS)):
        left -= len(data)
        yield data, left > 0
