"""Format numbers of what outlives a process or leaves it, and what is said of a newer one.

A number is looked at before anything else is parsed. It is raised when a livejoin that does not
know the new form would read it wrongly; what only adds to a form leaves it as it is.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

LEDGER = 2  # 2: a generation has the ids of its changelog and feed
CHANGELOG = 1
LIVE = 1  # frames of the socket
TOKEN = 1

_UNNUMBERED = 1  # what has no number was written before there were any


def unsupported_reason(what: str, found: object, known: int) -> str:
    """Why something cannot be read; empty where its format is known. None: it has no number."""
    number = _UNNUMBERED if found is None else found
    if isinstance(number, int) and _UNNUMBERED <= number <= known:
        return ""
    return f"{what} has format {number}, this livejoin knows up to {known}"


def known_fields(form: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """What a dataclass has fields for: a later version may have added others."""
    names = {one.name for one in fields(form)}
    return {name: value for name, value in data.items() if name in names}
