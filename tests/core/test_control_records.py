"""Records of the control topic as they are understood, and a whole past that comes to one fact."""

import json
from typing import Any

import pytest

from core.histories import RULES
from livejoin.core.control_messages import Request
from livejoin.core.control_records import (
    HISTORY_KEPT,
    RAW_CHARS,
    ControlHistory,
    ControlRecord,
    parse_record,
    sender_name,
)
from livejoin.core.facts import HistoryReplayed
from livejoin.core.generation import Origin
from livejoin.core.state import IDS_KEPT, Reply


def _one(offset: int, **fields: Any) -> ControlRecord:
    return parse_record(offset, 5.0 + offset, "ann", json.dumps(fields).encode(), RULES)


def _folded(*messages: ControlRecord) -> HistoryReplayed:
    history = ControlHistory()
    for one in messages:
        history.add(one)
    return history.replayed("id-c", len(messages))


def test_a_message_carries_where_it_stands_who_sent_it_and_what_it_asks_for() -> None:
    raw = b'{"usersTopic":"u","joinType":"natural","id":"7"}'
    one = parse_record(3, 5.5, "ann", raw, RULES)
    assert one.origin == Origin(3, 5.5, "ann", raw.decode(), "7", users="u", join="left")
    assert one.request == Request("u", join="left", id="7")
    assert one.error == ""


def test_an_invalid_message_carries_its_reason() -> None:
    one = parse_record(3, 5.5, "ann", b"[]", RULES)
    assert one == ControlRecord(Origin(3, 5.5, "ann", "[]"), None, "expected a JSON object, got []")


def test_an_invalid_message_still_carries_its_id() -> None:
    # its sender waits for an outcome of that id
    one = _one(0, id="x", joinType="sideways")
    assert one.request is None
    assert one.origin.id == "x"


def test_a_long_message_is_cut_for_people() -> None:
    exact = b'{"id":"' + b"x" * (RAW_CHARS - 9) + b'"}'
    assert parse_record(0, 0.0, "ann", exact, RULES).origin.raw == exact.decode()
    longer = parse_record(0, 0.0, "ann", exact + b" ", RULES).origin.raw
    assert longer == exact.decode() + "…"


def test_bytes_that_are_no_text_are_shown_as_bytes() -> None:
    assert parse_record(0, 0.0, "ann", b"\xff{}", RULES).origin.raw == "\\xff{}"


def test_no_past_asks_for_nothing() -> None:
    assert _folded() == HistoryReplayed("id-c", 0, Request())


def test_the_past_is_folded_field_by_field() -> None:
    folded = _folded(
        _one(0, usersTopic="u1", joinType="inner"),
        _one(1, accountsTopic="a1"),
        _one(2, usersTopic="u2", accountsTopic=" "),
    )
    assert folded.request == Request("u2", "a1", "inner")
    assert (folded.position, folded.message_count) == (3, 3)


def test_actions_expectations_and_starts_of_the_past_count_for_nothing() -> None:
    folded = _folded(
        _one(0, usersTopic="u1", expectedGeneration=99, start="1h"),
        _one(1, usersTopic="u2", action="preview"),
        _one(2, action="rollback"),
    )
    assert folded.request == Request("u1")


def test_what_was_invalid_in_the_past_counts_for_nothing_and_keeps_its_reason() -> None:
    folded = _folded(_one(0, usersTopic="u1"), _one(1, usersTopic="a,b"), _one(2))
    assert folded.request == Request("u1")
    assert [(r.origin.offset, r.outcome, r.at) for r in folded.replies] == [
        (0, "history", 5.0),
        (1, "rejected", 6.0),
        (2, "rejected", 7.0),
    ]
    assert folded.replies[1].reason.startswith('usersTopic: "a,b" is not a topic name')
    assert folded.replies[2].reason.startswith("no known field")


def test_of_a_long_past_the_newest_rows_are_kept_and_all_of_it_counts() -> None:
    past = [_one(0, usersTopic="u1"), *(_one(n, joinType="inner") for n in range(1, 10_001))]
    folded = _folded(*past)
    assert HISTORY_KEPT == 10_000
    assert [reply.origin.offset for reply in folded.replies] == list(range(1, 10_001))
    assert folded.request == Request("u1", join="inner")
    assert folded.message_count == 10_001


def test_of_the_ids_of_the_past_the_newest_are_kept() -> None:
    past = [_one(n, id=f"id-{n}", action="preview") for n in range(IDS_KEPT + 2)]
    assert _folded(*past, _one(9)).ids == tuple(f"id-{n}" for n in range(2, IDS_KEPT + 2))


def test_a_row_of_control_raw_shows_the_message_and_its_outcome() -> None:
    raw = b'{"usersTopic":"u","accountsTopic":"a","joinType":"join","id":"7"}'
    origin = parse_record(3, 5.5, "ann", raw, RULES).origin
    assert Reply(origin, "rejected", 6.25, "no such topic").control_raw_row() == {
        "usersTopic": "u",
        "accountsTopic": "a",
        "joinType": "inner",
        "partition": 0,
        "offset": 3,
        "ts": 5500,
        "by": "ann",
        "outcome": "rejected",
        "reason": "no such topic",
        "raw": raw.decode(),
        "generation": None,
    }


def test_a_record_of_the_reply_topic_is_for_who_asked() -> None:
    origin = parse_record(3, 5.5, "ann", b'{"id":"7"}', RULES).origin
    assert Reply(origin, "live", 6.25, generation=2).reply_record() == {
        "id": "7",
        "offset": 3,
        "outcome": "live",
        "generation": 2,
        "at": 6250,
        "reason": None,
    }


def test_an_id_that_came_before_counts_once_in_the_past_too() -> None:
    history = ControlHistory()
    for offset, join in enumerate(["inner", "left"]):
        history.add(_one(offset, id="x", joinType=join))
    folded = history.replayed("t", 2)
    assert (folded.request.join, folded.ids) == ("inner", ("x",))
    assert [reply.outcome for reply in folded.replies] == ["history", "repeated"]


@pytest.mark.parametrize(
    ("claimed", "verified", "by"),
    [
        (b"", False, "kafka"),
        (b"cli alice", False, "kafka (says: cli alice)"),
        (b"cli alice", True, "cli alice"),
        (b"\xff", False, "kafka (says: \\xff)"),
        (b"x" * 200, True, "x" * 100),
    ],
)
def test_a_sender_is_verified_or_shown_as_a_claim(
    claimed: bytes, by: str, *, verified: bool
) -> None:
    assert sender_name(claimed, verified=verified) == by
