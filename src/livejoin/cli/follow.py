"""`livejoin show --follow`: rows, then changes, through swaps and lost connections."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from livejoin.cli import colours
from livejoin.cli.output import TableLayout, print_line, print_stream, terminal_width
from livejoin.client import AsyncConnection, Change
from livejoin.client.endpoint import Endpoint
from livejoin.tables.http import query
from livejoin.tables.http.row_formats import to_json_rows

_CHECK_S = 0.5  # how often to look whether the connection still stands
_MARKS = {"upsert": "~", "insert": "+", "remove": "-"}
_MARK_STYLES = {"+": "32", "-": "31"}  # green and red


@dataclass(frozen=True)
class Selection:
    """What to show of a table, as the options say it."""

    columns: str | None = None
    where: str | None = None
    sort: str | None = None
    limit: int | None = None

    def parse(self, schema: pa.Schema) -> query.Query:
        """Return the query; raises RequestError if it is wrong."""
        parameters = {"columns": self.columns, "filter": self.where, "sort": self.sort}
        given = {name: text for name, text in parameters.items() if text is not None}
        return replace(query.parse(given, schema), limit=self.limit)


class Printer(Protocol):
    """How changes are printed."""

    def whole(
        self, change: Change, columns: Sequence[str], rows: Sequence[Mapping[str, Any]], total: int
    ) -> None:
        """Print that all rows are known, or replaced, and the first of them."""

    def row(self, kind: str, generation: int | None, row: Mapping[str, Any]) -> None:
        """Print an insert, upsert or remove."""

    def stale(self, reason: str | None) -> None:
        """Print why the rows may be stale, or that they are fresh again."""


def run(address: Endpoint, table: str, selection: Selection, *, as_table: bool, wide: bool) -> None:
    """Print a table and its changes until Ctrl-C, as a table or as JSON."""
    all_columns = selection.columns is not None
    printer = TablePrinter(all_columns=all_columns, wide=wide) if as_table else JsonPrinter()
    with _quiet_client():
        asyncio.run(_follow(address, table, _View(selection, printer), printer))


async def _follow(address: Endpoint, name: str, view: "_View", printer: Printer) -> None:
    async with AsyncConnection(address) as connection:
        table = await connection.table(name)
        await table.to_arrow()  # raises if there are no rows after a while, and says why
        stale = None
        async with contextlib.aclosing(_with_pauses(table.changes())) as changes:
            async for change in changes:
                if (connection.stale is None) != (stale is None):
                    stale = connection.stale
                    printer.stale(stale)
                if change is not None:
                    view.apply(change)


async def _with_pauses(changes: AsyncIterator[Change]) -> AsyncGenerator[Change | None, None]:
    """Yield the changes, and None where there is none for a moment."""
    following = asyncio.ensure_future(anext(changes))
    try:
        while True:
            await asyncio.wait({following}, timeout=_CHECK_S)
            if not following.done():
                yield None
                continue
            change = following.result()
            following = asyncio.ensure_future(anext(changes))
            yield change
    finally:
        following.cancel()
        await asyncio.wait({following})


@contextlib.contextmanager
def _quiet_client() -> Iterator[None]:
    """Silence the client's log: what it warns of is printed here, once per outage."""
    log = logging.getLogger("livejoin.client")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


