"""Closes open sockets within seconds after their token or session was revoked or expired."""

import asyncio
import contextlib
from collections.abc import Iterator

from starlette.websockets import WebSocket, WebSocketDisconnect

from livejoin.tables.auth.authentication import Identities
from livejoin.tables.auth.sessions_and_codes import Identity

CLOSE_UNAUTHORIZED = 4401  # a WebSocket close code
_CLOSE_TIMEOUT_S = 2.0  # for the client to read what is being sent


class OpenSockets:
    """The identity of each open socket, also before it has subscribed."""

    def __init__(self, identities: Identities) -> None:
        self._identities = identities
        self._callers: dict[WebSocket, Identity] = {}
        self._close_tasks: set[asyncio.Task[None]] = set()

    @contextlib.contextmanager
    def track(self, socket: WebSocket) -> Iterator[Identity]:
        """Track an authenticated socket while it is open; yields its identity."""
        self._callers[socket] = socket.state.who
        try:
            yield socket.state.who
        finally:
            del self._callers[socket]

    def close_revoked(self) -> None:
        """Close the sockets whose token or session is not valid any more."""
        for socket, identity in self._callers.items():
            if not self._identities.still_valid(identity):
                why = "Unauthorized: this token or session has ended."
                task = asyncio.create_task(close_socket(socket, CLOSE_UNAUTHORIZED, why))
                self._close_tasks.add(task)  # the event loop keeps only a weak reference
                task.add_done_callback(self._close_tasks.discard)


async def close_socket(socket: WebSocket, code: int, why: str, last: bytes = b"") -> None:
    """Close a socket, after a last frame if one is given."""
    with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            if last:
                await socket.send_bytes(last)
            await socket.close(code, why)
            return
    socket.state.abort()  # the client reads nothing, so the close frame cannot be sent
