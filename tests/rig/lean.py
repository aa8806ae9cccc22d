"""Lightweight viewers that read only frame headers: hundreds fit into one process.

Implements WebSocket from its specification, as far as a livejoin server uses it.
"""

import asyncio
import base64
import itertools
import json
import os
import socket as sockets
import struct
from collections.abc import Callable, Sequence
from typing import Any

_PING, _CLOSE = 9, 8
_HEADER = 64 << 10  # larger than the header of any frame


FrameHandler = Callable[[dict[str, Any], list[memoryview]], object]


class LightViewer(asyncio.Protocol):
    """One viewer. `headers` has the headers received; it may read slowly, or not at all."""

    transport: asyncio.Transport
    on_frame: FrameHandler | None = None  # called with the header and payloads of every frame
    answers_pings = True  # whether it answers pings

    def __init__(self, port: int, tables: Sequence[str], stop_after: int | None = None) -> None:
        self._port = port
        self._stop_after = stop_after
        self._tables = tables
        self._data = bytearray()
        self._opened = False
        self._remaining = 0  # bytes of the current WebSocket frame not received yet
        self._opcode = 0
        self._final = True
        self._message = bytearray()  # the beginning of the current message
        self._size = 0  # bytes of the current message received so far
        self.headers: list[dict[str, Any]] = []
        self.received = 0
        self.lost = False
        self.failed: AssertionError | None = None
        self.closed: tuple[int, str] | None = None  # close code and reason
        self._changed = asyncio.Event()

    # --- callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        lines = ["GET /api/v1/live HTTP/1.1", f"Host: 127.0.0.1:{self._port}"]
        lines += ["Connection: Upgrade", "Upgrade: websocket", f"Sec-WebSocket-Key: {key}"]
        lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: livejoin.v1", "", ""]
        transport.write("\r\n".join(lines).encode())

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self._data += data
        if not self._opened:
            head, found, rest = bytes(self._data).partition(b"\r\n\r\n")
            if not found:
                return
            assert b" 101 " in head.splitlines()[0], head
            self._opened, self._data = True, bytearray(rest)
            self.subscribe(*self._tables)
        try:
            while self._process():
                pass
        except AssertionError as error:
            self.failed = error
            self.transport.abort()
        if self._stop_after is not None and self.received >= self._stop_after:
            self._stop_after = None
            self.transport.pause_reading()
        self._changed.set()

    def connection_lost(self, _error: Exception | None) -> None:
        self.lost = True
        self._changed.set()

    # --- WebSocket

    def _send(self, opcode: int, payload: bytes) -> None:
        size = len(payload)
        length = struct.pack("!B", 0x80 | size) if size < 126 else struct.pack("!BH", 0xFE, size)
        self.transport.write(bytes([0x80 | opcode]) + length + bytes(4) + payload)  # masked with 0

    def _process(self) -> bool:
        """Process one step; whether there may be another."""
        if not self._remaining and not self._read_frame_header():
            return False
        chunk_size = min(self._remaining, len(self._data))
        if self._opcode in (_PING, _CLOSE):
            if chunk_size < self._remaining:
                return False
            if self._opcode == _PING and self.answers_pings:
                self._send(10, bytes(self._data[:chunk_size]))
            elif self._opcode == _CLOSE:
                (code,) = struct.unpack_from("!H", self._data)
                self.closed = code, self._data[2:chunk_size].decode()
        else:
            if self.on_frame is not None or len(self._message) < _HEADER:
                self._message += self._data[:chunk_size]
            self._size += chunk_size
        del self._data[:chunk_size]
        self._remaining -= chunk_size
        if self._remaining:
            return False
        if self._opcode < _CLOSE and self._final:
            self._finish_message()
        return bool(self._data)

    def _read_frame_header(self) -> bool:
        if len(self._data) < 10 and not _has_frame_header(self._data):
            return False
        first, length = self._data[0], self._data[1]
        at = 2
        if length >= 126:
            at = 4 if length == 126 else 10
            (length,) = struct.unpack("!H" if at == 4 else "!Q", self._data[2:at])
        self._opcode, self._remaining = first & 15, length
        if self._opcode < _CLOSE:
            self._final = bool(first & 128)
        del self._data[:at]
        return True

    def _finish_message(self) -> None:
        (size,) = struct.unpack_from(">I", self._message)
        header = json.loads(self._message[4 : 4 + size])
        assert 4 + size + sum(part["bytes"] for part in header["parts"]) == self._size
        self.headers.append(header)
        if self.on_frame is not None:
            self.on_frame(header, _payloads(header, memoryview(self._message)[4 + size :]))
        self._message, self._size = bytearray(), 0

    # --- interface for tests

    def subscribe(self, *tables: str) -> None:
        """Subscribe to these tables."""
        self._send(1, json.dumps({"subscribe": tables}).encode())

    async def wait_until_at(self, generation: int, seq: int, limit_s: float) -> None:
        """Wait for a frame at or after this position."""
        await self.wait_for(lambda: self.is_at(generation, seq), limit_s)

    async def wait_opened(self, limit_s: float) -> None:
        """Wait until the socket is open and the subscription sent."""
        await self.wait_for(lambda: self._opened, limit_s)

    async def wait_paused(self, limit_s: float) -> None:
        """Wait until it has stopped reading, after `stop_after` bytes."""
        await self.wait_for(lambda: not self.transport.is_reading(), limit_s)

    async def wait_for(self, condition: Callable[[], bool], limit_s: float) -> None:
        """Wait for a condition that can only change when data arrives."""
        async with asyncio.timeout(limit_s):
            while not condition():
                if self.failed is not None:
                    raise self.failed
                assert not self.lost, "the server has closed the connection"
                self._changed.clear()
                await self._changed.wait()

    async def wait_until_at_or_closed(self, generation: int, seq: int, limit_s: float) -> None:
        """Wait for this position or for the end of the connection."""
        async with asyncio.timeout(limit_s):
            while not (self.lost or self.is_at(generation, seq)):
                self._changed.clear()
                await self._changed.wait()

    async def wait_closed(self, limit_s: float) -> None:
        """Wait until the server has closed the connection."""
        async with asyncio.timeout(limit_s):
            while not self.lost:
                self._changed.clear()
                await self._changed.wait()

    def is_at(self, generation: int, seq: int) -> bool:
        """Whether a frame at or after this position was received."""
        last = self.headers[-1] if self.headers else {"generation": None}
        return last["generation"] is not None and (last["generation"], last["seq"]) >= (
            generation,
            seq,
        )


