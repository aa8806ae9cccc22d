"""livejoin's own tables: status, log, control messages, generations, audit.

Like the data tables they belong to the event loop's thread, and listeners are told of changes. What
a leader writes for them is parsed on the follower's thread.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import structlog

from livejoin.core import spec, state
from livejoin.core.json_object import parse_object
from livejoin.core.ledger_format import NewerState, read_state
from livejoin.core.spec import JoinSpec, TableSpec
from livejoin.core.state import GENERATION_KEY, STATE_KEY, STATUS_KEY, State
from livejoin.tables.ingest.arrow_schema import schema
from livejoin.tables.ingest.batches import ChangeBatch
from livejoin.tables.ingest.decode import RawRecord
from livejoin.tables.ingest.store import Delta, Store

log = structlog.get_logger()

Row = Mapping[str, Any]
OnChange = Callable[[str, Delta], None]
_CELL_TYPES: Mapping[spec.Type, tuple[type, ...]] = {
    "string": (str,),
    "int64": (int,),
    "timestamp": (int,),
    "double": (int, float),
}
_FIXED_TABLES = spec.system_tables(())  # without the columns that depend on a spec
_YEAR_10000_MS = 253_402_300_800_000  # datetime cannot represent later times


class ControlPosition(NamedTuple):
    """Where a message is in the control topic."""

    partition: int
    offset: int


class SystemTables:
    """All system tables of one table server."""

    def __init__(
        self, join_spec: JoinSpec, on_change: OnChange, *, logs_kept: int, control_kept: int
    ) -> None:
        self._spec = join_spec
        self._status_row: Row = {}  # as written by the leader
        max_rows = {
            spec.STATUS: 1,
            spec.LOGS: logs_kept,
            spec.CONTROL: control_kept,
            spec.GENERATIONS: spec.GENERATIONS_KEPT,
            spec.AUDIT: spec.AUDIT_KEPT,
        }
        self._tables = {
            name: SystemTable(join_spec.all_tables[name], rows, on_change)
            for name, rows in max_rows.items()
        }
        self._status = self._tables[spec.STATUS]
        self._logs = self._tables[spec.LOGS]
        self._control = self._tables[spec.CONTROL]
        self._generations = self._tables[spec.GENERATIONS]
        self._audit = self._tables[spec.AUDIT]
        self._control_ids: dict[ControlPosition, str] = {}  # of the rows of `control_raw`
        self._outcome_callbacks: dict[ControlPosition, list[Callable[[Row], None]]] = {}
        self.set_status({"state": "starting", "progress": 0, "message": "reading the ledger"})

    def store(self, table: str) -> Store:
        """The rows of a table."""
        return self._tables[table].store

    def use_spec(self, join_spec: JoinSpec) -> list[str]:
        """Show the columns of another spec; returns the tables whose columns changed."""
        self._spec = join_spec
        return [
            name
            for name, table in self._tables.items()
            if table.change_columns(join_spec.all_tables[name])
        ]

    @property
    def status(self) -> Row:
        """The one row of the status table, without its ID."""
        columns = (column.name for column in self._spec.tables[spec.STATUS].columns)
        empty = dict.fromkeys(name for name in columns if not name.startswith("_"))
        return {**empty, **self._status_row}

    def set_status(self, row: Row) -> None:
        """Replace the one row of the status table."""
        self._status_row = row
        self._status.put([{**self.status, "_id": "status"}])

    def add_log_lines(self, lines: Sequence[Row]) -> None:
        """Append lines to the log."""
        self._logs.put(lines)

    def add_audit_rows(self, rows: Sequence[Row]) -> None:
        """Append rows to the audit."""
        self._audit.put(rows)

    def put_control_messages(self, rows: Sequence[Row]) -> None:
        """Add control messages with their outcomes, and call back who waits for one.

        Messages of a recreated control topic replace those at the same positions.
        """
        newest: list[Row] = []
        replaced: list[str] = []
        for row in rows:
            row_id: str = row["_id"]
            position = _position(row)
            known = self._control_ids.get(position, row_id)
            if row_id < known:
                continue  # of the earlier topic, read again after the follower has restarted
            if row_id > known:
                replaced.append(known)
            self._control_ids[position] = row_id
            newest.append(row)
        self._control.put(newest)
        self._control.remove(replaced)
        if len(self._control_ids) > 2 * len(self._control.rows):  # most rows have been evicted
            kept = self._control.rows
            self._control_ids = {p: one for p, one in self._control_ids.items() if one in kept}
        for row in newest:
            for callback in self._outcome_callbacks.pop(_position(row), ()):
                callback(row)

    def on_outcome(self, position: ControlPosition, callback: Callable[[Row], None]) -> None:
        """Call back once the outcome of a control message is known."""
        row = self._control.rows.get(self._control_ids.get(position, ""))
        if row is not None:
            callback(row)
        else:
            self._outcome_callbacks.setdefault(position, []).append(callback)

    def put_generations(self, rows: Mapping[int, Row]) -> None:
        """Add or update rows of generations, by number; cells that are not given stay."""
        known = self._generations.rows
        self._generations.put(
            [
                {**known.get(state.row_id(number), {}), **row, "_id": state.row_id(number)}
                for number, row in rows.items()
            ]
        )

    def generations(self) -> list[Row]:
        """The rows of generations, newest first."""
        rows = self._generations.rows
        return [rows[row_id] for row_id in sorted(rows, reverse=True)]

    def clear(self) -> None:
        """Remove what was read from a ledger that has been replaced."""
        for table in (self._logs, self._control, self._generations):
            table.clear()
        self._control_ids = {}


class SystemTable:
    """A bounded table with ascending IDs: the newest rows stay, a repeated ID replaces its row."""

    def __init__(self, table: TableSpec, max_rows: int, on_change: OnChange) -> None:
        self.store = Store(schema(table))
        self.rows: dict[str, Row] = {}
        self._name = table.name
        self._max_rows = max_rows
        self._on_change = on_change
        self._order: deque[str] = deque()
        self._last_evicted = ""  # the highest ID
        self._version = 0

    def put(self, rows: Sequence[Row]) -> None:
        """Add rows or replace those with the same `_id`; evicts the oldest."""
        new = {
            row_id: row
            for row in rows
            if (row_id := row["_id"]) > self._last_evicted and self.rows.get(row_id) != row
        }
        if not new:
            return
        self._order.extend(row_id for row_id in new if row_id not in self.rows)
        self.rows |= new
        self._on_change(self._name, self._store(new))
        self._evict(len(self.rows) - self._max_rows)

    def _store(self, rows: Mapping[str, Row]) -> Delta:
        self._version += 1
        cells = pa.RecordBatch.from_pylist(list(rows.values()), schema=self.store.schema)
        return self.store.apply(ChangeBatch.from_rows(list(rows), cells, self._version))

    def change_columns(self, table: TableSpec) -> bool:
        """Show other columns of the same rows; returns whether any column changed."""
        if schema(table) == self.store.schema:
            return False
        self.store = Store(schema(table))
        if self.rows:
            self._store(self.rows)
        return True

    def clear(self) -> None:
        """Remove all rows, and accept any ID again."""
        self._evict(len(self.rows))
        self._last_evicted = ""

    def _evict(self, count: int) -> None:
        evicted = [self._order.popleft() for _ in range(count)]
        if evicted:
            self._last_evicted = max(self._last_evicted, *evicted)
            self._drop(evicted)

    def remove(self, row_ids: Collection[str]) -> None:
        """Remove these rows, if they are there."""
        present = [row_id for row_id in dict.fromkeys(row_ids) if row_id in self.rows]
        if present:
            gone = set(present)
            self._order = deque(row_id for row_id in self._order if row_id not in gone)
            self._drop(present)

    def _drop(self, row_ids: list[str]) -> None:
        for row_id in row_ids:
            del self.rows[row_id]
        self.store.drop(row_ids)
        no_rows = pa.RecordBatch.from_pylist([], schema=self.store.schema)
        self._on_change(self._name, Delta(no_rows, row_ids))


class LeaderRecordParser:
    """Parses what a leader writes: state and status, heartbeats, log lines, outcomes, generations.

    A newer livejoin may have written records before its format number was read. Records that cannot
    be parsed are skipped, with one warning per topic, and one for the state.
    """

    def __init__(self) -> None:
        self._warned: set[tuple[str, str]] = set()  # topic, and whether of the state or a row

    def parse_heartbeat(self, topic: str, value: bytes) -> int | None:
        """The time of a leader's heartbeat in ms; None if it cannot be parsed."""
        at_ms = (parse_object(value) or {}).get("at")
        if isinstance(at_ms, int) and 0 <= at_ms < _YEAR_10000_MS:
            return at_ms
        self._warn_once(topic, "the time of a heartbeat")
        return None

    def parse_logs(self, topic: str, records: Iterable[RawRecord]) -> dict[str, list[Row]]:
        """The rows in a log topic, by table."""
        tables: dict[str, list[Row]] = defaultdict(list)
        for key, value in records:
            table, _, row_id = key.decode(errors="replace").partition("/")
            row = self._parse_row(table, value) if table in (spec.LOGS, spec.CONTROL) else None
            if row is None or (table == spec.CONTROL and not _has_position(row)):
                self._warn_once(topic, f"the record with key {key!r}")
            else:
                tables[table].append({**row, "_id": row_id})
        return tables

    def parse_generations(self, topic: str, records: Sequence[RawRecord]) -> dict[int, Row]:
        """The rows of generations, by number."""
        rows: dict[int, Row] = {}
        for key, value in records:
            row = self._parse_row(spec.GENERATIONS, value)
            if row is None or not isinstance(row.get("generation"), int):
                self._warn_once(topic, f"the record with key {key!r}")
            else:
                rows[row["generation"]] = row
        return rows

    def parse_state(self, topic: str, value: bytes) -> State | NewerState | None:
        """The state in the ledger; None if it cannot be parsed."""
        found = read_state(value)
        if found is None:
            self._warn_once(topic, f"the record with key {STATE_KEY!r}", of="state")
        return found

    def parse_status(self, topic: str, value: bytes) -> Row | None:
        """The status in the ledger; None if it cannot be parsed."""
        row = self._parse_row(spec.STATUS, value)
        if row is None:
            self._warn_once(topic, f"the record with key {STATUS_KEY!r}")
        return row

    def _parse_row(self, table: str, value: bytes) -> Row | None:
        row = parse_object(value)
        return row if row is not None and _matches_columns(table, row) else None

    def _warn_once(self, topic: str, what: str, of: str = "row") -> None:
        if (topic, of) not in self._warned:
            self._warned.add((topic, of))
            log.warning("skipped a record that cannot be parsed", topic=topic, what=what)


def is_generation_key(key: bytes) -> bool:
    """Whether a record of the ledger is a generation's row."""
    return key.startswith(GENERATION_KEY)


def _position(row: Row) -> ControlPosition:
    return ControlPosition(row["partition"], row["offset"])


def _has_position(row: Row) -> bool:
    return row.get("partition") is not None and row.get("offset") is not None


def _matches_columns(table: str, row: Row) -> bool:
    """Whether the cells have the types of their columns; other fields are ignored."""
    columns = _FIXED_TABLES[table].columns
    cells = [(row.get(column.name), _CELL_TYPES[column.type]) for column in columns]
    cells += [
        (cell, _CELL_TYPES["string"])
        for name, cell in row.items()
        if name.endswith(spec.TOPIC_FIELD_SUFFIX)
    ]
    return all(cell is None or isinstance(cell, types) for cell, types in cells)
