"""Conversion of Arrow tables to pandas and polars, which are imported on first use."""

import importlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from livejoin.errors import MachineError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


def to_pandas(rows: pa.Table) -> "pd.DataFrame":
    """Convert to pandas; int64 columns become Int64, so that nulls do not turn them into floats."""
    pandas = _import("pandas")
    return rows.to_pandas(types_mapper={pa.int64(): pandas.Int64Dtype()}.get)


def to_polars(rows: pa.Table) -> "pl.DataFrame":
    """Convert to polars."""
    frame: pl.DataFrame = _import("polars").from_arrow(rows)
    return frame


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MachineError(
            f"{name} cannot be imported: {error}",
            hint=f"Install it with `pip install {name}`, or use to_arrow().",
        ) from error
