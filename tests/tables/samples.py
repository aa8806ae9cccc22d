"""Sample data for a catalog: decoded changelog records, and states of the ledger."""

from typing import Any

import pyarrow as pa

from livejoin.core.changelog import TOMBSTONES, ChangelogRecord
from livejoin.core.generation import Generation
from livejoin.core.spec import DEFAULT
from livejoin.core.state import Level, LogLine, State, row_id
from livejoin.tables.ingest import decode
from livejoin.tables.ingest.arrow_schema import schema
from livejoin.tables.ingest.batches import Chunk

DECODER = decode.decoder(DEFAULT)
DATA_TABLES = DEFAULT.data_tables
SCHEMAS = {name: schema(table) for name, table in DEFAULT.all_tables.items()}
CHOICE = DEFAULT.choice("users", "accounts")
REJECT = {"source": "users", "topic": "users", "partition": 0, "reason": "age: expected int64"}


def chunk(generation: int, end: int, *changes: ChangelogRecord) -> Chunk:
    """A chunk of records that ends just before `end`."""
    return DECODER.decode_chunk(
        generation, end, [(change.key(), change.value()) for change in changes]
    )


def user(offset: int, name: str = "Ada", ts: int = 1000, **cells: Any) -> ChangelogRecord:
    row = {"userId": f"u{offset}", "name": name, **cells}
    return ChangelogRecord("users_ui", f"0-{offset}", row, ts)


def final(offset: int, name: str | None, version: int | None = None) -> ChangelogRecord:
    """A joined row, or its removal if the name is None."""
    row = None if name is None else {"userId": f"u{offset}", "name": name}
    at = None if version is None else (version, 0, 0)
    return ChangelogRecord("final_ui", f"0-{offset}", row, 1000, at)


def reject(source: str, offset: int) -> ChangelogRecord:
    row = {**REJECT, "source": source, "offset": offset, "ts": 1000, "raw": "e30="}
    return ChangelogRecord("rejects_ui", f"{source}/0-{offset}", row, 1000)


def tombstone(source: str, offset: int) -> ChangelogRecord:
    return ChangelogRecord(TOMBSTONES, f"{source}/0-{offset}", None, 1000)


def building(number: int) -> State:
    return State(building=Generation(number, CHOICE, 0.0))


def live(
    number: int,
    ready_at: int = 0,
    next_one: int | None = None,
    max_rows: int = Generation.max_rows,
) -> State:
    building = None if next_one is None else Generation(next_one, CHOICE, 0.0)
    generation = Generation(number, CHOICE, 0.0, ready_at=ready_at, max_rows=max_rows)
    return State(live=generation, building=building)


def line(number: int, msg: str = "hello", level: Level = "INFO") -> dict[str, Any]:
    log_line = LogLine(number, 1.0, level, msg, "started")
    return {**log_line.row(), "_id": row_id(number)}


def plain(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as dictionaries, with timestamps in milliseconds."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    numbers = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    cells: list[dict[str, Any]] = pa.table(numbers, table.column_names).to_pylist()
    return cells
