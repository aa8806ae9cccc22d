"""Frames into sockets: small ones at once, large ones in fragments, as fast as they are taken.

Of a message in fragments a slow viewer's socket holds one or two, and the rest stays in parts that
viewers share. Large frames go one after the other: a viewer has its turn for as long as it takes
what is written, and between two fragments there is time for everybody else.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect

from livejoin.tables import frames
from livejoin.tables.showing import Showing
from livejoin.tables.viewer import BUFFER_BYTES, Frame, Viewer

log = structlog.get_logger()

FRAGMENT = 64 << 10
_FRAGMENTS = 1000  # of a frame, at most; then they are larger. Clients take a few thousand
TAKE_S = 10.0  # for a large frame, while others wait for the memory that it holds
# Large parts that are not the newest any more, and are still being taken: so many bytes, and one
# frame more, may be in memory.
OLD_BYTES = 128 << 20


_Piece = tuple[bytes | memoryview, bool]  # of a frame, and whether more follow


class _Taking(NamedTuple):
    """A large frame on its way."""

    frame: Frame
    pieces: Iterator[_Piece]  # that are left of it
    began: float
    socket: WebSocket


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
                        frame = make()
                        taking = _Taking(frame, _pieces(frame), _now(), socket)
                        self._taking.append(taking)
                    while taking is not None and writable.is_set():
                        piece = next(taking.pieces, None)
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

        Whoever takes an old one for too long meanwhile is cut off, and may come back.
        """
        async with self._crowd:  # one of those who wait sees to it
            while holders := self._crowded():
                first = holders[0]
                left_s = first.began + TAKE_S - _now()
                if left_s <= 0:
                    log.warning("viewer is too slow", bytes=first.frame.size, limit_s=TAKE_S)
                    first.socket.state.abort()
                    left_s = TAKE_S
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left_s):
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
