"""Rows as JSON, CSV, Arrow or lines of JSON: written in pieces, never as one text."""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from livejoin.tables.http.query import QueryResult

Metadata = Mapping[str, Any]

ISO = "%Y-%m-%dT%H:%M:%SZ"  # with the milliseconds that a column has
# Rows that become Python's objects and text at a time: meanwhile no other thread gets on, and
# 10,000 of them took 16 ms.
_CHUNK_ROWS = 500
_FORMULA = r"\A[=+\-@\t\r]"  # a cell that begins so is a formula to a spreadsheet


@dataclass(frozen=True)
class Format:
    """How rows are written, and what the result is called."""

    media_type: str
    write: Callable[[QueryResult, Metadata], Iterator[bytes]]


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows for JSON: integers with all their bits, times as text."""
    texts = [
        pc.strftime(column, ISO) if pa.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    found: list[dict[str, Any]] = pa.table(texts, table.column_names).to_pylist()
    return found


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _row_chunks(batch: pa.Table) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, batch.num_rows, _CHUNK_ROWS):
        yield rows(batch.slice(start, _CHUNK_ROWS))


def _write_json(found: QueryResult, head: Metadata) -> Iterator[bytes]:
    yield _dump({**head, "total": found.total})[:-1].encode() + b',"rows":['
    between = ""
    for batch in found.batches():
        yield (between + ",".join(_dump(run)[1:-1] for run in _row_chunks(batch))).encode()
        between = ","
    yield b"]}"


def _write_ndjson(found: QueryResult, _head: Metadata) -> Iterator[bytes]:
    for batch in found.batches():
        yield "".join(f"{_dump(row)}\n" for run in _row_chunks(batch) for row in run).encode()


def _write_csv(found: QueryResult, _head: Metadata) -> Iterator[bytes]:
    yield _encode_csv(found.rows.schema.empty_table(), header=True)
    for batch in found.batches():
        yield _encode_csv(_escape_formulas(batch), header=False)


def _encode_csv(table: pa.Table, *, header: bool) -> bytes:
    out = io.BytesIO()
    pa.csv.write_csv(table, out, pa.csv.WriteOptions(include_header=header))
    return out.getvalue()


def _escape_formulas(table: pa.Table) -> pa.Table:
    """Texts that a spreadsheet would run begin with an apostrophe."""
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            cells = table.column(place)
            quoted = pc.binary_join_element_wise("'", cells, "")
            runs = pc.match_substring_regex(cells, pattern=_FORMULA)
            table = table.set_column(place, field, pc.if_else(runs, quoted, cells))
    return table


class _ChunkBuffer(io.RawIOBase):
    """Keeps what is written until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self._parts.append(bytes(part))
        return len(part)

    def drain(self) -> bytes:
        found, self._parts = b"".join(self._parts), []
        return found


def _write_arrow(found: QueryResult, _head: Metadata) -> Iterator[bytes]:
    out = _ChunkBuffer()
    with pa.ipc.new_stream(out, found.rows.schema) as writer:
        for batch in found.batches():
            writer.write_table(batch)
            yield out.drain()
    yield out.drain()


FORMATS = {
    "json": Format("application/json", _write_json),
    "csv": Format("text/csv; charset=utf-8", _write_csv),
    "arrow": Format("application/vnd.apache.arrow.stream", _write_arrow),
    "ndjson": Format("application/x-ndjson", _write_ndjson),
}
