"""Which part of a table somebody asks for: columns, filter, sort, limit, offset. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from livejoin.core.control_messages import excerpt
from livejoin.core.suggest import nearest
from livejoin.errors import AskError
from livejoin.tables.http.comparisons import FilterBatch, Predicate
from livejoin.tables.http.filters import check_column, compile_filter

PARAMETERS = ("format", "columns", "filter", "sort", "limit", "offset")
MAX_LIST_BYTES = 4 << 10  # of columns and sort
_MAX_INT64 = 2**63 - 1
_FILTER_ROWS = 1 << 16  # at a time, so that what a comparison makes fits into the cache
_BATCH_ROWS = 10_000
_BATCH_BYTES = 1 << 20


@dataclass(frozen=True)
class Query:
    """What is asked for, checked against the table's columns."""

    columns: tuple[str, ...]
    predicate: Predicate | None = None
    order: tuple[tuple[str, str], ...] = ()  # column, "ascending" or "descending"
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class QueryResult:
    """The rows that are the answer, not yet copied, and how many there were before the limit."""

    rows: pa.Table
    indices: pa.Array | None  # which rows, in order; None: all
    total: int

    def __len__(self) -> int:
        return self.rows.num_rows if self.indices is None else len(self.indices)

    def batches(self) -> Iterator[pa.Table]:
        """The rows in order, in pieces of about a mebibyte; none is empty."""
        size = self.rows.nbytes // max(1, self.rows.num_rows)
        step = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, size)))
        for start in range(0, len(self), step):
            if self.indices is None:
                yield self.rows.slice(start, step)
            else:
                yield self.rows.take(self.indices.slice(start, step))


def parse_parameters(
    given: Iterable[tuple[str, str]], known: Sequence[str] = PARAMETERS
) -> dict[str, str]:
    """The parameters of a request by name: each known, each once."""
    found: dict[str, str] = {}
    for name, value in given:
        if name not in known:
            close = nearest(name[:100], known)
            hint = f"Did you mean {close}?" if close else f"Known are {', '.join(known)}."
            raise AskError(f"unknown parameter {excerpt(name)}", hint=hint if known else "")
        if name in found:
            raise AskError(f"{name} is given twice", hint="Give it once, with commas inside.")
        found[name] = value
    return found


def parse(asked: dict[str, str], schema: pa.Schema) -> Query:
    """Understand parameters, or raise AskError with a reason that helps."""
    filter_text = asked.get("filter")
    return Query(
        _parse_columns(asked.get("columns"), schema),
        None if filter_text is None else compile_filter(filter_text, schema),
        _parse_sort(asked.get("sort"), schema),
        None if "limit" not in asked else parse_count("limit", asked["limit"]),
        parse_count("offset", asked.get("offset", "0")),
    )


def parse_count(name: str, text: str, least: int = 0, most: int = _MAX_INT64) -> int:
    """A whole number within bounds."""
    digits = text.strip()
    plain = digits.isascii() and digits.isdecimal() and len(digits) <= 19
    if not plain or not least <= int(digits) <= most:
        bounds = f"from {least} to {most}"
        raise AskError(f"{name}: expected a whole number {bounds}, got {excerpt(text)}")
    return int(digits)


def run(query: Query, table: pa.Table) -> QueryResult:
    """Find the rows. Nulls sort last either way; rows that sort alike stay in their order."""
    table = table.combine_chunks()
    at = None if query.predicate is None else _matching_rows(query.predicate, table)
    total = table.num_rows if at is None else len(at)
    if query.order:
        keys = table.select([name for name, _ in query.order])
        keys = keys if at is None else keys.take(at)
        order = pc.sort_indices(keys, [(*key, "at_end") for key in query.order])
        at = order if at is None else at.take(order)
    limit = total if query.limit is None else query.limit
    shown_rows = table.select(list(query.columns))
    # a slice takes no more than 64 bits, nor an end past them
    start = min(query.offset, total)
    length = min(limit, total - start)
    if at is None:
        return QueryResult(shown_rows.slice(start, length), None, total)
    return QueryResult(shown_rows, at.slice(start, length), total)


def _matching_rows(test: Predicate, table: pa.Table) -> pa.Array:
    parts = [test(FilterBatch(batch)) for batch in table.to_batches(max_chunksize=_FILTER_ROWS)]
    return pc.indices_nonzero(pa.chunked_array(parts, pa.bool_()))


def _split_names(where: str, text: str) -> list[str]:
    if len(text) > MAX_LIST_BYTES:
        raise AskError(f"{where}: larger than {MAX_LIST_BYTES >> 10} KiB")
    return [name.strip() for name in text.split(",")]


def _check_unique(where: str, names: list[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise AskError(f"{where}: {twice} is named twice")


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
    for given in _split_names("sort", text):
        down = given.startswith("-")
        # a + of an address is a blank once it is read, and so is gone already
        name = check_column(given[1:].strip() if down else given.lstrip("+"), schema, "sort")
        order.append((name, "descending" if down else "ascending"))
    _check_unique("sort", [name for name, _ in order])
    return tuple(order)
