"""A TCP proxy that can be slowed down, in its own process: `python slow_proxy.py LISTEN TARGET`.

It reads lines `DELAY_S BYTES_PER_S` from standard input (0 0: full speed), and answers with the
number of chunks delayed so far. Started by `Proxy`.
"""

import asyncio
import os
import subprocess
import sys
import threading
from types import TracebackType
from typing import Self

_CHUNK = 64 << 10


class Proxy:
    """A proxy to a local port; other processes connect to `port`."""

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        command = [sys.executable, __file__, str(port), str(target)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.delayed = self._ask(0, 0)  # it is listening now

    def slow(self, delay_s: float, bytes_per_s: int) -> None:
        """Delay each chunk, and limit the rate."""
        self.delayed = self._ask(delay_s, bytes_per_s)

    def fast(self) -> int:
        """Return to full speed; returns the number of chunks delayed since `slow`."""
        before, self.delayed = self.delayed, self._ask(0, 0)
        return self.delayed - before

    def _ask(self, delay_s: float, bytes_per_s: int) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{delay_s} {bytes_per_s}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()  # the process ends at the end of its input
        assert self._process.stdout is not None
        self._process.wait(10)
        self._process.stdout.close()


class _Limits:
    """The current delay and rate, and the number of chunks delayed."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.bytes_per_s = 0
        self.delayed = 0

    async def wait(self, size: int) -> None:
        if self.delay_s or self.bytes_per_s:
            self.delayed += 1
            passing = size / self.bytes_per_s if self.bytes_per_s else 0.0
            await asyncio.sleep(self.delay_s + passing)


async def _forward(source: asyncio.StreamReader, to: asyncio.StreamWriter, limits: _Limits) -> None:
    try:
        while data := await source.read(_CHUNK):
            await limits.wait(len(data))
            to.write(data)
            await to.drain()
    except OSError:
        pass  # one side has closed; the other is closed below
    finally:
        to.close()


async def _serve(port: int, target: int) -> None:
    limits, done = _Limits(), asyncio.Event()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target_reader, target_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:  # the target is down: refuse, as it would without a proxy
            writer.transport.abort()
            return
        await asyncio.gather(
            _forward(reader, target_writer, limits), _forward(target_reader, writer, limits)
        )

    def read_commands(loop: asyncio.AbstractEventLoop) -> None:
        for line in sys.stdin:
            delay, rate = line.split()
            limits.delay_s, limits.bytes_per_s = float(delay), int(rate)
            print(limits.delayed, flush=True)
        loop.call_soon_threadsafe(done.set)

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    threading.Thread(target=read_commands, args=[asyncio.get_running_loop()], daemon=True).start()
    await done.wait()
    server.close()
    os._exit(0)  # end without a log line for each open connection


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
