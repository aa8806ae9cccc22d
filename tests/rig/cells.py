"""Many viewers that check every cell: what is alike in what they hold is decoded and hashed once.

A viewer holds a snapshot, which it shares with all who were sent the same bytes, and the rows that
changed since, of its own. Each heartbeat must tell the count and the hash of just these rows.
"""

import weakref
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from livejoin import row_hash

_WORD = 1 << 64
Inspect = Callable[[str, pa.Table], Any]


@dataclass(eq=False)
class Rows:
    """Decoded rows of a part: their hashes by identity."""

    hashes: dict[str, int]
    total: int
    note: Any  # what was found when they were looked at


class Cells:
    """What was decoded, for as long as a viewer holds it."""

    def __init__(self, inspect: Inspect = lambda *_: None) -> None:
        self._inspect = inspect
        self._known: weakref.WeakValueDictionary[Any, Rows] = weakref.WeakValueDictionary()
        self._recent: deque[Rows] = deque(maxlen=64)  # changes: all get them at about one time
        self.decoded = 0

    def rows(self, table: str, kind: str, payload: memoryview) -> Rows:
        """The rows of a part."""
        key = table, kind, len(payload), zlib.crc32(payload)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._decode(table, kind, payload)
            if kind != "snapshot":
                self._recent.append(found)
        return found

    def _decode(self, table: str, kind: str, payload: memoryview) -> Rows:
        self.decoded += 1
        with pa.ipc.open_stream(payload) as stream:
            rows = stream.read_all()
        ids = rows.column("_id").to_pylist()
        if kind == "remove":
            return Rows(dict.fromkeys(ids, 0), 0, None)
        each = [int(one) for batch in rows.to_batches() for one in row_hash.hash_rows(batch)]
        hashes = dict(zip(ids, each, strict=True))
        note = self._inspect(table, rows) if kind == "snapshot" else None
        return Rows(hashes, sum(hashes.values()), note)


class Held:
    """One table of one viewer."""

    def __init__(self, snapshot: Rows) -> None:
        self.snapshot = snapshot
        self._own: dict[str, int | None] = {}  # rows that changed since; None: gone
        self._total = snapshot.total
        self.count = len(snapshot.hashes)

    def apply(self, kind: str, rows: Rows) -> None:
        """Take what changed."""
        for row_id, new in rows.hashes.items():
            old = self._own.get(row_id, self.snapshot.hashes.get(row_id))
            if row_id in self._own and self._own[row_id] is None:
                old = None
            now = None if kind == "remove" else new
            self._own[row_id] = now
            self.count += (now is not None) - (old is not None)
            self._total += (now or 0) - (old or 0)

    @property
    def hash(self) -> str:
        """The hash of all rows."""
        return row_hash.to_hex(self._total % _WORD)


class Checker:
    """One viewer's tables. It fails at the first frame that does not fit."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self.tables: dict[str, Held] = {}
        self.checked = 0  # heartbeats

    def take(self, header: dict[str, Any], payloads: list[memoryview]) -> None:
        """Apply the next frame, or compare with it."""
        for part, payload in zip(header["parts"], payloads, strict=True):
            rows = self._cells.rows(part["table"], part["kind"], payload)
            if part["kind"] == "snapshot":
                self.tables[part["table"]] = Held(rows)
            else:
                self.tables[part["table"]].apply(part["kind"], rows)
        if header["type"] == "heartbeat" and header["generation"] is not None:
            for table, held in self.tables.items():
                told = header["tables"][table]
                assert (held.count, held.hash) == (told["rows"], told["hash"]), (table, header)
            self.checked += 1
