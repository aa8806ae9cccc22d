"""The connection for asyncio: one task drives the session."""

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

from livejoin.client import requests
from livejoin.client.base_connection import (
    READ_TIMEOUT_S,
    SWAP_TIMEOUT_S,
    BaseConnection,
    find_endpoint,
    to_pandas,
    to_polars,
)
from livejoin.client.change_queue import ChangeQueue
from livejoin.client.endpoint import Endpoint
from livejoin.client.protocol import (
    Change,
    Send,
    SubscriptionRefused,
    generation_after,
    has_reached,
    snapshot_of,
)
from livejoin.client.requests import Call, Deadline, Outcome, Result, Steps
from livejoin.errors import ProtocolViolation, RequestError, TookTooLong

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

log = logging.getLogger("livejoin.client")


def aconnect(url: str | None = None, token: str | None = None) -> "AsyncConnection":
    """Connect to a livejoin; use it in `async with`, or await it. Defaults are as in `connect`."""
    return AsyncConnection(find_endpoint(url, token))


class AsyncConnection(BaseConnection):
    """A connection to one livejoin: its tables, and control requests."""

    _constructor = "aconnect"

    def __init__(self, address: Endpoint) -> None:
        super().__init__(address)
        self._table_names: frozenset[str] = frozenset()
        self._changed = asyncio.Event()  # replaced at every change
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
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _open(self) -> Self:
        self._table_names = requests.table_names(await self._call(Call("api/v1/tables")))
        return self

    # --- reading

    async def table(self, name: str) -> "AsyncTable":
        """Subscribe to a table. Every new subscription fetches all tables again."""
        steps = requests.find_table(name, self._table_names)
        self._table_names = await self._run_steps(steps)
        await self._subscribe(name)
        return AsyncTable(self, name)

    @property
    def stale(self) -> str | None:
        """Why the rows may be stale, or None."""
        return self._session.stale_reason(time.monotonic())

    async def status(self) -> dict[str, Any]:
        """Return the server's status, as `GET /api/v1/status` does."""
        return await self._call(Call("api/v1/status"))

    async def spec(self) -> dict[str, Any]:
        """Return sources, fields and tables, as `GET /api/v1/spec` does."""
        return await self._call(Call("api/v1/spec"))

    # --- requests

    async def control(
        self, *, wait: bool = False, timeout_s: float = SWAP_TIMEOUT_S, **message: Any
    ) -> Outcome:
        """Request other topics or another join: `control(orders="…", joinType="inner")`.

        A topic is given by the name of its source, or of its field (`ordersTopic="…"`).

        With `wait`, return once this connection's tables show it. Raises NotLive if it fails.
        """
        return await self._request("api/v1/control", message, wait=wait, timeout_s=timeout_s)

    async def rollback(
        self, *, wait: bool = False, timeout_s: float = SWAP_TIMEOUT_S, **message: Any
    ) -> Outcome:
        """Roll back to the standby generation."""
        return await self._request("api/v1/rollback", message, wait=wait, timeout_s=timeout_s)

    async def preview(self, **message: Any) -> dict[str, Any]:
        """Return what a control message would do, without doing it."""
        return await self._run_steps(requests.preview(message))

    async def wait_for_swap(self, after: int | None, timeout_s: float = SWAP_TIMEOUT_S) -> int:
        """Wait until the tables show another generation than `after`, and return it."""
        await self._subscribe()
        return await self._wait(
            lambda: generation_after(self._session, after), f"a generation after {after}", timeout_s
        )

    async def _request(
        self, path: str, message: dict[str, Any], *, wait: bool, timeout_s: float
    ) -> Outcome:
        before = self._session.generation
        deadline = Deadline.after(timeout_s, time.monotonic)
        outcome = await self._run_steps(
            requests.send_control(path, message, deadline if wait else None)
        )
        number = outcome.live
        if wait and self._task is not None and number is not None:  # now this client too
            await self._wait(
                lambda: has_reached(self._session, before, number),
                f"generation {number}",
                deadline.remaining_s,
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

    # --- used by tables

    async def whole(self, name: str, timeout_s: float) -> pa.Table:
        """Return all rows of a table, once they are received."""
        return (await self._wait(lambda: snapshot_of(self._session, name), name, timeout_s)).rows

    def total(self, name: str) -> int:
        """Rows that the server has of a table."""
        return self._session.total(name)

    async def changes(self, name: str) -> AsyncIterator[Change]:
        """Yield changes of a table until the connection is closed."""
        changes = ChangeQueue(name)
        self._change_queues.append(changes)
        try:
            while True:
                while (change := changes.get(self._session)) is None:
                    if self._closed:
                        return
                    self._ensure_open()
                    await self._changed.wait()
                yield change
        finally:
            self._change_queues.remove(changes)

    async def _wait(self, poll: Callable[[], Result | None], what: str, timeout_s: float) -> Result:
        try:
            async with asyncio.timeout(timeout_s):
                while (value := poll()) is None:
                    self._ensure_open()
                    await self._changed.wait()
        except TimeoutError:
            reason = self.stale or "not received"
            raise TookTooLong(f"waited {timeout_s:.0f} s for {what}: {reason}") from None
        return value

    def _ensure_open(self) -> None:
        self._ensure_usable(closed=self._closed)

    # --- the task

    def _notify_all(self) -> None:
        """Wake all waiters."""
        previous, self._changed = self._changed, asyncio.Event()
        previous.set()

    async def _subscribe(self, *tables: str) -> None:
        self._ensure_open()
        messages = [self._session.add_table(name) for name in tables]
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="livejoin")
        for message in messages:
            if message is not None and self._socket is not None:
                # if the socket is gone, the next one subscribes to the same tables
                with contextlib.suppress(WebSocketException):
                    await self._socket.send(message)

    async def _run(self) -> None:
        try:
            while True:
                reason = await self._run_socket()
                wait_s = self._session.disconnected(reason, 0.5 + random.random())
                self._notify_all()
                log.warning("lost connection to %s: %s", self._endpoint.url, reason)
                await asyncio.sleep(wait_s)
        except Exception as error:  # noqa: BLE001 - raised in the callers that wait
            self._failure = error
            self._notify_all()

    async def _run_socket(self) -> str:
        """Receive from one socket until it is lost, and return the reason."""
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
            raise ProtocolViolation("the server sent a text message")
        before = self._session.mismatches
        for event in self._session.receive(data, time.monotonic()):
            if isinstance(event, SubscriptionRefused):
                raise RequestError(f"subscription refused: {event.reason}")
            if isinstance(event, Send):
                await socket.send(event.text)
            else:
                for changes in self._change_queues:
                    changes.put(event)
        if self._session.mismatches > before:
            log.warning("rows do not match the server's hash: fetching them again")
        self._notify_all()

    async def close(self) -> None:
        """Close the connection; iterators end. Can be called twice."""
        self._closed = True
        self._notify_all()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})


class AsyncTable:
    """A table under its stable name, whichever generation it shows."""

    def __init__(self, connection: AsyncConnection, name: str) -> None:
        self._connection = connection
        self.name = name

    async def to_arrow(self, timeout_s: float = READ_TIMEOUT_S) -> pa.Table:
        """Return all current rows, including `_id` and `_ts`."""
        return await self._connection.whole(self.name, timeout_s)

    async def to_pandas(self, timeout_s: float = READ_TIMEOUT_S) -> "pd.DataFrame":
        """Return all current rows."""
        return to_pandas(await self.to_arrow(timeout_s))

    async def to_polars(self, timeout_s: float = READ_TIMEOUT_S) -> "pl.DataFrame":
        """Return all current rows."""
        return to_polars(await self.to_arrow(timeout_s))

    @property
    def total(self) -> int:
        """Rows that the server has; of a very large table the client gets only the newest."""
        return self._connection.total(self.name)

    def changes(self) -> AsyncIterator[Change]:
        """Yield a snapshot, then every change, until the connection is closed."""
        return self._connection.changes(self.name)