class _View:
    """The rows that match the filter, and what a change means for them."""

    def __init__(self, selection: Selection, printer: Printer) -> None:
        self._selection = selection
        self._printer = printer
        self._query: query.Query | None = None
        self._held: dict[str, tuple[pa.Table, int]] = {}  # by _id: where the row is

    def apply(self, change: Change) -> None:
        if change.kind in ("snapshot", "cutover"):
            self._replace(change)
        elif change.kind == "upsert":
            self._upsert(change)
        else:
            for row_id in change.rows.column("_id").to_pylist():
                self._remove(row_id, change.generation)

    def _replace(self, change: Change) -> None:
        rows, asked = change.rows, self._selection.parse(change.rows.schema)
        self._query = replace(asked, limit=None, order=())
        matching = self._matching(rows)
        ids = rows.column("_id").to_pylist()
        self._held = {ids[at]: (rows, at) for at in matching}
        if asked.order:
            first = _indices(query.run(asked, rows))
        else:  # the newest: changes go on from there
            skipped = 0 if asked.limit is None else max(0, len(matching) - asked.limit)
            first = matching[skipped:]
        shown = to_json_rows(rows.take(pa.array(first, pa.int64())))
        self._printer.whole(change, asked.columns, shown, len(matching))

    def _upsert(self, change: Change) -> None:
        matching = set(self._matching(change.rows))
        for at, row in enumerate(to_json_rows(change.rows)):
            row_id = row["_id"]
            if at in matching:
                kind = "upsert" if row_id in self._held else "insert"
                self._held[row_id] = change.rows, at
                self._printer.row(kind, change.generation, row)
            else:
                self._remove(row_id, change.generation)

    def _remove(self, row_id: str, generation: int | None) -> None:
        """Print the last cells of a row that is gone or matches no longer."""
        if row_id in self._held:
            rows, at = self._held.pop(row_id)
            (row,) = to_json_rows(rows.slice(at, 1))
            self._printer.row("remove", generation, row)

    def _matching(self, rows: pa.Table) -> list[int]:
        assert self._query is not None
        return _indices(query.run(self._query, rows))


def _indices(result: query.QueryResult) -> list[int]:
    if result.indices is None:
        return list(range(len(result)))
    indices: list[int] = result.indices.to_pylist()
    return indices


class TablePrinter:
    """Prints aligned rows, each change with a mark: + new, ~ changed, - gone."""

    def __init__(self, *, all_columns: bool, wide: bool) -> None:
        self._all_columns = all_columns
        self._wide = wide
        self._layout: TableLayout | None = None

    def whole(
        self, change: Change, columns: Sequence[str], rows: Sequence[Mapping[str, Any]], total: int
    ) -> None:
        """Print the header and rows; after the first time, why."""
        count = f"{len(rows)} of {total} rows"
        if self._layout is not None:
            switched = change.kind == "cutover"
            what = f"generation {change.generation} is live" if switched else "reloaded"
            print_line(f"= {what}: {count}")
        else:
            suffix = f" of generation {change.generation}" if change.generation is not None else ""
            print_line(f"{count}{suffix}, then every change; Ctrl-C ends it", to_stderr=True)
        visible = [name for name in columns if self._all_columns or not name.startswith("_")]
        width = None if self._wide else terminal_width()
        self._layout = TableLayout(visible, None if width is None else width - 2)
        blocks = self._layout.rows(rows)
        for block in ([*self._layout.header()], *blocks):
            _print_block(" ", block)

    def row(self, kind: str, _generation: int | None, row: Mapping[str, Any]) -> None:
        """Print a row with its mark."""
        assert self._layout is not None
        for block in self._layout.rows([row]):
            _print_block(_MARKS[kind], block)

    def stale(self, reason: str | None) -> None:
        """Print it on standard error."""
        text = "the rows are fresh again" if reason is None else f"stale: {reason}"
        print_line(text, to_stderr=True)


def _print_block(mark: str, lines: Sequence[str]) -> None:
    """Print the lines of a row, which are escaped already; the mark stands before the first."""
    for at, line in enumerate(lines):
        start = colours.paint(mark, _MARK_STYLES.get(mark, "")) if at == 0 else " "
        print(f"{start} {line}".rstrip(), flush=True)


class JsonPrinter:
    """Prints a JSON object per line: `kind`, `generation`, and `row` or `total`."""

    def __init__(self) -> None:
        self._columns: Sequence[str] = ()

    def whole(
        self, change: Change, columns: Sequence[str], rows: Sequence[Mapping[str, Any]], total: int
    ) -> None:
        """Print how many rows there are, then rows of the kind `row`."""
        self._columns = columns
        self._print(kind=change.kind, generation=change.generation, total=total)
        for row in rows:
            self.row("row", change.generation, row)

    def row(self, kind: str, generation: int | None, row: Mapping[str, Any]) -> None:
        """Print a row with the chosen columns."""
        cells = {name: row[name] for name in self._columns}
        self._print(kind=kind, generation=generation, row=cells)

    def stale(self, reason: str | None) -> None:
        """Print it as an object of its own."""
        if reason is None:
            self._print(kind="fresh")
        else:
            self._print(kind="stale", reason=reason)

    def _print(self, **fields: Any) -> None:
        print_stream([f"{json.dumps(fields)}\n".encode()])
