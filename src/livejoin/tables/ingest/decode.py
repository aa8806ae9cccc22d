"""Changelog records in bulk: one Arrow batch per table, never a Python object per cell."""

import base64
import functools
import io
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from livejoin import row_hash
from livejoin.core import changelog_bundles, spec

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
_IDS, _ROWS, _NEXT, _END = (
    text.encode()
    for text in (
        changelog_bundles.IDS,
        changelog_bundles.ROWS,
        changelog_bundles.NEXT,
        changelog_bundles.END,
    )
)


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

    @functools.cached_property
    def times(self) -> np.ndarray:
        """The rows' `_ts` in ms; of a removal, that of what caused it."""
        found: np.ndarray = self.rows.column(spec.TS.name).cast(pa.int64()).to_numpy()
        return found

    @staticmethod
    def made(ids: list[str], rows: pa.RecordBatch, version: int) -> "Records":
        """Rows that did not come from a changelog, all of one version."""
        return Records(ids, rows, np.ones(len(ids), bool), np.full((len(ids), 3), version))


def records(table: str, ids: Sequence[str], values: Sequence[bytes]) -> Records:
    """Decode values of one data table."""
    parts = (_few if len(values) <= _FEW else _many)(table, values)
    if table == spec.REJECTS:
        cells = parts[0]
        cells["raw"] = pa.array(map(_legible, cells["raw"].to_pylist()), pa.string())
    return _records(table, list(ids), parts)


def bundle(table: str, value: bytes) -> Records:
    """Decode a bundle of rows, or of removals."""
    head, _, rest = value.partition(_IDS)
    told = json.loads(head + b"}")
    shared = told.get("row", {})
    # pairs come once, rows with a version again for each account
    own_of = _kept if "version" in told else _own
    ids, own, ts = own_of(table, frozenset(shared), rest)
    cells = dict(own)
    for column in _cells_of(table):
        if column.name in shared:
            cells[column.name] = pa.repeat(_cell(shared[column.name], column), len(ids))
    present = np.full(len(ids), "row" in told)
    versions = np.full((len(ids), 3), told.get("version", _LOWEST))
    times = pa.array(np.maximum(ts, told["ts"]))
    return _records(table, ids, (cells, times, present, versions), shared)


def _own(
    table: str, shared: frozenset[str], text: bytes
) -> tuple[list[str], Mapping[str, pa.Array], np.ndarray]:
    """The identities in a bundle, the cells that each row has for itself, and their times."""
    ids_text, _, rows = text.partition(_ROWS)
    ids = json.loads(ids_text if rows else ids_text[: -len("}")])
    own = [column for column in _cells_of(table) if column.name not in shared]
    if not rows:
        nothing = {column.name: pa.nulls(len(ids), _READ[column.type]) for column in own}
        return ids, nothing, np.full(len(ids), _LOWEST)
    # JSON has no line breaks of its own
    lines = rows[: -len(_END)].replace(_NEXT, b"\n")
    read = _read(lines, pa.schema([("ts", pa.int64()), *((c.name, _READ[c.type]) for c in own)]))
    cells = {column.name: read.column(column.name).combine_chunks() for column in own}
    return ids, cells, read.column("ts").to_numpy()


# An account that comes again for the same rows says the same of each: 3 of 5 ms for 5,000.
_kept = functools.lru_cache(maxsize=8)(_own)

_Parts = tuple[dict[str, pa.Array], pa.Array, np.ndarray, np.ndarray]


def _records(table: str, ids: list[str], parts: _Parts, shared: Collection[str] = ()) -> Records:
    cells, ts, present, versions = parts
    cells |= {spec.ID.name: pa.array(ids, pa.string()), spec.TS.name: ts}
    columns = [
        cell if cell.type == field.type else cell.cast(field.type)
        for cell, field in ((cells[field.name], field) for field in SCHEMAS[table])
    ]
    rows = pa.RecordBatch.from_arrays(columns, schema=SCHEMAS[table])
    # here, on the follower's thread: 100,000 rows would hold up the loop for a tenth of a second
    hashes = row_hash.of_rows(rows, shared) if len(ids) > _FEW else None
    return Records(ids, rows, present, versions, hashes)


def _few(table: str, values: Sequence[bytes]) -> _Parts:
    """A few values, one by one: Arrow's reader takes half a millisecond to start."""
    found = [json.loads(value) for value in values]
    given = [one.get("row") for one in found]
    cells = {}
    for column in _cells_of(table):
        texts = [None if row is None else row.get(column.name) for row in given]
        if column.type == "double":
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
    row = pa.struct([(c.name, _READ[c.type]) for c in _cells_of(table)])
    shape = pa.schema([("row", row), ("ts", pa.int64()), ("version", pa.list_(pa.int64()))])
    read = _read(b"\n".join(values), shape)
    row, ts = read.column("row").combine_chunks(), read.column("ts").combine_chunks()
    cells = {field.name: row.field(i) for i, field in enumerate(row.type)}
    present = pc.is_valid(row).to_numpy(zero_copy_only=False)
    return cells, ts, present, _versions(read.column("version").combine_chunks())


def _cell(value: Any, column: spec.Column) -> pa.Scalar:
    # a whole number is a double as well
    return pa.scalar(float(value) if column.type == "double" else value, _READ[column.type])


def _cells_of(table: str) -> list[spec.Column]:
    return [c for c in spec.TABLES[table].columns if c not in (spec.ID, spec.TS)]


def _read(lines: bytes, shape: pa.Schema) -> pa.Table:
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
