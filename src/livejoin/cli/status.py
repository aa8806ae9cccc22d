"""The status command: once, or continuously with --watch."""

import json
import shutil
import sys
import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from livejoin.cli.endpoint import endpoint
from livejoin.cli.options import Output, Url
from livejoin.cli.text import escape_unprintable, format_cell
from livejoin.client.endpoint import DEFAULT_URL
from livejoin.errors import AskError

_POLL_S = 1.0
_VOLATILE = ("sources", "viewers", "capped")  # change constantly


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


def _get_status(url: str) -> dict[str, Any]:
    return endpoint(url).call("api/v1/status", expected_key="sources")


def _status_lines(answer: dict[str, Any]) -> list[str]:
    lines = [
        escape_unprintable(f"{name:<14} {'' if value is None else value}")
        for name, value in answer.items()
        if name not in ("sources", "capped")
    ]
    for source, counts in answer.get("sources", {}).items():
        text = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        lines.append(escape_unprintable(f"{source:<14} {text}"))
    for table, capped in answer.get("capped", {}).items():
        since = datetime.fromtimestamp(capped["from"] / 1000, UTC).isoformat(timespec="seconds")
        lines.append(escape_unprintable(f"{table:<14} newest {capped['rows']} rows, since {since}"))
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
        except AskError as error:
            answer = {"state": "unreachable", "message": error.message}


def _change_line(answer: dict[str, Any]) -> str:
    """Return the fields that are set and not volatile, on one line."""
    cells = [(name, format_cell(value)) for name, value in answer.items() if name not in _VOLATILE]
    fields = " ".join(f"{name}={text}" for name, text in cells if text and name != "state")
    return f"{time.strftime('%H:%M:%S')} {format_cell(answer['state'])} {fields}"


def _redraw(lines: list[str], drawn: int) -> int:
    """Overwrite the lines drawn before, and return how many are drawn now."""
    width = shutil.get_terminal_size().columns
    cursor_up = f"\x1b[{drawn}F" if drawn else ""
    cut = [line[: width - 1] for line in lines]  # a wrapped line would take two rows
    print(f"{cursor_up}\x1b[J" + "\n".join(cut), flush=True)
    return len(cut)
