"""Reads `client.properties` files as Java does."""

import re
from collections.abc import Iterator
from pathlib import Path

from livejoin.errors import SettingsError
from livejoin.kafka.property_table import canonical_name

_ESCAPE_SEQUENCE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)


def read_file(path: Path) -> dict[str, str]:
    """The properties of a file; the last of duplicate keys counts."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(
            f"kafka_file: {path} cannot be read: {why}", hint="Name a file of client properties."
        ) from error
    found = {}
    for line in _lines(text):
        key, value = _KEY.findall(line)[0]
        found[canonical_name(_unescape(key))] = _unescape(value)
    return found


def _lines(text: str) -> Iterator[str]:
    """Logical lines: a backslash at the end continues a line."""
    continued = ""
    for line in text.splitlines():
        line = continued + line.lstrip()  # noqa: PLW2901
        if not continued and line.startswith(("#", "!")):
            continue
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            continued = line[:-1]
            continue
        continued = ""
        if line:
            yield line
    if continued:
        yield continued


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        it = found[1]
        return chr(int(it[1:], 16)) if len(it) > 1 else _ESCAPES.get(it, it)

    return _ESCAPE_SEQUENCE.sub(one, text)
