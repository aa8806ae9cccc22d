"""Many viewers of large tables with different subscriptions, some slow, take bounded memory.

The server runs in its own process (`crowd.py`), whose memory is watched all the time.
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
from rig.lean import LightViewer, connect_viewer, disconnect_all, read_slowly
from rig.running import memory_kib

TESTS = Path(__file__).parents[1]
VIEWERS, GROUPS = 240, 4
LIMIT_S = 120
DATA = ("users_ui", "accounts_ui", "final_ui")


def subscriptions(count: int) -> list[tuple[str, ...]]:
    """Return distinct sets of tables, small and large ones in turn."""
    sizes = range(1, len(spec.DEFAULT.tables) + 1)
    combinations = [
        tables for size in sizes for tables in itertools.combinations(spec.DEFAULT.tables, size)
    ]
    alternating = [
        tables for pair in zip(combinations, reversed(combinations), strict=True) for tables in pair
    ]
    return list(dict.fromkeys(alternating))[:count]


class ServerProcess:
    """The server process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid
        self.figures: dict[str, int] = {}

    async def send(self, command: str = "") -> None:
        """Send a command, if any, and wait for the server's figures."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if command:
            self._process.stdin.write(command.encode() + b"\n")
        async with asyncio.timeout(LIMIT_S):
            self.figures = json.loads(await self._process.stdout.readline())

    @property
    def position(self) -> tuple[int, int]:
        return self.figures["generation"], self.figures["seq"]


@contextlib.asynccontextmanager
async def start_server(rows: int) -> AsyncIterator[ServerProcess]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    program = str(TESTS / "tables" / "crowd.py")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, program, str(rows)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=env,
    )
    server = ServerProcess(process)
    try:
        await server.send()
        yield server
    finally:
        process.kill()
        await process.wait()


async def watch_memory(pid: int, max_bytes: int) -> None:
    """Watch the peak memory of a process until it exceeds the limit."""
    while True:
        used_bytes = memory_kib(pid, "VmHWM") << 10
        assert used_bytes <= max_bytes, (
            f"{used_bytes >> 20} MiB, of which {max_bytes >> 20} are allowed"
        )
        await asyncio.sleep(0.05)


async def run_while(watching: Awaitable[None], work: Awaitable[None]) -> None:
    """Run `work` and fail as soon as `watching` fails."""
    tasks = [asyncio.ensure_future(watching), asyncio.ensure_future(work)]
    done, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    for task in done:
        task.result()


async def run_checked_viewer(
    port: int, server: ServerProcess, finished: asyncio.Event
) -> ClientSession:
    """Run a viewer that holds all rows and compares their hashes with those of every heartbeat."""
    session = ClientSession(*DATA)
    protocols = [Subprotocol("livejoin.v1")]
    uri = f"ws://127.0.0.1:{port}/api/v1/live"
    async with connect(uri, subprotocols=protocols, max_size=None, proxy=None) as socket:
        await socket.send(session.connected())
        while True:
            data = await socket.recv()
            assert isinstance(data, bytes)
            session.receive(data, time.monotonic())
            if finished.is_set() and (session.generation, session.seq) == server.position:
                return session


class Viewers:
    """The viewers: two in three read at full speed, one in six slowly, one in six not at all."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._port = server.figures["port"]
        self.fast: list[LightViewer] = []
        self.slow: list[LightViewer] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self, subscriptions: list[tuple[str, ...]]) -> None:
        for number, tables in enumerate(subscriptions):
            if number % 3:
                self.fast.append(await connect_viewer(self._port, tables))
                continue
            viewer = await connect_viewer(self._port, tables, small_buffer=True)
            self.slow.append(viewer)
            if number % 6:
                self._tasks.append(asyncio.create_task(read_slowly(viewer, 0.2)))
            else:
                await viewer.wait_opened(LIMIT_S)
                viewer.transport.pause_reading()

    async def all_up_to_date(self, viewers: list[LightViewer]) -> None:
        await asyncio.gather(
            *(viewer.wait_until_at(*self._server.position, LIMIT_S) for viewer in viewers)
        )

    async def release_slow(self) -> int:
        """Let the slow viewers read at full speed; return how many were not disconnected.

        A viewer that reads nothing and answers no ping for a minute is disconnected.
        """
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for viewer in self.slow:
            viewer.transport.resume_reading()
        position = self._server.position
        await asyncio.gather(
            *(viewer.wait_until_at_or_closed(*position, LIMIT_S) for viewer in self.slow)
        )
        return sum(viewer.is_at(*position) for viewer in self.slow)

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await disconnect_all(self.fast + self.slow)


async def _run_viewers(rows: int, viewers: int, max_bytes: int) -> dict[str, Any]:
    async with start_server(rows) as server:
        await server.send("swap")  # the memory of the first generation is the baseline
        base, port = server.figures["most"], server.figures["port"]
        crowd, finished = Viewers(server), asyncio.Event()
        result: dict[str, Any] = {}

        async def work() -> None:
            checked_viewer = asyncio.create_task(run_checked_viewer(port, server, finished))
            subscribed = subscriptions(viewers)
            for start in range(0, viewers, viewers // GROUPS):
                await crowd.join(subscribed[start : start + viewers // GROUPS])
                await crowd.all_up_to_date(crowd.fast)
                await server.send("change")
            for command in ("swap", "change", "swap", "change"):
                await server.send(command)
                await crowd.all_up_to_date(crowd.fast)
            result["left"] = await crowd.release_slow()
            finished.set()
            session = await asyncio.wait_for(checked_viewer, LIMIT_S)
            assert session.mismatches == 0
            assert session.heartbeat_at is not None
            result["slow"] = len(crowd.slow)

        try:
            await run_while(watch_memory(server.pid, base + max_bytes), work())
            assert not any(viewer.lost for viewer in crowd.fast)
        finally:
            await crowd.leave()
        await server.send("beat")
        return result | {"grown": server.figures["most"] - base, "base": base}


def expect_bounded(rows: int, max_bytes: int) -> None:
    """Many viewers stay through two swaps, and together take at most `max_bytes`."""
    assert len(set(subscriptions(VIEWERS))) == VIEWERS
    started = time.monotonic()
    result = asyncio.run(_run_viewers(rows, VIEWERS, max_bytes))
    print(
        f"\n{VIEWERS} subscriptions to {rows} rows: memory grew by {result['grown'] >> 20} MiB"
        f" over {result['base'] >> 20}; {result['left']} of {result['slow']} slow viewers were"
        f" never disconnected; {time.monotonic() - started:.0f} s"
    )
    assert result["left"]  # some were not disconnected
