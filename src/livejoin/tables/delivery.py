"""Frames into sockets: small ones at once, large ones in fragments, as fast as they are taken.

Of a message in fragments a slow viewer's socket holds one or two, and the rest stays in parts that
viewers share. Large frames go one after the other: a viewer has its turn for as long as it takes
what is written, and between two fragments there is time for everybody else.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import structlog
from starlette.websockets import WebSocket

from livejoin.tables import frames
from livejoin.tables.showing import Showing
from livejoin.tables.viewer import BUFFER_BYTES, Frame, Viewer

log = structlog.get_logger()

FRAGMENT = 64 << 10
_FRAGMENTS = 1000  # of a frame, at most; then they are larger. Clients take a few thousand
TAKE_S = 10.0  # for a large frame, while others wait for the memory that it holds


class _Taking(NamedTuple):
    """A large frame on its way."""

    frame: Frame
    began: float
    socket: WebSocket

    def holds(self, showing: Showing) -> bool:
        """Whether it keeps something in memory that nobody else needs any more."""
        return any(map(showing.is_old, self.frame.parts))


class Delivery:
    """All frames of a server that are on their way."""

    def __init__(self, showing: Showing) -> None:
        self._showing = showing
        self._turn, self._crowd = asyncio.Lock(), asyncio.Lock()
        self._taking: list[_Taking] = []  # in the order in which they began
        self._took = asyncio.Event()  # set whenever one has ended, then replaced

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
        await self._room()
        frame = make()
        if frame.size <= BUFFER_BYTES:
            await self.send(socket, viewer, frame)
            return frame
        del frame  # it is made anew when its turn has come: rows change meanwhile
        return await self._send_large(socket, viewer, make)

    async def _send_large(
        self, socket: WebSocket, viewer: Viewer, make: Callable[[], Frame]
    ) -> Frame:
        frame: Frame | None = None
        writable: asyncio.Event = socket.state.writable
        with contextlib.ExitStack() as stack:
            while True:
                await writable.wait()
                async with self._turn:
                    if frame is None and not self._showing.crowded:
                        frame = make()
                        pieces = _pieces(frame)
                        stack.enter_context(self._noted(frame, socket))
                    while frame is not None and writable.is_set():
                        piece = next(pieces, None)
                        if piece is None or viewer.leaving:
                            return frame
                        await _send_some(socket, viewer, piece)
                if frame is None:
                    await self._room()

    @contextlib.contextmanager
    def _noted(self, frame: Frame, socket: WebSocket) -> Iterator[None]:
        taking = _Taking(frame, asyncio.get_running_loop().time(), socket)
        self._taking.append(taking)
        try:
            yield
        finally:
            self._taking = [one for one in self._taking if one is not taking]
            self._took.set()
            self._took = asyncio.Event()

    async def _room(self) -> None:
        """Wait until there is memory for another large frame.

        Whoever takes an old one for too long meanwhile is cut off, and may come back.
        """
        now = asyncio.get_running_loop().time
        async with self._crowd:  # one of those who wait sees to it
            while self._showing.crowded:
                old = [one for one in self._taking if one.holds(self._showing)]
                if not old:
                    self._showing.change()  # what is left was kept for others who may come
                    return
                left_s = old[0].began + TAKE_S - now()
                if left_s <= 0:
                    log.warning("viewer is too slow", bytes=old[0].frame.size, limit_s=TAKE_S)
                    old[0].socket.state.abort()
                    left_s = TAKE_S
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left_s):
                        await self._took.wait()


async def _send_some(
    socket: WebSocket, viewer: Viewer, piece: tuple[bytes | memoryview, bool]
) -> None:
    data, more = piece
    await socket.send({"type": "websocket.send", "bytes": data, "more": more})
    viewer.midway = more
    await asyncio.sleep(0)


def _pieces(frame: Frame) -> Iterator[tuple[bytes | memoryview, bool]]:
    """The fragments of a frame, and whether more follow."""
    left = frame.size
    for data in frames.fragments(frame.pieces, max(FRAGMENT, frame.size // _FRAGMENTS)):
        left -= len(data)
        yield data, left > 0
