"""Encoded frames of the served tables: each part is encoded once for all viewers.

A snapshot is kept after rows have changed: the next viewer receives it with the changes since. So
memory holds few versions of a large table, however many viewers read them, and when.
"""

import time
import weakref
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from livejoin.core import spec
from livejoin.tables.ingest.catalog import DATA_TABLES, Catalog
from livejoin.tables.ingest.store import Store
from livejoin.tables.live import frames
from livejoin.tables.live.frames import EncodedPart
from livejoin.tables.live.viewer import Cursor, OutgoingFrame, Viewer

_SMALL_BYTES = 64 << 10  # smaller snapshots are encoded again when rows have changed
_MAX_CHANGED_SHARE = 4  # large ones, when more than one row in so many has changed


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
        stores = {table: catalog.store(table) for table in DATA_TABLES}
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
        for table in spec.ALL_TABLES:
            if table not in viewer.tables or (table in DATA_TABLES and seen and now is None):
                continue  # while nothing is live, viewers keep their rows
            changed = (
                self._changes_since(table, since)
                if since is not None and table in DATA_TABLES
                else None
            )
            parts += self.snapshot_parts(table) if changed is None else changed
        is_first = seen is None and viewer.nothing_sent
        is_cutover = now is not None and since is None and not is_first
        fields = {} if since is None else {"resumed": True}
        header = self.build_header("cutover" if is_cutover else "data", **fields)
        return OutgoingFrame.build(header, parts, now)

    def snapshot_parts(self, table: str) -> list[EncodedPart]:
        """All rows of a table: a snapshot, and the changes since it was encoded."""
        store, known = self._catalog.store(table), self._snapshots.get(table)
        known = known if known is not None and known.store is store else None
        if known is not None and table in DATA_TABLES:  # system tables have no offset
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
