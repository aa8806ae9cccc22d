"""Open sockets of people who may not watch any more: they are sent away within seconds."""

import asyncio
import contextlib
from collections.abc import Iterator

from starlette.websockets import WebSocket, WebSocketDisconnect

from livejoin.tables.auth.identity import Identities, Identity

CLOSE_UNAUTHORIZED = 4401  # the code of a close frame
_CLOSE_TIMEOUT_S = 2.0  # for one that is sent away to take what is on its way


class OpenSockets:
    """Who has which socket open, also before they have subscribed."""

    def __init__(self, guests: Identities) -> None:
        self._identities = guests
        self._callers: dict[WebSocket, Identity] = {}
        self._close_tasks: set[asyncio.Task[None]] = set()

    @contextlib.contextmanager
    def track(self, socket: WebSocket) -> Iterator[Identity]:
        """Whoever the gate has let in, for as long as they are here."""
        self._callers[socket] = socket.state.who
        try:
            yield socket.state.who
        finally:
            del self._callers[socket]

    def close_revoked(self) -> None:
        """Send away those whose token was revoked or has expired, or whose session has."""
        for socket, who in self._callers.items():
            if not self._identities.still_valid(who):
                why = "your token or session does not count any more"
                task = asyncio.create_task(close_socket(socket, CLOSE_UNAUTHORIZED, why))
                self._close_tasks.add(task)  # else nobody holds it
                task.add_done_callback(self._close_tasks.discard)


async def close_socket(socket: WebSocket, code: int, why: str, last: bytes = b"") -> None:
    """Close a socket, after a last frame where there is one."""
    with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            if last:
                await socket.send_bytes(last)
            await socket.close(code, why)
            return
    socket.state.abort()  # it takes nothing: it would wait for the rest of a frame for ever
