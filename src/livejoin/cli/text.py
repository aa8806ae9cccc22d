"""Terminal output: values truncated, aligned and escaped."""

import codecs
import io
import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_CELL_CHARS = 60


def escape_unprintable(text: str, keep: str = "") -> str:
    """Escape unprintable characters: control and direction characters, lone surrogates.

    Data must not move the cursor or trigger a terminal's functions. Characters in `keep` are not
    escaped.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )


def format_cell(value: Any, max_chars: int = _CELL_CHARS) -> str:
    """Return a value on one line, truncated, with control characters escaped."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) > max_chars:
        text = text[: max_chars - 1] + "…"
    return escape_unprintable(text)


def print_line(line: str, *, to_stderr: bool = False) -> None:
    """Print a line of untrusted text, escaped."""
    print(escape_unprintable(line), file=sys.stderr if to_stderr else sys.stdout, flush=True)


def print_stream(chunks: Iterable[bytes]) -> None:
    """Print machine-readable output: raw bytes, or escaped text if stdout is a terminal."""
    if not sys.stdout.isatty():
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
    else:
        utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        decoder = io.IncrementalNewlineDecoder(utf8, translate=True)
        for chunk in (*chunks, b""):
            sys.stdout.write(
                escape_unprintable(decoder.decode(chunk, final=not chunk), keep="\n\t")
            )
    sys.stdout.flush()


def format_table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], max_chars: int = _CELL_CHARS
) -> list[str]:
    """Return a header and aligned rows; numeric columns are right-aligned."""
    cells = [[format_cell(row.get(name), max_chars) for name in columns] for row in rows]
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
    """Terminal columns of a text: wide characters take two, combining ones none."""
    return sum(
        2 if unicodedata.east_asian_width(char) in "WF" else not unicodedata.combining(char)
        for char in text
    )
