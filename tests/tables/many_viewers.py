"""Many viewers of large tables, each with tables of its own, slow ones among them: bounded memory.

The server is a process of its own (`crowd.py`); its memory is watched all the time.
"""

import asyncio
import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from livejoin.client.protocol import ClientSession
from livejoin.core import spec
from rig.lean import Lean, lean, leave, read_slowly
from rig.running import memory_kib

TESTS = Path(__file__).parents[1]
VIEWERS, GROUPS = 240, 4
LIMIT_S = 120
DATA = ("users_ui", "accounts_ui", "final_ui")


def subscriptions(count: int) -> list[tuple[str, ...]]:
    """So many different sets of tables, those with few and with many in turn."""
    sizes = range(1, len(spec.TABLES) + 1)
    found = [some for size in sizes for some in itertools.combinations(spec.TABLES, size)]
    chosen = [one for pair in zip(found, reversed(found), strict=True) for one in pair]
    return list(dict.fromkeys(chosen))[:count]


class Serving:
    """The server's process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid
        self.told: dict[str, int] = {}

    async def do(self, what: str = "") -> None:
        """Have something done; the answer says where the tables are."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if what:
            self._process.stdin.write(what.encode() + b"\n")
        async with asyncio.timeout(LIMIT_S):
            self.told = json.loads(await self._process.stdout.readline())

    @property
    def place(self) -> tuple[int, int]:
        return self.told["generation"], self.told["seq"]


@contextlib.asynccontextmanager
async def serving(rows: int) -> AsyncIterator[Serving]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    program = str(TESTS / "tables" / "crowd.py")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, program, str(rows)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=env,
    )
    server = Serving(process)
    try:
        await server.do()
        yield server
    finally:
        process.kill()
        await process.wait()


async def below(pid: int, most: int) -> None:
    """Watch a process for ever; raises when it takes more memory than it may."""
    while True:
        taken = memory_kib(pid, "VmHWM") << 10
        assert taken <= most, f"{taken >> 20} MiB, of which {most >> 20} are allowed"
        await asyncio.sleep(0.05)


async def beside(watching: Awaitable[None], work: Awaitable[None]) -> None:
    """Do something while something else is watched."""
    tasks = [asyncio.ensure_future(watching), asyncio.ensure_future(work)]
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for one in left:
        one.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    for one in done:
        one.result()


async def checked(port: int, server: Serving, over: asyncio.Event) -> ClientSession:
    """A viewer that holds all rows, and compares their hashes with those of every heartbeat."""
    session = ClientSession(*DATA)
    protocols = [Subprotocol("livejoin.v1")]
    uri = f"ws://127.0.0.1:{port}/api/v1/live"
    async with connect(uri, subprotocols=protocols, max_size=None, proxy=None) as socket:
        await socket.send(session.connected())
        while True:
            data = await socket.recv()
            assert isinstance(data, bytes)
            session.receive(data, time.monotonic())
            if over.is_set() and (session.generation, session.seq) == server.place:
                return session


class Crowd:
    """All who watch: two in three take what comes, one in six slowly, one in six nothing."""

    def __init__(self, server: Serving) -> None:
        self._server = server
        self._port = server.told["port"]
        self.quick: list[Lean] = []
        self.slow: list[Lean] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self, some: list[tuple[str, ...]]) -> None:
        for number, tables in enumerate(some):
            if number % 3:
                self.quick.append(await lean(self._port, tables))
                continue
            one = await lean(self._port, tables, narrow=True)
            self.slow.append(one)
            if number % 6:
                self._tasks.append(asyncio.create_task(read_slowly(one, 0.2)))
            else:
                await one.opened(LIMIT_S)
                one.transport.pause_reading()

    async def all_there(self, viewers: list[Lean]) -> None:
        await asyncio.gather(*(one.until(*self._server.place, LIMIT_S) for one in viewers))

    async def hurry(self) -> int:
        """The slow ones read on as fast as they can; how many were not cut off, and come through.

        Whoever takes nothing and answers no ping for a minute may be gone.
        """
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for one in self.slow:
            one.transport.resume_reading()
        place = self._server.place
        await asyncio.gather(*(one.until_or_gone(*place, LIMIT_S) for one in self.slow))
        return sum(one.is_at(*place) for one in self.slow)

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await leave(self.quick + self.slow)


async def _watched(rows: int, viewers: int, most: int) -> dict[str, Any]:
    async with serving(rows) as server:
        await server.do("swap")  # what that takes is no viewer's doing
        base, port = server.told["most"], server.told["port"]
        crowd, over = Crowd(server), asyncio.Event()
        told: dict[str, Any] = {}

        async def work() -> None:
            checking = asyncio.create_task(checked(port, server, over))
            asked = subscriptions(viewers)
            for start in range(0, viewers, viewers // GROUPS):
                await crowd.join(asked[start : start + viewers // GROUPS])
                await crowd.all_there(crowd.quick)
                await server.do("change")
            for what in ("swap", "change", "swap", "change"):
                await server.do(what)
                await crowd.all_there(crowd.quick)
            told["left"] = await crowd.hurry()
            over.set()
            session = await asyncio.wait_for(checking, LIMIT_S)
            assert session.mismatches == 0
            assert session.heartbeat_at is not None
            told["slow"] = len(crowd.slow)

        try:
            await beside(below(server.pid, base + most), work())
            assert not any(one.lost for one in crowd.quick)
        finally:
            await crowd.leave()
        await server.do("beat")
        return told | {"grown": server.told["most"] - base, "base": base}


def expect_bounded(rows: int, most: int) -> None:
    """Many viewers come, stay through two swaps, and take no more memory than this together."""
    assert len(set(subscriptions(VIEWERS))) == VIEWERS
    began = time.monotonic()
    told = asyncio.run(_watched(rows, VIEWERS, most))
    print(
        f"\n{VIEWERS} subscriptions to {rows} rows: memory grew by {told['grown'] >> 20} MiB"
        f" over {told['base'] >> 20}; {told['left']} of {told['slow']} slow viewers were never cut"
        f" off; {time.monotonic() - began:.0f} s"
    )
    assert told["left"]  # some have come through
