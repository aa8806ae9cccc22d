"""Previews of control messages."""

from collections.abc import Sequence
from typing import Any

import pytest

from core import histories as h
from livejoin.core.facts import Fact, MessageReceived, TopicInfo
from livejoin.core.preview import preview
from livejoin.core.state import State

G1 = "generation 1, users left accounts"
G2 = "generation 2, users_b inner accounts_b"
G3 = "generation 3, users_c left_outer accounts_c"
A_IS = {"usersTopic": "users", "accountsTopic": "accounts", "joinType": "left"}
B_IS = {"usersTopic": "users_b", "accountsTopic": "accounts_b", "joinType": "inner"}
C_IS = {"usersTopic": "users_c", "accountsTopic": "accounts_c", "joinType": "left_outer"}

PREVIEWS: dict[str, tuple[Sequence[Fact], MessageReceived, dict[str, Any]]] = {
    "a swap": (
        h.LIVE,
        h.received_choice(9, h.B, action="preview"),
        {
            "outcome": "accepted",
            "reason": None,
            "resolvesTo": B_IS,
            "build": G2,
            "now": {"live": G1, "standby": None},
            "afterwards": {"live": G2, "standby": G1},
            "stopped": [],
        },
    ),
    "a further swap stops what stands by": (
        h.SWAPPED,
        h.received_choice(9, h.C, action="preview"),
        {
            "outcome": "accepted",
            "build": G3,
            "now": {"live": G2, "standby": G1},
            "afterwards": {"live": G3, "standby": G2},
            "stopped": [1],
        },
    ),
    "a swap that supersedes": (
        h.SWAP_READS,
        h.received_choice(9, h.C),
        {
            "outcome": "accepted",
            "resolvesTo": C_IS,
            "build": G3,
            "afterwards": {"live": G3, "standby": G1},
            "stopped": [2],
        },
    ),
    "a heartbeat": (
        h.LIVE,
        h.received_choice(9, h.A),
        {
            "outcome": "live",
            "reason": "no change",
            "resolvesTo": A_IS,
            "build": None,
            "now": {"live": G1, "standby": None},
            "afterwards": {"live": G1, "standby": None},
            "stopped": [],
        },
    ),
    "a cancellation": (
        h.SWAP_READS,
        h.received_choice(9, h.A),
        {
            "outcome": "live",
            "reason": "build of generation 2 cancelled",
            "build": None,
            "afterwards": {"live": G1, "standby": None},
            "stopped": [2],
        },
    ),
    "a rollback": (
        h.FURTHER,
        h.received(9, action="rollback"),
        {
            "outcome": "live",
            "reason": "rolled back",
            "resolvesTo": A_IS,
            "build": None,
            "now": {"live": G2, "standby": G1},
            "afterwards": {"live": G1, "standby": G2},
            "stopped": [3],
        },
    ),
    "a rollback with nowhere to go": (
        h.LIVE,
        h.received(9, action="rollback"),
        {"outcome": "rejected", "resolvesTo": None, "build": None, "stopped": []},
    ),
    "a rollback to what is down": (
        [*h.SWAPPED, h.died(1)],
        h.received(9, action="rollback"),
        {
            "outcome": "rejected",
            "reason": "generation 1 is down: boom",
            "resolvesTo": A_IS,
            "afterwards": {"live": G2, "standby": G1},
        },
    ),
    "what is rejected": (
        h.LIVE,
        h.received(9, {"users_x": h.NO_USERS_X}, usersTopic="users_x", action="preview"),
        {
            "outcome": "rejected",
            "reason": h.NO_USERS_X,
            "resolvesTo": A_IS | {"usersTopic": "users_x"},
            "build": None,
            "topics": {"users_x": {"exists": False, "reason": h.NO_USERS_X}},
            "afterwards": {"live": G1, "standby": None},
            "stopped": [],
        },
    ),
    "what is rejected builds nothing, whatever else is being built": (
        h.SWAPPING,
        h.received(9, {"users_x": h.NO_USERS_X}, usersTopic="users_x", action="preview"),
        {"outcome": "rejected", "build": None, "stopped": []},
    ),
    "an unknown field is a warning": (
        h.LIVE,
        h.received_choice(9, h.B, colour=1),
        {"outcome": "accepted", "warnings": ['unknown field "colour"']},
    ),
    "an id that was seen before does not matter": (
        [*h.LIVE, h.received_choice(0, h.A, id="7")],
        h.received_choice(0, h.B, id="7", action="preview"),
        {"outcome": "accepted", "build": G2},
    ),
    "topics, as far as they are known": (
        h.LIVE,
        h.received(9, {"users_b": TopicInfo(3, 7), "accounts": TopicInfo(1)}, usersTopic="users_b"),
        {
            "topics": {
                "users_b": {"exists": True, "partitions": 3, "records": 7},
                "accounts": {"exists": True, "partitions": 1, "records": None},
            },
            "slots": {"needed": 3 + 1 + 1 + 2, "held": 1 + 1 + 1 + 2, "total": 512},
        },
    ),
}


@pytest.mark.parametrize("rule", PREVIEWS)
def test_preview(rule: str) -> None:
    history, message, expected = PREVIEWS[rule]
    result = preview(h.after(history), message)
    assert {name: result[name] for name in expected} == expected


def test_a_preview_before_the_start_is_rejected() -> None:
    result = preview(State(), h.received_choice(0, h.B))
    assert (result["outcome"], result["resolvesTo"], result["slots"]["needed"]) == (
        "rejected",
        None,
        None,
    )


def test_an_invalid_message_has_no_preview() -> None:
    with pytest.raises(AssertionError, match="an invalid message has no preview"):
        preview(h.after(h.LIVE), h.received_raw(9, b"[]"))
