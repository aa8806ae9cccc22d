"""A reverse proxy that serves each server below a folder of one address, as portals do."""

import asyncio
import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_CHUNK = 64 << 10
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@dataclass
class FolderProxy:
    """A running proxy: `port`, and the local port that serves each folder."""

    port: int = 0
    folders: dict[str, int] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def target(self, path: str) -> tuple[int, str] | None:
        """Return the port and the path there; the longest folder counts."""
        for folder in sorted(self.folders, key=len, reverse=True):
            if path.startswith(folder):
                return self.folders[folder], f"/{path.removeprefix(folder)}"
        return None


@contextlib.contextmanager
def folder_proxy() -> Iterator[FolderProxy]:
    """Run a proxy on loopback until the end of the block."""
    proxy, started, stop = FolderProxy(), threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        connected = functools.partial(_serve_request, proxy)
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        proxy.port = server.sockets[0].getsockname()[1]
        started.set()
        await stop.wait()
        server.close()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())  # cancels open connections at its end

    thread = threading.Thread(target=run, name="folder-proxy")
    thread.start()
    assert started.wait(20)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)


async def _serve_request(
    proxy: FolderProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Forward one request, or one WebSocket; each has its own connection."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, _, headers = head.partition("\r\n")
        method, path, version = line.split(" ")
        target = proxy.target(path)
        if target is None:
            writer.write(_NOT_FOUND)
            return
        port, path = target
        if "\r\nupgrade: websocket\r\n" not in head.lower():
            lines = headers.split("\r\n")
            kept = [line for line in lines if not line.lower().startswith("connection:")]
            headers = "\r\n".join(["connection: close", *kept])
        await _forward(port, f"{method} {path} {version}\r\n{headers}", reader, writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # the browser opens connections ahead of need, and leaves when it likes
    finally:
        writer.close()


async def _forward(
    port: int, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Send the request on, then copy in both directions until one side has closed."""
    their_reader, their_writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        their_writer.write(head.encode("latin-1"))
        copies = [
            asyncio.ensure_future(_copy(reader, their_writer)),
            asyncio.ensure_future(_copy(their_reader, writer)),
        ]
        done, open_ones = await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        for copy in open_ones:
            copy.cancel()
        for copy in done:
            copy.result()
    finally:
        their_writer.close()


async def _copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    while data := await source.read(_CHUNK):
        to.write(data)
        await to.drain()


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...


@contextlib.contextmanager
def static_server(folder: Path) -> Iterator[int]:
    """Serve the files of a folder on loopback; the value is the port."""
    handler = functools.partial(_QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="static")
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
