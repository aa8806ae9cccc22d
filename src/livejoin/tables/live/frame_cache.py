"""What a host shows, as parts of frames: each is encoded once for all viewers, whatever they want.

A snapshot is kept after rows have changed: whoever comes next gets it with what changed since. So
few versions of a large table are in memory at a time, however many viewers take them, and when.
"""

import time
import weakref
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from livejoin.core import spec
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.generation_tables import DATA_TABLES
from livejoin.tables.ingest.store import Store
from livejoin.tables.live import frames
from livejoin.tables.live.frames import EncodedPart
from livejoin.tables.live.viewer import Cursor, OutgoingFrame, Viewer

_SMALL_BYTES = 64 << 10  # a snapshot below it is made anew when rows have changed
_MAX_CHANGED_SHARE = 4  # one row in so many may have changed before a large one is


@dataclass(frozen=True)
class _CachedSnapshot:
    """A table as it was encoded, and when that was."""

    part: EncodedPart
    store: Store
    seq: int
    rows: weakref.ref[pa.Table]  # the store keeps them until they change


class FrameCache:
    """What is shown now."""

    def __init__(self, host: Catalog) -> None:
        self._catalog = host
        self._snapshots: dict[str, _CachedSnapshot] = {}
        # by table and what is held of it, until something changes
        self._delta_parts: dict[tuple[str, int], list[EncodedPart] | None] = {}

    def invalidate(self) -> None:
        """Something is about to be sent: what was missed before is not all any more."""
        self._delta_parts.clear()

    def switch_generation(self) -> None:
        """Another generation is shown: the old one's rows are let go, whoever watches."""
        self._snapshots.clear()
        self._delta_parts.clear()

    def cursor(self) -> Cursor | None:
        """What viewers hold once they have all that was sent."""
        generation = self._catalog.generation
        return None if generation is None else Cursor(generation, self._catalog.seq)

    def build_header(self, kind: str, **more: Any) -> dict[str, Any]:
        """A frame's header, without its parts."""
        host = self._catalog
        stores = {table: host.store(table) for table in DATA_TABLES}
        limited = {t: {"total": len(store)} for t, store in stores.items() if store.limited}
        return {
            "type": kind,
            "generation": host.generation,
            "seq": host.seq,
            "at": int(time.time() * 1000),
            **({"limited": limited} if limited else {}),
            **more,
        }

    def catch_up(self, viewer: Viewer) -> OutgoingFrame:
        """All that a viewer does not hold; its data tables by what changed, where that is less."""
        held, now = viewer.cursor, self.cursor()
        since = held.seq if held and now and held.generation == now.generation else None
        parts: list[EncodedPart] = []
        for table in spec.ALL_TABLES:
            if table not in viewer.tables or (table in DATA_TABLES and held and now is None):
                continue  # while nothing is live, viewers keep what they have
            changed = (
                self._changes_since(table, since)
                if since is not None and table in DATA_TABLES
                else None
            )
            parts += self.snapshot_parts(table) if changed is None else changed
        moved = now is not None and since is None and not (held is None and viewer.nothing_sent)
        more = {} if since is None else {"resumed": True}
        header = self.build_header("cutover" if moved else "data", **more)
        return OutgoingFrame.build(header, parts, now)

    def snapshot_parts(self, table: str) -> list[EncodedPart]:
        """All rows of a table: a snapshot, and what has changed since it was encoded."""
        store, known = self._catalog.store(table), self._snapshots.get(table)
        known = known if known is not None and known.store is store else None
        if known is not None and table in DATA_TABLES:  # others have no seq
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
        self, table: str, seq: int, most: int | None = None
    ) -> list[EncodedPart] | None:
        """What changed in a data table; None where that is not known, or is more than `most`."""
        if (table, seq) not in self._delta_parts:
            delta = self._catalog.store(table).changes_since(seq)
            parts = None
            if delta is not None:
                if most is not None and delta.upserts.num_rows + len(delta.removed) > most:
                    return None
                parts = frames.encode_changes(table, delta.upserts, delta.removed)
            self._delta_parts[table, seq] = parts
        return self._delta_parts[table, seq]

    def is_stale(self, part: EncodedPart) -> bool:
        """Whether a part is kept only by those who take it."""
        known = self._snapshots.get(part.table)
        return known is None or known.part is not part
