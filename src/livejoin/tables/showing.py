"""Frames of what a host shows: each is encoded once, however many get it."""

import time
from typing import Any

from livejoin.core import spec
from livejoin.tables import frames
from livejoin.tables.host import DATA, Host
from livejoin.tables.viewer import Held, Viewer


class Showing:
    """What is shown now, as parts of frames."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._snapshots: dict[str, tuple[Any, frames.Part]] = {}
        # all there is of the tables that were asked for last, until something changes
        self._whole: tuple[frozenset[str], bytes] | None = None

    def change(self) -> None:
        """Something is about to be sent: who comes next gets another whole."""
        self._whole = None

    def move(self) -> None:
        """Another generation is shown: the old one's rows are let go, whoever watches."""
        self._snapshots.clear()

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

    def snapshot(self, table: str) -> frames.Part:
        """A table's snapshot, encoded once however many ask for it."""
        rows = self._host.store(table).newest()
        known = self._snapshots.get(table)
        if known is None or known[0] is not rows:
            self._snapshots[table] = known = (rows, frames.part(table, "snapshot", rows))
        return known[1]

    def missed(self, viewer: Viewer) -> bytes:
        """All that a viewer does not hold; its data tables by what changed, where that is less."""
        held, now = viewer.held, self.held()
        if held is None and self._whole and self._whole[0] == viewer.tables:
            return self._whole[1]  # as for the one before
        since = held.seq if held and now and held.generation == now.generation else None
        parts: list[frames.Part] = []
        for table in spec.ALL_TABLES:
            if table not in viewer.tables or (table in DATA and held and now is None):
                continue  # while nothing is live, viewers keep what they have
            store = self._host.store(table)
            delta = store.since(since) if since is not None and table in DATA else None
            if delta is None:
                parts.append(self.snapshot(table))
            else:
                parts += frames.changes(table, delta.upserts, delta.removed)
        moved = held is not None and now is not None and since is None
        more = {} if since is None else {"resumed": True}
        frame = frames.frame(self.header("cutover" if moved else "data", **more), parts)
        if held is None:
            self._whole = viewer.tables, frame
        return frame
