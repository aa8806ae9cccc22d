"""Decodes changelog records in bulk: one Arrow batch per table, no Python object per cell."""

import base64
import functools
import io
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from livejoin import row_hash
from livejoin.core import changelog, spec
from livejoin.core.spec import JoinSpec, TableSpec
from livejoin.tables.ingest.arrow_schema import json_type, schema
from livejoin.tables.ingest.batches import VERSION_PARTS, ChangeBatch, Chunk
from livejoin.tables.ingest.read_progress import read_offsets

RawRecord = tuple[bytes, bytes]  # key, value

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
_VERSION, _VERSIONS = "version", "versions"
_VERSION_TYPE = pa.list_(pa.int64())


class ChangelogDecoder:
    """Decodes the changelogs of one spec."""

    def __init__(self, join_spec: JoinSpec) -> None:
        self._spec = join_spec
        self.tables = {
            name: TableDecoder(join_spec.tables[name], join_spec) for name in join_spec.data_tables
        }

    def decode_chunk(self, generation: int, seq: int, records: Sequence[RawRecord]) -> Chunk:
        """Decode consecutive changelog records up to before offset `seq`, batched by table."""
        batches: list[tuple[str, ChangeBatch]] = []
        all_ids: dict[str, list[str]] = defaultdict(list)
        for bundled, group in groupby(records, _is_bundle):
            if bundled:
                bundles = [(key.decode().split("/", 2)[1], value) for key, value in group]
                batches += [
                    (name, self.tables[name].decode_bundle(value))
                    for name, value in bundles
                    if name in self.tables
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
            batches += [
                (name, self.tables[name].decode_records(ids[name], values[name]))
                for name in ids
                if name in self.tables
            ]
        return Chunk(generation, seq, batches, read_offsets(all_ids, self._spec.source_of_table))


@functools.lru_cache(maxsize=16)
def decoder(join_spec: JoinSpec) -> ChangelogDecoder:
    """The decoder of a spec."""
    return ChangelogDecoder(join_spec)


_ParsedColumns = tuple[dict[str, pa.Array], pa.Array, np.ndarray, np.ndarray]


class TableDecoder:
    """Decodes the records of one data table."""

    def __init__(self, table: TableSpec, join_spec: JoinSpec) -> None:
        self.schema = schema(table)
        self._is_rejects = table.name == spec.REJECTS
        # cells have the names that they have in the joined table
        source = join_spec.source_of_table.get(table.name, "")
        names = join_spec.joined_names.get(source, {})
        self._cells = {
            column.name: (names.get(column.name, column.name), json_type(column.type))
            for column in table.columns
            if column not in (spec.ID, spec.TS)
        }
        self._line_row = pa.struct(list(self._cells.values()))
        self._lookups = join_spec.versioned_lookups if table.name == spec.FINAL else ()
        self._version_width = VERSION_PARTS * max(1, len(self._lookups))
        self._line_schema = pa.schema(
            [("row", self._line_row), ("ts", pa.int64()), self._version_field()]
        )

    def _version_field(self) -> tuple[str, pa.DataType]:
        if not self._lookups:
            return _VERSION, _VERSION_TYPE
        return _VERSIONS, pa.struct([(name, _VERSION_TYPE) for name in self._lookups])

    def decode_records(self, ids: Sequence[str], values: Sequence[bytes]) -> ChangeBatch:
        """Decode records."""
        parse = self._parse_few if len(values) <= _FEW_RECORDS else self._parse_many
        columns = parse(values)
        if self._is_rejects:
            cells = columns[0]
            cells["raw"] = pa.array(map(_raw_as_text, cells["raw"].to_pylist()), pa.string())
        return self._assemble(list(ids), columns)

    def decode_bundle(self, value: bytes) -> ChangeBatch:
        """Decode a bundle of rows, or of removals."""
        head, _, rest = value.partition(_IDS)
        header = json.loads(head + b"}")
        shared = header.get("row", {})
        # pairs are written once, rows with a version again for each lookup record
        versioned = _VERSION in header or _VERSIONS in header
        parse = _parse_bundle_rows_cached if versioned else _parse_bundle_rows
        ids, own_cells, ts = parse(self, frozenset(shared), rest)
        cells = dict(own_cells)
        constant = []
        for column, (name, kind) in self._cells.items():
            if name in shared:
                constant.append(column)
                cells[column] = pa.repeat(_scalar(shared[name], kind), len(ids))
        present = np.full(len(ids), "row" in header)
        versions = np.tile(self._version_of(header), (len(ids), 1))
        times = pa.array(np.maximum(ts, header["ts"]))
        return self._assemble(ids, (cells, times, present, versions), constant)

    def parse_bundle_rows(
        self, shared: frozenset[str], text: bytes
    ) -> tuple[list[str], Mapping[str, pa.Array], np.ndarray]:
        """The row IDs in a bundle, the cells that its rows do not share, and their times."""
        ids_text, _, rows = text.partition(_ROWS)
        ids = json.loads(ids_text if rows else ids_text[: -len("}")])
        own = {column: cell for column, cell in self._cells.items() if cell[0] not in shared}
        if not rows:
            nulls = {column: pa.nulls(len(ids), kind) for column, (_, kind) in own.items()}
            return ids, nulls, np.full(len(ids), _INT64_MIN)
        # rows are compact JSON, which contains no line breaks
        lines = rows[: -len(_END)].replace(_NEXT, b"\n")
        parsed = _read_json_lines(lines, pa.schema([("ts", pa.int64()), *own.values()]))
        cells = {column: parsed.column(name).combine_chunks() for column, (name, _) in own.items()}
        return ids, cells, parsed.column("ts").to_numpy()

    def _assemble(
        self, ids: list[str], parsed: _ParsedColumns, constant: Collection[str] = ()
    ) -> ChangeBatch:
        cells, ts, present, versions = parsed
        cells |= {spec.ID.name: pa.array(ids, pa.string()), spec.TS.name: ts}
        columns = [
            cell if cell.type == field.type else cell.cast(field.type)
            for cell, field in ((cells[field.name], field) for field in self.schema)
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        # here, on the follower's thread: 100,000 rows would block the event loop for 0.1 s
        hashes = row_hash.hash_rows(rows, constant) if len(ids) > _FEW_RECORDS else None
        return ChangeBatch(ids, rows, present, versions, hashes)

    def _parse_few(self, values: Sequence[bytes]) -> _ParsedColumns:
        """Parse values one by one: Arrow's reader takes half a millisecond to start."""
        records = [json.loads(value) for value in values]
        rows = [record.get("row") for record in records]
        cells = {}
        for column, (name, kind) in self._cells.items():
            column_cells = [None if row is None else row.get(name) for row in rows]
            if kind == pa.float64():
                column_cells = [None if cell is None else float(cell) for cell in column_cells]
            cells[column] = pa.array(column_cells, kind)
        found = np.array([self._version_of(record) for record in records], np.int64)
        versions = found.reshape(len(records), self._version_width)
        ts = pa.array([record["ts"] for record in records], pa.int64())
        return cells, ts, np.array([row is not None for row in rows]), versions

    def _version_of(self, record: Mapping[str, Any]) -> list[int]:
        """The version of a record; of several lookups, one after the other."""
        lowest = [_INT64_MIN] * VERSION_PARTS
        if not self._lookups:
            return record.get(_VERSION) or lowest
        versions = record.get(_VERSIONS) or {}
        return [number for name in self._lookups for number in versions.get(name) or lowest]

    def _parse_many(self, values: Sequence[bytes]) -> _ParsedColumns:
        """Parse values without a Python object per cell."""
        parsed = _read_json_lines(b"\n".join(values), self._line_schema)
        row, ts, version = (column.combine_chunks() for column in parsed.columns)
        cells = {column: row.field(i) for i, column in enumerate(self._cells)}
        present = pc.is_valid(row).to_numpy(zero_copy_only=False)
        lists = (
            [version.field(i) for i in range(len(self._lookups))] if self._lookups else [version]
        )
        return cells, ts, present, np.hstack([_parse_versions(part) for part in lists])


def _parse_bundle_rows(
    table: TableDecoder, shared: frozenset[str], text: bytes
) -> tuple[list[str], Mapping[str, pa.Array], np.ndarray]:
    return table.parse_bundle_rows(shared, text)


# A record that updates the same rows again repeats them: saves 3 of 5 ms for 5,000 rows.
_parse_bundle_rows_cached = functools.lru_cache(maxsize=8)(_parse_bundle_rows)


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    # JSON may write a double without a fraction
    return pa.scalar(float(value) if kind == pa.float64() else value, kind)


def _read_json_lines(lines: bytes, line_schema: pa.Schema) -> pa.Table:
    return pa.json.read_json(
        io.BytesIO(lines),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pa.json.ParseOptions(
            explicit_schema=line_schema, unexpected_field_behavior="ignore"
        ),
    )


def _parse_versions(lists: pa.ListArray) -> np.ndarray:
    versions = np.full((len(lists), VERSION_PARTS), _INT64_MIN)
    valid = pc.is_valid(lists).to_numpy(zero_copy_only=False)
    if valid.any():
        versions[valid] = lists.flatten().to_numpy().reshape(-1, VERSION_PARTS)
    return versions


def _raw_as_text(raw: str | None) -> str | None:
    r"""The raw bytes of a reject as text; bytes that are not UTF-8 appear as \xNN."""
    return None if raw is None else base64.b64decode(raw).decode(errors="backslashreplace")


def _is_bundle(record: RawRecord) -> bool:
    return record[0].startswith(_BUNDLE_PREFIX)
