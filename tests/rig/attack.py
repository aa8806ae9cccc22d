"""Attackers in their own process: `python attack.py KIND PORT SECONDS TOKEN`.

They connect from another loopback address than the other clients, and print what they did.
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
_BOMB = gzip.compress(bytes(50 << 20))  # 50 KB, decompresses to 50 MB
_TABLES = ["users_ui", "accounts_ui", "final_ui", "rejects_ui", "generations", "control_raw"]
_TABLES += ["orchestrator_logs", "orchestrator_status"]
_PARTS = re.compile(rb'"parts":(\[[^\]]+\])')  # in the header of a frame
_SETS = [data for size in range(len(_TABLES)) for data in itertools.combinations(_TABLES, size + 1)]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Attack:
    """One kind of attack, repeated."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token
        self.done = 0
        self.refused = 0
        self.served: set[frozenset[str]] = set()  # sets of tables of which a frame was begun
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
        """A handshake without a token, repeated after each refusal."""
        reader, writer = await self._open()
        writer.write(self._head("/api/v1/live", upgrade=True, token=False))
        answer = await reader.read(65536)
        self.refused += b" 401 " in answer
        writer.close()

    async def loris(self) -> None:
        """A request that never ends."""
        reader, writer = await self._open()
        writer.write(self._head("/livez", upgrade=False, token=False)[:-2])
        while not reader.at_eof():
            writer.write(b"X-A: b\r\n")
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.5)
        self.refused += 1

    async def frames(self) -> None:
        """A WebSocket frame of 64 MB."""
        reader, writer = await self._socket()
        writer.write(b"\x82\xff" + struct.pack("!Q", 64 << 20) + b"mask")
        block = os.urandom(1 << 16)
        for _ in range((64 << 20) // len(block)):
            writer.write(block)
            await writer.drain()
        await reader.read()
        self.refused += 1

    async def bombs(self) -> None:
        """A compression bomb, as a frame and as a request body."""
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
        """Ten thousand subscriptions on one socket."""
        reader, writer = await self._socket()
        frame = _subscription_frame(["final_ui"])
        reading = asyncio.create_task(reader.read())
        for _ in range(100):
            writer.write(frame * 100)
            await writer.drain()
        await reading
        self.refused += 1

    async def sets(self) -> None:
        """One set of tables after the other, with little or nothing read."""
        number = next(self._numbers)
        reader, writer = await self._socket()
        for tables in itertools.cycle(_SETS[number % len(_SETS) :] + _SETS):
            writer.write(_subscription_frame(tables))
            if reader.at_eof() or writer.is_closing():
                break
            if number % 2:
                with contextlib.suppress(TimeoutError):
                    data = await asyncio.wait_for(reader.read(1 << 16), 0.1)
                    self.served |= _served(data)
            await asyncio.sleep(0.2)
        writer.close()
        self.refused += 1


def _served(data: bytes) -> set[frozenset[str]]:
    """Return the sets of tables whose snapshots begin in these bytes."""
    part_lists = [json.loads(parts) for parts in _PARTS.findall(data)]
    return {frozenset(part["table"] for part in parts) for parts in part_lists}


def _subscription_frame(tables: Sequence[str]) -> bytes:
    """Return a subscription as a WebSocket frame."""
    text = json.dumps({"subscribe": tables}).encode()
    short = len(text) < 126
    length = bytes([0x80 | len(text)]) if short else b"\xfe" + struct.pack("!H", len(text))
    return b"\x81" + length + b"\0\0\0\0" + text


async def _repeat(attack: Attack, what: Callable[[], Awaitable[None]], until: float) -> None:
    while time.monotonic() < until:
        try:
            await asyncio.wait_for(what(), max(0.1, until - time.monotonic()))
        except TimeoutError:
            pass  # the time is up
        except (OSError, asyncio.IncompleteReadError):
            attack.refused += 1  # disconnected by the server
            await asyncio.sleep(0.01)
        attack.done += 1


async def main(kind: str, port: int, seconds: float, token: str) -> None:
    """Run many attacks at once for `seconds`."""
    at_once = {"handshakes": 100, "loris": 3000, "sets": 240}.get(kind, 4)
    attack = Attack(port, token)
    until = time.monotonic() + seconds
    what = getattr(attack, kind)
    await asyncio.gather(*(_repeat(attack, what, until) for _ in range(at_once)))
    served = len(attack.served)
    print(
        json.dumps({"kind": kind, "done": attack.done, "refused": attack.refused, "served": served})
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]))
