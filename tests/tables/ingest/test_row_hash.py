"""The row hash, compared with a plain implementation of its definition."""

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.changelog_strategies import INT64, TEXT
from livejoin import row_hash

BASE, ODD = 0x100000001B3, 0x9E3779B97F4A7C15
WRAP = 1 << 64
COLUMNS = [
    ("text", pa.string()),
    ("whole", pa.int64()),
    ("real", pa.float64()),
    ("at", pa.timestamp("ms", "UTC")),
]
SCHEMA = pa.schema(COLUMNS)
ROWS = st.tuples(st.none() | TEXT, st.none() | INT64, st.none() | st.floats(), st.none() | INT64)
Row = tuple[str | None, int | None, float | None, int | None]


def _mix(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WRAP
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WRAP
    return x ^ (x >> 31)


def _bytes(cell: str | float) -> bytes:
    if isinstance(cell, str):
        return cell.encode()
    return struct.pack("<d" if isinstance(cell, float) else "<q", cell)


def _cell(cell: str | float | None) -> int:
    if cell is None:
        return 0
    data = _bytes(cell)
    total = sum(byte * BASE**k for k, byte in enumerate(data))
    return _mix((total + (len(data) + 1) * ODD) % WRAP)


def _row(row: Row) -> int:
    numbered_cells = enumerate(row, start=1)
    return _mix(
        sum(_mix((_cell(cell) + place * ODD) % WRAP) for place, cell in numbered_cells) % WRAP
    )


def _batch(rows: list[Row]) -> pa.RecordBatch:
    columns: list[Any] = list(zip(*rows, strict=True)) or [[], [], [], []]
    arrays = [pa.array(cells, kind) for cells, (_, kind) in zip(columns, COLUMNS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


@given(st.lists(ROWS))
def test_every_row_has_the_hash_of_the_definition(rows: list[Row]) -> None:
    assert row_hash.hash_rows(_batch(rows)).tolist() == [_row(row) for row in rows]


@given(st.lists(ROWS, min_size=1), st.data())
def test_a_slice_is_hashed_like_a_separate_batch(rows: list[Row], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(rows)))
    length = data.draw(st.integers(0, len(rows) - start))
    sliced = _batch(rows).slice(start, length)
    assert row_hash.hash_rows(sliced).tolist() == [_row(row) for row in rows[start:][:length]]


@given(st.lists(ROWS), st.data())
def test_filtered_rows_are_hashed_like_a_separate_batch(
    rows: list[Row], data: st.DataObject
) -> None:
    keep = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    kept = _batch(rows).filter(pa.array(keep, pa.bool_()))
    assert row_hash.hash_rows(kept).tolist() == [
        _row(row) for row, kept in zip(rows, keep, strict=True) if kept
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(("", 0, 0.0, 0), (None, 0, 0.0, 0), id="null is not the empty string"),
        pytest.param(("", 0, 0.0, 0), ("", None, 0.0, 0), id="null is not zero"),
        pytest.param(("a", None, None, None), ("a\0", None, None, None), id="length counts"),
        pytest.param(("", 1, None, None), ("", None, None, 1), id="the column counts"),
        pytest.param(("ab", 0, 0.0, 0), ("ba", 0, 0.0, 0), id="the order of bytes counts"),
        pytest.param(("", 0, 0.0, 0), ("", 0, -0.0, 0), id="the sign of zero counts"),
    ],
)
def test_different_rows_have_different_hashes(one: Row, other: Row) -> None:
    first, second = row_hash.hash_rows(_batch([one, other])).tolist()
    assert first != second


def test_a_long_column_is_hashed_like_a_short_one() -> None:
    rows: list[Row] = [("x" * (n % 7), n, n / 3, n) for n in range(3000)]
    assert row_hash.hash_rows(_batch(rows)).tolist() == [_row(row) for row in rows]
