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
from livejoin.tables.ingest.catalog import DATA, Host
from livejoin.tables.ingest.store import Store
from livejoin.tables.live import frames
from livejoin.tables.live.frames import Part
from livejoin.tables.live.viewer import Frame, Held, Viewer

_SMALL = 64 << 10  # a snapshot below it is made anew when rows have changed
_FEW = 4  # one row in so many may have changed before a large one is


@dataclass(frozen=True)
class _Snapshot:
    """A table as it was encoded, and when that was."""

    part: Part
    store: Store
    seq: int
    rows: weakref.ref[pa.Table]  # the store keeps them until they change


class Showing:
    """What is shown now."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._snapshots: dict[str, _Snapshot] = {}
        # by table and what is held of it, until something changes
        self._changes: dict[tuple[str, int], list[Part] | None] = {}

    def change(self) -> None:
        """Something is about to be sent: what was missed before is not all any more."""
        self._changes.clear()

    def move(self) -> None:
        """Another generation is shown: the old one's rows are let go, whoever watches."""
        self._snapshots.clear()
        self._changes.clear()

    def held(self) -> Held | None:
        """What viewers hold once they have all that was sent."""
        generation = self._host.generation
        return None if generation is None else Held(generation, self._host.seq)

    def header(self, kind: str, **more: Any) -> dict[str, Any]:
        """A frame's header, without its parts."""
        host = self._host
        stores = {table: host.store(table) for table in DATA}
        limited = {t: {"total": len(store)} for t, store in stores.items() if store.limited}
        return {
            "type": kind,
            "generation": host.generation,
            "seq": host.seq,
            "at": int(time.time() * 1000),
            **({"limited": limited} if limited else {}),
            **more,
        }

    def missed(self, viewer: Viewer) -> Frame:
        """All that a viewer does not hold; its data tables by what changed, where that is less."""
        held, now = viewer.held, self.held()
        since = held.seq if held and now and held.generation == now.generation else None
        parts: list[Part] = []
        for table in spec.ALL_TABLES:
            if table not in viewer.tables or (table in DATA and held and now is None):
                continue  # while nothing is live, viewers keep what they have
            changed = self._since(table, since) if since is not None and table in DATA else None
            parts += self.whole(table) if changed is None else changed
        moved = now is not None and since is None and not (held is None and viewer.fresh)
        more = {} if since is None else {"resumed": True}
        header = self.header("cutover" if moved else "data", **more)
        return Frame.of(header, parts, now)

    def whole(self, table: str) -> list[Part]:
        """All rows of a table: a snapshot, and what has changed since it was encoded."""
        store, known = self._host.store(table), self._snapshots.get(table)
        known = known if known is not None and known.store is store else None
        if known is not None and table in DATA:  # others have no seq
            large = len(known.part.payload) > _SMALL
            changed = self._since(table, known.seq, len(store) // _FEW if large else 0)
            if changed is not None:
                return [known.part, *changed]
        rows = store.newest()
        if known is None or known.rows() is not rows:
            part = frames.part(table, "snapshot", rows)
            known = _Snapshot(part, store, self._host.seq, weakref.ref(rows))
            self._snapshots[table] = known
        return [known.part]

    def _since(self, table: str, seq: int, most: int | None = None) -> list[Part] | None:
        """What changed in a data table; None where that is not known, or is more than `most`."""
        if (table, seq) not in self._changes:
            delta = self._host.store(table).since(seq)
            parts = None
            if delta is not None:
                if most is not None and delta.upserts.num_rows + len(delta.removed) > most:
                    return None
                parts = frames.changes(table, delta.upserts, delta.removed)
            self._changes[table, seq] = parts
        return self._changes[table, seq]

    def is_old(self, part: Part) -> bool:
        """Whether a part is kept only by those who take it."""
        known = self._snapshots.get(part.table)
        return known is None or known.part is not part
