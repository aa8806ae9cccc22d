"""The commands that read from a running livejoin: tables, rows, topics, messages."""

import itertools
import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

import typer

from livejoin.cli.options import Output, Url
from livejoin.cli.text import format_cell, format_table, print_line, print_stream
from livejoin.client import http
from livejoin.core import control_schema as schemas

_DEFAULT_ROWS = 20
_LONG_CELL_CHARS = 1000

TableArgument = Annotated[
    str, typer.Argument(help="Name of a table; `livejoin tables` lists them.")
]
TopicArgument = Annotated[
    str, typer.Argument(help="Name of a topic; `livejoin topics` lists them.")
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


def topics(url: Url = http.DEFAULT_URL, output: Output = "table") -> None:
    """List the Kafka topics that livejoin may read.

    Each with its partitions, its records and the newest record's time. Kind says what a topic is to
    livejoin: data that can be joined, the control topic, or one of livejoin's own. Kafka's internal
    topics, and those that the settings do not allow, are left out. The records are counted by
    offsets, so that a compacted topic holds fewer.
    """
    answer = http.get(url, "api/v1/topics", "topics")
    if output == "json":
        print(json.dumps(answer))
        return
    rows = answer["topics"]
    names = ["name", "kind", "partitions", "records", "newest"]
    trouble = ["trouble"] if any(row["trouble"] for row in rows) else []
    for line in format_table(rows, names + trouble):
        print(line)
    if answer["total"] > len(rows):
        print_line(f"{len(rows)} of {answer['total']} topics", aside=True)


def peek(
    topic: TopicArgument,
    count: Annotated[int, typer.Option(min=1, max=100, help="How many messages at most.")] = 10,
    url: Url = http.DEFAULT_URL,
    output: Output = "table",
) -> None:
    """Print the newest messages of a Kafka topic.

    Use it to see what a topic holds before you join it. Of each message you see where it stands,
    its time, its key and its value; below a value that is no JSON object, the reason.
    """
    path = f"api/v1/topics/{quote(topic, safe='')}/peek?count={count}"
    answer = http.get(url, path, "messages")
    if output == "json":
        print(json.dumps(answer))
        return
    for one in answer["messages"]:
        key = f"  key {format_cell(one['key'])}" if one["key"] is not None else ""
        print_line(f"{one['partition']}/{one['offset']}  {one['timestamp'] or 'no time'}{key}")
        print(
            f"    {format_cell(one['value'], _LONG_CELL_CHARS)}"
            if one["value"] is not None
            else "    null"
        )
        if one["reason"]:
            print(f"    {format_cell(one['reason'], _LONG_CELL_CHARS)}")
    if not answer["complete"]:
        print("there was no time to read all of them", file=sys.stderr)


def schema(output: Output = "json") -> None:
    """Print the JSON Schema of a control message.

    Editors and checks of your own can use it. It needs no running livejoin. As a table it lists the
    fields.
    """
    if output == "json":
        print(json.dumps(schemas.CONTROL, indent=2))
        return
    rows = [
        {"field": name, "meaning": shape.get("description") or ", ".join(shape["examples"])}
        for name, shape in schemas.CONTROL["properties"].items()
    ]
    for line in format_table(rows, ["field", "meaning"], _LONG_CELL_CHARS):
        print(line)
