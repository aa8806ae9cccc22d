"""Sends changes to all viewers: collected for a few milliseconds, each frame encoded once.

A viewer that misses more gets snapshots or deltas, which are encoded once for all viewers too. A
snapshot is kept after rows have changed: the next viewer receives it with the changes since. So
memory holds few versions of a large table, however many viewers read them, and when.
"""

import asyncio
import time
import weakref
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from livejoin.core import spec
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.store import Delta, Store
from livejoin.tables.live import frames
from livejoin.tables.live.frames import EncodedPart
from livejoin.tables.live.viewer import Cursor, OutgoingFrame, Viewer

# The longest interval between two frames; it is shorter where encoding takes no time, and the first
# change after a pause is sent at once. A change waits for half of it on average.
MAX_FLUSH_INTERVAL_S = 0.02
_MIN_FLUSH_INTERVAL_S = 0.005
_FLUSH_SHARE = 10  # at most one part in so many of the event loop's time goes into frames
_SMALL_CUTOVER_ROWS = 2000  # a cutover with no more rows is sent at once
_SMALL_BYTES = 64 << 10  # smaller snapshots are encoded again when rows have changed
_MAX_CHANGED_SHARE = 4  # large ones, when more than one row in so many has changed


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
        self._replaced: set[str] = set()  # tables that the pending cutover carries as a whole
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

    def on_cutover(self, replaced: Collection[str]) -> None:
        """Make the next frame a cutover, which carries all tables with new rows or columns."""
        tables = self._catalog.spec.all_tables
        for pending in (self._upserts, self._removed):
            for table in [name for name in pending if name in replaced or name not in tables]:
                del pending[table]
        self.frame_cache.switch_generation()
        self._replaced.update(replaced)
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
        parts: Sequence[EncodedPart],
        changed_at: float | None = None,
        **fields: Any,
    ) -> None:
        """Queue a frame for every viewer; viewers that receive the same parts share one."""
        header, cursor = self.frame_cache.build_header(kind, **fields), self.frame_cache.cursor()
        by_content: dict[tuple[tuple[int, ...], frozenset[str], Sequence[str]], OutgoingFrame] = {}
        by_tables: dict[frozenset[str], OutgoingFrame | None] = {}
        for viewer in self.viewers:
            tables = viewer.tables
            if tables not in by_tables:
                chosen = tuple(i for i, part in enumerate(parts) if part.table in tables)
                gone = self.frame_cache.missing(viewer) if kind == "cutover" else ()
                content = chosen, tables.intersection(spec.RESTRICTED), gone
                if not chosen and kind == "data":
                    by_tables[tables] = None
                    continue
                if content not in by_content:
                    by_content[content] = OutgoingFrame.build(
                        _restrict_header(header, viewer) | _gone_field(gone),
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
        replaced, self._replaced = self._replaced, set()
        if not self.viewers:
            return
        parts = self._cutover_parts(replaced) if is_cutover else []
        all_tables = self._catalog.spec.all_tables
        for table in (t for t in all_tables if t in upserts or removed.get(t)):
            rows = pa.Table.from_batches(upserts.get(table, ()), self._catalog.store(table).schema)
            parts += frames.encode_changes(table, rows, list(removed.get(table, ())))
        self.broadcast("cutover" if is_cutover else "data", parts, changed_at)
        took_s = asyncio.get_running_loop().time() - self._flushed_at
        self._flush_interval_s = min(
            MAX_FLUSH_INTERVAL_S, max(_MIN_FLUSH_INTERVAL_S, _FLUSH_SHARE * took_s)
        )

    def _cutover_parts(self, replaced: Collection[str]) -> list[EncodedPart]:
        """The replaced tables if they are small; otherwise each viewer catches up on its own."""
        data_tables = self._catalog.data_tables
        rows = sum(len(self._catalog.store(table)) for table in data_tables)
        small = rows <= _SMALL_CUTOVER_ROWS
        for viewer in self.viewers:
            # a viewer that resumed within this generation needs only what it misses
            resumed = viewer.cursor and viewer.cursor.generation == self._catalog.generation
            if resumed or not (small or viewer.tables.isdisjoint(data_tables)):
                viewer.fall_behind()
        carried = [
            table
            for table in self._catalog.spec.all_tables
            if table in replaced and (small or table not in data_tables)
        ]
        return [part for table in carried for part in self.frame_cache.snapshot_parts(table)]


@dataclass(frozen=True)
class _CachedSnapshot:
    """An encoded table, and the changelog offset it stands for."""

    part: EncodedPart
    store: Store
    seq: int
    rows: weakref.ref[pa.Table]  # the store keeps them until they change


class FrameCache:
    """Snapshots and deltas of the served tables, as encoded parts."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._snapshots: dict[str, _CachedSnapshot] = {}
        # by table and changelog offset, until something changes
        self._delta_parts: dict[tuple[str, int], list[EncodedPart] | None] = {}

    def invalidate(self) -> None:
        """Drop cached deltas: newer changes are about to be sent."""
        self._delta_parts.clear()

    def switch_generation(self) -> None:
        """Release the snapshots of the previous generation."""
        self._snapshots.clear()
        self._delta_parts.clear()

    def cursor(self) -> Cursor | None:
        """The position of a viewer that has received everything sent so far."""
        generation = self._catalog.generation
        return None if generation is None else Cursor(generation, self._catalog.seq)

    def build_header(self, kind: str, **fields: Any) -> dict[str, Any]:
        """A frame's header, without the list of its parts."""
        catalog = self._catalog
        stores = {table: catalog.store(table) for table in catalog.data_tables}
        limited = {t: {"total": len(store)} for t, store in stores.items() if store.limited}
        return {
            "type": kind,
            "generation": catalog.generation,
            "seq": catalog.seq,
            "at": int(time.time() * 1000),
            **({"limited": limited} if limited else {}),
            **fields,
        }

    def catch_up(self, viewer: Viewer) -> OutgoingFrame:
        """The frame that brings a viewer up to date: deltas where they are smaller."""
        seen, now = viewer.cursor, self.cursor()
        since = seen.seq if seen and now and seen.generation == now.generation else None
        parts: list[EncodedPart] = []
        data_tables = self._catalog.data_tables
        for table in self._catalog.spec.all_tables:
            if table not in viewer.tables or (table in data_tables and seen and now is None):
                continue  # while nothing is live, viewers keep their rows
            changed = (
                self._changes_since(table, since)
                if since is not None and table in data_tables
                else None
            )
            parts += self.snapshot_parts(table) if changed is None else changed
        is_first = seen is None and viewer.nothing_sent
        is_cutover = now is not None and since is None and not is_first
        fields = {} if since is None else {"resumed": True}
        header = self.build_header("cutover" if is_cutover else "data", **fields)
        return OutgoingFrame.build(header | _gone_field(self.missing(viewer)), parts, now)

    def missing(self, viewer: Viewer) -> tuple[str, ...]:
        """The tables that a viewer asked for and that do not exist now."""
        return tuple(sorted(viewer.tables - self._catalog.spec.all_tables.keys()))

    def snapshot_parts(self, table: str) -> list[EncodedPart]:
        """All rows of a table: a snapshot, and the changes since it was encoded."""
        store, known = self._catalog.store(table), self._snapshots.get(table)
        known = known if known is not None and known.store is store else None
        if known is not None and table in self._catalog.data_tables:  # system tables have no offset
            large = len(known.part.payload) > _SMALL_BYTES
            changed = self._changes_since(
                table, known.seq, len(store) // _MAX_CHANGED_SHARE if large else 0
            )
            if changed is not None:
                return [known.part, *changed]
        rows = store.viewer_snapshot()
        if known is None or known.rows() is not rows:
            part = frames.encode_rows(table, "snapshot", rows)
            known = _CachedSnapshot(part, store, self._catalog.seq, weakref.ref(rows))
            self._snapshots[table] = known
        return [known.part]

    def _changes_since(
        self, table: str, seq: int, max_changes: int | None = None
    ) -> list[EncodedPart] | None:
        """The delta of a data table; None if it is not known, or has more than `max_changes`."""
        if (table, seq) not in self._delta_parts:
            delta = self._catalog.store(table).changes_since(seq)
            parts = None
            if delta is not None:
                changes = delta.upserts.num_rows + len(delta.removed)
                if max_changes is not None and changes > max_changes:
                    return None
                parts = frames.encode_changes(table, delta.upserts, delta.removed)
            self._delta_parts[table, seq] = parts
        return self._delta_parts[table, seq]

    def is_stale(self, part: EncodedPart) -> bool:
        """Whether a part is outdated, and kept only by the sends that use it."""
        known = self._snapshots.get(part.table)
        return known is None or known.part is not part


def _gone_field(tables: Sequence[str]) -> dict[str, Any]:
    return {"gone": list(tables)} if tables else {}


def _restrict_header(header: dict[str, Any], viewer: Viewer) -> dict[str, Any]:
    """The header without figures of restricted tables that this viewer does not receive."""
    hidden = spec.RESTRICTED.keys() - viewer.tables
    if hidden.isdisjoint(header.get("tables", ())):
        return header
    tables = {name: figures for name, figures in header["tables"].items() if name not in hidden}
    return {**header, "tables": tables}
