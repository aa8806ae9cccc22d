"""The tables that belong to livejoin itself: status, log, control messages, generations, audit.

Like the data tables they live on the event loop's thread, and whoever watches is told of changes.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from livejoin.core import spec
from livejoin.core.outbox import row_id
from livejoin.tables.ingest.decode import SCHEMAS, Records
from livejoin.tables.ingest.store import Delta, Store

Row = Mapping[str, Any]
_COLUMNS = [column.name for column in spec.TABLES[spec.STATUS].columns]
_NOTHING_SAID = dict.fromkeys(name for name in _COLUMNS if not name.startswith("_"))
Tell = Callable[[str, Delta], None]


class Journal:
    """A table whose ids grow: the newest rows are kept, a row that comes again is replaced."""

    def __init__(self, name: str, kept: int, tell: Tell) -> None:
        self.store = Store(SCHEMAS[name])
        self.rows: dict[str, Row] = {}
        self._name = name
        self._kept = kept
        self._tell = tell
        self._order: deque[str] = deque()
        self._gone = ""  # the last one that was let go
        self._version = 0

    def put(self, rows: Sequence[Row]) -> None:
        """Add rows, or put them in the place of those with their `_id`; the oldest go."""
        new = {i: row for row in rows if (i := row["_id"]) > self._gone and self.rows.get(i) != row}
        if not new:
            return
        self._order.extend(i for i in new if i not in self.rows)
        self.rows |= new
        self._version += 1
        batch = pa.RecordBatch.from_pylist(list(new.values()), schema=SCHEMAS[self._name])
        records = Records.made(list(new), batch, self._version)
        self._tell(self._name, self.store.apply(records))
        self._let_go(len(self._order) - self._kept)

    def clear(self) -> None:
        """Start over."""
        self._let_go(len(self._order))
        self._gone = ""

    def _let_go(self, count: int) -> None:
        gone = [self._order.popleft() for _ in range(count)]
        if not gone:
            return
        for one in gone:
            del self.rows[one]
        self.store.drop(gone)
        self._gone = max(self._gone, *gone)
        nothing = pa.RecordBatch.from_pylist([], schema=SCHEMAS[self._name])
        self._tell(self._name, Delta(nothing, gone))


class System:
    """All of them."""

    def __init__(self, tell: Tell, *, logs_kept: int, control_kept: int) -> None:
        self.status: Row = {}
        self._status = Journal(spec.STATUS, 1, tell)
        self._logs = Journal(spec.LOGS, logs_kept, tell)
        self._control = Journal(spec.CONTROL, control_kept, tell)
        self._generations = Journal(spec.GENERATIONS, spec.GENERATIONS_KEPT, tell)
        self._audit = Journal(spec.AUDIT, spec.AUDIT_KEPT, tell)
        self._journals = {
            spec.STATUS: self._status,
            spec.LOGS: self._logs,
            spec.CONTROL: self._control,
            spec.GENERATIONS: self._generations,
            spec.AUDIT: self._audit,
        }
        self._waiting: dict[int, list[Callable[[Row], None]]] = {}
        self.show_status({"state": "starting", "progress": 0, "message": "reading the ledger"})

    def store(self, table: str) -> Store:
        """A table's rows."""
        return self._journals[table].store

    def show_status(self, row: Row) -> None:
        """Replace the one row of the status table."""
        self.status = {**_NOTHING_SAID, **row}
        self._status.put([{**self.status, "_id": "status"}])

    def log(self, lines: Sequence[Row]) -> None:
        """Add lines to the log."""
        self._logs.put(lines)

    def show_audit(self, rows: Sequence[Row]) -> None:
        """Add rows to the audit."""
        self._audit.put(rows)

    def show_control(self, rows: Sequence[Row]) -> None:
        """Show control messages and what became of them."""
        self._control.put(rows)
        for row in rows:
            for answer in self._waiting.pop(row["offset"], ()):
                answer(row)

    def when_decided(self, offset: int, answer: Callable[[Row], None]) -> None:
        """Call back once it is known what became of a control message."""
        row = self._control.rows.get(row_id(offset))
        if row is not None:
            answer(row)
        else:
            self._waiting.setdefault(offset, []).append(answer)

    def show_generations(self, rows: Mapping[int, Row]) -> None:
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
