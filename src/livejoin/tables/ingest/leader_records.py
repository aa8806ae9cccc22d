"""Reads what a leader writes beside its state: beats, log lines, outcomes, rows of generations.

A newer livejoin may have written them before its format number was seen. What cannot be read is
left out, and said once for each topic.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog

from livejoin.core import spec
from livejoin.core.state import GENERATION_KEY
from livejoin.tables.ingest.decode import RawRecord

log = structlog.get_logger()

Row = dict[str, Any]
_CELL_TYPES: Mapping[spec.Type, tuple[type, ...]] = {
    "string": (str,),
    "int64": (int,),
    "timestamp": (int,),
    "double": (int, float),
}
_YEAR_10000_MS = 253_402_300_800_000  # no clock of a leader shows it, and no date can


class LeaderRecordParser:
    """Parses records, and remembers of which topics it was said that some are left out."""

    def __init__(self) -> None:
        self._warned_topics: set[str] = set()

    def parse_heartbeat(self, topic: str, value: bytes) -> int | None:
        """When a leader said that it leads, in ms; None where that cannot be read."""
        at = (self._parse_object(value) or {}).get("at")
        if isinstance(at, int) and 0 <= at < _YEAR_10000_MS:
            return at
        self._warn_once(topic, "the time of a beat")
        return None

    def parse_logs(self, topic: str, records: Iterable[RawRecord]) -> dict[str, list[Row]]:
        """Rows of the tables that a log topic holds, by table."""
        tables: dict[str, list[Row]] = defaultdict(list)
        for key, value in records:
            table, _, row_id = key.decode(errors="replace").partition("/")
            row = self._parse_row(table, value) if table in (spec.LOGS, spec.CONTROL) else None
            if row is None or (table == spec.CONTROL and row.get("offset") is None):
                self._warn_once(topic, f"the record with the key {key!r}")
            else:
                tables[table].append({**row, "_id": row_id})
        return tables

    def parse_generations(self, topic: str, records: Sequence[RawRecord]) -> dict[int, Row]:
        """Rows of generations, by number."""
        rows: dict[int, Row] = {}
        for key, value in records:
            row = self._parse_row(spec.GENERATIONS, value)
            if row is None or not isinstance(row.get("generation"), int):
                self._warn_once(topic, f"the record with the key {key!r}")
            else:
                rows[row["generation"]] = row
        return rows

    def _parse_row(self, table: str, value: bytes) -> Row | None:
        row = self._parse_object(value)
        return row if row is not None and _matches_columns(table, row) else None

    def _parse_object(self, value: bytes) -> Row | None:
        try:
            found = json.loads(value)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def _warn_once(self, topic: str, what: str) -> None:
        if topic not in self._warned_topics:
            self._warned_topics.add(topic)
            log.warning("left out what this livejoin cannot read", topic=topic, what=what)


def is_generation_key(key: bytes) -> bool:
    """Whether a record of the ledger is a generation's row."""
    return key.startswith(GENERATION_KEY)


def _matches_columns(table: str, row: Row) -> bool:
    """Whether a row's cells are of their columns' types. What has no column is left alone."""
    cells = ((row.get(one.name), _CELL_TYPES[one.type]) for one in spec.TABLES[table].columns)
    return all(cell is None or isinstance(cell, types) for cell, types in cells)
