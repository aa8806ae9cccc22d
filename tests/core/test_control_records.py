"""Records of the control topic as they are understood, and a whole past that comes to one fact."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.histories import RULES
from livejoin.core import spec
from livejoin.core.control_messages import Request
from livejoin.core.control_records import (
    HISTORY_KEPT,
    RAW_CHARS,
    ControlHistory,
    ControlRecord,
    in_history_order,
    parse_record,
    sender_name,
)
from livejoin.core.facts import HistoryReplayed
from livejoin.core.generation import Origin
from livejoin.core.state import IDS_KEPT, Reply


def _message(offset: int, **fields: Any) -> ControlRecord:
    return parse_record(0, offset, 5.0 + offset, "ann", json.dumps(fields).encode(), RULES)


def _replayed(*messages: ControlRecord) -> HistoryReplayed:
    history = ControlHistory()
    for message in messages:
        history.add(message)
    return history.replayed("id-c", {0: len(messages)})


def test_a_record_has_its_origin_and_request() -> None:
    raw = b'{"usersTopic":"u","joinType":"natural","id":"7"}'
    record = parse_record(0, 3, 5.5, "ann", raw, RULES)
    assert record.origin == Origin(
        3, 5.5, "ann", raw.decode(), "7", topics={"users": "u"}, join="left"
    )
    assert record.request == Request({"users": "u"}, join="left", id="7")
    assert record.error == ""


def test_an_invalid_message_has_a_reason() -> None:
    record = parse_record(0, 3, 5.5, "ann", b"[]", RULES)
    assert record == ControlRecord(
        Origin(3, 5.5, "ann", "[]"), None, "expected a JSON object, got []"
    )


def test_an_invalid_message_keeps_its_id() -> None:
    # its sender waits for the outcome of this id
    record = _message(0, id="x", joinType="sideways")
    assert record.request is None
    assert record.origin.id == "x"


def test_unknown_fields_beside_known_ones_stay_with_the_origin() -> None:
    record = _message(0, joinType="inner", userstopic="u")
    assert record.origin.warnings == ('unknown field "userstopic", did you mean usersTopic?',)


def test_of_many_unknown_fields_the_first_are_named_and_the_others_counted() -> None:
    # the origin is in the ledger, which a message must not be able to fill
    record = _message(0, joinType="inner", **{f"{n}-{'x' * 300}": n for n in range(40)})
    assert len(record.origin.warnings) == 6
    assert record.origin.warnings[0].startswith('unknown field "0-xxx')
    assert record.origin.warnings[-1] == "35 more unknown fields"
    assert sum(map(len, record.origin.warnings)) < 1024


def test_a_long_message_is_truncated() -> None:
    exact = b'{"id":"' + b"x" * (RAW_CHARS - 9) + b'"}'
    assert parse_record(0, 0, 0.0, "ann", exact, RULES).origin.raw == exact.decode()
    longer = parse_record(0, 0, 0.0, "ann", exact + b" ", RULES).origin.raw
    assert longer == exact.decode() + "…"


def test_bytes_that_are_not_utf8_are_escaped() -> None:
    assert parse_record(0, 0, 0.0, "ann", b"\xff{}", RULES).origin.raw == "\\xff{}"


def _at(partition: int, offset: int, at: float) -> ControlRecord:
    return parse_record(partition, offset, at, "ann", b'{"joinType":"inner"}', RULES)


def test_a_past_of_several_partitions_is_taken_by_time_then_partition() -> None:
    past = [
        [_at(0, 0, 10.0), _at(0, 1, 5.0), _at(0, 2, 30.0)],  # its second is older than its first
        [_at(1, 7, 10.0), _at(1, 8, 20.0)],
        [],
        [_at(3, 0, 9.0), _at(3, 1, 31.0)],
    ]
    order = [one.origin.position for one in in_history_order(map(iter, past))]
    # always, of the first unread records, the lowest time, then the lowest partition
    assert order == ["3-0", "0-0", "0-1", "1-7", "1-8", "0-2", "3-1"]


@given(st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=4))
def test_a_past_is_taken_as_by_looking_at_all_first_unread_records(times: list[list[int]]) -> None:
    past = [[_at(p, n, float(at)) for n, at in enumerate(of)] for p, of in enumerate(times)]
    expected, unread = [], [list(of) for of in past]
    while any(unread):
        heads = [of[0] for of in unread if of]
        first = min(heads, key=lambda one: (one.origin.at, one.origin.partition))
        expected.append(unread[first.origin.partition].pop(0))
    assert list(in_history_order(map(iter, past))) == expected


def test_a_past_is_read_only_as_far_as_it_is_needed() -> None:
    """Its records need not fit in memory."""
    read: list[str] = []

    def partition(number: int) -> Iterator[ControlRecord]:
        for offset in range(100):
            one = _at(number, offset, float(offset))
            read.append(one.origin.position)
            yield one

    order = in_history_order(partition(number) for number in range(3))
    assert [next(order).origin.position for _ in range(4)] == ["0-0", "1-0", "2-0", "0-1"]
    assert len(read) <= 3 + 4


def test_an_empty_history_requests_nothing() -> None:
    assert _replayed() == HistoryReplayed("id-c", {0: 0}, Request())


def test_the_history_is_merged_field_by_field() -> None:
    replayed = _replayed(
        _message(0, usersTopic="u1", joinType="inner"),
        _message(1, accountsTopic="a1"),
        _message(2, usersTopic="u2", accountsTopic=" "),
    )
    assert replayed.request == Request({"users": "u2", "accounts": "a1"}, "inner")
    assert (replayed.position, replayed.message_count) == ({0: 3}, 3)


def test_actions_expectations_and_starts_in_the_history_are_ignored() -> None:
    replayed = _replayed(
        _message(0, usersTopic="u1", expectedGeneration=99, start="1h"),
        _message(1, usersTopic="u2", action="preview"),
        _message(2, action="rollback"),
    )
    assert replayed.request == Request({"users": "u1"})


def test_invalid_messages_in_the_history_are_ignored_and_keep_their_reason() -> None:
    replayed = _replayed(_message(0, usersTopic="u1"), _message(1, usersTopic="a,b"), _message(2))
    assert replayed.request == Request({"users": "u1"})
    assert [(r.origin.offset, r.outcome, r.at) for r in replayed.replies] == [
        (0, "history", 5.0),
        (1, "rejected", 6.0),
        (2, "rejected", 7.0),
    ]
    assert replayed.replies[1].reason.startswith('usersTopic: "a,b" is not a topic name')
    assert replayed.replies[2].reason.startswith("no known field")


def test_a_long_history_keeps_the_newest_rows_and_merges_all_messages() -> None:
    messages = [
        _message(0, usersTopic="u1"),
        *(_message(n, joinType="inner") for n in range(1, 10_001)),
    ]
    replayed = _replayed(*messages)
    assert HISTORY_KEPT == 10_000
    assert [reply.origin.offset for reply in replayed.replies] == list(range(1, 10_001))
    assert replayed.request == Request({"users": "u1"}, join="inner")
    assert replayed.message_count == 10_001


def test_the_newest_ids_of_the_history_are_kept() -> None:
    messages = [_message(n, id=f"id-{n}", action="preview") for n in range(IDS_KEPT + 2)]
    assert _replayed(*messages, _message(9)).ids == tuple(f"id-{n}" for n in range(2, IDS_KEPT + 2))


def test_a_control_raw_row_has_the_message_and_its_outcome() -> None:
    raw = b'{"usersTopic":"u","accountsTopic":"a","joinType":"join","id":"7"}'
    origin = parse_record(0, 3, 5.5, "ann", raw, RULES).origin
    assert Reply(origin, "rejected", 6.25, "no such topic").control_raw_row(spec.DEFAULT) == {
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
        "warnings": [],
    }


def test_a_reply_record_has_the_id_and_the_outcome() -> None:
    origin = parse_record(0, 3, 5.5, "ann", b'{"id":"7"}', RULES).origin
    assert Reply(origin, "live", 6.25, generation=2).reply_record() == {
        "id": "7",
        "partition": 0,
        "offset": 3,
        "outcome": "live",
        "generation": 2,
        "at": 6250,
        "reason": None,
        "warnings": [],
    }


def test_warnings_are_in_the_row_and_in_the_record() -> None:
    origin = _message(0, joinType="inner", colour=1).origin
    for fields in (
        Reply(origin, "accepted", 6.25).control_raw_row(spec.DEFAULT),
        Reply(origin, "accepted", 6.25).reply_record(),
    ):
        assert fields["warnings"] == ['unknown field "colour"']


def test_a_repeated_id_in_the_history_counts_once() -> None:
    history = ControlHistory()
    for offset, join in enumerate(["inner", "left"]):
        history.add(_message(offset, id="x", joinType=join))
    replayed = history.replayed("t", {0: 2})
    assert (replayed.request.join, replayed.ids) == ("inner", ("x",))
    assert [reply.outcome for reply in replayed.replies] == ["history", "repeated"]


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
