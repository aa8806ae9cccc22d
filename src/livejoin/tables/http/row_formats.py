"""Encodes rows as JSON, CSV, Arrow or NDJSON, streamed in chunks."""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from livejoin.tables.http.query import QueryResult
from livejoin.tables.ingest.arrow_schema import decimals_as_text

Metadata = Mapping[str, Any]

ISO = "%Y-%m-%dT%H:%M:%SZ"  # %S includes the milliseconds of the column
# Rows converted to Python objects and text at a time: the GIL is held meanwhile, and 10,000 rows
# took 16 ms.
_CHUNK_ROWS = 500
_FORMULA = r"\A[=+\-@\t\r]"  # spreadsheets evaluate cells that start like this


@dataclass(frozen=True)
class Format:
    """A row format: its content type and its encoder."""

    media_type: str
    write: Callable[[QueryResult, Metadata], Iterator[bytes]]


def to_json_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows for JSON, with timestamps as ISO text and decimals as text."""
    columns = [
        pc.strftime(column, ISO) if pa.types.is_timestamp(column.type) else column
        for column in decimals_as_text(table).columns
    ]
    result: list[dict[str, Any]] = pa.table(columns, table.column_names).to_pylist()
    return result


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _row_chunks(batch: pa.Table) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, batch.num_rows, _CHUNK_ROWS):
        yield to_json_rows(batch.slice(start, _CHUNK_ROWS))


def _write_json(result: QueryResult, metadata: Metadata) -> Iterator[bytes]:
    yield _dump({**metadata, "total": result.total})[:-1].encode() + b',"rows":['
    separator = ""
    for batch in result.batches():
        yield (separator + ",".join(_dump(chunk)[1:-1] for chunk in _row_chunks(batch))).encode()
        separator = ","
    yield b"]}"


def _write_ndjson(result: QueryResult, _metadata: Metadata) -> Iterator[bytes]:
    for batch in result.batches():
        yield "".join(f"{_dump(row)}\n" for chunk in _row_chunks(batch) for row in chunk).encode()


def _write_csv(result: QueryResult, _metadata: Metadata) -> Iterator[bytes]:
    yield _encode_csv(result.rows.schema.empty_table(), header=True)
    for batch in result.batches():
        # a negative decimal starts like a formula, and is none
        yield _encode_csv(decimals_as_text(_escape_formulas(batch)), header=False)


def _encode_csv(table: pa.Table, *, header: bool) -> bytes:
    out = io.BytesIO()
    pa.csv.write_csv(table, out, pa.csv.WriteOptions(include_header=header))
    return out.getvalue()


def _escape_formulas(table: pa.Table) -> pa.Table:
    """Prefix texts that a spreadsheet would evaluate with an apostrophe."""
    for index, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            cells = table.column(index)
            quoted = pc.binary_join_element_wise("'", cells, "")
            is_formula = pc.match_substring_regex(cells, pattern=_FORMULA)
            table = table.set_column(index, field, pc.if_else(is_formula, quoted, cells))
    return table


class _ChunkBuffer(io.RawIOBase):
    """A file that buffers what is written until it is drained."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self._parts.append(bytes(part))
        return len(part)

    def drain(self) -> bytes:
        result, self._parts = b"".join(self._parts), []
        return result


def _write_arrow(result: QueryResult, _metadata: Metadata) -> Iterator[bytes]:
    out = _ChunkBuffer()
    with pa.ipc.new_stream(out, result.rows.schema) as writer:
        for batch in result.batches():
            writer.write_table(batch)
            yield out.drain()
    yield out.drain()


FORMATS = {
    "json": Format("application/json", _write_json),
    "csv": Format("text/csv; charset=utf-8", _write_csv),
    "arrow": Format("application/vnd.apache.arrow.stream", _write_arrow),
    "ndjson": Format("application/x-ndjson", _write_ndjson),
}
