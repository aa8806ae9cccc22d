"""Many viewers that check every cell; data they share is decoded and hashed only once.

A viewer holds a snapshot, shared with all viewers that received the same bytes, and its own rows
that changed since. Each heartbeat must match the row count and the hash of these rows.
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
    """The decoded rows of a part, as hashes by id."""

    hashes: dict[str, int]
    total: int
    note: Any  # result of the inspection


class PartCache:
    """A cache of decoded parts, kept as long as a viewer holds them."""

    def __init__(self, inspect: Inspect = lambda *_: None) -> None:
        self._inspect = inspect
        self._known: weakref.WeakValueDictionary[Any, Rows] = weakref.WeakValueDictionary()
        self._recent: deque[Rows] = deque(
            maxlen=64
        )  # deltas, which all viewers get at about the same time
        self.decoded = 0

    def decode(self, table: str, kind: str, payload: memoryview) -> Rows:
        """Return the decoded rows of a part."""
        key = table, kind, len(payload), zlib.crc32(payload)
        rows = self._known.get(key)
        if rows is None:
            rows = self._known[key] = self._decode(table, kind, payload)
            if kind != "snapshot":
                self._recent.append(rows)
        return rows

    def _decode(self, table: str, kind: str, payload: memoryview) -> Rows:
        self.decoded += 1
        with pa.ipc.open_stream(payload) as stream:
            rows = stream.read_all()
        ids = rows.column("_id").to_pylist()
        if kind == "remove":
            return Rows(dict.fromkeys(ids, 0), 0, None)
        row_hashes = [
            int(hash_row) for batch in rows.to_batches() for hash_row in row_hash.hash_rows(batch)
        ]
        hashes = dict(zip(ids, row_hashes, strict=True))
        note = self._inspect(table, rows) if kind == "snapshot" else None
        return Rows(hashes, sum(hashes.values()), note)


class CheckedTable:
    """One table of one viewer."""

    def __init__(self, snapshot: Rows) -> None:
        self.snapshot = snapshot
        self._own: dict[str, int | None] = {}  # rows changed since the snapshot; None: removed
        self._total = snapshot.total
        self.count = len(snapshot.hashes)

    def apply(self, kind: str, rows: Rows) -> None:
        """Apply a delta."""
        for row_id, new in rows.hashes.items():
            old = self._own.get(row_id, self.snapshot.hashes.get(row_id))
            if row_id in self._own and self._own[row_id] is None:
                old = None
            current = None if kind == "remove" else new
            self._own[row_id] = current
            self.count += (current is not None) - (old is not None)
            self._total += (current or 0) - (old or 0)

    @property
    def hash(self) -> str:
        """The hash of all rows."""
        return row_hash.to_hex(self._total % _WORD)


class Checker:
    """The tables of one viewer. Fails at the first heartbeat that does not match."""

    def __init__(self, cells: PartCache) -> None:
        self._cells = cells
        self.tables: dict[str, CheckedTable] = {}
        self.checked = 0  # number of heartbeats checked

    def on_frame(self, header: dict[str, Any], payloads: list[memoryview]) -> None:
        """Apply a data frame, or check a heartbeat."""
        for part, payload in zip(header["parts"], payloads, strict=True):
            rows = self._cells.decode(part["table"], part["kind"], payload)
            if part["kind"] == "snapshot":
                self.tables[part["table"]] = CheckedTable(rows)
            else:
                self.tables[part["table"]].apply(part["kind"], rows)
        if header["type"] == "heartbeat" and header["generation"] is not None:
            for table, checked_table in self.tables.items():
                expected = header["tables"][table]
                assert (checked_table.count, checked_table.hash) == (
                    expected["rows"],
                    expected["hash"],
                ), (
                    table,
                    header,
                )
            self.checked += 1
