"""A state record is valid, of a newer format, or malformed."""

import json
from typing import Any

import pytest

from livejoin.core import format_versions
from livejoin.core.ledger_format import NewerState, read_state, to_json
from livejoin.core.state import State

STATE = State(last_number=7, topic_id="t", position=3)


def _encoded(**changed: Any) -> bytes:
    return json.dumps(to_json(STATE) | changed).encode()


def test_a_state_round_trips() -> None:
    assert read_state(_encoded()) == STATE


def test_a_newer_format_is_detected() -> None:
    newer = read_state(_encoded(format=format_versions.LEDGER + 1, live="in another way"))
    assert isinstance(newer, NewerState)
    assert f"has format {format_versions.LEDGER + 1}" in newer.why


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"not JSON",
        b"[]",
        b"{}",
        _encoded(live=1),
        _encoded(live=[{}]),
        _encoded(live={"x": 1}),
        _encoded(ids=None),
        _encoded(wanted={"users": "a"}),
    ],
    ids=[
        *("empty", "not-utf-8", "not-json", "a-list", "no-fields"),
        *("live-is-a-number", "live-is-a-list", "live-has-no-number", "no-ids", "half-a-choice"),
    ],
)
def test_a_malformed_state_is_none(value: bytes) -> None:
    assert read_state(value) is None
