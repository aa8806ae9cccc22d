"""Rows as JSON, CSV, Arrow or lines of JSON: written in pieces, never as one text."""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from livejoin.tables.http.query import Found

Head = Mapping[str, Any]

ISO = "%Y-%m-%dT%H:%M:%SZ"  # with the milliseconds that a column has
# Rows that become Python's objects and text at a time: meanwhile no other thread gets on, and
# 10,000 of them took 16 ms.
_RUN_ROWS = 500
_RUNS = r"\A[=+\-@\t\r]"  # a cell that begins so is a formula to a spreadsheet


@dataclass(frozen=True)
class Format:
    """How rows are written, and what the result is called."""

    media_type: str
    write: Callable[[Found, Head], Iterator[bytes]]


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows for JSON: integers with all their bits, times as text."""
    texts = [
        pc.strftime(column, ISO) if pa.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    found: list[dict[str, Any]] = pa.table(texts, table.column_names).to_pylist()
    return found


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _in_runs(batch: pa.Table) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, batch.num_rows, _RUN_ROWS):
        yield rows(batch.slice(start, _RUN_ROWS))


def _json(found: Found, head: Head) -> Iterator[bytes]:
    yield _dumped({**head, "total": found.total})[:-1].encode() + b',"rows":['
    between = ""
    for batch in found.batches():
        yield (between + ",".join(_dumped(run)[1:-1] for run in _in_runs(batch))).encode()
        between = ","
    yield b"]}"


def _ndjson(found: Found, _head: Head) -> Iterator[bytes]:
    for batch in found.batches():
        yield "".join(f"{_dumped(row)}\n" for run in _in_runs(batch) for row in run).encode()


def _csv(found: Found, _head: Head) -> Iterator[bytes]:
    yield _csv_of(found.rows.schema.empty_table(), header=True)
    for batch in found.batches():
        yield _csv_of(_harmless(batch), header=False)


def _csv_of(table: pa.Table, *, header: bool) -> bytes:
    out = io.BytesIO()
    pa.csv.write_csv(table, out, pa.csv.WriteOptions(include_header=header))
    return out.getvalue()


def _harmless(table: pa.Table) -> pa.Table:
    """Texts that a spreadsheet would run begin with an apostrophe."""
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            cells = table.column(place)
            quoted = pc.binary_join_element_wise("'", cells, "")
            runs = pc.match_substring_regex(cells, pattern=_RUNS)
            table = table.set_column(place, field, pc.if_else(runs, quoted, cells))
    return table


class _Pieces(io.RawIOBase):
    """Keeps what is written until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self._parts.append(bytes(part))
        return len(part)

    def taken(self) -> bytes:
        found, self._parts = b"".join(self._parts), []
        return found


def _arrow(found: Found, _head: Head) -> Iterator[bytes]:
    out = _Pieces()
    with pa.ipc.new_stream(out, found.rows.schema) as writer:
        for batch in found.batches():
            writer.write_table(batch)
            yield out.taken()
    yield out.taken()


FORMATS = {
    "json": Format("application/json", _json),
    "csv": Format("text/csv; charset=utf-8", _csv),
    "arrow": Format("application/vnd.apache.arrow.stream", _arrow),
    "ndjson": Format("application/x-ndjson", _ndjson),
}
