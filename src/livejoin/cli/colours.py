"""Colours of states and levels on a terminal; no text depends on them."""

import os
import sys
from typing import Any, TextIO

STRONG, FAINT = "1", "2"
_RED, _GREEN, _YELLOW, _MAGENTA = "31", "32", "33", "35"
_COLUMNS = ("state", "outcome", "level")
_STYLES = {
    "live": _GREEN,
    **dict.fromkeys(("accepted", "building", "caught-up", "starting", "WARN"), _YELLOW),
    **dict.fromkeys(("restarting", "waiting"), _YELLOW),
    **dict.fromkeys(("failed", "rejected", "unreachable", "ERROR"), _RED),
    "rolled-back": _MAGENTA,
    **dict.fromkeys(("retired", "superseded", "cancelled", "previewed", "repeated"), FAINT),
    "history": FAINT,
}


def enabled(stream: TextIO) -> bool:
    """Whether to use colours: on a terminal that has them, unless NO_COLOR is set."""
    has_colours = stream.isatty() and os.environ.get("TERM") != "dumb"
    return has_colours and not os.environ.get("NO_COLOR")


def style_of(column: str, value: Any) -> str:
    """Return the style of a cell, or an empty text."""
    if value is None:
        return FAINT
    return _STYLES.get(value, "") if column in _COLUMNS and isinstance(value, str) else ""


def paint(text: str, style: str) -> str:
    """Return an escaped text in a style, if standard output shows colours."""
    return f"\x1b[{style}m{text}\x1b[0m" if style and enabled(sys.stdout) else text
