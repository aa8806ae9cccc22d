"""Viewers that read the headers of frames and let the rows pass: hundreds fit into one process.

WebSocket from its description alone, as much of it as a server of ours sends.
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
_HEADER = 64 << 10  # more than any header of a frame takes


Taken = Callable[[dict[str, Any], list[memoryview]], object]


class Lean(asyncio.Protocol):
    """One viewer. What it has seen is in `headers`; it may read slowly, or not at all."""

    transport: asyncio.Transport
    taken: Taken | None = None  # is handed every frame, header and payloads
    answers = True  # whether it answers a ping

    def __init__(self, port: int, tables: Sequence[str], stop_after: int | None = None) -> None:
        self._port = port
        self._stop_after = stop_after
        self._tables = tables
        self._data = bytearray()
        self._opened = False
        self._left = 0  # bytes of this WebSocket frame that are still to come
        self._opcode = 0
        self._final = True
        self._message = bytearray()  # the beginning of this message
        self._size = 0  # of this message so far
        self.headers: list[dict[str, Any]] = []
        self.received = 0
        self.lost = False
        self.failed: AssertionError | None = None
        self.closed: tuple[int, str] | None = None  # code and reason
        self._something = asyncio.Event()

    # --- asyncio's side

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
            self.ask(*self._tables)
        try:
            while self._take():
                pass
        except AssertionError as error:
            self.failed = error
            self.transport.abort()
        if self._stop_after is not None and self.received >= self._stop_after:
            self._stop_after = None
            self.transport.pause_reading()
        self._something.set()

    def connection_lost(self, _error: Exception | None) -> None:
        self.lost = True
        self._something.set()

    # --- WebSocket

    def _send(self, opcode: int, payload: bytes) -> None:
        size = len(payload)
        length = struct.pack("!B", 0x80 | size) if size < 126 else struct.pack("!BH", 0xFE, size)
        self.transport.write(bytes([0x80 | opcode]) + length + bytes(4) + payload)  # masked by 0

    def _take(self) -> bool:
        """Take one step; whether there is more to take."""
        if not self._left and not self._begin():
            return False
        some = min(self._left, len(self._data))
        if self._opcode in (_PING, _CLOSE):
            if some < self._left:
                return False
            if self._opcode == _PING and self.answers:
                self._send(10, bytes(self._data[:some]))
            elif self._opcode == _CLOSE:
                (code,) = struct.unpack_from("!H", self._data)
                self.closed = code, self._data[2:some].decode()
        else:
            if self.taken is not None or len(self._message) < _HEADER:
                self._message += self._data[:some]
            self._size += some
        del self._data[:some]
        self._left -= some
        if self._left:
            return False
        if self._opcode < _CLOSE and self._final:
            self._end()
        return bool(self._data)

    def _begin(self) -> bool:
        if len(self._data) < 10 and not _whole(self._data):
            return False
        first, length = self._data[0], self._data[1]
        at = 2
        if length >= 126:
            at = 4 if length == 126 else 10
            (length,) = struct.unpack("!H" if at == 4 else "!Q", self._data[2:at])
        self._opcode, self._left = first & 15, length
        if self._opcode < _CLOSE:
            self._final = bool(first & 128)
        del self._data[:at]
        return True

    def _end(self) -> None:
        (size,) = struct.unpack_from(">I", self._message)
        told = json.loads(self._message[4 : 4 + size])
        assert 4 + size + sum(part["bytes"] for part in told["parts"]) == self._size
        self.headers.append(told)
        if self.taken is not None:
            self.taken(told, _payloads(told, memoryview(self._message)[4 + size :]))
        self._message, self._size = bytearray(), 0

    # --- the test's side

    def ask(self, *tables: str) -> None:
        """Subscribe to these."""
        self._send(1, json.dumps({"subscribe": tables}).encode())

    async def until(self, generation: int, seq: int, limit_s: float) -> None:
        """Wait until a frame has told this place."""
        await self.when(lambda: self.is_at(generation, seq), limit_s)

    async def opened(self, limit_s: float) -> None:
        """Wait until the socket is open and the subscription sent."""
        await self.when(lambda: self._opened, limit_s)

    async def stopped(self, limit_s: float) -> None:
        """Wait until it has read as much as it should before it stops."""
        await self.when(lambda: not self.transport.is_reading(), limit_s)

    async def when(self, true: Callable[[], bool], limit_s: float) -> None:
        """Wait until something holds that changes when something comes."""
        async with asyncio.timeout(limit_s):
            while not true():
                if self.failed is not None:
                    raise self.failed
                assert not self.lost, "the server has cut it off"
                self._something.clear()
                await self._something.wait()

    async def until_or_gone(self, generation: int, seq: int, limit_s: float) -> None:
        """The same, or until the server has cut it off."""
        async with asyncio.timeout(limit_s):
            while not (self.lost or self.is_at(generation, seq)):
                self._something.clear()
                await self._something.wait()

    async def gone(self, limit_s: float) -> None:
        """Wait until the server has cut it off."""
        async with asyncio.timeout(limit_s):
            while not self.lost:
                self._something.clear()
                await self._something.wait()

    def is_at(self, generation: int, seq: int) -> bool:
        """Whether a frame has told this place, or a later one."""
        last = self.headers[-1] if self.headers else {"generation": None}
        return last["generation"] is not None and (last["generation"], last["seq"]) >= (
            generation,
            seq,
        )


def _payloads(header: dict[str, Any], data: memoryview) -> list[memoryview]:
    ends = list(itertools.accumulate(part["bytes"] for part in header["parts"]))
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _whole(data: bytearray) -> bool:
    """Whether a frame's own header is there."""
    if len(data) < 2:
        return False
    length = data[1] & 127
    return len(data) >= (2 if length < 126 else 4 if length == 126 else 10)


async def lean(
    port: int,
    tables: Sequence[str],
    *,
    narrow: bool = False,
    stop_after: int | None = None,
    taken: Taken | None = None,
) -> Lean:
    """Connect one; a narrow one's socket holds little; it may stop reading after so many bytes."""
    made = sockets.socket()
    if narrow:
        made.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 8192)
    made.setblocking(False)  # noqa: FBT003 - the standard library's
    loop = asyncio.get_running_loop()
    await loop.sock_connect(made, ("127.0.0.1", port))
    viewer = Lean(port, tables, stop_after)
    viewer.taken = taken
    await loop.create_connection(lambda: viewer, sock=made)
    return viewer


async def leave(viewers: Sequence[Lean], limit_s: float = 10) -> None:
    """Have them all gone."""
    for one in viewers:
        one.transport.abort()
    await asyncio.gather(*(one.gone(limit_s) for one in viewers))


async def read_slowly(viewer: Lean, every_s: float) -> None:
    """Take what has come now and then, for ever."""
    while not viewer.lost:
        viewer.transport.pause_reading()
        await asyncio.sleep(every_s)
        viewer.transport.resume_reading()
        await asyncio.sleep(0.001)
