"""What reaches the terminal: lines, tables and streams of untrusted text, escaped."""

import codecs
import io
import json
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from livejoin.cli import colours

LONG_CELL_CHARS = 1000
NULL = "–"  # in texts for people, as on the page
_MIN_TEXT_COLUMNS = 10  # a text is not wrapped to less
_GAP = "  "
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


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


def format_cell(value: Any, max_chars: int | None = None) -> str:
    """Return a value on one line with control characters escaped, cut only at `max_chars`."""
    if value is None:
        return NULL
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if max_chars is not None and len(text) > max_chars:
        text = text[: max_chars - 1] + "…"
    return escape_unprintable(text)


def format_time(ms: float) -> str:
    """Return a time as everywhere in text: `2026-01-31T12:00:00.000Z`, which filters accept."""
    when = datetime.fromtimestamp(ms / 1000, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def print_line(line: str, *, to_stderr: bool = False) -> None:
    """Print a line of untrusted text, escaped."""
    print(escape_unprintable(line), file=sys.stderr if to_stderr else sys.stdout, flush=True)


def print_warnings(warnings: Iterable[str]) -> None:
    """Print warnings about the settings, on standard error."""
    for text in warnings:
        print_line(f"livejoin: warning: {text}", to_stderr=True)


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
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    max_chars: int | None = None,
    *,
    wide: bool = False,
) -> list[str]:
    """Return a header and aligned rows; on a terminal they wrap to its width, unless `wide`."""
    layout = TableLayout(columns, None if wide else terminal_width(), max_chars)
    return layout.table(rows)


def terminal_width() -> int | None:
    """Return the columns of the terminal, or None if standard output is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


class TableLayout:
    """Columns as wide as their widest cell so far, for rows that come bit by bit.

    Numbers are aligned on the right. If a line does not fit into the width, texts wrap; numbers
    and times never do. If texts would become too narrow, each row becomes a list of names and
    values.
    """

    def __init__(
        self, columns: Sequence[str], width: int | None = None, max_chars: int | None = None
    ) -> None:
        self._columns = columns
        self._max_width = width
        self._max_chars = max_chars
        self._names = [format_cell(name) for name in columns]
        self._widths = [display_width(name) for name in self._names]
        self._numbers = [False] * len(columns)  # whether a column has one
        self._texts = [False] * len(columns)  # whether it has something else
        self._wraps = [False] * len(columns)  # whether it has texts that are no times

    def table(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return a header and rows, as lines."""
        blocks = self.rows(rows)
        return [*self.header(), *(line for block in blocks for line in block)]

    def header(self) -> list[str]:
        """Return the names of the columns; none if each row has them."""
        widths = self._fitted_widths()
        if widths is None:
            return []
        return self._aligned([(name, colours.STRONG) for name in self._names], widths)

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
        """Return each row as lines, and widen the columns for them."""
        cells = [[self._cell(row, place) for place in range(len(self._columns))] for row in rows]
        widths = self._fitted_widths()
        if widths is None:
            return [self._listed(row) for row in cells]
        return [self._aligned(row, widths) for row in cells]

    def _cell(self, row: Mapping[str, Any], place: int) -> tuple[str, str]:
        """Return a cell's text and style, and note its width and kind."""
        column = self._columns[place]
        value = row.get(column)
        text = format_cell(value, self._max_chars)
        self._widths[place] = max(self._widths[place], display_width(text))
        if value is not None:
            is_number = isinstance(value, int | float)
            self._numbers[place] |= is_number
            self._texts[place] |= not is_number
            self._wraps[place] |= not is_number and not _TIME.fullmatch(text)
        return text, colours.style_of(column, value)

    def _right(self, place: int) -> bool:
        return self._numbers[place] and not self._texts[place]

    def _fitted_widths(self) -> list[int] | None:
        """Narrow the widest texts until a line fits; None if they would become too narrow."""
        gaps = len(_GAP) * (len(self._columns) - 1)
        if self._max_width is None or sum(self._widths) + gaps <= self._max_width:
            return self._widths
        texts = [width for at, width in enumerate(self._widths) if self._wraps[at]]
        room = self._max_width - gaps - (sum(self._widths) - sum(texts))
        widest = max(texts, default=0)
        while sum(min(width, widest) for width in texts) > room:
            widest -= 1
            if widest < _MIN_TEXT_COLUMNS:
                return None
        return [
            min(width, widest) if self._wraps[at] else width
            for at, width in enumerate(self._widths)
        ]

    def _aligned(self, cells: Sequence[tuple[str, str]], widths: Sequence[int]) -> list[str]:
        wrapped = [wrap(text, width) for (text, _), width in zip(cells, widths, strict=True)]
        return [
            _GAP.join(
                _pad(part[at] if at < len(part) else "", width, style, right=self._right(place))
                for place, (part, width, (_, style)) in enumerate(
                    zip(wrapped, widths, cells, strict=True)
                )
            ).rstrip()
            for at in range(max(map(len, wrapped), default=0))
        ]

    def _listed(self, cells: Sequence[tuple[str, str]]) -> list[str]:
        """Return a row as one line per column, and an empty line."""
        name_width = max(map(display_width, self._names))
        width = max(_MIN_TEXT_COLUMNS, (self._max_width or 0) - name_width - len(_GAP))
        lines = []
        for name, (text, style) in zip(self._names, cells, strict=True):
            for at, part in enumerate(wrap(text, width)):
                label = _pad("" if at else name, name_width, colours.STRONG, right=False)
                lines.append(f"{label}{_GAP}{colours.paint(part, style)}".rstrip())
        return [*lines, ""]


def wrap(text: str, width: int) -> list[str]:
    """Split a text into lines of at most so many terminal columns, at blanks where possible."""
    lines = []
    while display_width(text) > width:
        end, used = 1, display_width(text[0])  # at least one character, however wide
        while end < len(text) and (used := used + display_width(text[end])) <= width:
            end += 1
        if end == len(text):
            break
        blank = text.rfind(" ", 0, end + 1)
        cut, rest = (blank, blank + 1) if blank > end // 2 else (end, end)
        lines.append(text[:cut])
        text = text[rest:]
    return [*lines, text]


def display_width(text: str) -> int:
    """Terminal columns of a text: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        2 if unicodedata.east_asian_width(char) in "WF" else not unicodedata.combining(char)
        for char in text
    )


def _pad(text: str, width: int, style: str, *, right: bool) -> str:
    blank = " " * (width - display_width(text))
    painted = colours.paint(text, style) if text else ""
    return blank + painted if right else painted + blank
