"""Which part of a table somebody asks for: columns, filter, sort, limit, offset. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from livejoin.core.control_messages import shown
from livejoin.core.suggest import nearest
from livejoin.errors import AskError
from livejoin.tables.http.comparisons import Rows, Test
from livejoin.tables.http.filters import compiled, known_column

PARAMETERS = ("format", "columns", "filter", "sort", "limit", "offset")
MAX_LIST_BYTES = 4 << 10  # of columns and sort
_HIGHEST = 2**63 - 1
_FILTER_ROWS = 1 << 16  # at a time, so that what a comparison makes fits into the cache
_BATCH_ROWS = 10_000
_BATCH_BYTES = 1 << 20


@dataclass(frozen=True)
class Query:
    """What is asked for, checked against the table's columns."""

    columns: tuple[str, ...]
    test: Test | None = None
    order: tuple[tuple[str, str], ...] = ()  # column, "ascending" or "descending"
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class Found:
    """The rows that are the answer, not yet copied, and how many there were before the limit."""

    rows: pa.Table
    at: pa.Array | None  # which rows, in order; None: all
    total: int

    def __len__(self) -> int:
        return self.rows.num_rows if self.at is None else len(self.at)

    def batches(self) -> Iterator[pa.Table]:
        """The rows in order, in pieces of about a mebibyte; none is empty."""
        size = self.rows.nbytes // max(1, self.rows.num_rows)
        step = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, size)))
        for start in range(0, len(self), step):
            if self.at is None:
                yield self.rows.slice(start, step)
            else:
                yield self.rows.take(self.at.slice(start, step))


def parameters(
    given: Iterable[tuple[str, str]], known: Sequence[str] = PARAMETERS
) -> dict[str, str]:
    """The parameters of a request by name: each known, each once."""
    found: dict[str, str] = {}
    for name, value in given:
        if name not in known:
            close = nearest(name[:100], known)
            hint = f"Did you mean {close}?" if close else f"Known are {', '.join(known)}."
            raise AskError(f"unknown parameter {shown(name)}", hint=hint if known else "")
        if name in found:
            raise AskError(f"{name} is given twice", hint="Give it once, with commas inside.")
        found[name] = value
    return found


def read(asked: dict[str, str], schema: pa.Schema) -> Query:
    """Understand parameters, or raise AskError with a reason that helps."""
    filter_text = asked.get("filter")
    return Query(
        _columns(asked.get("columns"), schema),
        None if filter_text is None else compiled(filter_text, schema),
        _order(asked.get("sort"), schema),
        None if "limit" not in asked else count("limit", asked["limit"]),
        count("offset", asked.get("offset", "0")),
    )


def count(name: str, text: str, least: int = 0, most: int = _HIGHEST) -> int:
    """A whole number within bounds."""
    digits = text.strip()
    plain = digits.isascii() and digits.isdecimal() and len(digits) <= 19
    if not plain or not least <= int(digits) <= most:
        bounds = f"from {least} to {most}"
        raise AskError(f"{name}: expected a whole number {bounds}, got {shown(text)}")
    return int(digits)


def run(query: Query, table: pa.Table) -> Found:
    """Find the rows. Nulls sort last either way; rows that sort alike stay in their order."""
    table = table.combine_chunks()
    at = None if query.test is None else _staying(query.test, table)
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
        return Found(shown_rows.slice(start, length), None, total)
    return Found(shown_rows, at.slice(start, length), total)


def _staying(test: Test, table: pa.Table) -> pa.Array:
    parts = [test(Rows(batch)) for batch in table.to_batches(max_chunksize=_FILTER_ROWS)]
    return pc.indices_nonzero(pa.chunked_array(parts, pa.bool_()))


def _names(where: str, text: str) -> list[str]:
    if len(text) > MAX_LIST_BYTES:
        raise AskError(f"{where}: larger than {MAX_LIST_BYTES >> 10} KiB")
    return [name.strip() for name in text.split(",")]


def _once(where: str, names: list[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise AskError(f"{where}: {twice} is named twice")


def _columns(text: str | None, schema: pa.Schema) -> tuple[str, ...]:
    if text is None:
        return tuple(schema.names)
    names = [known_column(name, schema, "columns") for name in _names("columns", text)]
    _once("columns", names)
    return tuple(names)


def _order(text: str | None, schema: pa.Schema) -> tuple[tuple[str, str], ...]:
    if text is None:
        return ()
    order = []
    for given in _names("sort", text):
        down = given.startswith("-")
        # a + of an address is a blank once it is read, and so is gone already
        name = known_column(given[1:].strip() if down else given.lstrip("+"), schema, "sort")
        order.append((name, "descending" if down else "ascending"))
    _once("sort", [name for name, _ in order])
    return tuple(order)
