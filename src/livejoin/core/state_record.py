"""Reads the ledger's record of the state, which may be of another version or no state at all."""

from typing import NamedTuple

from livejoin.core.json_object import parse_object
from livejoin.core.state import State, format_error, from_json


class NewerState(NamedTuple):
    """A state that a newer livejoin wrote."""

    why: str


def read_state(value: bytes) -> State | NewerState | None:
    """The state in a record; None if there is none in it."""
    data = parse_object(value)
    if data is None:
        return None
    try:
        why = format_error(data)
        return NewerState(why) if why else from_json(data)
    except (LookupError, TypeError, ValueError, AttributeError):  # fields are missing or malformed
        return None
