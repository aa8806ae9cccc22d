"""The commands that read from a running livejoin: tables, rows, topics, messages."""

import itertools
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

import typer

from livejoin.cli.options import Output, Url
from livejoin.cli.text import format_table, print_line, print_stream
from livejoin.client import http

_DEFAULT_ROWS = 20

TableArgument = Annotated[
    str, typer.Argument(help="Name of a table; `livejoin tables` lists them.")
]
Format = Annotated[
    Literal["table", "csv", "json", "ndjson"],
    typer.Option("--format", "--output", help="How to print; ndjson is one JSON object per line."),
]


def tables(url: Url = http.DEFAULT_URL, output: Output = "table") -> None:
    """List the tables: how many rows each has, and its columns.

    The names never change; what they show does, at a swap.
    """
    answer = http.get(url, "api/v1/tables", "tables")
    if output == "json":
        print(json.dumps(answer))
        return
    rows = [
        {**one, "columns": ", ".join(column["name"] for column in one["columns"])}
        for one in answer["tables"]
    ]
    width = max(len(one["name"]) for one in rows)
    for one in rows:  # no column to the right of the last: it need not be cut
        print_line(f"{one['name']:<{width}}  {one['rows']:>9}  {one['columns']}")


def show(  # noqa: PLR0913 - one option per parameter of the interface
    table: TableArgument,
    *,
    columns: Annotated[
        str | None, typer.Option(help="Columns to print, with commas between. All if left out.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--filter", help="""Which rows, like 'age>=30 and name~"ad"'."""),
    ] = None,
    sort: Annotated[
        str | None, typer.Option(help="Columns to sort by; a minus turns one round: -age,name.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many rows at most.")] = _DEFAULT_ROWS,
    offset: Annotated[int, typer.Option(min=0, help="How many rows to leave out first.")] = 0,
    whole: Annotated[bool, typer.Option("--all", help="All rows, whatever the limit.")] = False,
    form: Format = "table",
    url: Url = http.DEFAULT_URL,
) -> None:
    """Print rows of a table as they are now.

    A filter compares columns with values: = != < <= > >=, ~ for text that is contained, is null,
    is not null; with and, or, not and parentheses. Text stands in quotes, times are written like
    2026-01-31T12:00:00Z. As a table, columns that begin with _ are left out unless you name them,
    and long cells are cut.

        livejoin show final_ui --filter 'age>=30 and name~"ad"' --sort -age
        livejoin show final_ui --columns userId,balance --all --format csv > final.csv
    """
    asked: dict[str, Any] = {"columns": columns, "filter": where, "sort": sort, "offset": offset}
    asked |= {} if whole else {"limit": limit}
    asked["format"] = "json" if form == "table" else form
    given = urlencode({name: value for name, value in asked.items() if value is not None})
    path = f"api/v1/tables/{quote(table, safe='')}?{given}"
    if form == "table":
        _print_rows(http.get(url, path, "rows"), columns)
        return
    ending = [b"\n"] if form == "json" else []
    print_stream(itertools.chain(http.stream(url, path), ending))


def _print_rows(answer: Mapping[str, Any], columns: str | None) -> None:
    rows = answer["rows"]
    named = [name.strip() for name in columns.split(",")] if columns else []
    shown = named or [name for name in (rows[0] if rows else {}) if not name.startswith("_")]
    for line in format_table(rows, shown) if shown else []:
        print(line)
    of = f" of generation {answer['generation']}" if answer["generation"] is not None else ""
    print_line(f"{len(rows)} of {answer['total']} rows{of}", aside=True)
