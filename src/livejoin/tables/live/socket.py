"""The live socket: what changed is encoded once for all viewers.

One that comes back, or was too slow, is told what it misses: each row that changed since, once.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from starlette.websockets import WebSocket, WebSocketDisconnect

from livejoin.core import spec
from livejoin.core.tokens import includes
from livejoin.errors import AskError
from livejoin.tables.auth.identity import Guests
from livejoin.tables.ingest.catalog import DATA, Host
from livejoin.tables.ingest.store import Delta
from livejoin.tables.live import frames
from livejoin.tables.live.delivery import Delivery
from livejoin.tables.live.delivery_stats import Sent
from livejoin.tables.live.frame_cache import Showing
from livejoin.tables.live.revocation import Watchers, send_away
from livejoin.tables.live.viewer import Asks, Frame, Held, Viewer, subscription
from livejoin.tables.observe.figures import sources

SUBPROTOCOL = "livejoin.v1"
HEARTBEAT_S = 1.0
# Frames are so far apart at most; closer where sending them takes no time, and the first after a
# quiet time goes at once. Half of it is what a change waits on average.
FLUSH_S = 0.02
_CLOSEST_S = 0.005
_SHARE = 10  # of the loop's time, at most one in so many goes into frames
_SMALL_ROWS = 2000  # a cutover with so few rows goes out at once
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
        self._since: float | None = None  # when the first change came that waits
        self.sent = Sent()
        self._timer: asyncio.TimerHandle | None = None
        self._showing = Showing(host)
        self._delivery = Delivery(self._showing)
        self._read_on = asyncio.Event()  # set whenever there may be more, then replaced
        self._left = asyncio.Event()  # set whenever a viewer has left, then replaced
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
        parts = self._cutover() if moved else []
        for table in (t for t in spec.ALL_TABLES if t in upserts or removed.get(t)):
            rows = pa.Table.from_batches(upserts.get(table, ()), self._host.store(table).schema)
            parts += frames.changes(table, rows, list(removed.get(table, ())))
        self._send("cutover" if moved else "data", parts, since)
        took_s = asyncio.get_running_loop().time() - self._flushed_at
        self._apart_s = min(FLUSH_S, max(_CLOSEST_S, _SHARE * took_s))

    def _cutover(self) -> list[frames.Part]:
        """All data tables, where they are small; large frames are made when they can be sent."""
        small = sum(len(self._host.store(table)) for table in DATA) <= _SMALL_ROWS
        for viewer in self._viewers:
            # whoever holds some of this generation already misses only the rest
            again = viewer.held and viewer.held.generation == self._host.generation
            if again or not (small or viewer.tables.isdisjoint(DATA)):
                viewer.miss()
        return [part for table in DATA for part in self._showing.whole(table)] if small else []

    def _send(
        self, kind: str, parts: Sequence[frames.Part], since: float | None = None, **more: Any
    ) -> None:
        """One frame for all who get the same parts, whatever else they subscribed to."""
        header, held = self._showing.header(kind, **more), self._showing.held()
        made: dict[tuple[tuple[int, ...], frozenset[str]], Frame] = {}
        known: dict[frozenset[str], Frame | None] = {}
        for viewer in self._viewers:
            tables = viewer.tables
            if tables not in known:
                mine = tuple(at for at, part in enumerate(parts) if part.table in tables)
                what = mine, tables.intersection(spec.RESTRICTED)
                if not mine and kind == "data":
                    known[tables] = None
                    continue
                if what not in made:
                    told = _for(header, viewer)
                    made[what] = Frame.of(told, (parts[at] for at in mine), held, since)
                known[tables] = made[what]
            frame = known[tables]
            if frame is not None:
                viewer.offer(frame)

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
            await self._delivery.hold_on()

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
            if self._closed:
                viewer.leave()
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
            midway = viewer is not None and viewer.midway  # nothing else can go into a frame
            told = frames.frame(self._showing.header("error", message=why))
            reason = why.encode()[:_REASON_BYTES].decode(errors="ignore")
            await send_away(socket, _POLICY, reason, b"" if midway else told)
        except WebSocketDisconnect:
            pass
        finally:
            leaving.close()
            if viewer is not None:
                self._viewers.discard(viewer)
                self._left.set()
                self._left = asyncio.Event()

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
                make = partial(self._missed, viewer)
                self._note(viewer, await self._delivery.send_missed(socket, viewer, make))
            while viewer.waiting and not viewer.missing and not viewer.leaving:
                frame = viewer.take()
                await self._delivery.send(socket, viewer, frame)
                self._note(viewer, frame)

    def _missed(self, viewer: Viewer) -> Frame:
        viewer.miss()  # whatever waits is in it
        self._flush_now()  # so is what is pending
        viewer.miss_no_more()
        return self._showing.missed(viewer)

    def _note(self, viewer: Viewer, frame: Frame) -> None:
        """A frame is on its way."""
        viewer.took(frame.held)
        now = asyncio.get_running_loop().time()
        self.sent.frame(None if frame.since is None else now - frame.since)

    async def close(self, limit_s: float) -> None:
        """Send every viewer away, with the code that says to come back, and wait until they left.

        Whoever is still there when the web server ends is closed by that, with another code.
        """
        self._closed = True
        for viewer in self._viewers:
            viewer.leave()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self._viewers:
                    await self._left.wait()


def _for(header: dict[str, Any], viewer: Viewer) -> dict[str, Any]:
    """A header without figures of tables that this viewer may not have."""
    hidden = spec.RESTRICTED.keys() - viewer.tables
    if hidden.isdisjoint(header.get("tables", ())):
        return header
    shown = {name: told for name, told in header["tables"].items() if name not in hidden}
    return {**header, "tables": shown}
