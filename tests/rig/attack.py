"""Those who mean harm, in a process of their own: `python attack.py KIND PORT SECONDS TOKEN`.

They come from another address of the loopback than everybody else, and print what they did.
"""

import asyncio
import contextlib
import gzip
import itertools
import json
import os
import re
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

FROM = "127.0.0.2"
_KEY = "dGhlIHNhbXBsZSBub25jZQ=="
_BOMB = gzip.compress(bytes(50 << 20))  # 50 KB
_TABLES = ["users_ui", "accounts_ui", "final_ui", "rejects_ui", "generations", "control_raw"]
_TABLES += ["orchestrator_logs", "orchestrator_status"]
_PARTS = re.compile(rb'"parts":(\[[^\]]+\])')  # of a frame's header
_SETS = [some for size in range(len(_TABLES)) for some in itertools.combinations(_TABLES, size + 1)]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Attack:
    """One kind of it, over and over."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token
        self.done = 0
        self.refused = 0
        self.served: set[frozenset[str]] = set()  # sets of tables of which a frame has begun
        self._numbers = itertools.count()

    async def _open(self) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self._port, local_addr=(FROM, 0))

    def _head(self, path: str, *, upgrade: bool, token: bool, more: str = "") -> bytes:
        method = "GET" if upgrade or not more else "POST"
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self._port}"]
        if upgrade:
            lines += ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
            lines += [f"Sec-WebSocket-Key: {_KEY}", "Sec-WebSocket-Protocol: livejoin.v1"]
            lines += ["Sec-WebSocket-Extensions: permessage-deflate"]
        lines += [f"Authorization: Bearer {self._token}"] if token else []
        return "\r\n".join([*lines, *([more] if more else []), "", ""]).encode()

    async def _socket(self) -> Streams:
        reader, writer = await self._open()
        writer.write(self._head("/api/v1/live", upgrade=True, token=True))
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 101 " in head.splitlines()[0] + b" ", head
        return reader, writer

    async def handshakes(self) -> None:
        """A handshake without a token; refused, and again."""
        reader, writer = await self._open()
        writer.write(self._head("/api/v1/live", upgrade=True, token=False))
        answer = await reader.read(65536)
        self.refused += b" 401 " in answer
        writer.close()

    async def loris(self) -> None:
        """A request that never becomes whole."""
        reader, writer = await self._open()
        writer.write(self._head("/livez", upgrade=False, token=False)[:-2])
        while not reader.at_eof():
            writer.write(b"X-A: b\r\n")
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.5)
        self.refused += 1

    async def frames(self) -> None:
        """A frame of 64 MB."""
        reader, writer = await self._socket()
        writer.write(b"\x82\xff" + struct.pack("!Q", 64 << 20) + b"mask")
        block = os.urandom(1 << 16)
        for _ in range((64 << 20) // len(block)):
            writer.write(block)
            await writer.drain()
        await reader.read()
        self.refused += 1

    async def bombs(self) -> None:
        """Much in few bytes, as a frame and as a body."""
        reader, writer = await self._socket()
        writer.write(b"\xc1\xfe" + struct.pack("!H", len(_BOMB)) + b"\0\0\0\0" + _BOMB)
        await reader.read()
        writer.close()
        reader, writer = await self._open()
        more = "content-encoding: gzip\r\ncontent-type: application/json"
        more += f"\r\ncontent-length: {len(_BOMB)}"
        writer.write(self._head("/api/v1/session", upgrade=False, token=False, more=more) + _BOMB)
        answer = await reader.read(65536)
        self.refused += b" 413 " in answer or b" 400 " in answer
        writer.close()

    async def subscriptions(self) -> None:
        """Ten thousand subscriptions over one socket."""
        reader, writer = await self._socket()
        frame = _asks(["final_ui"])
        reading = asyncio.create_task(reader.read())
        for _ in range(100):
            writer.write(frame * 100)
            await writer.drain()
        await reading
        self.refused += 1

    async def sets(self) -> None:
        """One set of tables after the other, of which little is read, or nothing."""
        number = next(self._numbers)
        reader, writer = await self._socket()
        for tables in itertools.cycle(_SETS[number % len(_SETS) :] + _SETS):
            writer.write(_asks(tables))
            if reader.at_eof() or writer.is_closing():
                break
            if number % 2:
                with contextlib.suppress(TimeoutError):
                    some = await asyncio.wait_for(reader.read(1 << 16), 0.1)
                    self.served |= _served(some)
            await asyncio.sleep(0.2)
        writer.close()
        self.refused += 1


def _served(data: bytes) -> set[frozenset[str]]:
    """The sets of tables whose snapshots begin in these bytes."""
    told = [json.loads(parts) for parts in _PARTS.findall(data)]
    return {frozenset(part["table"] for part in parts) for parts in told}


def _asks(tables: Sequence[str]) -> bytes:
    """A subscription as a frame."""
    text = json.dumps({"subscribe": tables}).encode()
    short = len(text) < 126
    length = bytes([0x80 | len(text)]) if short else b"\xfe" + struct.pack("!H", len(text))
    return b"\x81" + length + b"\0\0\0\0" + text


async def _over_and_over(one: Attack, what: Callable[[], Awaitable[None]], until: float) -> None:
    while time.monotonic() < until:
        try:
            await asyncio.wait_for(what(), max(0.1, until - time.monotonic()))
        except TimeoutError:
            pass  # it is over
        except (OSError, asyncio.IncompleteReadError):
            one.refused += 1  # it was cut off
            await asyncio.sleep(0.01)
        one.done += 1


async def main(kind: str, port: int, seconds: float, token: str) -> None:
    """Attack for a while, many at once."""
    at_once = {"handshakes": 100, "loris": 3000, "sets": 240}.get(kind, 4)
    one = Attack(port, token)
    until = time.monotonic() + seconds
    what = getattr(one, kind)
    await asyncio.gather(*(_over_and_over(one, what, until) for _ in range(at_once)))
    served = len(one.served)
    print(json.dumps({"kind": kind, "done": one.done, "refused": one.refused, "served": served}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]))
