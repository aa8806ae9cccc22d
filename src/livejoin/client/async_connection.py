"""A connection for programs with an event loop: one task drives the session."""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import WebSocketException

from livejoin.client import dataframes, requests
from livejoin.client.address import DEFAULT_URL, Address
from livejoin.client.base import SWAP_S, WAIT_S, Shared
from livejoin.client.change_queue import Feed
from livejoin.client.protocol import Change, Refused, Send, another, moved
from livejoin.client.requests import Call, Limit, Outcome, Result, Steps
from livejoin.errors import AskError, Garbled, TookTooLong

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

log = logging.getLogger("livejoin.client")


def aconnect(url: str = DEFAULT_URL, token: str | None = None) -> "AsyncConnection":
    """Connect to a livejoin, in an `async with` or awaited."""
    return AsyncConnection(Address(url, token))


class AsyncConnection(Shared):
    """One livejoin: its tables, and requests to change what they show."""

    _made_by = "aconnect"

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._names: frozenset[str] = frozenset()
        self._changed = asyncio.Event()  # of now; the next change has another
        self._closed = False
        self._socket: ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None

    def __await__(self) -> Generator[Any, None, Self]:
        return self._open().__await__()

    async def __aenter__(self) -> Self:
        return await self._open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.close()

    async def _open(self) -> Self:
        self._names = requests.tables(await self._call(Call("api/v1/tables")))
        return self

    # --- reading

    async def table(self, name: str) -> "AsyncTable":
        """A table, which is kept up to date from now on. A further one makes all come afresh."""
        requests.check_table(name, self._names)
        await self._start(name)
        return AsyncTable(self, name)

    @property
    def stale(self) -> str | None:
        """Why the rows here may be old, or None."""
        return self._session.stale(time.monotonic())

    async def status(self) -> dict[str, Any]:
        """What is live, what is going on, and what became of the records read."""
        return await self._call(Call("api/v1/status"))

    # --- asking

    async def control(
        self, *, wait: bool = False, timeout_s: float = SWAP_S, **message: Any
    ) -> Outcome:
        """Ask for other topics or another join: `control(usersTopic="…", joinType="inner")`.

        With `wait`, come back when the tables here show it, or raise why they never will.
        """
        return await self._ask("api/v1/control", message, wait=wait, timeout_s=timeout_s)

    async def rollback(
        self, *, wait: bool = False, timeout_s: float = SWAP_S, **message: Any
    ) -> Outcome:
        """Go back to the generation that stands by."""
        return await self._ask("api/v1/rollback", message, wait=wait, timeout_s=timeout_s)

    async def preview(self, **message: Any) -> dict[str, Any]:
        """What a control message would do; nothing is done."""
        return await self._call(Call("api/v1/preview", message))

    async def wait_for_swap(self, after: int | None, timeout_s: float = SWAP_S) -> int:
        """Wait until the tables here show another generation than this one, and say which."""
        await self._start()
        return await self._wait(
            lambda: another(self._session, after), f"one after {after}", timeout_s
        )

    async def _ask(
        self, path: str, message: dict[str, Any], *, wait: bool, timeout_s: float
    ) -> Outcome:
        before = self._session.generation
        limit = Limit.of(timeout_s, time.monotonic)
        outcome = await self._take(requests.control(path, message, limit if wait else None))
        number = outcome.live
        if wait and self._task is not None and number is not None:  # now we must move, too
            await self._wait(
                lambda: moved(self._session, before, number), f"generation {number}", limit.left_s
            )
        return outcome

    async def _take(self, steps: Steps[Result]) -> Result:
        answer: dict[str, Any] | None = None
        while True:
            try:
                step = next(steps) if answer is None else steps.send(answer)
            except StopIteration as done:
                result: Result = done.value
                return result
            if isinstance(step, Call):
                answer = await self._call(step)
            else:
                answer = {}
                await asyncio.sleep(step.seconds)
                self._check()

    async def _call(self, call: Call) -> dict[str, Any]:
        return await asyncio.to_thread(self._address.call, call.path, call.message)

    # --- for the tables

    async def whole(self, name: str, timeout_s: float) -> pa.Table:
        """All rows of a table, once they have come."""
        return (await self._wait(lambda: self._session.whole(name), name, timeout_s)).rows

    def total(self, name: str) -> int:
        """How many rows livejoin has of a table."""
        return self._session.total(name)

    async def changes(self, name: str) -> AsyncIterator[Change]:
        """Changes of a table, until the connection is closed."""
        feed = Feed(name)
        self._feeds.append(feed)
        try:
            while True:
                while (change := feed.take(self._session)) is None:
                    if self._closed:
                        return
                    self._check()
                    await self._changed.wait()
                yield change
        finally:
            self._feeds.remove(feed)

    async def _wait(
        self, found: Callable[[], Result | None], what: str, timeout_s: float
    ) -> Result:
        try:
            async with asyncio.timeout(timeout_s):
                while (value := found()) is None:
                    self._check()
                    await self._changed.wait()
        except TimeoutError:
            why = self.stale or "it did not come"
            raise TookTooLong(f"waited {timeout_s:.0f} s for {what}: {why}") from None
        return value

    def _check(self) -> None:
        self._check_that(closed=self._closed)

    # --- the task

    def _tell(self) -> None:
        """Wake all who wait."""
        was, self._changed = self._changed, asyncio.Event()
        was.set()

    async def _start(self, *tables: str) -> None:
        self._check()
        messages = [self._session.want(name) for name in tables]
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="livejoin")
        for message in messages:
            if message is not None and self._socket is not None:
                # a socket that has just gone is opened again, with the same tables
                with contextlib.suppress(WebSocketException):
                    await self._socket.send(message)

    async def _run(self) -> None:
        try:
            while True:
                why = await self._follow()
                wait_s = self._session.lost(why, 0.5 + random.random())
                self._tell()
                log.warning("lost livejoin at %s: %s", self._address.url, why)
                await asyncio.sleep(wait_s)
        except Exception as error:  # noqa: BLE001 - raised by whoever waits
            self._failure = error
            self._tell()

    async def _follow(self) -> str:
        """Follow one socket to its end, and say what ended it."""
        try:
            async with open_socket(self._address.live, **self._options) as socket:
                self._socket = socket
                await socket.send(self._session.hello())
                while True:
                    await self._receive(socket)
        except (WebSocketException, OSError, Garbled) as error:
            return self._end(error)
        finally:
            self._socket = None

    async def _receive(self, socket: ClientConnection) -> None:
        async with asyncio.timeout(self._session.patience_s):
            data = await socket.recv()
        if isinstance(data, str):
            raise Garbled("the server sent text")
        before = self._session.mismatches
        for event in self._session.receive(data, time.monotonic()):
            if isinstance(event, Refused):
                raise AskError(f"livejoin refuses: {event.why}")
            if isinstance(event, Send):
                await socket.send(event.text)
            else:
                for feed in self._feeds:
                    feed.offer(event)
        if self._session.mismatches > before:
            log.warning("rows differ from livejoin's: taking them afresh")
        self._tell()

    async def close(self) -> None:
        """Let go of everything; iterators end. Twice is fine."""
        self._closed = True
        self._tell()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})


class AsyncTable:
    """One table under its stable name, whatever generation it shows."""

    def __init__(self, connection: AsyncConnection, name: str) -> None:
        self._connection = connection
        self.name = name

    async def to_arrow(self, timeout_s: float = WAIT_S) -> pa.Table:
        """All rows as they are now, `_id` and `_ts` included."""
        return await self._connection.whole(self.name, timeout_s)

    async def to_pandas(self, timeout_s: float = WAIT_S) -> "pd.DataFrame":
        """All rows as they are now."""
        return dataframes.to_pandas(await self.to_arrow(timeout_s))

    async def to_polars(self, timeout_s: float = WAIT_S) -> "pl.DataFrame":
        """All rows as they are now."""
        return dataframes.to_polars(await self.to_arrow(timeout_s))

    @property
    def total(self) -> int:
        """How many rows livejoin has; of a very large table only the newest come here."""
        return self._connection.total(self.name)

    def changes(self) -> AsyncIterator[Change]:
        """First all rows, then every change, until the connection is closed."""
        return self._connection.changes(self.name)
