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
from livejoin.core.tokens import role_includes
from livejoin.errors import AskError
from livejoin.tables.auth.identity import Identities
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.generation_tables import DATA_TABLES
from livejoin.tables.ingest.store import Delta
from livejoin.tables.live import frames
from livejoin.tables.live.delivery import Delivery
from livejoin.tables.live.delivery_stats import DeliveryStats
from livejoin.tables.live.frame_cache import FrameCache
from livejoin.tables.live.revocation import OpenSockets, close_socket
from livejoin.tables.live.viewer import (
    Cursor,
    OutgoingFrame,
    SubscriptionLimit,
    Viewer,
    parse_subscription,
)
from livejoin.tables.observe.figures import source_figures

SUBPROTOCOL = "livejoin.v1"
HEARTBEAT_S = 1.0
# Frames are so far apart at most; closer where sending them takes no time, and the first after a
# quiet time goes at once. Half of it is what a change waits on average.
MAX_FLUSH_INTERVAL_S = 0.02
_MIN_FLUSH_INTERVAL_S = 0.005
_FLUSH_SHARE = 10  # of the loop's time, at most one in so many goes into frames
_SMALL_CUTOVER_ROWS = 2000  # a cutover with so few rows goes out at once
_FIRST_MESSAGE_S = 10
_BEHIND_S = 10  # how long a viewer waits that has seen more than we have read
_GOING_AWAY, _POLICY, _TRY_AGAIN = 1001, 1008, 1013
_REASON_BYTES = 120  # a close frame holds 123


