"""A TCP proxy to a real broker that lets it look older: it lowers versions that the broker offers.

Clients ask each broker first which versions of each request it has (ApiVersions), and keep to that.
"""

import asyncio
import contextlib
import gc
import struct
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping

from livejoin.runtime.broker import free_port

METADATA = 3
DESCRIBE_GROUPS = 15
_API_VERSIONS = 18


@contextlib.contextmanager
def older_broker(port: int, target: int, newest: Mapping[int, int]) -> Iterator[None]:
    """Forward a local port to another one; requests (by key) are offered up to these versions."""
    with _proxy(port, target, newest):
        yield
    # A connection that librdkafka opens while the proxy ends may be left to the collector, whose
    # warning would fail some later test.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@contextlib.contextmanager
def _proxy(port: int, target: int, newest: Mapping[int, int]) -> Iterator[None]:
    loop = asyncio.new_event_loop()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked: dict[int, int] = {}  # versions of ApiVersions requests, by correlation id
        task = asyncio.current_task()
        if stop.is_set() or task is None:
            writer.close()
            return
        connections.add(task)
        try:
            ours, theirs = await asyncio.open_connection("127.0.0.1", target)
        except (OSError, asyncio.CancelledError):
            writer.close()
            return
        try:
            with contextlib.suppress(asyncio.CancelledError):  # the end of the block
                await asyncio.gather(
                    _forward(reader, theirs, lambda frame: _remember(frame, asked)),
                    _forward(ours, writer, lambda frame: _lower(frame, asked, newest)),
                )
        finally:  # close() would wait until a client has read everything
            writer.transport.abort()
            theirs.transport.abort()

    async def serve(stop: asyncio.Event) -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", port)
        listening.set()
        await stop.wait()
        server.close()
        # asyncio's own tasks are not cancelled: a connection that is being accepted would stay open
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await asyncio.sleep(0.2)  # connections that were being accepted close, transports end

    connections: set[asyncio.Task[object]] = set()
    stop, listening = asyncio.Event(), threading.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(stop),))
    thread.start()
    try:
        assert listening.wait(10)
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


async def _forward(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Callable[[bytes], bytes]
) -> None:
    """Forward frames: their length in four bytes, then as much."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        while True:
            head = await reader.readexactly(4)
            frame = await reader.readexactly(struct.unpack(">i", head)[0])
            writer.write(head + change(frame))
            await writer.drain()
    writer.close()


def _remember(frame: bytes, asked: dict[int, int]) -> bytes:
    key, version, correlation = struct.unpack_from(">hhi", frame)
    if key == _API_VERSIONS:
        asked[correlation] = version
    return frame


def _lower(frame: bytes, asked: dict[int, int], newest: Mapping[int, int]) -> bytes:
    """Lower the offered versions in an answer to ApiVersions, in place."""
    (correlation,) = struct.unpack_from(">i", frame)
    version = asked.pop(correlation, None)
    if version is None:
        return frame
    changed = bytearray(frame)
    at = 6  # after the correlation id and the error
    if version >= 3:  # compact: the count plus one as a varint, and tags after each entry
        count, shift = 0, 0
        while True:
            byte = frame[at]
            count |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                break
        count, step = count - 1, 7
    else:
        (count,) = struct.unpack_from(">i", frame, at)
        at, step = at + 4, 6
    for entry in range(count):
        start = at + entry * step
        key, _, highest = struct.unpack_from(">hhh", frame, start)
        struct.pack_into(">h", changed, start + 4, min(highest, newest.get(key, highest)))
    return bytes(changed)


class Ports:
    """Listeners of one broker: `inner` is behind the proxy, `outer` the proxy, `nowhere` nobody."""

    def __init__(self) -> None:
        self.inner, self.outer, self.bootstrap, self.nowhere = (free_port() for _ in range(4))

    def settings(self) -> dict[str, str]:
        return {
            "listeners": f"OLDER://127.0.0.1:{self.inner},LOST://127.0.0.1:{self.bootstrap}",
            "advertised.listeners": f"OLDER://127.0.0.1:{self.outer},"
            f"LOST://127.0.0.1:{self.nowhere}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "OLDER:PLAINTEXT,LOST:PLAINTEXT",
        }
