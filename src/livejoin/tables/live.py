"""The live socket: what changed is encoded once for all viewers.

One that comes back, or was too slow, is told what it misses: each row that changed since, once.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from starlette.websockets import WebSocket, WebSocketDisconnect

from livejoin.core import spec
from livejoin.core.tokens import includes
from livejoin.errors import AskError
from livejoin.tables import frames
from livejoin.tables.figures import sources
from livejoin.tables.guests import Guests
from livejoin.tables.host import DATA, Host
from livejoin.tables.revoking import Watchers
from livejoin.tables.sent import Sent
from livejoin.tables.showing import Showing
from livejoin.tables.store import Delta
from livejoin.tables.viewer import Asks, Frame, Held, Viewer, subscription

SUBPROTOCOL = "livejoin.v1"
HEARTBEAT_S = 1.0
# Frames are so far apart at most; closer where sending them takes no time, and the first after a
# quiet time goes at once. Half of it is what a change waits on average.
FLUSH_S = 0.02
_CLOSEST_S = 0.005
_SHARE = 10  # of the loop's time, at most one in so many goes into frames
_LARGE = 1 << 20
_COPIED_PER_S = 500e6  # bytes of a frame into a socket's buffers, where memory is slow
_FIRST_MESSAGE_S = 10
_BEHIND_S = 10  # how long a viewer waits that has seen more than we have read
_GOING_AWAY, _POLICY, _TRY_AGAIN = 1001, 1008, 1013
_REASON_BYTES = 120  # a close frame holds 123


class Live:
    """All viewers of a host."""

    def __init__(self, host: Host, guests: Guests) -> None:
        self._host = host
        self._viewers: set[Viewer] = set()
        self._upserts: dict[str, list[pa.RecordBatch]] = {}
        self._removed: dict[str, dict[str, None]] = {}
        self._moved = False
        self._closed = False
        self._flushed_at = 0.0
        self._apart_s = _CLOSEST_S
        self._free_at = 0.0  # when the next large frame may go
        self._since: float | None = None  # when the first change came that waits
        self.sent = Sent()
        self._timer: asyncio.TimerHandle | None = None
        self._showing = Showing(host)
        self._read_on = asyncio.Event()  # set whenever there may be more, then replaced
        self._watchers = Watchers(guests)
        host.audience.append(self)

    def __len__(self) -> int:
        return len(self._viewers)

    # --- told by the host

    def changed(self, table: str, delta: Delta) -> None:
        """Rows changed: they go out with the next frame."""
        removed = self._removed.setdefault(table, {})
        if removed:
            for row_id in delta.upserts.column("_id").to_pylist():
                removed.pop(row_id, None)
        removed.update(dict.fromkeys(delta.removed))
        if delta.upserts.num_rows:
            self._upserts.setdefault(table, []).append(delta.upserts)
        self._flush_soon()

    def cut_over(self) -> None:
        """Everything changed at once: one frame carries all data tables."""
        for table in DATA:
            self._upserts.pop(table, None)
            self._removed.pop(table, None)
        self._showing.move()
        self._moved = True
        self._flush_soon()

    # --- sending

    def _flush_soon(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._since = loop.time()
            wait = max(0.0, self._flushed_at + self._apart_s - loop.time())
            self._timer = loop.call_later(wait, self._flush)

    def _flush_now(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._flush()

    def _flush(self) -> None:
        self._timer = None
        self._wake_those_ahead()
        self._flushed_at = asyncio.get_running_loop().time()
        self._showing.change()
        upserts, removed, moved = self._upserts, self._removed, self._moved
        self._upserts, self._removed, self._moved = {}, {}, False
        since, self._since = self._since, None
        if not self._viewers:
            return
        if moved:  # whoever holds some of this generation already misses only the rest
            for viewer in self._viewers:
                if viewer.held and viewer.held.generation == self._host.generation:
                    viewer.miss()
        parts = [self._showing.snapshot(table) for table in DATA] if moved else []
        for table in (t for t in spec.ALL_TABLES if t in upserts or removed.get(t)):
            rows = pa.Table.from_batches(upserts.get(table, ()), self._host.store(table).schema)
            parts += frames.changes(table, rows, list(removed.get(table, ())))
        self._send("cutover" if moved else "data", parts, since)
        took_s = asyncio.get_running_loop().time() - self._flushed_at
        self._apart_s = min(FLUSH_S, max(_CLOSEST_S, _SHARE * took_s))

    def _send(
        self, kind: str, parts: Iterable[frames.Part], since: float | None = None, **more: Any
    ) -> None:
        """One frame for each set of tables that somebody subscribed to."""
        header, held = self._showing.header(kind, **more), self._showing.held()
        made: dict[frozenset[str], bytes] = {}
        for viewer in self._viewers:
            if viewer.tables not in made:
                mine = [part for part in parts if part.table in viewer.tables]
                nothing = not mine and kind == "data"
                made[viewer.tables] = b"" if nothing else frames.frame(_for(header, viewer), mine)
            if made[viewer.tables]:
                viewer.offer(Frame(made[viewer.tables], held, since))

    async def beat(self) -> None:
        """Send a heartbeat every second, for ever: silence means a stall."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            self._watchers.check()
            self._wake_those_ahead()  # reading on does not always change a row
            self._host.count()  # not only for viewers: the leader looks at the figures too
            self._host.find_overtaken()
            if not self._viewers:
                continue
            self._flush_now()  # the figures are those of what has been sent
            wanted = frozenset[str]().union(*(viewer.tables for viewer in self._viewers))
            shown = {name: self._host.store(name).shown() for name in sorted(wanted)}
            tables = {name: {"rows": rows, "hash": text} for name, (rows, text) in shown.items()}
            capped: dict[str, Any] = {"capped": of} if (of := self._host.capped()) else {}
            self._send(
                "heartbeat",
                (),
                newest=self._host.newest,
                stale=self._host.stale or None,
                tables=tables,
                viewers=len(self),
                sources=sources(self._host),
                **capped,
            )

    # --- one viewer

    async def serve(self, socket: WebSocket) -> None:
        """Serve one viewer until it leaves."""
        if SUBPROTOCOL not in socket.scope.get("subprotocols", ()):
            await socket.close(_POLICY, f"speak {SUBPROTOCOL}")
            return
        await socket.accept(SUBPROTOCOL)
        if self._closed:  # whoever was sent away comes back at once
            await socket.close(_GOING_AWAY, "livejoin is stopping")
            return
        viewer: Viewer | None = None
        asks = Asks()
        leaving = contextlib.ExitStack()
        who = leaving.enter_context(self._watchers.watching(socket))
        known = spec.ALL_TABLES if includes(who.role, "operator") else spec.TABLES
        try:
            first = await asyncio.wait_for(socket.receive_text(), _FIRST_MESSAGE_S)
            asked = subscription(first, known)
            if not await self._caught_up_with(asked.resume):
                await socket.close(_TRY_AGAIN, "this server is behind what you have seen")
                return
            viewer = Viewer(asked)
            self._viewers.add(viewer)
            sending = asyncio.create_task(self._deliver(socket, viewer))
            try:
                while True:
                    again = subscription(await socket.receive_text(), known)
                    asks.one_more()
                    viewer.ask(again)
            finally:
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                    await sending
        except (AskError, TimeoutError, KeyError) as error:
            why = str(error) if isinstance(error, AskError) else "expected a subscription as text"
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await socket.send_bytes(frames.frame(self._showing.header("error", message=why)))
                await socket.close(_POLICY, why.encode()[:_REASON_BYTES].decode(errors="ignore"))
        except WebSocketDisconnect:
            pass
        finally:
            leaving.close()
            if viewer is not None:
                self._viewers.discard(viewer)

    async def _caught_up_with(self, seen: Held | None) -> bool:
        """Wait until we have read what a viewer has seen elsewhere; rows must not go back."""
        if seen is None:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_BEHIND_S):
                while self._host.generation == seen.generation and self._host.seq < seen.seq:
                    await self._read_on.wait()
                return True
        return False

    def _wake_those_ahead(self) -> None:
        self._read_on.set()
        self._read_on = asyncio.Event()

    async def _deliver(self, socket: WebSocket, viewer: Viewer) -> None:
        while True:
            await viewer.wake.wait()
            viewer.wake.clear()
            if viewer.leaving:
                await socket.close(_GOING_AWAY, "livejoin is stopping")
                return
            if viewer.missing:
                self._flush_now()  # what is pending is in it, and need not come again
                viewer.miss_no_more(Frame(self._showing.missed(viewer), self._showing.held()))
            while viewer.waiting and not viewer.missing:
                await self._hand_over(socket, viewer)

    async def _hand_over(self, socket: WebSocket, viewer: Viewer) -> None:
        frame, asked = viewer.take(), viewer.asked
        await self._turn(len(frame.data))
        await socket.send_bytes(frame.data)
        if viewer.asked is asked:  # else it holds nothing yet of what it wants now
            viewer.took(frame.held)
        now = asyncio.get_running_loop().time()
        self.sent.frame(None if frame.since is None else now - frame.since)

    async def _turn(self, size: int) -> None:
        """Large frames go one after the other, and in between there is time for everybody else."""
        if size < _LARGE:
            return
        now = asyncio.get_running_loop().time()
        wait_s = max(0.0, self._free_at - now)
        self._free_at = now + wait_s + size / _COPIED_PER_S
        await asyncio.sleep(wait_s)

    def close(self) -> None:
        """Send every viewer away, with the code that says to come back."""
        self._closed = True
        for viewer in self._viewers:
            viewer.leave()


def _for(header: dict[str, Any], viewer: Viewer) -> dict[str, Any]:
    """A header without figures of tables that this viewer may not have."""
    hidden = spec.RESTRICTED.keys() - viewer.tables
    if hidden.isdisjoint(header.get("tables", ())):
        return header
    shown = {name: told for name, told in header["tables"].items() if name not in hidden}
    return {**header, "tables": shown}
