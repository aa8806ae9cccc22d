"""Decodes changelog records in bulk: one Arrow batch per table, no Python object per cell."""

import base64
import functools
import io
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from livejoin import row_hash
from livejoin.core import changelog, spec
from livejoin.tables.ingest.read_progress import ReadOffsets, SourcePartition, read_offsets

RawRecord = tuple[bytes, bytes]  # key, value

_ARROW_TYPES = {
    "string": pa.string(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("ms", "UTC"),
}
# timestamps are milliseconds; Arrow would expect ISO dates for its own type
_JSON_TYPES = {**_ARROW_TYPES, "timestamp": pa.int64()}
_INT64_MIN = np.iinfo(np.int64).min
_FEW_RECORDS = 32  # parsed one by one
_BUNDLE_PREFIX = changelog.BUNDLE_PREFIX.encode()
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
    """The Arrow schema of a table as viewers receive it, including `_id` and `_ts`."""
    return pa.schema(
        [(c.name, _ARROW_TYPES[c.type]) for c in spec.DEFAULT.all_tables[table].columns]
    )


SCHEMAS = {name: schema(name) for name in spec.DEFAULT.all_tables}


@dataclass(frozen=True)
class ChangeBatch:
    """Consecutive changelog records of one table, as columns."""

    ids: list[str]
    rows: pa.RecordBatch  # nulls where the record is a removal
    present: np.ndarray  # false for a removal
    versions: np.ndarray  # three int64 each; the minimum if the record has none
    hashes: np.ndarray | None = None  # computed only for many rows

    @functools.cached_property
    def times(self) -> np.ndarray:
        """`_ts` in ms; for a removal, the time of the record that caused it."""
        times: np.ndarray = self.rows.column(spec.TS.name).cast(pa.int64()).to_numpy()
        return times

    @staticmethod
    def from_rows(ids: list[str], rows: pa.RecordBatch, version: int) -> "ChangeBatch":
        """A batch of rows that are not from a changelog, all with one version."""
        return ChangeBatch(ids, rows, np.ones(len(ids), bool), np.full((len(ids), 3), version))


@dataclass(frozen=True)
class Chunk:
    """Consecutive records of one generation's changelog, decoded, up to before offset `seq`."""

    generation: int
    seq: int
    batches: Sequence[tuple[str, ChangeBatch]]
    read_offsets: Mapping[SourcePartition, ReadOffsets] = field(default_factory=dict)


def decode_chunk(generation: int, seq: int, records: Sequence[RawRecord]) -> Chunk:
    """Decode consecutive changelog records up to before offset `seq`, batched by table."""
    batches: list[tuple[str, ChangeBatch]] = []
    all_ids: dict[str, list[str]] = defaultdict(list)
    for bundled, group in groupby(records, _is_bundle):
        if bundled:
            bundles = [(key.decode().split("/", 2)[1], value) for key, value in group]
            batches += [
                (t, decode_bundle(t, value)) for t, value in bundles if t in spec.DEFAULT.tables
            ]
            continue
        ids: dict[str, list[str]] = defaultdict(list)
        values: dict[str, list[bytes]] = defaultdict(list)
        for key, value in group:
            table, _, row_id = key.decode().partition("/")
            ids[table].append(row_id)
            values[table].append(value)
        for table, row_ids in ids.items():
            all_ids[table] += row_ids
        known = [table for table in ids if table in spec.DEFAULT.tables]
        batches += [(table, decode_records(table, ids[table], values[table])) for table in known]
    return Chunk(generation, seq, batches, read_offsets(all_ids))


def decode_records(table: str, ids: Sequence[str], values: Sequence[bytes]) -> ChangeBatch:
    """Decode records of one data table."""
    columns = (_parse_few if len(values) <= _FEW_RECORDS else _parse_many)(table, values)
    if table == spec.REJECTS:
        cells = columns[0]
        cells["raw"] = pa.array(map(_raw_as_text, cells["raw"].to_pylist()), pa.string())
    return _assemble(table, list(ids), columns)


def decode_bundle(table: str, value: bytes) -> ChangeBatch:
    """Decode a bundle of rows, or of removals."""
    head, _, rest = value.partition(_IDS)
    header = json.loads(head + b"}")
    shared = header.get("row", {})
    # pairs are written once, rows with a version again for each account
    parse = _parse_bundle_rows_cached if "version" in header else _parse_bundle_rows
    ids, own_cells, ts = parse(table, frozenset(shared), rest)
    cells = dict(own_cells)
    for column in _data_columns(table):
        if column.name in shared:
            cells[column.name] = pa.repeat(_scalar(shared[column.name], column), len(ids))
    present = np.full(len(ids), "row" in header)
    versions = np.full((len(ids), 3), header.get("version", _INT64_MIN))
    times = pa.array(np.maximum(ts, header["ts"]))
    return _assemble(table, ids, (cells, times, present, versions), shared)


def _parse_bundle_rows(
    table: str, shared: frozenset[str], text: bytes
) -> tuple[list[str], Mapping[str, pa.Array], np.ndarray]:
    """The row IDs in a bundle, the cells that its rows do not share, and their times."""
    ids_text, _, rows = text.partition(_ROWS)
    ids = json.loads(ids_text if rows else ids_text[: -len("}")])
    own = [column for column in _data_columns(table) if column.name not in shared]
    if not rows:
        nulls = {column.name: pa.nulls(len(ids), _JSON_TYPES[column.type]) for column in own}
        return ids, nulls, np.full(len(ids), _INT64_MIN)
    # rows are compact JSON, which contains no line breaks
    lines = rows[: -len(_END)].replace(_NEXT, b"\n")
    parsed = _read_json_lines(
        lines, pa.schema([("ts", pa.int64()), *((c.name, _JSON_TYPES[c.type]) for c in own)])
    )
    cells = {column.name: parsed.column(column.name).combine_chunks() for column in own}
    return ids, cells, parsed.column("ts").to_numpy()


# An account that updates the same rows again repeats them: saves 3 of 5 ms for 5,000 rows.
_parse_bundle_rows_cached = functools.lru_cache(maxsize=8)(_parse_bundle_rows)

_ParsedColumns = tuple[dict[str, pa.Array], pa.Array, np.ndarray, np.ndarray]


def _assemble(
    table: str, ids: list[str], parsed: _ParsedColumns, shared: Collection[str] = ()
) -> ChangeBatch:
    cells, ts, present, versions = parsed
    cells |= {spec.ID.name: pa.array(ids, pa.string()), spec.TS.name: ts}
    columns = [
        cell if cell.type == field.type else cell.cast(field.type)
        for cell, field in ((cells[field.name], field) for field in SCHEMAS[table])
    ]
    rows = pa.RecordBatch.from_arrays(columns, schema=SCHEMAS[table])
    # here, on the follower's thread: 100,000 rows would block the event loop for 0.1 s
    hashes = row_hash.hash_rows(rows, shared) if len(ids) > _FEW_RECORDS else None
    return ChangeBatch(ids, rows, present, versions, hashes)


def _parse_few(table: str, values: Sequence[bytes]) -> _ParsedColumns:
    """Parse values one by one: Arrow's reader takes half a millisecond to start."""
    records = [json.loads(value) for value in values]
    rows = [record.get("row") for record in records]
    cells = {}
    for column in _data_columns(table):
        column_cells = [None if row is None else row.get(column.name) for row in rows]
        if column.type == "double":
            column_cells = [None if cell is None else float(cell) for cell in column_cells]
        cells[column.name] = pa.array(column_cells, _JSON_TYPES[column.type])
    versions = np.full((len(records), 3), _INT64_MIN)
    for index, record in enumerate(records):
        if record.get("version") is not None:
            versions[index] = record["version"]
    ts = pa.array([record["ts"] for record in records], pa.int64())
    return cells, ts, np.array([row is not None for row in rows]), versions


def _parse_many(table: str, values: Sequence[bytes]) -> _ParsedColumns:
    """Parse values without a Python object per cell."""
    row = pa.struct([(c.name, _JSON_TYPES[c.type]) for c in _data_columns(table)])
    line_schema = pa.schema([("row", row), ("ts", pa.int64()), ("version", pa.list_(pa.int64()))])
    parsed = _read_json_lines(b"\n".join(values), line_schema)
    row, ts = parsed.column("row").combine_chunks(), parsed.column("ts").combine_chunks()
    cells = {field.name: row.field(i) for i, field in enumerate(row.type)}
    present = pc.is_valid(row).to_numpy(zero_copy_only=False)
    return cells, ts, present, _parse_versions(parsed.column("version").combine_chunks())


def _scalar(value: Any, column: spec.Column) -> pa.Scalar:
    # JSON may write a double without a fraction
    return pa.scalar(float(value) if column.type == "double" else value, _JSON_TYPES[column.type])


def _data_columns(table: str) -> list[spec.Column]:
    return [c for c in spec.DEFAULT.tables[table].columns if c not in (spec.ID, spec.TS)]


def _read_json_lines(lines: bytes, line_schema: pa.Schema) -> pa.Table:
    return pa.json.read_json(
        io.BytesIO(lines),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pa.json.ParseOptions(
            explicit_schema=line_schema, unexpected_field_behavior="ignore"
        ),
    )


def _parse_versions(lists: pa.ListArray) -> np.ndarray:
    versions = np.full((len(lists), 3), _INT64_MIN)
    valid = pc.is_valid(lists).to_numpy(zero_copy_only=False)
    if valid.any():
        versions[valid] = lists.flatten().to_numpy().reshape(-1, 3)
    return versions


def _raw_as_text(raw: str | None) -> str | None:
    r"""The raw bytes of a reject as text; bytes that are not UTF-8 appear as \xNN."""
    return None if raw is None else base64.b64decode(raw).decode(errors="backslashreplace")


def _is_bundle(record: RawRecord) -> bool:
    return record[0].startswith(_BUNDLE_PREFIX)
