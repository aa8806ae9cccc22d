"""The row hash, compared with a plain implementation of its definition."""

import struct
from decimal import Decimal
from fractions import Fraction
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
    ("flag", pa.bool_()),
    ("money", pa.decimal128(38, 2)),
]
SCHEMA = pa.schema(COLUMNS)
CENTS = st.integers(1 - 10**38, 10**38 - 1)
ROWS = st.tuples(
    st.none() | TEXT,
    st.none() | INT64,
    st.none() | st.floats(),
    st.none() | INT64,
    st.none() | st.booleans(),
    st.none() | CENTS.map(lambda cents: Decimal(f"{cents}e-2")),
)
Row = tuple[str | None, int | None, float | None, int | None, bool | None, Decimal | None]
Cell = str | float | bool | Decimal


def _mix(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WRAP
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WRAP
    return x ^ (x >> 31)


def _bytes(cell: Cell) -> bytes:
    if isinstance(cell, str):
        return cell.encode()
    if isinstance(cell, bool):
        return bytes([cell])
    if isinstance(cell, Decimal):
        return int(Fraction(cell) * 100).to_bytes(16, "little", signed=True)
    return struct.pack("<d" if isinstance(cell, float) else "<q", cell)


def _cell(cell: Cell | None) -> int:
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
    columns: list[Any] = list(zip(*rows, strict=True)) or [[]] * len(COLUMNS)
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
        pytest.param(
            ("", 0, 0.0, 0, True, None),
            (None, 0, 0.0, 0, True, None),
            id="null is not the empty string",
        ),
        pytest.param(
            ("", 0, 0.0, 0, True, None), ("", None, 0.0, 0, True, None), id="null is not zero"
        ),
        pytest.param(
            ("a", None, None, None, True, None),
            ("a\0", None, None, None, True, None),
            id="length counts",
        ),
        pytest.param(
            ("", 1, None, None, True, None), ("", None, None, 1, True, None), id="the column counts"
        ),
        pytest.param(
            ("ab", 0, 0.0, 0, True, None),
            ("ba", 0, 0.0, 0, True, None),
            id="the order of bytes counts",
        ),
        pytest.param(
            ("", 0, 0.0, 0, True, None), ("", 0, -0.0, 0, True, None), id="the sign of zero counts"
        ),
        pytest.param(
            ("", 0, 0.0, 0, False, None), ("", 0, 0.0, 0, None, None), id="null is not false"
        ),
        pytest.param(
            ("", 0, 0.0, 0, None, Decimal(1)),
            ("", 0, 0.0, 0, None, Decimal("1.01")),
            id="cents count",
        ),
    ],
)
def test_different_rows_have_different_hashes(one: Row, other: Row) -> None:
    first, second = row_hash.hash_rows(_batch([one, other])).tolist()
    assert first != second


def test_a_long_column_is_hashed_like_a_short_one() -> None:
    rows: list[Row] = [("x" * (n % 7), n, n / 3, n, n % 2 > 0, Decimal(n)) for n in range(3000)]
    assert row_hash.hash_rows(_batch(rows)).tolist() == [_row(row) for row in rows]
