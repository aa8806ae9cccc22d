"""Changelog records in bulk: one Arrow batch per table, never a Python object per cell."""

import base64
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from livejoin import hashing
from livejoin.core import spec

_ARROW = {
    "string": pa.string(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("ms", "UTC"),
}
# milliseconds; read as text they would have to be ISO dates
_READ = {**_ARROW, "timestamp": pa.int64()}
_LOWEST = np.iinfo(np.int64).min
_FEW = 32


def schema(table: str) -> pa.Schema:
    """A table's columns as viewers get them, `_id` and `_ts` included."""
    return pa.schema([(c.name, _ARROW[c.type]) for c in spec.ALL_TABLES[table].columns])


SCHEMAS = {name: schema(name) for name in spec.ALL_TABLES}


@dataclass(frozen=True)
class Records:
    """A run of changelog records of one table, in order."""

    ids: list[str]
    rows: pa.RecordBatch  # a row of nulls where the record is a removal
    present: np.ndarray  # whether there is a row
    versions: np.ndarray  # three int64 each; the lowest where there is none
    hashes: np.ndarray | None = None  # of the rows, where there are many

    @staticmethod
    def made(ids: list[str], rows: pa.RecordBatch, version: int) -> "Records":
        """Rows that did not come from a changelog, all of one version."""
        return Records(ids, rows, np.ones(len(ids), bool), np.full((len(ids), 3), version))


def records(table: str, ids: Sequence[str], values: Sequence[bytes]) -> Records:
    """Decode values of one data table."""
    cells, ts, present, versions = (_few if len(values) <= _FEW else _many)(table, values)
    if table == spec.REJECTS:
        cells["raw"] = pa.array(map(_legible, cells["raw"].to_pylist()), pa.string())
    cells |= {spec.ID.name: pa.array(ids, pa.string()), spec.TS.name: ts}
    columns = [
        cell if cell.type == field.type else cell.cast(field.type)
        for cell, field in ((cells[field.name], field) for field in SCHEMAS[table])
    ]
    rows = pa.RecordBatch.from_arrays(columns, schema=SCHEMAS[table])
    # here, on the follower's thread: 100,000 rows would hold up the loop for a tenth of a second
    hashes = hashing.of_rows(rows) if len(values) > _FEW else None
    return Records(list(ids), rows, present, versions, hashes)


_Parts = tuple[dict[str, pa.Array], pa.Array, np.ndarray, np.ndarray]


def _few(table: str, values: Sequence[bytes]) -> _Parts:
    """A few values, one by one: Arrow's reader takes half a millisecond to start."""
    found = [json.loads(value) for value in values]
    given = [one.get("row") for one in found]
    cells = {}
    for column in _cells_of(table):
        texts = [None if row is None else row.get(column.name) for row in given]
        if column.type == "double":  # a whole number is one as well
            texts = [None if cell is None else float(cell) for cell in texts]
        cells[column.name] = pa.array(texts, _READ[column.type])
    versions = np.full((len(found), 3), _LOWEST)
    for place, one in enumerate(found):
        if one.get("version") is not None:
            versions[place] = one["version"]
    ts = pa.array([one["ts"] for one in found], pa.int64())
    return cells, ts, np.array([row is not None for row in given]), versions


def _many(table: str, values: Sequence[bytes]) -> _Parts:
    """Many values, without a Python object per cell."""
    read = _read(table, b"\n".join(values))
    row, ts = read.column("row").combine_chunks(), read.column("ts").combine_chunks()
    cells = {field.name: row.field(i) for i, field in enumerate(row.type)}
    present = pc.is_valid(row).to_numpy(zero_copy_only=False)
    return cells, ts, present, _versions(read.column("version").combine_chunks())


def _cells_of(table: str) -> list[spec.Column]:
    return [c for c in spec.TABLES[table].columns if c not in (spec.ID, spec.TS)]


def _read(table: str, lines: bytes) -> pa.Table:
    row = pa.struct([(c.name, _READ[c.type]) for c in _cells_of(table)])
    shape = pa.schema([("row", row), ("ts", pa.int64()), ("version", pa.list_(pa.int64()))])
    return pa.json.read_json(
        io.BytesIO(lines),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pa.json.ParseOptions(
            explicit_schema=shape, unexpected_field_behavior="ignore"
        ),
    )


def _versions(lists: pa.ListArray) -> np.ndarray:
    versions = np.full((len(lists), 3), _LOWEST)
    given = pc.is_valid(lists).to_numpy(zero_copy_only=False)
    if given.any():
        versions[given] = lists.flatten().to_numpy().reshape(-1, 3)
    return versions


def _legible(raw: str | None) -> str | None:
    r"""The raw bytes of a reject as text; what is not UTF-8 shows as \xNN."""
    return None if raw is None else base64.b64decode(raw).decode(errors="backslashreplace")