def _payloads(header: dict[str, Any], data: memoryview) -> list[memoryview]:
    ends = list(itertools.accumulate(part["bytes"] for part in header["parts"]))
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _has_frame_header(data: bytearray) -> bool:
    """Whether the header of a WebSocket frame is complete."""
    if len(data) < 2:
        return False
    length = data[1] & 127
    return len(data) >= (2 if length < 126 else 4 if length == 126 else 10)


async def connect_viewer(
    port: int,
    tables: Sequence[str],
    *,
    small_buffer: bool = False,
    stop_after: int | None = None,
    on_frame: FrameHandler | None = None,
) -> LightViewer:
    """Connect a viewer: `narrow` gives it a small buffer, `stop_after` lets it stop reading."""
    raw_socket = sockets.socket()
    if small_buffer:
        raw_socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 8192)
    raw_socket.setblocking(False)  # noqa: FBT003 - the standard library's
    loop = asyncio.get_running_loop()
    await loop.sock_connect(raw_socket, ("127.0.0.1", port))
    viewer = LightViewer(port, tables, stop_after)
    viewer.on_frame = on_frame
    await loop.create_connection(lambda: viewer, sock=raw_socket)
    return viewer


async def disconnect_all(viewers: Sequence[LightViewer], limit_s: float = 10) -> None:
    """Disconnect these viewers."""
    for viewer in viewers:
        viewer.transport.abort()
    await asyncio.gather(*(viewer.wait_closed(limit_s) for viewer in viewers))


async def read_slowly(viewer: LightViewer, every_s: float) -> None:
    """Read what has arrived every `every_s`, until disconnected."""
    while not viewer.lost:
        viewer.transport.pause_reading()
        await asyncio.sleep(every_s)
        viewer.transport.resume_reading()
        await asyncio.sleep(0.001)