class LiveSocket:
    """All viewers of a host."""

    def __init__(self, host: Catalog, guests: Identities) -> None:
        self._catalog = host
        self._viewers: set[Viewer] = set()
        self._upserts: dict[str, list[pa.RecordBatch]] = {}
        self._removed: dict[str, dict[str, None]] = {}
        self._cutover_pending = False
        self._closed = False
        self._flushed_at = 0.0
        self._flush_interval_s = _MIN_FLUSH_INTERVAL_S
        self._first_change_at: float | None = None  # when the first change came that waits
        self.stats = DeliveryStats()
        self._flush_timer: asyncio.TimerHandle | None = None
        self._frame_cache = FrameCache(host)
        self._delivery = Delivery(self._frame_cache)
        self._progressed = asyncio.Event()  # set whenever there may be more, then replaced
        self._viewer_left = asyncio.Event()  # set whenever a viewer has left, then replaced
        self._open_sockets = OpenSockets(guests)
        host.listeners.append(self)

    def __len__(self) -> int:
        return len(self._viewers)

    # --- told by the host

    def on_change(self, table: str, delta: Delta) -> None:
        """Rows changed: they go out with the next frame."""
        removed = self._removed.setdefault(table, {})
        if removed:
            for row_id in delta.upserts.column("_id").to_pylist():
                removed.pop(row_id, None)
        removed.update(dict.fromkeys(delta.removed))
        if delta.upserts.num_rows:
            self._upserts.setdefault(table, []).append(delta.upserts)
        self._schedule_flush()

    def on_cutover(self) -> None:
        """Everything changed at once: one frame carries all data tables."""
        for table in DATA_TABLES:
            self._upserts.pop(table, None)
            self._removed.pop(table, None)
        self._frame_cache.switch_generation()
        self._cutover_pending = True
        self._schedule_flush()

    # --- sending

    def _schedule_flush(self) -> None:
        if self._flush_timer is None:
            loop = asyncio.get_running_loop()
            self._first_change_at = loop.time()
            wait = max(0.0, self._flushed_at + self._flush_interval_s - loop.time())
            self._flush_timer = loop.call_later(wait, self._flush)

    def _flush_now(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush()

    def _flush(self) -> None:
        self._flush_timer = None
        self._notify_progress()
        self._flushed_at = asyncio.get_running_loop().time()
        self._frame_cache.invalidate()
        upserts, removed, moved = self._upserts, self._removed, self._cutover_pending
        self._upserts, self._removed, self._cutover_pending = {}, {}, False
        since, self._first_change_at = self._first_change_at, None
        if not self._viewers:
            return
        parts = self._cutover_parts() if moved else []
        for table in (t for t in spec.ALL_TABLES if t in upserts or removed.get(t)):
            rows = pa.Table.from_batches(upserts.get(table, ()), self._catalog.store(table).schema)
            parts += frames.encode_changes(table, rows, list(removed.get(table, ())))
        self._broadcast("cutover" if moved else "data", parts, since)
        took_s = asyncio.get_running_loop().time() - self._flushed_at
        self._flush_interval_s = min(
            MAX_FLUSH_INTERVAL_S, max(_MIN_FLUSH_INTERVAL_S, _FLUSH_SHARE * took_s)
        )

    def _cutover_parts(self) -> list[frames.EncodedPart]:
        """All data tables, where they are small; large frames are made when they can be sent."""
        small = sum(len(self._catalog.store(table)) for table in DATA_TABLES) <= _SMALL_CUTOVER_ROWS
        for viewer in self._viewers:
            # whoever holds some of this generation already misses only the rest
            again = viewer.cursor and viewer.cursor.generation == self._catalog.generation
            if again or not (small or viewer.tables.isdisjoint(DATA_TABLES)):
                viewer.fall_behind()
        return (
            [part for table in DATA_TABLES for part in self._frame_cache.snapshot_parts(table)]
            if small
            else []
        )

    def _broadcast(
        self,
        kind: str,
        parts: Sequence[frames.EncodedPart],
        since: float | None = None,
        **more: Any,
    ) -> None:
        """One frame for all who get the same parts, whatever else they subscribed to."""
        header, held = self._frame_cache.build_header(kind, **more), self._frame_cache.cursor()
        made: dict[tuple[tuple[int, ...], frozenset[str]], OutgoingFrame] = {}
        known: dict[frozenset[str], OutgoingFrame | None] = {}
        for viewer in self._viewers:
            tables = viewer.tables
            if tables not in known:
                mine = tuple(at for at, part in enumerate(parts) if part.table in tables)
                what = mine, tables.intersection(spec.RESTRICTED)
                if not mine and kind == "data":
                    known[tables] = None
                    continue
                if what not in made:
                    told = _restrict_header(header, viewer)
                    made[what] = OutgoingFrame.build(told, (parts[at] for at in mine), held, since)
                known[tables] = made[what]
            frame = known[tables]
            if frame is not None:
                viewer.offer(frame)

    async def run_heartbeat(self) -> None:
        """Send a heartbeat every second, for ever: silence means a stall."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            self._open_sockets.close_revoked()
            self._notify_progress()  # reading on does not always change a row
            self._catalog.update_figures()  # the leader reads the figures as well
            self._catalog.find_rewrites()
            if not self._viewers:
                continue
            self._flush_now()  # the figures are those of what has been sent
            wanted = frozenset[str]().union(*(viewer.tables for viewer in self._viewers))
            shown = {name: self._catalog.store(name).viewer_digest() for name in sorted(wanted)}
            tables = {name: {"rows": rows, "hash": text} for name, (rows, text) in shown.items()}
            capped: dict[str, Any] = {"capped": of} if (of := self._catalog.capped()) else {}
            self._broadcast(
                "heartbeat",
                (),
                newest=self._catalog.newest_ts,
                stale=self._catalog.stale_reason or None,
                tables=tables,
                viewers=len(self),
                sources=source_figures(self._catalog),
                **capped,
            )
            await self._delivery.send_keepalives()

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
        asks = SubscriptionLimit()
        leaving = contextlib.ExitStack()
        who = leaving.enter_context(self._open_sockets.track(socket))
        known = spec.ALL_TABLES if role_includes(who.role, "operator") else spec.TABLES
        try:
            first = await asyncio.wait_for(socket.receive_text(), _FIRST_MESSAGE_S)
            asked = parse_subscription(first, known)
            if not await self._wait_until_read(asked.resume):
                await socket.close(_TRY_AGAIN, "this server is behind what you have seen")
                return
            viewer = Viewer(asked)
            self._viewers.add(viewer)
            if self._closed:
                viewer.close()
            sending = asyncio.create_task(self._send_loop(socket, viewer))
            try:
                while True:
                    again = parse_subscription(await socket.receive_text(), known)
                    asks.count()
                    viewer.subscribe(again)
            finally:
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                    await sending
        except (AskError, TimeoutError, KeyError) as error:
            why = str(error) if isinstance(error, AskError) else "expected a subscription as text"
            midway = viewer is not None and viewer.mid_frame  # nothing else can go into a frame
            told = frames.encode_frame(self._frame_cache.build_header("error", message=why))
            reason = why.encode()[:_REASON_BYTES].decode(errors="ignore")
            await close_socket(socket, _POLICY, reason, b"" if midway else told)
        except WebSocketDisconnect:
            pass
        finally:
            leaving.close()
            if viewer is not None:
                self._viewers.discard(viewer)
                self._viewer_left.set()
                self._viewer_left = asyncio.Event()

    async def _wait_until_read(self, seen: Cursor | None) -> bool:
        """Wait until we have read what a viewer has seen elsewhere; rows must not go back."""
        if seen is None:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_BEHIND_S):
                while self._catalog.generation == seen.generation and self._catalog.seq < seen.seq:
                    await self._progressed.wait()
                return True
        return False

    def _notify_progress(self) -> None:
        self._progressed.set()
        self._progressed = asyncio.Event()

    async def _send_loop(self, socket: WebSocket, viewer: Viewer) -> None:
        while True:
            await viewer.wake.wait()
            viewer.wake.clear()
            if viewer.closing:
                await socket.close(_GOING_AWAY, "livejoin is stopping")
                return
            if viewer.behind:
                make = partial(self._build_catch_up, viewer)
                self._record_sent(viewer, await self._delivery.send_missed(socket, viewer, make))
            while viewer.queue and not viewer.behind and not viewer.closing:
                frame = viewer.next_frame()
                await self._delivery.send(socket, viewer, frame)
                self._record_sent(viewer, frame)

    def _build_catch_up(self, viewer: Viewer) -> OutgoingFrame:
        viewer.fall_behind()  # whatever waits is in it
        self._flush_now()  # so is what is pending
        viewer.start_catch_up()
        return self._frame_cache.catch_up(viewer)

    def _record_sent(self, viewer: Viewer, frame: OutgoingFrame) -> None:
        """A frame is on its way."""
        viewer.mark_sent(frame.cursor)
        now = asyncio.get_running_loop().time()
        self.stats.record_frame(None if frame.changed_at is None else now - frame.changed_at)

    async def close(self, limit_s: float) -> None:
        """Send every viewer away, with the code that says to come back, and wait until they left.

        Whoever is still there when the web server ends is closed by that, with another code.
        """
        self._closed = True
        for viewer in self._viewers:
            viewer.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self._viewers:
                    await self._viewer_left.wait()


def _restrict_header(header: dict[str, Any], viewer: Viewer) -> dict[str, Any]:
    """A header without figures of tables that this viewer may not have."""
    hidden = spec.RESTRICTED.keys() - viewer.tables
    if hidden.isdisjoint(header.get("tables", ())):
        return header
    shown = {name: told for name, told in header["tables"].items() if name not in hidden}
    return {**header, "tables": shown}
