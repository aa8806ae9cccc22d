"""A TCP proxy that can be made slow, as a process of its own: `python slow_proxy.py LISTEN TARGET`.

It takes lines on its standard input, `DELAY_S BYTES_PER_S` (0 0: as fast as it can), and answers
each with how many portions it has delayed so far. Started by `Proxy`.
"""

import asyncio
import os
import subprocess
import sys
import threading
from types import TracebackType
from typing import Self

_PORTION = 64 << 10


class Proxy:
    """To a port of this machine; other processes connect to `port`."""

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        command = [sys.executable, __file__, str(port), str(target)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.delayed = self._ask(0, 0)  # it listens now

    def slow(self, delay_s: float, bytes_per_s: int) -> None:
        """Each portion waits so long, and so many bytes pass in a second."""
        self.delayed = self._ask(delay_s, bytes_per_s)

    def fast(self) -> int:
        """As fast as it can again; how many portions were delayed since `slow`."""
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
        self._process.stdin.close()  # it ends with its input
        assert self._process.stdout is not None
        self._process.wait(10)
        self._process.stdout.close()


class _Slowness:
    """What is asked for now, and how often it was done."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.bytes_per_s = 0
        self.delayed = 0

    async def wait(self, size: int) -> None:
        if self.delay_s or self.bytes_per_s:
            self.delayed += 1
            passing = size / self.bytes_per_s if self.bytes_per_s else 0.0
            await asyncio.sleep(self.delay_s + passing)


async def _pass_on(
    source: asyncio.StreamReader, to: asyncio.StreamWriter, slowness: _Slowness
) -> None:
    try:
        while data := await source.read(_PORTION):
            await slowness.wait(len(data))
            to.write(data)
            await to.drain()
    except OSError:
        pass  # one side is gone: the other is let go of below
    finally:
        to.close()


async def _serve(port: int, target: int) -> None:
    slowness, over = _Slowness(), asyncio.Event()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, away = await asyncio.open_connection("127.0.0.1", target)
        except OSError:  # as without a proxy: nobody is there
            writer.transport.abort()
            return
        await asyncio.gather(_pass_on(reader, away, slowness), _pass_on(there, writer, slowness))

    def obey(loop: asyncio.AbstractEventLoop) -> None:
        for line in sys.stdin:
            delay, rate = line.split()
            slowness.delay_s, slowness.bytes_per_s = float(delay), int(rate)
            print(slowness.delayed, flush=True)
        loop.call_soon_threadsafe(over.set)

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    threading.Thread(target=obey, args=[asyncio.get_running_loop()], daemon=True).start()
    await over.wait()
    server.close()
    os._exit(0)  # connections that are open end with us, without a word about each


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
