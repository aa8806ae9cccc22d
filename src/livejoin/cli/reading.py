"""The commands that read from a running livejoin: status, tables, show, topics."""

import itertools
import json
import sys
import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

import typer

from livejoin.cli import colours
from livejoin.cli.options import Output, Url, endpoint
from livejoin.cli.output import (
    TableLayout,
    display_width,
    escape_unprintable,
    format_cell,
    format_table,
    format_time,
    print_line,
    print_stream,
    terminal_width,
    wrap,
)
from livejoin.client.endpoint import DEFAULT_URL
from livejoin.errors import RequestError

_DEFAULT_ROWS = 20
_POLL_S = 1.0
_VOLATILE = ("sources", "viewers", "capped")  # fields of the status that change constantly

TableArgument = Annotated[
    str, typer.Argument(help="Name of a table; `livejoin tables` lists them.")
]
Format = Annotated[
    Literal["table", "csv", "json", "ndjson"],
    typer.Option("--format", "--output", help="Output format; ndjson is one JSON object per line."),
]


def status(
    *,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Keep running until Ctrl-C: redraw, or print a line per change."
        ),
    ] = False,
    url: Url = DEFAULT_URL,
    output: Output = "table",
) -> None:
    """Show what is live, its topics, and how many records were read.

    With --watch it keeps running: on a terminal it redraws in place every second, otherwise it
    prints a line whenever anything but a counter changes. Ctrl-C ends it with code 130.
    """
    answer = _get_status(url)
    if watch:
        _watch(url, answer, output)
    elif output == "json":
        print(json.dumps(answer))
    else:
        print("\n".join(_status_lines(answer)))


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
    layout = TableLayout(["name", "rows", "columns"], terminal_width())
    for lines in layout.rows(rows):
        print("\n".join(lines))


def show(  # noqa: PLR0913 - one option per query parameter
    context: typer.Context,
    table: TableArgument,
    *,
    following: Annotated[
        bool, typer.Option("--follow", help="Then print every change, until Ctrl-C.")
    ] = False,
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
    wide: Annotated[
        bool, typer.Option("--wide", help="One line per row, also where the terminal is narrower.")
    ] = False,
    form: Format = "table",
    url: Url = DEFAULT_URL,
) -> None:
    """Print the current rows of a table.

    A filter compares columns with values: = != < <= > >=, ~ (contains), is null, is not null;
    combined with and, or, not and parentheses. Quote text, and write times as
    2026-01-31T12:00:00Z. The table format omits columns that start with _ unless you name them.
    On a terminal long cells wrap, and if there are too many columns each row becomes a list; in a
    pipe, and with --wide, a row is one line. Nothing is cut.

    With --follow the newest rows are printed (with --sort the first), then a line per change until
    Ctrl-C: + is a new row, ~ a changed one, - one that is gone or no longer matches the filter. It
    continues through swaps and lost connections, and says so. As JSON, each line is an object with
    `kind` (snapshot or cutover with `total`, then row, insert, upsert, remove with `row`; stale,
    fresh) and `generation`.

        livejoin show final_ui --follow --filter 'age>=30'
        livejoin show final_ui --filter 'age>=30 and name~"ad"' --sort -age
        livejoin show final_ui --columns userId,balance --all --format csv > final.csv
    """
    if following:
        if form == "csv" or offset:
            context.fail("--follow prints a table or JSON, from the first row on")
        from livejoin.cli import follow  # noqa: PLC0415 - Arrow takes a moment to import

        selection = follow.Selection(columns, where, sort, None if whole else limit)
        follow.run(endpoint(url), table, selection, as_table=form == "table", wide=wide)
        return
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
        _print_rows(endpoint(url).call(path, expected_key="rows"), columns, wide=wide)
        return
    ending = [b"\n"] if form == "json" else []
    print_stream(itertools.chain(endpoint(url).stream(path), ending))


