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
from livejoin.client.base_connection import READ_TIMEOUT_S, SWAP_TIMEOUT_S, BaseConnection
from livejoin.client.change_queue import ChangeQueue
from livejoin.client.endpoint import DEFAULT_URL, Endpoint
from livejoin.client.protocol import (
    Change,
    Send,
    SubscriptionRefused,
    generation_after,
    has_reached,
)
from livejoin.client.requests import Call, Deadline, Outcome, Result, Steps
from livejoin.errors import AskError, ProtocolViolation, TookTooLong

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

log = logging.getLogger("livejoin.client")


def aconnect(url: str = DEFAULT_URL, token: str | None = None) -> "AsyncConnection":
    """Connect to a livejoin, in an `async with` or awaited."""
    return AsyncConnection(Endpoint(url, token))


class AsyncConnection(BaseConnection):
    """One livejoin: its tables, and requests to change what they show."""

    _constructor = "aconnect"

    def __init__(self, address: Endpoint) -> None:
        super().__init__(address)
        self._table_names: frozenset[str] = frozenset()
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
        self._table_names = requests.table_names(await self._call(Call("api/v1/tables")))
        return self

    # --- reading

    async def table(self, name: str) -> "AsyncTable":
        """A table, which is kept up to date from now on. A further one makes all come afresh."""
        requests.check_table(name, self._table_names)
        await self._subscribe(name)
        return AsyncTable(self, name)

    @property
    def stale(self) -> str | None:
        """Why the rows here may be old, or None."""
        return self._session.stale_reason(time.monotonic())

    async def status(self) -> dict[str, Any]:
        """What is live, what is going on, and what became of the records read."""
        return await self._call(Call("api/v1/status"))

    # --- asking

    async def control(
        self, *, wait: bool = False, timeout_s: float = SWAP_TIMEOUT_S, **message: Any
    ) -> Outcome:
        """Ask for other topics or another join: `control(usersTopic="…", joinType="inner")`.

        With `wait`, come back when the tables here show it, or raise why they never will.
        """
        return await self._request("api/v1/control", message, wait=wait, timeout_s=timeout_s)

    async def rollback(
        self, *, wait: bool = False, timeout_s: float = SWAP_TIMEOUT_S, **message: Any
    ) -> Outcome:
        """Go back to the generation that stands by."""
        return await self._request("api/v1/rollback", message, wait=wait, timeout_s=timeout_s)

    async def preview(self, **message: Any) -> dict[str, Any]:
        """What a control message would do; nothing is done."""
        return await self._call(Call("api/v1/preview", message))

    async def wait_for_swap(self, after: int | None, timeout_s: float = SWAP_TIMEOUT_S) -> int:
        """Wait until the tables here show another generation than this one, and say which."""
        await self._subscribe()
        return await self._wait(
            lambda: generation_after(self._session, after), f"one after {after}", timeout_s
        )

    async def _request(
        self, path: str, message: dict[str, Any], *, wait: bool, timeout_s: float
    ) -> Outcome:
        before = self._session.generation
        limit = Deadline.after(timeout_s, time.monotonic)
        outcome = await self._run_steps(
            requests.send_control(path, message, limit if wait else None)
        )
        number = outcome.live
        if wait and self._task is not None and number is not None:  # now we must move, too
            await self._wait(
                lambda: has_reached(self._session, before, number),
                f"generation {number}",
                limit.remaining_s,
            )
        return outcome

    async def _run_steps(self, steps: Steps[Result]) -> Result:
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
                self._ensure_open()

    async def _call(self, call: Call) -> dict[str, Any]:
        return await asyncio.to_thread(self._endpoint.call, call.path, call.message)

    # --- for the tables

    async def whole(self, name: str, timeout_s: float) -> pa.Table:
        """All rows of a table, once they have come."""
        return (await self._wait(lambda: self._session.snapshot(name), name, timeout_s)).rows

    def total(self, name: str) -> int:
        """How many rows livejoin has of a table."""
        return self._session.total(name)

    async def changes(self, name: str) -> AsyncIterator[Change]:
        """Changes of a table, until the connection is closed."""
        feed = ChangeQueue(name)
        self._change_queues.append(feed)
        try:
            while True:
                while (change := feed.get(self._session)) is None:
                    if self._closed:
                        return
                    self._ensure_open()
                    await self._changed.wait()
                yield change
        finally:
            self._change_queues.remove(feed)

    async def _wait(
        self, found: Callable[[], Result | None], what: str, timeout_s: float
    ) -> Result:
        try:
            async with asyncio.timeout(timeout_s):
                while (value := found()) is None:
                    self._ensure_open()
                    await self._changed.wait()
        except TimeoutError:
            why = self.stale or "it did not come"
            raise TookTooLong(f"waited {timeout_s:.0f} s for {what}: {why}") from None
        return value

    def _ensure_open(self) -> None:
        self._ensure_usable(closed=self._closed)

    # --- the task

    def _notify_all(self) -> None:
        """Wake all who wait."""
        was, self._changed = self._changed, asyncio.Event()
        was.set()

    async def _subscribe(self, *tables: str) -> None:
        self._ensure_open()
        messages = [self._session.add_table(name) for name in tables]
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
                why = await self._run_socket()
                wait_s = self._session.disconnected(why, 0.5 + random.random())
                self._notify_all()
                log.warning("lost livejoin at %s: %s", self._endpoint.url, why)
                await asyncio.sleep(wait_s)
        except Exception as error:  # noqa: BLE001 - raised by whoever waits
            self._failure = error
            self._notify_all()

    async def _run_socket(self) -> str:
        """Follow one socket to its end, and say what ended it."""
        try:
            async with open_socket(self._endpoint.socket_url, **self._socket_options) as socket:
                self._socket = socket
                await socket.send(self._session.connected())
                while True:
                    await self._receive(socket)
        except (WebSocketException, OSError, ProtocolViolation) as error:
            return self._disconnect_reason(error)
        finally:
            self._socket = None

    async def _receive(self, socket: ClientConnection) -> None:
        async with asyncio.timeout(self._session.receive_timeout_s):
            data = await socket.recv()
        if isinstance(data, str):
            raise ProtocolViolation("the server sent text")
        before = self._session.mismatches
        for event in self._session.receive(data, time.monotonic()):
            if isinstance(event, SubscriptionRefused):
                raise AskError(f"livejoin refuses: {event.reason}")
            if isinstance(event, Send):
                await socket.send(event.text)
            else:
                for feed in self._change_queues:
                    feed.put(event)
        if self._session.mismatches > before:
            log.warning("rows differ from livejoin's: taking them afresh")
        self._notify_all()

    async def close(self) -> None:
        """Let go of everything; iterators end. Twice is fine."""
        self._closed = True
        self._notify_all()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})


class AsyncTable:
    """One table under its stable name, whatever generation it shows."""

    def __init__(self, connection: AsyncConnection, name: str) -> None:
        self._connection = connection
        self.name = name

    async def to_arrow(self, timeout_s: float = READ_TIMEOUT_S) -> pa.Table:
        """All rows as they are now, `_id` and `_ts` included."""
        return await self._connection.whole(self.name, timeout_s)

    async def to_pandas(self, timeout_s: float = READ_TIMEOUT_S) -> "pd.DataFrame":
        """All rows as they are now."""
        return dataframes.to_pandas(await self.to_arrow(timeout_s))

    async def to_polars(self, timeout_s: float = READ_TIMEOUT_S) -> "pl.DataFrame":
        """All rows as they are now."""
        return dataframes.to_polars(await self.to_arrow(timeout_s))

    @property
    def total(self) -> int:
        """How many rows livejoin has; of a very large table only the newest come here."""
        return self._connection.total(self.name)

    def changes(self) -> AsyncIterator[Change]:
        """First all rows, then every change, until the connection is closed."""
        return self._connection.changes(self.name)
