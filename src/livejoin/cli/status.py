"""The command that says what is live, once or for as long as somebody watches."""

import json
import shutil
import sys
import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from livejoin.cli.options import Output, Url
from livejoin.cli.text import format_cell
from livejoin.client import http
from livejoin.errors import AskError
from livejoin.runtime.terminal import escape_unprintable

_POLL_S = 1.0
_VOLATILE = ("sources", "viewers", "capped")  # they change all the time


def status(
    *,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on until Ctrl-C: redraw, or a line per change.")
    ] = False,
    url: Url = http.DEFAULT_URL,
    output: Output = "table",
) -> None:
    """Say what is live, from which topics, and what was read.

    With --watch it goes on: on a terminal it redraws in place every second, otherwise it prints a
    line whenever something other than a count changes. Ctrl-C ends it with code 130.
    """
    answer = _get_status(url)
    if watch:
        _watch(url, answer, output)
    elif output == "json":
        print(json.dumps(answer))
    else:
        print("\n".join(_status_lines(answer)))


def _get_status(url: str) -> dict[str, Any]:
    return http.get(url, "api/v1/status", "sources")


def _status_lines(answer: dict[str, Any]) -> list[str]:
    lines = [
        escape_unprintable(f"{name:<14} {'' if value is None else value}")
        for name, value in answer.items()
        if name not in ("sources", "capped")
    ]
    for source, counts in answer.get("sources", {}).items():
        told = ", ".join(f"{n} {what}" for what, n in counts.items())
        lines.append(escape_unprintable(f"{source:<14} {told}"))
    for table, capped in answer.get("capped", {}).items():
        since = datetime.fromtimestamp(capped["from"] / 1000, UTC).isoformat(timespec="seconds")
        lines.append(
            escape_unprintable(f"{table:<14} the newest {capped['rows']} rows, from {since} on")
        )
    return lines


def _watch(url: str, answer: dict[str, Any], output: str) -> None:
    """Show what is asked, over and over. A livejoin that is away may come back."""
    drawing = output == "table" and sys.stdout.isatty()
    drawn, known = 0, None
    while True:
        if drawing:
            drawn = _redraw(_status_lines(answer), drawn)
        else:
            now = {name: value for name, value in answer.items() if name not in _VOLATILE}
            if now != known:
                print(json.dumps(answer) if output == "json" else _change_line(answer), flush=True)
            known = now
        time.sleep(_POLL_S)
        try:
            answer = _get_status(url)
        except AskError as error:
            answer = {"state": "unreachable", "message": error.message}


def _change_line(answer: dict[str, Any]) -> str:
    """What changes, on one line; what is not known is left out."""
    named = [(name, format_cell(value)) for name, value in answer.items() if name not in _VOLATILE]
    said = " ".join(f"{name}={text}" for name, text in named if text and name != "state")
    return f"{time.strftime('%H:%M:%S')} {format_cell(answer['state'])} {said}"


def _redraw(lines: list[str], drawn: int) -> int:
    """Write over what was drawn; a line that is too long would take two."""
    width = shutil.get_terminal_size().columns
    back = f"\x1b[{drawn}F" if drawn else ""
    cut = [line[: width - 1] for line in lines]
    print(f"{back}\x1b[J" + "\n".join(cut), flush=True)
    return len(cut)
