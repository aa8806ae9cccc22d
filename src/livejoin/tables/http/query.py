"""Table queries: parses and runs columns, filter, sort, limit and offset. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from livejoin.core.control_messages import excerpt
from livejoin.core.names import nearest
from livejoin.errors import RequestError
from livejoin.tables.http.comparisons import FilterBatch, Predicate
from livejoin.tables.http.filters import check_column, compile_filter

PARAMETERS = ("format", "columns", "filter", "sort", "limit", "offset")
MAX_LIST_BYTES = 4 << 10  # of columns and sort
_MAX_INT64 = 2**63 - 1
_FILTER_ROWS = 1 << 16  # per batch, so that intermediate results fit into the CPU cache
_BATCH_ROWS = 10_000
_BATCH_BYTES = 1 << 20


@dataclass(frozen=True)
class Query:
    """A query, checked against the table's columns."""

    columns: tuple[str, ...]
    predicate: Predicate | None = None
    order: tuple[tuple[str, str], ...] = ()  # column, "ascending" or "descending"
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class QueryResult:
    """The matching rows, not copied yet, and their number before limit and offset."""

    rows: pa.Table
    indices: pa.Array | None  # of the matching rows, in order; None: all rows
    total: int

    def __len__(self) -> int:
        return self.rows.num_rows if self.indices is None else len(self.indices)

    def batches(self) -> Iterator[pa.Table]:
        """Yield the rows in order, in non-empty batches of about 1 MiB."""
        size = self.rows.nbytes // max(1, self.rows.num_rows)
        step = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, size)))
        for start in range(0, len(self), step):
            if self.indices is None:
                yield self.rows.slice(start, step)
            else:
                yield self.rows.take(self.indices.slice(start, step))


def parse_parameters(
    pairs: Iterable[tuple[str, str]], known: Sequence[str] = PARAMETERS
) -> dict[str, str]:
    """Return the query parameters by name; raises if one is unknown or repeated."""
    parameters: dict[str, str] = {}
    for name, value in pairs:
        if name not in known:
            suggestion = nearest(name[:100], known)
            hint = (
                f"Did you mean {suggestion}?"
                if suggestion
                else f"Known parameters: {', '.join(known)}."
            )
            raise RequestError(f"unknown parameter {excerpt(name)}", hint=hint if known else "")
        if name in parameters:
            raise RequestError(
                f"{name} is given twice", hint="Give it once, with commas between values."
            )
        parameters[name] = value
    return parameters


def parse(parameters: dict[str, str], schema: pa.Schema) -> Query:
    """Parse the parameters of a query; raises RequestError with the reason."""
    filter_text = parameters.get("filter")
    return Query(
        _parse_columns(parameters.get("columns"), schema),
        None if filter_text is None else compile_filter(filter_text, schema),
        _parse_sort(parameters.get("sort"), schema),
        None if "limit" not in parameters else parse_count("limit", parameters["limit"]),
        parse_count("offset", parameters.get("offset", "0")),
    )


def parse_count(name: str, text: str, minimum: int = 0, maximum: int = _MAX_INT64) -> int:
    """Parse a whole number within bounds."""
    digits = text.strip()
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= 19
    if not is_number or not minimum <= int(digits) <= maximum:
        bounds = f"from {minimum} to {maximum}"
        raise RequestError(f"{name}: expected a whole number {bounds}, got {excerpt(text)}")
    return int(digits)


def run(query: Query, table: pa.Table) -> QueryResult:
    """Run a query. Nulls sort last in both directions; the sort is stable."""
    table = table.combine_chunks()
    indices = None if query.predicate is None else _matching_rows(query.predicate, table)
    total = table.num_rows if indices is None else len(indices)
    if query.order:
        keys = table.select([name for name, _ in query.order])
        keys = keys if indices is None else keys.take(indices)
        order = pc.sort_indices(keys, [(*key, "at_end") for key in query.order])
        indices = order if indices is None else indices.take(order)
    limit = total if query.limit is None else query.limit
    selected = table.select(list(query.columns))
    # clamped: slice() overflows beyond 64 bits
    start = min(query.offset, total)
    length = min(limit, total - start)
    if indices is None:
        return QueryResult(selected.slice(start, length), None, total)
    return QueryResult(selected, indices.slice(start, length), total)


def _matching_rows(predicate: Predicate, table: pa.Table) -> pa.Array:
    parts = [
        predicate(FilterBatch(batch)) for batch in table.to_batches(max_chunksize=_FILTER_ROWS)
    ]
    return pc.indices_nonzero(pa.chunked_array(parts, pa.bool_()))


def _split_names(parameter: str, text: str) -> list[str]:
    if len(text) > MAX_LIST_BYTES:
        raise RequestError(f"{parameter}: larger than {MAX_LIST_BYTES >> 10} KiB")
    return [name.strip() for name in text.split(",")]


def _check_unique(parameter: str, names: list[str]) -> None:
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise RequestError(f"{parameter}: {duplicate} is listed twice")


def _parse_columns(text: str | None, schema: pa.Schema) -> tuple[str, ...]:
    if text is None:
        return tuple(schema.names)
    names = [check_column(name, schema, "columns") for name in _split_names("columns", text)]
    _check_unique("columns", names)
    return tuple(names)


def _parse_sort(text: str | None, schema: pa.Schema) -> tuple[tuple[str, str], ...]:
    if text is None:
        return ()
    order = []
    for item in _split_names("sort", text):
        descending = item.startswith("-")
        # an unencoded + in a URL was decoded to a blank, which is stripped already
        name = check_column(item[1:].strip() if descending else item.lstrip("+"), schema, "sort")
        order.append((name, "descending" if descending else "ascending"))
    _check_unique("sort", [name for name, _ in order])
    return tuple(order)
