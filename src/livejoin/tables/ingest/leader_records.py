"""Parses what a leader writes beside its state: heartbeats, log lines, outcomes, generation rows.

A newer livejoin may have written records before its format number was read. Records that cannot be
parsed are skipped, with one warning per topic.
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
_YEAR_10000_MS = 253_402_300_800_000  # datetime cannot represent later times


class LeaderRecordParser:
    """Parses records, and remembers for which topics it has warned."""

    def __init__(self) -> None:
        self._warned_topics: set[str] = set()

    def parse_heartbeat(self, topic: str, value: bytes) -> int | None:
        """The time of a leader's heartbeat in ms; None if it cannot be parsed."""
        at_ms = (self._parse_object(value) or {}).get("at")
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
            if row is None or (table == spec.CONTROL and row.get("offset") is None):
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

    def _parse_row(self, table: str, value: bytes) -> Row | None:
        row = self._parse_object(value)
        return row if row is not None and _matches_columns(table, row) else None

    def _parse_object(self, value: bytes) -> Row | None:
        try:
            parsed = json.loads(value)
        except ValueError:
            return None
        return parsed if isinstance(parsed, dict) else None

    def _warn_once(self, topic: str, what: str) -> None:
        if topic not in self._warned_topics:
            self._warned_topics.add(topic)
            log.warning("skipped a record that cannot be parsed", topic=topic, what=what)


def is_generation_key(key: bytes) -> bool:
    """Whether a record of the ledger is a generation's row."""
    return key.startswith(GENERATION_KEY)


def _matches_columns(table: str, row: Row) -> bool:
    """Whether the cells have the types of their columns; other fields are ignored."""
    cells = ((row.get(c.name), _CELL_TYPES[c.type]) for c in spec.TABLES[table].columns)
    return all(cell is None or isinstance(cell, types) for cell, types in cells)
