"""A 64-bit hash per row, and per table as the sum of its rows: independent of their order.

Defined byte by byte, so any program can compute it, and computed here for whole columns at once.

    cell   null: 0. Otherwise mix(P + (length + 1) * ODD), where P is the sum of byte[k] * BASE^k
           over the cell's bytes: UTF-8 of a string, 8 little-endian bytes of an int64, a double
           or a timestamp's milliseconds, a byte 1 or 0 of a boolean, 16 little-endian bytes of a
           decimal's digits as an integer
    row    mix of the sum of mix(cell + (column's index + 1) * ODD) over all columns, including
           `_id` and `_ts`
    table  sum of the row hashes

All arithmetic is modulo 2^64; mix is the finalizer of splitmix64.
"""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BASE = 0x100000001B3  # odd, so its powers have an inverse
ODD = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_DECIMAL_BYTES = 16
_INVERSE = pow(BASE, -1, 1 << 64)


def hash_rows(batch: pa.RecordBatch, constant: Collection[str] = ()) -> np.ndarray:
    """The hash of each row. Of `constant` columns, whose cells are all equal, one is hashed."""
    total = np.zeros(batch.num_rows, np.uint64)
    columns = zip(batch.schema.names, batch.columns, strict=True)
    for number, (name, column) in enumerate(columns, start=1):
        cells = column[:1] if name in constant or column.null_count == len(column) else column
        total += mix(_hash_cells(cells) + np.uint64(number * ODD & _MASK))
    return mix(total)


def sum_hashes(hashes: np.ndarray) -> int:
    """The sum of row hashes. Sums can be added and subtracted."""
    return int(np.sum(hashes, dtype=np.uint64))


def to_hex(total: int) -> str:
    """A sum as 16 hex digits."""
    return f"{total & _MASK:016x}"


def mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finalizer of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _hash_cells(column: pa.Array) -> np.ndarray:
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    data, starts, lengths = _cell_bytes(column)
    powers = _powers(BASE, len(data) + 1)
    sums = np.zeros(len(data) + 1, np.uint64)
    np.cumsum(data * powers[:-1], out=sums[1:])
    ends = starts + lengths
    # sums run over the whole column: scale each cell's part back to its first byte
    products = (sums[ends] - sums[starts]) * _powers(_INVERSE, len(data) + 1)[starts]
    return np.where(
        valid, mix(products + (lengths + 1).astype(np.uint64) * np.uint64(ODD)), np.uint64(0)
    )


def _cell_bytes(column: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All bytes of a column, and the start and length of each cell in them."""
    count = len(column)
    if pa.types.is_string(column.type):
        _, offset_buffer, data = column.buffers()
        offsets = np.frombuffer(offset_buffer, np.int32)
        offsets = offsets[column.offset : column.offset + count + 1].astype(np.int64)
        text = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
        first, last = offsets[0], offsets[-1]
        return text[first:last].astype(np.uint64), offsets[:-1] - first, np.diff(offsets)
    if pa.types.is_boolean(column.type):
        flags = column.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - fill value
        return flags.astype(np.uint64), np.arange(count), np.ones(count, np.int64)
    if pa.types.is_decimal128(column.type):
        buffer = column.buffers()[1]
        stored = np.frombuffer(buffer, np.uint8) if buffer else np.zeros(0, np.uint8)
        used = stored[_DECIMAL_BYTES * column.offset :][: _DECIMAL_BYTES * count]
        starts = np.arange(count) * _DECIMAL_BYTES
        return used.astype(np.uint64), starts, np.full(count, _DECIMAL_BYTES)
    numbers = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    kind = np.float64 if pa.types.is_floating(column.type) else np.int64
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(kind)
    data = values.view(np.uint8).astype(np.uint64)
    return data, np.arange(count) * 8, np.full(count, 8)


_powers_cache: dict[int, np.ndarray] = {}


def _powers(base: int, count: int) -> np.ndarray:
    """The first powers of a base; cached, and grown by doubling."""
    powers = _powers_cache.get(base)
    if powers is None or len(powers) < count:
        size = max(1024, 1 << (count - 1).bit_length())
        powers = np.full(size, np.uint64(base))
        powers[0] = 1
        np.multiply.accumulate(powers, out=powers)
        _powers_cache[base] = powers
    return powers[:count]