def topics(context: typer.Context, url: Url = DEFAULT_URL, output: Output = "table") -> None:
    """List the Kafka topics that livejoin can read.

    Each with its kind, partitions, record count and the time of its newest record. The kind tells
    topics that can be joined from the control topic and from livejoin's own topics. Kafka's
    internal topics, and those that the settings do not allow, are omitted. Records are counted by
    offset, so a compacted topic holds fewer.
    """
    if context.invoked_subcommand is not None:
        return
    answer = endpoint(url).call("api/v1/topics", expected_key="topics")
    if output == "json":
        print(json.dumps(answer))
        return
    rows = answer["topics"]
    columns = ["name", "kind", "partitions", "records", "newest"]
    if any(row["trouble"] for row in rows):
        columns.append("trouble")
    for line in format_table(rows, columns):
        print(line)
    if answer["total"] > len(rows):
        print_line(f"{len(rows)} of {answer['total']} topics", to_stderr=True)


def _get_status(url: str) -> dict[str, Any]:
    return endpoint(url).call("api/v1/status", expected_key="sources")


def _status_lines(answer: dict[str, Any]) -> list[str]:
    """Return a line per field; on a terminal long texts wrap."""
    cells = [
        (name, format_cell(value), colours.style_of(name, value))
        for name, value in answer.items()
        if name not in ("sources", "capped")
    ]
    for source, counts in answer.get("sources", {}).items():
        text = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        cells.append((source, format_cell(text), ""))
    for table, capped in answer.get("capped", {}).items():
        text = f"newest {capped['rows']} rows, since {format_time(capped['from'])}"
        cells.append((table, format_cell(text), ""))
    lines = []
    width = terminal_width()
    for name, text, style in cells:
        label = f"{escape_unprintable(name):<14} "
        # one column less than the terminal has: some break the line after the last one
        room = None if width is None else max(1, width - 1 - display_width(label))
        for at, part in enumerate([text] if room is None else wrap(text, room)):
            start = " " * display_width(label) if at else label
            lines.append(f"{start}{colours.paint(part, style)}")
    return lines


def _watch(url: str, answer: dict[str, Any], output: str) -> None:
    """Poll the status and print it; an unreachable livejoin is polled until it is back."""
    redraws = output == "table" and sys.stdout.isatty()
    drawn, previous = 0, None
    while True:
        if redraws:
            drawn = _redraw(_status_lines(answer), drawn)
        else:
            current = {name: value for name, value in answer.items() if name not in _VOLATILE}
            if current != previous:
                print(json.dumps(answer) if output == "json" else _change_line(answer), flush=True)
            previous = current
        time.sleep(_POLL_S)
        try:
            answer = _get_status(url)
        except RequestError as error:
            answer = {"state": "unreachable", "message": error.message}


def _change_line(answer: dict[str, Any]) -> str:
    """Return the fields that are set and not volatile, on one line."""
    cells = [
        (name, format_cell(value))
        for name, value in answer.items()
        if name not in (*_VOLATILE, "state") and value not in (None, "")
    ]
    fields = " ".join(f"{name}={text}" for name, text in cells)
    return f"{format_time(time.time() * 1000)} {format_cell(answer['state'])} {fields}"


def _redraw(lines: list[str], drawn: int) -> int:
    """Overwrite the lines drawn before, and return how many are drawn now."""
    cursor_up = f"\x1b[{drawn}F" if drawn else ""
    print(f"{cursor_up}\x1b[J" + "\n".join(lines), flush=True)
    return len(lines)


def _print_rows(answer: Mapping[str, Any], columns: str | None, *, wide: bool) -> None:
    rows = answer["rows"]
    chosen = [name.strip() for name in columns.split(",")] if columns else []
    names = chosen or [name for name in (rows[0] if rows else {}) if not name.startswith("_")]
    for line in format_table(rows, names, wide=wide) if names else []:
        print(line)
    suffix = f" of generation {answer['generation']}" if answer["generation"] is not None else ""
    print_line(f"{len(rows)} of {answer['total']} rows{suffix}", to_stderr=True)
