"""One 64-bit number per row, whose sum is a table's hash: the same for the same rows in any order.

Defined byte by byte, so that any program can compute it, and computed for whole columns at once.

    cell   null: 0. Otherwise mix(P + (length + 1) * ODD), where P is the sum of byte[k] * BASE^k
           over the cell's bytes: UTF-8 of a string, 8 little-endian bytes of an int64, a double
           or a timestamp's milliseconds
    row    mix of the sum of mix(cell + (column's place + 1) * ODD) over the columns, `_id` and
           `_ts` included
    table  sum of the rows' numbers

All arithmetic is modulo 2^64; mix is the finaliser of splitmix64.
"""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BASE = 0x100000001B3  # odd, so that a power of it can be undone
ODD = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_INVERSE = pow(BASE, -1, 1 << 64)


def hash_rows(batch: pa.RecordBatch, same: Collection[str] = ()) -> np.ndarray:
    """A number per row. Columns in which all cells are the `same` need not be gone through."""
    total = np.zeros(batch.num_rows, np.uint64)
    for place, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True), 1):
        cells = column[:1] if name in same or column.null_count == len(column) else column
        total += mix(_hash_cells(cells) + np.uint64(place * ODD & _MASK))
    return mix(total)


def sum_hashes(hashes: np.ndarray) -> int:
    """The sum of rows' numbers; sums may be added and taken away as they are."""
    return int(np.sum(hashes, dtype=np.uint64))


def to_hex(total: int) -> str:
    """A sum as everybody writes it."""
    return f"{total & _MASK:016x}"


def mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread a number's bits over all of it."""
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
    # sums are over the whole column: bring each cell's part back to its own first byte
    own = (sums[ends] - sums[starts]) * _powers(_INVERSE, len(data) + 1)[starts]
    return np.where(
        valid, mix(own + (lengths + 1).astype(np.uint64) * np.uint64(ODD)), np.uint64(0)
    )


def _cell_bytes(column: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All bytes of a column, and each cell's start and length in them."""
    count = len(column)
    if pa.types.is_string(column.type):
        _, offsets, data = column.buffers()
        at = np.frombuffer(offsets, np.int32)[column.offset : column.offset + count + 1].astype(
            np.int64
        )
        whole = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
        return whole[at[0] : at[-1]].astype(np.uint64), at[:-1] - at[0], np.diff(at)
    numbers = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    kind = np.float64 if pa.types.is_floating(column.type) else np.int64
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(kind)
    data = values.view(np.uint8).astype(np.uint64)
    return data, np.arange(count) * 8, np.full(count, 8)


_powers_cache: dict[int, np.ndarray] = {}


def _powers(base: int, count: int) -> np.ndarray:
    """The first powers of a base; kept, and grown by doubling."""
    have = _powers_cache.get(base)
    if have is None or len(have) < count:
        size = max(1024, 1 << (count - 1).bit_length())
        have = np.full(size, np.uint64(base))
        have[0] = 1
        np.multiply.accumulate(have, out=have)
        _powers_cache[base] = have
    return have[:count]
