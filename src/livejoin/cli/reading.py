"""The commands tables and show: the run_server tables and their rows."""

import itertools
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

import typer

from livejoin.cli.endpoint import endpoint
from livejoin.cli.options import Output, Url
from livejoin.cli.output import format_table, print_line, print_stream
from livejoin.client.endpoint import DEFAULT_URL

_DEFAULT_ROWS = 20

TableArgument = Annotated[
    str, typer.Argument(help="Name of a table; `livejoin tables` lists them.")
]
Format = Annotated[
    Literal["table", "csv", "json", "ndjson"],
    typer.Option("--format", "--output", help="Output format; ndjson is one JSON object per line."),
]


def tables(url: Url = DEFAULT_URL, output: Output = "table") -> None:
    """List the tables with their row counts and columns.

    Table names never change; a swap changes what they show.
    """
    answer = endpoint(url).call("api/v1/tables", expected_key="tables")
    if output == "json":
        print(json.dumps(answer))
        return
    rows = [
        {**table, "columns": ", ".join(column["name"] for column in table["columns"])}
        for table in answer["tables"]
    ]
    width = max(len(row["name"]) for row in rows)
    for row in rows:  # the last column needs no truncation
        print_line(f"{row['name']:<{width}}  {row['rows']:>9}  {row['columns']}")


def show(  # noqa: PLR0913 - one option per query parameter
    table: TableArgument,
    *,
    columns: Annotated[
        str | None, typer.Option(help="Columns to print, separated by commas; all by default.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--filter", help="""Filter expression, such as 'age>=30 and name~"ad"'."""),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(help="Columns to sort by; a leading minus sorts descending: -age,name."),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number of rows.")] = _DEFAULT_ROWS,
    offset: Annotated[int, typer.Option(min=0, help="Number of rows to skip.")] = 0,
    whole: Annotated[bool, typer.Option("--all", help="All rows, ignoring --limit.")] = False,
    form: Format = "table",
    url: Url = DEFAULT_URL,
) -> None:
    """Print the current rows of a table.

    A filter compares columns with values: = != < <= > >=, ~ (contains), is null, is not null;
    combined with and, or, not and parentheses. Quote text, and write times as
    2026-01-31T12:00:00Z. The table format omits columns that start with _ unless you name them,
    and truncates long cells.

        livejoin show final_ui --filter 'age>=30 and name~"ad"' --sort -age
        livejoin show final_ui --columns userId,balance --all --format csv > final.csv
    """
    parameters = {
        "columns": columns,
        "filter": where,
        "sort": sort,
        "offset": offset,
        "limit": None if whole else limit,
        "format": "json" if form == "table" else form,
    }
    query = urlencode({name: value for name, value in parameters.items() if value is not None})
    path = f"api/v1/tables/{quote(table, safe='')}?{query}"
    if form == "table":
        _print_rows(endpoint(url).call(path, expected_key="rows"), columns)
        return
    ending = [b"\n"] if form == "json" else []
    print_stream(itertools.chain(endpoint(url).stream(path), ending))


def _print_rows(answer: Mapping[str, Any], columns: str | None) -> None:
    rows = answer["rows"]
    chosen = [name.strip() for name in columns.split(",")] if columns else []
    names = chosen or [name for name in (rows[0] if rows else {}) if not name.startswith("_")]
    for line in format_table(rows, names) if names else []:
        print(line)
    suffix = f" of generation {answer['generation']}" if answer["generation"] is not None else ""
    print_line(f"{len(rows)} of {answer['total']} rows{suffix}", to_stderr=True)
