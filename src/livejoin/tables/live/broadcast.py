"""Sends changes to all viewers: collected for a few milliseconds, each frame encoded once."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from livejoin.core import spec
from livejoin.tables.ingest.catalog import DATA_TABLES, Catalog
from livejoin.tables.ingest.store import Delta
from livejoin.tables.live import frames
from livejoin.tables.live.frame_cache import FrameCache
from livejoin.tables.live.viewer import OutgoingFrame, Viewer

# The longest interval between two frames; it is shorter where encoding takes no time, and the first
# change after a pause is sent at once. A change waits for half of it on average.
MAX_FLUSH_INTERVAL_S = 0.02
_MIN_FLUSH_INTERVAL_S = 0.005
_FLUSH_SHARE = 10  # at most one part in so many of the event loop's time goes into frames
_SMALL_CUTOVER_ROWS = 2000  # a cutover with no more rows is sent at once


class Broadcaster:
    """Collects the changes of a catalog, and queues them as frames for its viewers."""

    def __init__(self, catalog: Catalog) -> None:
        self.viewers: set[Viewer] = set()
        self.frame_cache = FrameCache(catalog)
        self.progressed = asyncio.Event()  # set when more may have been read, then replaced
        self._catalog = catalog
        self._upserts: dict[str, list[pa.RecordBatch | pa.Table]] = {}
        self._removed: dict[str, dict[str, None]] = {}
        self._cutover_pending = False
        self._flushed_at = 0.0
        self._flush_interval_s = _MIN_FLUSH_INTERVAL_S
        self._first_change_at: float | None = None  # of those not sent yet
        self._flush_timer: asyncio.TimerHandle | None = None
        catalog.listeners.append(self)

    def on_change(self, table: str, delta: Delta) -> None:
        """Add changed rows to the next frame."""
        removed = self._removed.setdefault(table, {})
        if removed:
            for row_id in delta.upserts.column("_id").to_pylist():
                removed.pop(row_id, None)
        removed.update(dict.fromkeys(delta.removed))
        if delta.upserts.num_rows:
            self._upserts.setdefault(table, []).append(delta.upserts)
        self._schedule_flush()

    def on_cutover(self) -> None:
        """Make the next frame a cutover, which carries all data tables."""
        for table in DATA_TABLES:
            self._upserts.pop(table, None)
            self._removed.pop(table, None)
        self.frame_cache.switch_generation()
        self._cutover_pending = True
        self._schedule_flush()

    def notify_progress(self) -> None:
        """Wake those who wait until more of the changelog was read."""
        self.progressed.set()
        self.progressed = asyncio.Event()

    def flush(self) -> None:
        """Send pending changes now."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush()

    def broadcast(
        self,
        kind: str,
        parts: Sequence[frames.EncodedPart],
        changed_at: float | None = None,
        **fields: Any,
    ) -> None:
        """Queue a frame for every viewer; viewers that receive the same parts share one."""
        header, cursor = self.frame_cache.build_header(kind, **fields), self.frame_cache.cursor()
        by_content: dict[tuple[tuple[int, ...], frozenset[str]], OutgoingFrame] = {}
        by_tables: dict[frozenset[str], OutgoingFrame | None] = {}
        for viewer in self.viewers:
            tables = viewer.tables
            if tables not in by_tables:
                chosen = tuple(i for i, part in enumerate(parts) if part.table in tables)
                content = chosen, tables.intersection(spec.RESTRICTED)
                if not chosen and kind == "data":
                    by_tables[tables] = None
                    continue
                if content not in by_content:
                    by_content[content] = OutgoingFrame.build(
                        _restrict_header(header, viewer),
                        (parts[i] for i in chosen),
                        cursor,
                        changed_at,
                    )
                by_tables[tables] = by_content[content]
            frame = by_tables[tables]
            if frame is not None:
                viewer.offer(frame)

    def _schedule_flush(self) -> None:
        if self._flush_timer is None:
            loop = asyncio.get_running_loop()
            self._first_change_at = loop.time()
            delay_s = max(0.0, self._flushed_at + self._flush_interval_s - loop.time())
            self._flush_timer = loop.call_later(delay_s, self._flush)

    def _flush(self) -> None:
        self._flush_timer = None
        self.notify_progress()
        self._flushed_at = asyncio.get_running_loop().time()
        self.frame_cache.invalidate()
        upserts, removed, is_cutover = self._upserts, self._removed, self._cutover_pending
        self._upserts, self._removed, self._cutover_pending = {}, {}, False
        changed_at, self._first_change_at = self._first_change_at, None
        if not self.viewers:
            return
        parts = self._cutover_parts() if is_cutover else []
        for table in (t for t in spec.ALL_TABLES if t in upserts or removed.get(t)):
            rows = pa.Table.from_batches(upserts.get(table, ()), self._catalog.store(table).schema)
            parts += frames.encode_changes(table, rows, list(removed.get(table, ())))
        self.broadcast("cutover" if is_cutover else "data", parts, changed_at)
        took_s = asyncio.get_running_loop().time() - self._flushed_at
        self._flush_interval_s = min(
            MAX_FLUSH_INTERVAL_S, max(_MIN_FLUSH_INTERVAL_S, _FLUSH_SHARE * took_s)
        )

    def _cutover_parts(self) -> list[frames.EncodedPart]:
        """All data tables if they are small; otherwise each viewer catches up on its own."""
        rows = sum(len(self._catalog.store(table)) for table in DATA_TABLES)
        small = rows <= _SMALL_CUTOVER_ROWS
        for viewer in self.viewers:
            # a viewer that resumed within this generation needs only what it misses
            resumed = viewer.cursor and viewer.cursor.generation == self._catalog.generation
            if resumed or not (small or viewer.tables.isdisjoint(DATA_TABLES)):
                viewer.fall_behind()
        if not small:
            return []
        return [part for table in DATA_TABLES for part in self.frame_cache.snapshot_parts(table)]


def _restrict_header(header: dict[str, Any], viewer: Viewer) -> dict[str, Any]:
    """The header without figures of restricted tables that this viewer does not receive."""
    hidden = spec.RESTRICTED.keys() - viewer.tables
    if hidden.isdisjoint(header.get("tables", ())):
        return header
    tables = {name: figures for name, figures in header["tables"].items() if name not in hidden}
    return {**header, "tables": tables}
