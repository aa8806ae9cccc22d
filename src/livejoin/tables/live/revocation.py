"""Open sockets of people who may not watch any more: they are sent away within seconds."""

import asyncio
import contextlib
from collections.abc import Iterator

from starlette.websockets import WebSocket, WebSocketDisconnect

from livejoin.tables.auth.identity import Guests, Who

NOT_KNOWN = 4401  # the code of a close frame
_LEAVE_S = 2.0  # for one that is sent away to take what is on its way


class Watchers:
    """Who has which socket open, also before they have subscribed."""

    def __init__(self, guests: Guests) -> None:
        self._guests = guests
        self._open: dict[WebSocket, Who] = {}
        self._sending: set[asyncio.Task[None]] = set()

    @contextlib.contextmanager
    def watching(self, socket: WebSocket) -> Iterator[Who]:
        """Whoever the gate has let in, for as long as they are here."""
        self._open[socket] = socket.state.who
        try:
            yield socket.state.who
        finally:
            del self._open[socket]

    def check(self) -> None:
        """Send away those whose token was revoked or has expired, or whose session has."""
        for socket, who in self._open.items():
            if not self._guests.still(who):
                why = "your token or session does not count any more"
                task = asyncio.create_task(send_away(socket, NOT_KNOWN, why))
                self._sending.add(task)  # else nobody holds it
                task.add_done_callback(self._sending.discard)


async def send_away(socket: WebSocket, code: int, why: str, last: bytes = b"") -> None:
    """Close a socket, after a last frame where there is one."""
    with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
        async with asyncio.timeout(_LEAVE_S):
            if last:
                await socket.send_bytes(last)
            await socket.close(code, why)
            return
    socket.state.abort()  # it takes nothing: it would wait for the rest of a frame for ever
