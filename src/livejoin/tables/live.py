"""The live socket: what changed is encoded once for all viewers; a slow one starts afresh."""

import asyncio
import contextlib
import json
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from starlette.websockets import WebSocket, WebSocketDisconnect

from livejoin.core import spec
from livejoin.errors import AskError
from livejoin.tables import frames
from livejoin.tables.host import DATA, Host
from livejoin.tables.sent import Sent
from livejoin.tables.store import Delta

SUBPROTOCOL = "livejoin.v1"
HEARTBEAT_S = 1.0
FLUSH_S = 0.02  # at most this often; at once after a quiet time
_BUFFER_BYTES = 8 << 20  # per viewer; what does not fit is replaced by a snapshot
_FIRST_MESSAGE_S = 10
_GOING_AWAY, _POLICY = 1001, 1008
_REASON_BYTES = 120  # a close frame holds 123


class Viewer:
    """One open socket: what it wants and what waits for it."""

    def __init__(self) -> None:
        self.tables: frozenset[str] = frozenset()
        self.waiting: deque[tuple[bytes, float | None]] = deque()  # and since when it waits
        self.size = 0
        self.afresh = False  # next comes a snapshot
        self.leaving = False
        self.wake = asyncio.Event()

    def offer(self, frame: bytes, since: float | None) -> None:
        """Queue a frame, or give up on what waits and start afresh."""
        if self.afresh:
            return
        if self.size + len(frame) > _BUFFER_BYTES:
            self.start_afresh()
            return
        self.waiting.append((frame, since))
        self.size += len(frame)
        self.wake.set()

    def start_afresh(self) -> None:
        """Drop what waits: a snapshot holds all of it."""
        self.waiting.clear()
        self.size = 0
        self.afresh = True
        self.wake.set()


class Live:
    """All viewers of a host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._viewers: set[Viewer] = set()
        self._upserts: dict[str, list[pa.RecordBatch]] = {}
        self._removed: dict[str, dict[str, None]] = {}
        self._moved = False
        self._closed = False
        self._flushed_at = 0.0
        self._since: float | None = None  # when the first change came that waits
        self.sent = Sent()
        self._timer: asyncio.TimerHandle | None = None
        self._snapshots: dict[str, tuple[Any, frames.Part]] = {}
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
        self._snapshots.clear()  # the old generation's rows are let go, whoever watches
        self._moved = True
        self._flush_soon()

    # --- sending

    def _flush_soon(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._since = loop.time()
            wait = max(0.0, self._flushed_at + FLUSH_S - loop.time())
            self._timer = loop.call_later(wait, self._flush)

    def _flush(self) -> None:
        self._timer = None
        self._flushed_at = asyncio.get_running_loop().time()
        upserts, removed, moved = self._upserts, self._removed, self._moved
        self._upserts, self._removed, self._moved = {}, {}, False
        since, self._since = self._since, None
        if not self._viewers:
            return
        parts = [self._snapshot(table) for table in DATA] if moved else []
        for table in spec.TABLES:
            if table in upserts:
                parts.append(frames.part(table, "upsert", pa.Table.from_batches(upserts[table])))
            if removed.get(table):
                parts.append(frames.removal(table, list(removed[table])))
        self._send("cutover" if moved else "data", parts, since)

    def _send(
        self, kind: str, parts: Iterable[frames.Part], since: float | None = None, **more: Any
    ) -> None:
        """One frame for each set of tables that somebody subscribed to."""
        header = self._header(kind, **more)
        made: dict[frozenset[str], bytes] = {}
        for viewer in self._viewers:
            if viewer.tables not in made:
                mine = [part for part in parts if part.table in viewer.tables]
                nothing = not mine and kind == "data"
                made[viewer.tables] = b"" if nothing else frames.frame(header, mine)
            if made[viewer.tables]:
                viewer.offer(made[viewer.tables], since)

    def _header(self, kind: str, **more: Any) -> dict[str, Any]:
        host = self._host
        return {
            "type": kind,
            "generation": host.generation,
            "seq": host.seq,
            "at": int(time.time() * 1000),
            **more,
        }

    def _snapshot(self, table: str) -> frames.Part:
        """A table's snapshot, encoded once however many ask for it."""
        rows = self._host.store(table).snapshot()
        known = self._snapshots.get(table)
        if known is None or known[0] is not rows:
            self._snapshots[table] = known = (rows, frames.part(table, "snapshot", rows))
        return known[1]

    async def beat(self) -> None:
        """Send a heartbeat every second, for ever: silence means a stall."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            if not self._viewers:
                continue
            self._host.count()
            if self._timer is not None:  # the figures are those of what has been sent
                self._timer.cancel()
                self._flush()
            wanted = frozenset[str]().union(*(viewer.tables for viewer in self._viewers))
            tables = {
                name: {"rows": len(store), "hash": store.hash}
                for name, store in self._stores(wanted)
            }
            self._send(
                "heartbeat",
                (),
                newest=self._host.newest,
                stale=self._host.stale or None,
                tables=tables,
            )

    def _stores(self, names: Iterable[str]) -> Iterable[tuple[str, Any]]:
        return ((name, self._host.store(name)) for name in sorted(names))

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
        viewer = Viewer()
        try:
            viewer.tables = _subscription(
                await asyncio.wait_for(socket.receive_text(), _FIRST_MESSAGE_S)
            )
            viewer.start_afresh()
            self._viewers.add(viewer)
            sending = asyncio.create_task(self._deliver(socket, viewer))
            try:
                while True:
                    viewer.tables = _subscription(await socket.receive_text())
                    viewer.start_afresh()
            finally:
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                    await sending
        except (AskError, TimeoutError, KeyError) as error:
            why = str(error) if isinstance(error, AskError) else "expected a subscription as text"
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await socket.send_bytes(frames.frame(self._header("error", message=why)))
                await socket.close(_POLICY, why.encode()[:_REASON_BYTES].decode(errors="ignore"))
        except WebSocketDisconnect:
            pass
        finally:
            self._viewers.discard(viewer)

    async def _deliver(self, socket: WebSocket, viewer: Viewer) -> None:
        while True:
            await viewer.wake.wait()
            viewer.wake.clear()
            if viewer.leaving:
                await socket.close(_GOING_AWAY, "livejoin is stopping")
                return
            if viewer.afresh:
                viewer.afresh = False
                await socket.send_bytes(self._everything(viewer))
                self.sent.frame()
            while viewer.waiting and not viewer.afresh:
                frame, since = viewer.waiting.popleft()
                viewer.size -= len(frame)
                await socket.send_bytes(frame)
                now = asyncio.get_running_loop().time()
                self.sent.frame(None if since is None else now - since)

    def _everything(self, viewer: Viewer) -> bytes:
        # what is pending is in the snapshot already, and harmless when it comes again
        return frames.frame(
            self._header("data"), [self._snapshot(t) for t in spec.TABLES if t in viewer.tables]
        )

    def close(self) -> None:
        """Send every viewer away, with the code that says to come back."""
        self._closed = True
        for viewer in self._viewers:
            viewer.leaving = True
            viewer.wake.set()


def _subscription(text: str) -> frozenset[str]:
    """Which tables a viewer's message asks for."""
    try:
        asked = json.loads(text)
        names = asked["subscribe"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise AskError('expected {"subscribe": ["final_ui", …]}') from None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise AskError("subscribe must list at least one table")
    if unknown := [name for name in names if name not in spec.TABLES]:
        raise AskError(
            f"there is no table {unknown[0][:100]!r}; there are {', '.join(spec.TABLES)}"
        )
    return frozenset(names)
