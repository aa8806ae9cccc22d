"""The tables that belong to livejoin itself: status, log, control messages, generations, audit.

Like the data tables they live on the event loop's thread, and whoever watches is told of changes.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from livejoin.core import spec
from livejoin.core.outbox import row_id
from livejoin.tables.ingest.decode import SCHEMAS, ChangeBatch
from livejoin.tables.ingest.store import Delta, Store

Row = Mapping[str, Any]
_STATUS_COLUMNS = [column.name for column in spec.TABLES[spec.STATUS].columns]
_EMPTY_STATUS = dict.fromkeys(name for name in _STATUS_COLUMNS if not name.startswith("_"))
OnChange = Callable[[str, Delta], None]


class SystemTable:
    """A table whose ids grow: the newest rows are kept, a row that comes again is replaced."""

    def __init__(self, name: str, kept: int, tell: OnChange) -> None:
        self.store = Store(SCHEMAS[name])
        self.rows: dict[str, Row] = {}
        self._name = name
        self._max_rows = kept
        self._on_change = tell
        self._order: deque[str] = deque()
        self._last_evicted = ""  # the last one that was let go
        self._version = 0

    def put(self, rows: Sequence[Row]) -> None:
        """Add rows, or put them in the place of those with their `_id`; the oldest go."""
        new = {
            i: row
            for row in rows
            if (i := row["_id"]) > self._last_evicted and self.rows.get(i) != row
        }
        if not new:
            return
        self._order.extend(i for i in new if i not in self.rows)
        self.rows |= new
        self._version += 1
        batch = pa.RecordBatch.from_pylist(list(new.values()), schema=SCHEMAS[self._name])
        records = ChangeBatch.from_rows(list(new), batch, self._version)
        self._on_change(self._name, self.store.apply(records))
        self._evict(len(self._order) - self._max_rows)

    def clear(self) -> None:
        """Start over."""
        self._evict(len(self._order))
        self._last_evicted = ""

    def _evict(self, count: int) -> None:
        gone = [self._order.popleft() for _ in range(count)]
        if not gone:
            return
        for one in gone:
            del self.rows[one]
        self.store.drop(gone)
        self._last_evicted = max(self._last_evicted, *gone)
        nothing = pa.RecordBatch.from_pylist([], schema=SCHEMAS[self._name])
        self._on_change(self._name, Delta(nothing, gone))


class SystemTables:
    """All of them."""

    def __init__(self, tell: OnChange, *, logs_kept: int, control_kept: int) -> None:
        self.status: Row = {}
        self._status = SystemTable(spec.STATUS, 1, tell)
        self._logs = SystemTable(spec.LOGS, logs_kept, tell)
        self._control = SystemTable(spec.CONTROL, control_kept, tell)
        self._generations = SystemTable(spec.GENERATIONS, spec.GENERATIONS_KEPT, tell)
        self._audit = SystemTable(spec.AUDIT, spec.AUDIT_KEPT, tell)
        self._tables = {
            spec.STATUS: self._status,
            spec.LOGS: self._logs,
            spec.CONTROL: self._control,
            spec.GENERATIONS: self._generations,
            spec.AUDIT: self._audit,
        }
        self._outcome_callbacks: dict[int, list[Callable[[Row], None]]] = {}
        self.set_status({"state": "starting", "progress": 0, "message": "reading the ledger"})

    def store(self, table: str) -> Store:
        """A table's rows."""
        return self._tables[table].store

    def set_status(self, row: Row) -> None:
        """Replace the one row of the status table."""
        self.status = {**_EMPTY_STATUS, **row}
        self._status.put([{**self.status, "_id": "status"}])

    def add_log_lines(self, lines: Sequence[Row]) -> None:
        """Add lines to the log."""
        self._logs.put(lines)

    def add_audit_rows(self, rows: Sequence[Row]) -> None:
        """Add rows to the audit."""
        self._audit.put(rows)

    def put_control_messages(self, rows: Sequence[Row]) -> None:
        """Show control messages and what became of them."""
        self._control.put(rows)
        for row in rows:
            for answer in self._outcome_callbacks.pop(row["offset"], ()):
                answer(row)

    def on_outcome(self, offset: int, answer: Callable[[Row], None]) -> None:
        """Call back once it is known what became of a control message."""
        row = self._control.rows.get(row_id(offset))
        if row is not None:
            answer(row)
        else:
            self._outcome_callbacks.setdefault(offset, []).append(answer)

    def put_generations(self, rows: Mapping[int, Row]) -> None:
        """Show generations, by number. What is known of one and not given stays."""
        known = self._generations.rows
        self._generations.put(
            [
                {**known.get(row_id(number), {}), **row, "_id": row_id(number)}
                for number, row in rows.items()
            ]
        )

    def generations(self) -> list[Row]:
        """The generations, the newest first."""
        rows = self._generations.rows
        return [rows[row_id] for row_id in sorted(rows, reverse=True)]

    def clear(self) -> None:
        """Start over: the ledger is another one."""
        for journal in (self._logs, self._control, self._generations):
            journal.clear()
