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
from livejoin.core import changelog, spec

_ARROW_TYPES = {
    "string": pa.string(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("ms", "UTC"),
}
# milliseconds; read as text they would have to be ISO dates
_JSON_TYPES = {**_ARROW_TYPES, "timestamp": pa.int64()}
_INT64_MIN = np.iinfo(np.int64).min
_FEW_RECORDS = 32
_IDS, _ROWS, _NEXT, _END = (
    text.encode()
    for text in (
        changelog.BUNDLE_IDS,
        changelog.BUNDLE_ROWS,
        changelog.BUNDLE_NEXT,
        changelog.BUNDLE_END,
    )
)


def schema(table: str) -> pa.Schema:
    """A table's columns as viewers get them, `_id` and `_ts` included."""
    return pa.schema([(c.name, _ARROW_TYPES[c.type]) for c in spec.ALL_TABLES[table].columns])


SCHEMAS = {name: schema(name) for name in spec.ALL_TABLES}


@dataclass(frozen=True)
class ChangeBatch:
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
    def from_rows(ids: list[str], rows: pa.RecordBatch, version: int) -> "ChangeBatch":
        """Rows that did not come from a changelog, all of one version."""
        return ChangeBatch(ids, rows, np.ones(len(ids), bool), np.full((len(ids), 3), version))


def decode_records(table: str, ids: Sequence[str], values: Sequence[bytes]) -> ChangeBatch:
    """Decode values of one data table."""
    parts = (_parse_few if len(values) <= _FEW_RECORDS else _parse_many)(table, values)
    if table == spec.REJECTS:
        cells = parts[0]
        cells["raw"] = pa.array(map(_raw_as_text, cells["raw"].to_pylist()), pa.string())
    return _assemble(table, list(ids), parts)


def decode_bundle(table: str, value: bytes) -> ChangeBatch:
    """Decode a bundle of rows, or of removals."""
    head, _, rest = value.partition(_IDS)
    told = json.loads(head + b"}")
    shared = told.get("row", {})
    # pairs come once, rows with a version again for each account
    own_of = _parse_bundle_rows_cached if "version" in told else _parse_bundle_rows
    ids, own, ts = own_of(table, frozenset(shared), rest)
    cells = dict(own)
    for column in _data_columns(table):
        if column.name in shared:
            cells[column.name] = pa.repeat(_scalar(shared[column.name], column), len(ids))
    present = np.full(len(ids), "row" in told)
    versions = np.full((len(ids), 3), told.get("version", _INT64_MIN))
    times = pa.array(np.maximum(ts, told["ts"]))
    return _assemble(table, ids, (cells, times, present, versions), shared)


def _parse_bundle_rows(
    table: str, shared: frozenset[str], text: bytes
) -> tuple[list[str], Mapping[str, pa.Array], np.ndarray]:
    """The identities in a bundle, the cells that each row has for itself, and their times."""
    ids_text, _, rows = text.partition(_ROWS)
    ids = json.loads(ids_text if rows else ids_text[: -len("}")])
    own = [column for column in _data_columns(table) if column.name not in shared]
    if not rows:
        nothing = {column.name: pa.nulls(len(ids), _JSON_TYPES[column.type]) for column in own}
        return ids, nothing, np.full(len(ids), _INT64_MIN)
    # JSON has no line breaks of its own
    lines = rows[: -len(_END)].replace(_NEXT, b"\n")
    read = _read_json_lines(
        lines, pa.schema([("ts", pa.int64()), *((c.name, _JSON_TYPES[c.type]) for c in own)])
    )
    cells = {column.name: read.column(column.name).combine_chunks() for column in own}
    return ids, cells, read.column("ts").to_numpy()


# An account that comes again for the same rows says the same of each: 3 of 5 ms for 5,000.
_parse_bundle_rows_cached = functools.lru_cache(maxsize=8)(_parse_bundle_rows)

_ParsedColumns = tuple[dict[str, pa.Array], pa.Array, np.ndarray, np.ndarray]


def _assemble(
    table: str, ids: list[str], parts: _ParsedColumns, shared: Collection[str] = ()
) -> ChangeBatch:
    cells, ts, present, versions = parts
    cells |= {spec.ID.name: pa.array(ids, pa.string()), spec.TS.name: ts}
    columns = [
        cell if cell.type == field.type else cell.cast(field.type)
        for cell, field in ((cells[field.name], field) for field in SCHEMAS[table])
    ]
    rows = pa.RecordBatch.from_arrays(columns, schema=SCHEMAS[table])
    # here, on the follower's thread: 100,000 rows would hold up the loop for a tenth of a second
    hashes = row_hash.hash_rows(rows, shared) if len(ids) > _FEW_RECORDS else None
    return ChangeBatch(ids, rows, present, versions, hashes)


def _parse_few(table: str, values: Sequence[bytes]) -> _ParsedColumns:
    """A few values, one by one: Arrow's reader takes half a millisecond to start."""
    found = [json.loads(value) for value in values]
    given = [one.get("row") for one in found]
    cells = {}
    for column in _data_columns(table):
        texts = [None if row is None else row.get(column.name) for row in given]
        if column.type == "double":
            texts = [None if cell is None else float(cell) for cell in texts]
        cells[column.name] = pa.array(texts, _JSON_TYPES[column.type])
    versions = np.full((len(found), 3), _INT64_MIN)
    for place, one in enumerate(found):
        if one.get("version") is not None:
            versions[place] = one["version"]
    ts = pa.array([one["ts"] for one in found], pa.int64())
    return cells, ts, np.array([row is not None for row in given]), versions


def _parse_many(table: str, values: Sequence[bytes]) -> _ParsedColumns:
    """Many values, without a Python object per cell."""
    row = pa.struct([(c.name, _JSON_TYPES[c.type]) for c in _data_columns(table)])
    shape = pa.schema([("row", row), ("ts", pa.int64()), ("version", pa.list_(pa.int64()))])
    read = _read_json_lines(b"\n".join(values), shape)
    row, ts = read.column("row").combine_chunks(), read.column("ts").combine_chunks()
    cells = {field.name: row.field(i) for i, field in enumerate(row.type)}
    present = pc.is_valid(row).to_numpy(zero_copy_only=False)
    return cells, ts, present, _parse_versions(read.column("version").combine_chunks())


def _scalar(value: Any, column: spec.Column) -> pa.Scalar:
    # a whole number is a double as well
    return pa.scalar(float(value) if column.type == "double" else value, _JSON_TYPES[column.type])


def _data_columns(table: str) -> list[spec.Column]:
    return [c for c in spec.TABLES[table].columns if c not in (spec.ID, spec.TS)]


def _read_json_lines(lines: bytes, shape: pa.Schema) -> pa.Table:
    return pa.json.read_json(
        io.BytesIO(lines),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pa.json.ParseOptions(
            explicit_schema=shape, unexpected_field_behavior="ignore"
        ),
    )


def _parse_versions(lists: pa.ListArray) -> np.ndarray:
    versions = np.full((len(lists), 3), _INT64_MIN)
    given = pc.is_valid(lists).to_numpy(zero_copy_only=False)
    if given.any():
        versions[given] = lists.flatten().to_numpy().reshape(-1, 3)
    return versions


def _raw_as_text(raw: str | None) -> str | None:
    r"""The raw bytes of a reject as text; what is not UTF-8 shows as \xNN."""
    return None if raw is None else base64.b64decode(raw).decode(errors="backslashreplace")
