"""The connection for programs without an event loop: one thread drives the session."""

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as open_socket

from livejoin.client import requests
from livejoin.client.base_connection import (
    OPEN_TIMEOUT_S,
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


def connect(url: str | None = None, token: str | None = None) -> "Connection":
    """Connect to a livejoin. Raises Unreachable if none responds; later it reconnects.

    The URL is by default that of LIVEJOIN_URL or of a livejoin on this machine, the token that of
    LIVEJOIN_TOKEN or the one that `livejoin demo` stored for the URL. An empty token sends none.
    """
    address = find_endpoint(url, token)
    return Connection(address, requests.table_names(address.call("api/v1/tables")))


class Connection(BaseConnection):
    """A connection to one livejoin: its tables, and control requests."""

    _constructor = "connect"

    def __init__(self, address: Endpoint, names: frozenset[str]) -> None:
        super().__init__(address)
        self._table_names = names
        self._changed = threading.Condition()  # guards the session, the queues and all below
        self._closing = threading.Event()
        self._socket: ClientConnection | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- reading

    def table(self, name: str) -> "Table":
        """Subscribe to a table. Every new subscription fetches all tables again."""
        steps = requests.find_table(name, self._table_names)
        self._table_names = self._run_steps(steps)
        self._subscribe(name)
        return Table(self, name)

    @property
    def stale(self) -> str | None:
        """Why the rows may be stale, or None."""
        with self._changed:
            return self._session.stale_reason(time.monotonic())

    def status(self) -> dict[str, Any]:
        """Return the server's status, as `GET /api/v1/status` does."""
        return self._endpoint.call("api/v1/status")

    def spec(self) -> dict[str, Any]:
        """Return sources, fields and tables, as `GET /api/v1/spec` does."""
        return self._endpoint.call("api/v1/spec")

    # --- requests

    def control(
        self, *, wait: bool = False, timeout_s: float = SWAP_TIMEOUT_S, **message: Any
    ) -> Outcome:
        """Request other topics or another join: `control(orders="…", joinType="inner")`.

        A topic is given by the name of its source, or of its field (`ordersTopic="…"`).

        With `wait`, return once this connection's tables show it. Raises NotLive if it fails.
        """
        return self._request("api/v1/control", message, wait=wait, timeout_s=timeout_s)

    def rollback(
        self, *, wait: bool = False, timeout_s: float = SWAP_TIMEOUT_S, **message: Any
    ) -> Outcome:
        """Roll back to the standby generation."""
        return self._request("api/v1/rollback", message, wait=wait, timeout_s=timeout_s)

    def preview(self, **message: Any) -> dict[str, Any]:
        """Return what a control message would do, without doing it."""
        return self._run_steps(requests.preview(message))

    def wait_for_swap(self, after: int | None, timeout_s: float = SWAP_TIMEOUT_S) -> int:
        """Wait until the tables show another generation than `after`, and return it."""
        self._subscribe()
        return self._wait(
            lambda: generation_after(self._session, after), f"a generation after {after}", timeout_s
        )

    def _request(
        self, path: str, message: dict[str, Any], *, wait: bool, timeout_s: float
    ) -> Outcome:
        before = self._session.generation
        deadline = Deadline.after(timeout_s, time.monotonic)
        outcome = self._run_steps(requests.send_control(path, message, deadline if wait else None))
        number = outcome.live
        if wait and self._thread is not None and number is not None:  # now this client too
            self._wait(
                lambda: has_reached(self._session, before, number),
                f"generation {number}",
                deadline.remaining_s,
            )
        return outcome

    def _run_steps(self, steps: Steps[Result]) -> Result:
        answer: dict[str, Any] | None = None
        while True:
            try:
                step = next(steps) if answer is None else steps.send(answer)
            except StopIteration as done:
                result: Result = done.value
                return result
            if isinstance(step, Call):
                answer = self._endpoint.call(step.path, step.message)
            else:
                answer = {}
                self._closing.wait(step.seconds)
                self._ensure_open()

    # --- used by tables

    def whole(self, name: str, timeout_s: float) -> pa.Table:
        """Return all rows of a table, once they are received."""
        return self._wait(lambda: snapshot_of(self._session, name), name, timeout_s).rows

    def total(self, name: str) -> int:
        """Rows that the server has of a table."""
        with self._changed:
            return self._session.total(name)

    def changes(self, name: str) -> Iterator[Change]:
        """Yield changes of a table until the connection is closed."""
        changes = ChangeQueue(name)
        with self._changed:
            self._change_queues.append(changes)
        try:
            while True:
                with self._changed:
                    while (change := changes.get(self._session)) is None:
                        if self._closing.is_set():
                            return
                        self._ensure_open()
                        self._changed.wait()
                yield change
        finally:
            with self._changed:
                self._change_queues.remove(changes)

    def _wait(self, poll: Callable[[], Result | None], what: str, timeout_s: float) -> Result:
        until = time.monotonic() + timeout_s
        with self._changed:
            while (value := poll()) is None:
                self._ensure_open()
                left_s = until - time.monotonic()
                if left_s <= 0:
                    reason = self._session.stale_reason(time.monotonic()) or "not received"
                    raise TookTooLong(f"waited {timeout_s:.0f} s for {what}: {reason}")
                self._changed.wait(left_s)
        return value

    def _ensure_open(self) -> None:
        self._ensure_usable(closed=self._closing.is_set())

    # --- the thread

    def _subscribe(self, *tables: str) -> None:
        with self._changed:
            self._ensure_open()
            messages = [self._session.add_table(name) for name in tables]
            if self._thread is None:
                # daemon: a program that forgets to close can still exit
                self._thread = threading.Thread(target=self._run, name="livejoin", daemon=True)
                self._thread.start()
            socket = self._socket
        for message in messages:
            if message is not None and socket is not None:
                # if the socket is gone, the next one subscribes to the same tables
                with contextlib.suppress(WebSocketException):
                    socket.send(message)

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                reason = self._run_socket()
                with self._changed:
                    wait_s = self._session.disconnected(reason, 0.5 + random.random())
                    self._changed.notify_all()
                if not self._closing.is_set():
                    log.warning("lost connection to %s: %s", self._endpoint.url, reason)
                self._closing.wait(wait_s)
        except BaseException as error:  # noqa: BLE001 - raised in the callers that wait
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _run_socket(self) -> str:
        """Receive from one socket until it is lost, and return the reason."""
        try:
            with open_socket(self._endpoint.socket_url, **self._socket_options) as socket:
                with self._changed:
                    self._socket = socket
                    hello = self._session.connected()
                if self._closing.is_set():  # close() did not see the socket
                    return "closed"
                socket.send(hello)
                while True:
                    self._receive(socket)
        except (WebSocketException, OSError, ProtocolViolation) as error:
            return self._disconnect_reason(error)
        finally:
            with self._changed:
                self._socket = None

    def _receive(self, socket: ClientConnection) -> None:
        data = socket.recv(timeout=self._session.receive_timeout_s)
        if isinstance(data, str):
            raise ProtocolViolation("the server sent a text message")
        with self._changed:
            before = self._session.mismatches
            events = self._session.receive(data, time.monotonic())
            for event in events:
                if isinstance(event, SubscriptionRefused):
                    raise RequestError(f"subscription refused: {event.reason}")
                if isinstance(event, Change):
                    for changes in tuple(self._change_queues):  # an iterator may end meanwhile
                        changes.put(event)
            self._changed.notify_all()
            if self._session.mismatches > before:
                log.warning("rows do not match the server's hash: fetching them again")
        for event in events:
            if isinstance(event, Send):
                socket.send(event.text)

    def close(self) -> None:
        """Close the connection; iterators end. Can be called twice."""
        with self._changed:
            self._closing.set()
            self._changed.notify_all()
            socket, thread = self._socket, self._thread
        if socket is not None:
            socket.close()
        if thread is not None and thread is not threading.current_thread():
            thread.join(2 * OPEN_TIMEOUT_S)


class Table:
    """A table under its stable name, whichever generation it shows."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self.name = name

    def to_arrow(self, timeout_s: float = READ_TIMEOUT_S) -> pa.Table:
        """Return all current rows, including `_id` and `_ts`."""
        return self._connection.whole(self.name, timeout_s)

    def to_pandas(self, timeout_s: float = READ_TIMEOUT_S) -> "pd.DataFrame":
        """Return all current rows."""
        return to_pandas(self.to_arrow(timeout_s))

    def to_polars(self, timeout_s: float = READ_TIMEOUT_S) -> "pl.DataFrame":
        """Return all current rows."""
        return to_polars(self.to_arrow(timeout_s))

    @property
    def total(self) -> int:
        """Rows that the server has; of a very large table the client gets only the newest."""
        return self._connection.total(self.name)

    def changes(self) -> Iterator[Change]:
        """Yield a snapshot, then every change, until the connection is closed."""
        return self._connection.changes(self.name)
