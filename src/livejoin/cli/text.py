"""Values for a terminal: cut, aligned, and without anything that it would act upon."""

import codecs
import io
import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from livejoin.runtime.terminal import escape_unprintable

_CELL_CHARS = 60


def format_cell(value: Any, most: int = _CELL_CHARS) -> str:
    """A value on one line. Control characters, which data may hold, show as escapes."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) > most:
        text = text[: most - 1] + "…"
    return escape_unprintable(text)


def print_line(line: str, *, aside: bool = False) -> None:
    """Print a line that may hold what others have written; aside: not among the results."""
    print(escape_unprintable(line), file=sys.stderr if aside else sys.stdout, flush=True)


def print_stream(parts: Iterable[bytes]) -> None:
    """Print what was made for programs: byte by byte, unless a person would see it."""
    if not sys.stdout.isatty():
        for part in parts:
            sys.stdout.buffer.write(part)
    else:
        utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        lines = io.IncrementalNewlineDecoder(utf8, translate=True)
        for part in (*parts, b""):
            sys.stdout.write(escape_unprintable(lines.decode(part, final=not part), keep="\n\t"))
    sys.stdout.flush()


def format_table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], most: int = _CELL_CHARS
) -> list[str]:
    """Rows under a header; numbers stand to the right."""
    cells = [[format_cell(row.get(name), most) for name in columns] for row in rows]
    right = [
        any(isinstance(row.get(name), int | float) for row in rows)
        and all(isinstance(row.get(name), int | float | None) for row in rows)
        for name in columns
    ]
    every = [[*map(format_cell, columns)], *cells]
    widths = [max(_display_width(line[at]) for line in every) for at in range(len(columns))]
    return [
        "  ".join(
            _pad(text, width, right=side)
            for text, width, side in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in every
    ]


def _pad(text: str, width: int, *, right: bool) -> str:
    blank = " " * (width - _display_width(text))
    return blank + text if right else text + blank


def _display_width(text: str) -> int:
    """How many places it takes: some letters take two, accents none."""
    return sum(
        2 if unicodedata.east_asian_width(one) in "WF" else not unicodedata.combining(one)
        for one in text
    )
