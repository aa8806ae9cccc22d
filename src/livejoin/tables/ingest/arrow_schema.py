"""Arrow types of columns: as viewers receive them, and as they are read from JSON."""

import functools
import re

import pyarrow as pa
import pyarrow.compute as pc

from livejoin.core.spec import TableSpec, Type

_ARROW_TYPES = {
    "string": pa.string(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("ms", "UTC"),
}
# The changelog has decimals as text, so that they are exact, and timestamps as milliseconds: for a
# timestamp Arrow would expect ISO dates.
_JSON_TYPES = {**_ARROW_TYPES, "timestamp": pa.int64()}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def arrow_type(kind: Type) -> pa.DataType:
    """The type of a column as viewers receive it."""
    if match := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(match[1]), int(match[2]))
    return _ARROW_TYPES[kind]


def json_type(kind: Type) -> pa.DataType:
    """The type as which the changelog's cells of a column are read."""
    return pa.string() if _DECIMAL.fullmatch(kind) else _JSON_TYPES[kind]


def as_json(table: pa.Table) -> pa.Table:
    """The cells as the changelog has them: times as milliseconds, decimals as text."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(index, field.name, table.column(index).cast(pa.int64()))
    return decimals_as_text(table)


def decimals_as_text(table: pa.Table) -> pa.Table:
    """Replace decimals by text with all their places."""
    for index, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):
            column = table.column(index)
            text = pc.cast(column, pa.string())
            if pc.any(pc.match_substring(text, "E")).as_py():  # small ones would be like 1E-10
                plain = (None if cell is None else f"{cell:f}" for cell in column.to_pylist())
                text = pa.chunked_array([pa.array(plain, pa.string())])
            table = table.set_column(index, field.name, text)
    return table


@functools.lru_cache(maxsize=256)
def schema(table: TableSpec) -> pa.Schema:
    """The schema of a table as viewers receive it, including `_id` and `_ts`."""
    return pa.schema([(column.name, arrow_type(column.type)) for column in table.columns])
