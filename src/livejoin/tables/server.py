"""The web server: one socket, one event loop, which also owns the tables."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from livejoin.errors import MachineError
from livejoin.tables.asking import Asking
from livejoin.tables.host import Host
from livejoin.tables.http import api
from livejoin.tables.live import Live
from livejoin.tables.security import SameSite

_FROM_VIEWER_BYTES = 64 << 10  # a subscription is a few hundred
_LEAVE_S = 3


def listen(host: str, port: int) -> socket.socket:
    """Take the port, or say who to ask."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # said to be TCP: else asyncio leaves Nagle's algorithm on, and small frames wait for 40 ms
    taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
        taken.listen()  # from now on nobody else can take it
    except OSError as error:
        taken.close()
        raise MachineError(
            f"{host}:{port} cannot be used: {error.strerror}",
            hint="Choose another one with http.port or --port.",
        ) from error
    return taken


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the application's to handle."""
        yield


async def serve(host: Host, asking: Asking, taken: socket.socket, stop: asyncio.Event) -> None:
    """Serve until told to stop; then send the viewers away and finish."""
    live = Live(host)
    config = uvicorn.Config(
        SameSite(api(host, live, asking), taken.getsockname()[1]),
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="websockets-sansio",
        ws_max_size=_FROM_VIEWER_BYTES,
        ws_per_message_deflate=False,  # it would compress every frame once per viewer
        timeout_graceful_shutdown=_LEAVE_S,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve([taken]))
    beating = asyncio.create_task(live.beat())
    stopping = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait({serving, beating, stopping}, return_when=asyncio.FIRST_COMPLETED)
    live.close()
    server.should_exit = True
    await serving
    for task in (beating, stopping):
        task.cancel()
    for ended in done - {stopping}:
        ended.result()  # raises what ended it
