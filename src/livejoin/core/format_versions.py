"""Format numbers of everything that is stored or sent, and the check for newer ones.

A number is checked before anything else is parsed. It is raised when older versions would misread
the new format; fields that are only added do not raise it.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

# 2: generations have the ids of their changelog and bootstrap topics
# 3: the position in the control topic is one offset per partition
# 4: choices have their topics by source, generations their spec
LEDGER = 4
# 2: rows of several lookups have a version per lookup, and the topic begins with its format
CHANGELOG = 2  # what is known; most generations are of format 1
LIVE = 1  # frames of the live protocol
TOKEN = 1

_UNNUMBERED = 1  # data without a number predates numbering


def unsupported_reason(what: str, found: object, known: int) -> str:
    """Why data cannot be read; empty if its format is known. None means no number."""
    number = _UNNUMBERED if found is None else found
    if isinstance(number, int) and _UNNUMBERED <= number <= known:
        return ""
    return f"{what} has format {number}, this livejoin knows up to {known}"


def known_fields(form: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that a dataclass has fields for; later versions may have added others."""
    names = {known.name for known in fields(form)}
    return {name: value for name, value in data.items() if name in names}
