"""Effects of control messages. A rule: the history, the message and the expected decision."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from core import histories as h
from livejoin.core import spec
from livejoin.core.control_messages import Request
from livejoin.core.decide import decide
from livejoin.core.facts import (
    CaughtUp,
    Fact,
    HistoryReplayed,
    MessageReceived,
    QueryResumed,
    SourcesResolved,
    TopicInfo,
    TopicsCreated,
    Unrecoverable,
)
from livejoin.core.spec import DEFAULT, Choice
from livejoin.core.state import IDS_KEPT, Limits, LogLine, Reply, State

NO_STANDBY = (
    "no generation is on standby: there has been no swap yet, or standby_s has passed;"
    " request the topics and the join instead"
)
UNREADABLE = 'topic "users_b" may not be read'
LIVE_OF_THREE: list[Fact] = [SourcesResolved(1, h.reading(h.A, partitions=3)), CaughtUp(1, 77)]
ALL_OF_A: dict[str, Any] = {"usersTopic": "users", "accountsTopic": "accounts", "joinType": "left"}


@dataclass(frozen=True)
class MessageRule:
    before: Sequence[Fact]
    message: MessageReceived
    outcome: str
    now: tuple[int | None, int | None, int | None]  # live, standby, building
    desired: Choice
    reason: str = ""
    generation: int | None = None


RULES: dict[str, MessageRule] = {
    "anything new is built beside what is live": MessageRule(
        h.LIVE, h.received_choice(0, h.B), "accepted", (1, None, 2), h.B, generation=2
    ),
    "one field changes one thing, the others stay": MessageRule(
        h.LIVE,
        h.received(0, joinType="inner"),
        "accepted",
        (1, None, 2),
        replace(h.A, join="inner"),
        generation=2,
    ),
    "while something is being built, what is left out is that": MessageRule(
        h.SWAPPING,
        h.received(1, joinType="left"),
        "accepted",
        (1, None, 3),
        replace(h.B, join="left"),
        generation=3,
    ),
    "two messages in a burst add up": MessageRule(
        [*h.LIVE, h.received(0, usersTopic="users_b")],
        h.received(1, accountsTopic="accounts_b"),
        "accepted",
        (1, None, 3),
        DEFAULT.choice("users_b", "accounts_b"),
        generation=3,
    ),
    "after a build that failed, what is left out is live again": MessageRule(
        [*h.SWAP_READS, Unrecoverable(2, "gone")],
        h.received(1, joinType="inner"),
        "accepted",
        (1, None, 3),
        replace(h.A, join="inner"),
        generation=3,
    ),
    "before anything is live, what is left out is what the settings say": MessageRule(
        h.WAITING,
        h.received(0, usersTopic="users_b"),
        "accepted",
        (None, None, 2),
        DEFAULT.choice("users_b", "accounts"),
        generation=2,
    ),
    "with nothing live after a build that failed, what is left out is what was wanted": MessageRule(
        h.FIRST_FAILED,
        h.received(0, joinType="inner"),
        "accepted",
        (None, None, 2),
        replace(h.A, join="inner"),
        generation=2,
    ),
    "with nothing live after a build that failed, the same again is built at once": MessageRule(
        h.FIRST_FAILED, h.received_choice(0, h.A), "accepted", (None, None, 2), h.A, generation=2
    ),
    "what is live already is a heartbeat": MessageRule(
        h.LIVE, h.received_choice(0, h.A), "live", (1, None, None), h.A, "no change", 1
    ),
    "a heartbeat need not name anything": MessageRule(
        h.LIVE, h.received(0, usersTopic=None), "live", (1, None, None), h.A, "no change", 1
    ),
    "a heartbeat leaves the standby alone": MessageRule(
        h.SWAPPED, h.received_choice(1, h.B), "live", (2, 1, None), h.B, "no change", 2
    ),
    "what is live, while something else is built, cancels the build": MessageRule(
        h.SWAP_READS,
        h.received_choice(1, h.A),
        "live",
        (1, None, None),
        h.A,
        "build of generation 2 cancelled",
        1,
    ),
    "what is being built already goes on": MessageRule(
        h.SWAPPING,
        h.received_choice(1, h.B),
        "building",
        (1, None, 2),
        h.B,
        "generation 2 is already being built for it",
        2,
    ),
    "what is being built as the first one goes on": MessageRule(
        h.FIRST,
        h.received(0, joinType="left"),
        "building",
        (None, None, 1),
        h.A,
        "generation 1 is already being built for it",
        1,
    ),
    "anything else supersedes the build": MessageRule(
        h.SWAP_READS, h.received_choice(1, h.C), "accepted", (1, None, 3), h.C, generation=3
    ),
    "the last valid message wins, also over the first build": MessageRule(
        h.FIRST_READS, h.received_choice(0, h.B), "accepted", (None, None, 2), h.B, generation=2
    ),
    "what stands by is built anew when it is asked for": MessageRule(
        h.SWAPPED, h.received_choice(1, h.A), "accepted", (2, 1, 3), h.A, generation=3
    ),
    "a start forces a build of what is live": MessageRule(
        h.LIVE, h.received(0, start="1h"), "accepted", (1, None, 2), h.A, generation=2
    ),
    "a start forces a build of what is being built": MessageRule(
        h.SWAPPING,
        h.received(1, start={"users": "latest"}),
        "accepted",
        (1, None, 3),
        h.B,
        generation=3,
    ),
    "an invalid message changes nothing": MessageRule(
        h.SWAPPED,
        h.received_raw(1, b"[]"),
        "rejected",
        (2, 1, None),
        h.B,
        "expected a JSON object, got []",
    ),
    "an invalid message does not touch a build": MessageRule(
        h.SWAP_READS,
        h.received_raw(1, b""),
        "rejected",
        (1, None, 2),
        h.B,
        "empty: expected a JSON object",
    ),
    "a topic that does not exist": MessageRule(
        h.LIVE, h.received(0, usersTopic="users_x"), "rejected", (1, None, None), h.A, h.NO_USERS_X
    ),
    "a topic that may not be read": MessageRule(
        h.LIVE,
        h.received(0, {"users_b": UNREADABLE}, usersTopic="users_b"),
        "rejected",
        (1, None, None),
        h.A,
        UNREADABLE,
    ),
    "an invalid message is rejected whole": MessageRule(
        h.SWAP_READS,
        h.received(1, usersTopic="users_x", accountsTopic="accounts_c", joinType="left"),
        "rejected",
        (1, None, 2),
        h.B,
        h.NO_USERS_X,
    ),
    "one topic for both sources": MessageRule(
        h.LIVE,
        h.received(0, usersTopic="accounts"),
        "rejected",
        (1, None, None),
        h.A,
        "usersTopic and accountsTopic are both accounts: they must differ",
    ),
    "topics may change places": MessageRule(
        h.LIVE,
        h.received(0, usersTopic="accounts", accountsTopic="users"),
        "accepted",
        (1, None, 2),
        DEFAULT.choice("accounts", "users"),
        generation=2,
    ),
    "the generation that is expected is live": MessageRule(
        h.LIVE,
        h.received_choice(0, h.B, expectedGeneration=1),
        "accepted",
        (1, None, 2),
        h.B,
        generation=2,
    ),
    "another generation than expected is live": MessageRule(
        h.SWAPPED,
        h.received_choice(1, h.C, expectedGeneration=1),
        "rejected",
        (2, 1, None),
        h.B,
        "expectedGeneration is 1, but generation 2 is live",
    ),
    "a generation is expected that is still being built": MessageRule(
        h.SWAPPING,
        h.received_choice(1, h.C, expectedGeneration=2),
        "rejected",
        (1, None, 2),
        h.B,
        "expectedGeneration is 2, but generation 1 is live",
    ),
    "a generation is expected while nothing is live": MessageRule(
        h.FIRST,
        h.received_choice(0, h.B, expectedGeneration=1),
        "rejected",
        (None, None, 1),
        h.A,
        "expectedGeneration is 1, but nothing is live",
    ),
    "generation 0 never was live": MessageRule(
        h.FIRST,
        h.received_choice(0, h.B, expectedGeneration=0),
        "rejected",
        (None, None, 1),
        h.A,
        "expectedGeneration is 0, but nothing is live",
    ),
    "a rollback: live and standby change places": MessageRule(
        h.SWAPPED, h.received(1, action="rollback"), "live", (1, 2, None), h.A, "rolled back", 1
    ),
    "a rollback can be rolled back": MessageRule(
        [*h.SWAPPED, h.received(1, action="rollback")],
        h.received(2, action="rollback"),
        "live",
        (2, 1, None),
        h.B,
        "rolled back",
        2,
    ),
    "a rollback cancels a build": MessageRule(
        h.FURTHER_READS,
        h.received(2, action="rollback"),
        "live",
        (1, 2, None),
        h.A,
        "rolled back",
        1,
    ),
    "a rollback away from what is down": MessageRule(
        [*h.SWAPPED, *[h.died(2)] * 6],
        h.received(1, action="rollback"),
        "live",
        (1, 2, None),
        h.A,
        "rolled back",
        1,
    ),
    "a rollback away from what is unusable and is being rebuilt": MessageRule(
        [*h.SWAPPED, Unrecoverable(2, "gone")],
        h.received(1, action="rollback"),
        "live",
        (1, 2, None),
        h.A,
        "rolled back",
        1,
    ),
    "a rollback to the generation before the expected one": MessageRule(
        h.SWAPPED,
        h.received(1, action="rollback", expectedGeneration=2),
        "live",
        (1, 2, None),
        h.A,
        "rolled back",
        1,
    ),
    "a rollback from a generation that is not live any more": MessageRule(
        h.SWAPPED,
        h.received(1, action="rollback", expectedGeneration=1),
        "rejected",
        (2, 1, None),
        h.B,
        "expectedGeneration is 1, but generation 2 is live",
    ),
    "no rollback before the first swap": MessageRule(
        h.LIVE, h.received(0, action="rollback"), "rejected", (1, None, None), h.A, NO_STANDBY
    ),
    "no rollback before anything is live": MessageRule(
        h.FIRST, h.received(0, action="rollback"), "rejected", (None, None, 1), h.A, NO_STANDBY
    ),
    "no rollback once the standby is retired": MessageRule(
        [*h.SWAPPED, h.ticked(1008.0)],
        h.received(1, action="rollback"),
        "rejected",
        (2, None, None),
        h.B,
        NO_STANDBY,
    ),
    "no rollback to what is down": MessageRule(
        [*h.SWAPPED, h.died(1)],
        h.received(1, action="rollback"),
        "rejected",
        (2, 1, None),
        h.B,
        "generation 1 is down: boom",
    ),
    "a rollback to what was down once and runs again": MessageRule(
        [*h.SWAPPED, h.died(1), QueryResumed(1)],
        h.received(1, action="rollback"),
        "live",
        (1, 2, None),
        h.A,
        "rolled back",
        1,
    ),
    "no rollback back to what is unusable": MessageRule(
        [*h.SWAPPED, Unrecoverable(2, "gone"), h.received(1, action="rollback")],
        h.received(2, action="rollback"),
        "rejected",
        (1, 2, None),
        h.A,
        "generation 2 is down: gone",
    ),
    "no rollback back to what was broken": MessageRule(
        [*h.SWAPPED, *[h.died(2)] * 6, h.received(1, action="rollback")],
        h.received(2, action="rollback"),
        "rejected",
        (1, 2, None),
        h.A,
        "generation 2 is down: boom",
    ),
    "a rollback that is refused does not touch a build": MessageRule(
        h.SWAP_READS, h.received(1, action="rollback"), "rejected", (1, None, 2), h.B, NO_STANDBY
    ),
    "a preview changes nothing": MessageRule(
        h.LIVE,
        h.received_choice(0, h.B, action="preview"),
        "previewed",
        (1, None, None),
        h.A,
        "would resolve to users_b inner accounts_b",
    ),
    "a preview leaves a build alone": MessageRule(
        h.SWAP_READS,
        h.received_choice(1, h.A, action="preview"),
        "previewed",
        (1, None, 2),
        h.B,
        "would resolve to users left accounts",
    ),
    "a preview with a start changes nothing": MessageRule(
        h.LIVE,
        h.received(0, action="preview", start="1h"),
        "previewed",
        (1, None, None),
        h.A,
        "would resolve to users left accounts",
    ),
    "a preview of what cannot be": MessageRule(
        h.LIVE,
        h.received(0, action="preview", usersTopic="users_x"),
        "rejected",
        (1, None, None),
        h.A,
        h.NO_USERS_X,
    ),
    "an id that was seen before is a no-op": MessageRule(
        [*h.LIVE, h.received_choice(0, h.A, id="7")],
        h.received_choice(1, h.B, id="7"),
        "repeated",
        (1, None, None),
        h.A,
        "id 7 was already decided",
    ),
    "the id of a message that was refused was seen": MessageRule(
        [*h.LIVE, h.received(0, usersTopic="users_x", id="7")],
        h.received_choice(1, h.B, id="7"),
        "repeated",
        (1, None, None),
        h.A,
        "id 7 was already decided",
    ),
    "the id of a preview was seen": MessageRule(
        [*h.LIVE, h.received_choice(0, h.B, id="7", action="preview")],
        h.received_choice(1, h.B, id="7"),
        "repeated",
        (1, None, None),
        h.A,
        "id 7 was already decided",
    ),
    "another id is another request": MessageRule(
        [*h.LIVE, h.received_choice(0, h.A, id="7")],
        h.received_choice(1, h.B, id="8"),
        "accepted",
        (1, None, 2),
        h.B,
        generation=2,
    ),
    "more slots than Spark has beside what is live": MessageRule(
        h.with_limits(h.LIVE, slots=7),
        h.received_choice(0, h.B),
        "rejected",
        (1, None, None),
        h.A,
        "users_b inner accounts_b needs 4 task slots beside the live generation, but "
        "3 of 7 are free; give Spark more in spark.master",
    ),
    "just as many slots as Spark has beside what is live": MessageRule(
        h.with_limits(h.LIVE, slots=8),
        h.received_choice(0, h.B),
        "accepted",
        (1, None, 2),
        h.B,
        generation=2,
    ),
    "a build that is superseded gives its slots back": MessageRule(
        h.with_limits(h.SWAP_READS, slots=8),
        h.received_choice(1, h.C),
        "accepted",
        (1, None, 3),
        h.C,
        generation=3,
    ),
    "partitions of a topic that is kept count, by what reads it": MessageRule(
        h.with_limits(h.LIVE, slots=8),
        h.received(0, {"users_b": TopicInfo(2)}, usersTopic="users_b"),
        "rejected",
        (1, None, None),
        h.A,
        "users_b left accounts needs 5 task slots beside the live generation, but "
        "4 of 8 are free; give Spark more in spark.master",
    ),
    "fewer slots than what is live already holds": MessageRule(
        [*h.LIVE, h.started(at=110.0, choice=h.A, limits=Limits(slots=3, shuffle_partitions=1))],
        h.received_choice(0, h.B),
        "rejected",
        (1, None, None),
        h.A,
        "users_b inner accounts_b needs 4 task slots beside the live generation, but "
        "0 of 3 are free; give Spark more in spark.master",
    ),
    "a preview of more slots than Spark has": MessageRule(
        h.with_limits(h.LIVE, slots=7),
        h.received_choice(0, h.B, action="preview"),
        "rejected",
        (1, None, None),
        h.A,
        "users_b inner accounts_b needs 4 task slots beside the live generation, but "
        "3 of 7 are free; give Spark more in spark.master",
    ),
    "a heartbeat needs no slots": MessageRule(
        h.with_limits(h.LIVE, slots=7),
        h.received_choice(0, h.A),
        "live",
        (1, None, None),
        h.A,
        "no change",
        1,
    ),
    "a cancellation needs no slots": MessageRule(
        h.with_limits([*h.FIRST, *LIVE_OF_THREE, h.received_choice(0, h.B)], slots=10),
        h.received(1, {"users": TopicInfo(3), "accounts": TopicInfo(1)}, **ALL_OF_A),
        "live",
        (1, None, None),
        h.A,
        "build of generation 2 cancelled",
        1,
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: str) -> None:
    expected = RULES[rule]
    history = [*expected.before, expected.message]
    state = h.after(history)
    position = expected.message.origin.position
    (reply,) = [one for one in h.new_outbox(history)[1] if one.origin.position == position]
    assert (reply.outcome, reply.reason, reply.generation) == (
        expected.outcome,
        expected.reason,
        expected.generation,
    )
    assert h.numbers(state) == expected.now
    assert state.desired == expected.desired
    assert state.position == {0: expected.message.origin.offset + 1}
    newest = state.building or state.live
    assert newest is None or newest.choice == expected.desired


@pytest.mark.parametrize("rule", RULES)
def test_a_redelivered_message_changes_nothing(rule: str) -> None:
    state = h.after([*RULES[rule].before, RULES[rule].message])
    assert decide(state, RULES[rule].message) is state


@pytest.mark.parametrize("rule", RULES)
def test_a_message_is_logged_with_its_resolution_and_effect(rule: str) -> None:
    message = RULES[rule].message
    place = f"{message.origin.partition}/{message.origin.offset}"
    lines = h.lines([*RULES[rule].before, message])
    assert lines[0] == f"INFO control {place} by kafka: {message.origin.raw}"
    second = [f"control {place} resolves to ", f"control {place} rejected: "]
    assert any(line.split(" ", 1)[1].startswith(tuple(second)) for line in lines[1:2])
    assert len(lines) >= 3
    assert lines[-1].startswith(f"INFO control {place}: ")


# Replies to the sender of a message, and to the senders of the messages that it overrides.
AFFECTED_SENDERS: dict[str, tuple[list[Fact], list[tuple[int, str, int | None]]]] = {
    "a swap": ([*h.LIVE, h.received_choice(0, h.B)], [(0, "accepted", 2)]),
    "a build of a message is superseded": (
        [*h.SWAPPING, h.received_choice(1, h.C)],
        [(0, "superseded", 2), (1, "accepted", 3)],
    ),
    "a build of the settings is superseded, and nobody asked": (
        [*h.FIRST, h.received_choice(0, h.B)],
        [(0, "accepted", 2)],
    ),
    "a build is cancelled": (
        [*h.SWAPPING, h.received_choice(1, h.A)],
        [(0, "cancelled", 2), (1, "live", 1)],
    ),
    "a rollback": (
        [*h.SWAPPED, h.received(1, action="rollback")],
        [(0, "rolled-back", 2), (1, "live", 1)],
    ),
    "a rollback that cancels": (
        [*h.FURTHER, h.received(2, action="rollback")],
        [(1, "cancelled", 3), (0, "rolled-back", 2), (2, "live", 1)],
    ),
}


@pytest.mark.parametrize("rule", AFFECTED_SENDERS)
def test_every_affected_sender_gets_a_reply(rule: str) -> None:
    history, expected = AFFECTED_SENDERS[rule]
    assert h.replies(history) == expected


LINES: dict[str, tuple[list[Fact], list[str]]] = {
    "a swap": (
        [*h.LIVE, h.received(0, joinType="inner")],
        [
            'INFO control 0/0 by kafka: {"joinType": "inner"}',
            "INFO control 0/0 resolves to users inner accounts",
            (
                "INFO control 0/0: building generation 2, users inner accounts beside generation 1,"
                " users left accounts"
            ),
        ],
    ),
    "the first build": (
        [*h.FIRST, h.received(0, joinType="inner")],
        [
            'INFO control 0/0 by kafka: {"joinType": "inner"}',
            "INFO control 0/0 resolves to users inner accounts",
            "INFO superseded: generation 1, users left accounts by generation 2",
            "INFO control 0/0: building generation 2, users inner accounts",
        ],
    ),
    "a heartbeat": (
        [*h.LIVE, h.received(0, joinType="left")],
        [
            'INFO control 0/0 by kafka: {"joinType": "left"}',
            "INFO control 0/0 resolves to users left accounts",
            "INFO control 0/0: no change, generation 1 is live",
        ],
    ),
    "noted": (
        [*h.SWAPPING, h.received(1, joinType="inner")],
        [
            'INFO control 0/1 by kafka: {"joinType": "inner"}',
            "INFO control 0/1 resolves to users_b inner accounts_b",
            "INFO control 0/1: no change, generation 2 is already being built for it",
        ],
    ),
    "a cancellation": (
        [*h.LIVE, h.received(0, joinType="inner"), h.received(1, joinType="left")],
        [
            'INFO control 0/1 by kafka: {"joinType": "left"}',
            "INFO control 0/1 resolves to users left accounts",
            (
                "INFO cancelled: generation 2, users inner accounts: control 0/1 requests the live"
                " choice"
            ),
            "INFO control 0/1: build of generation 2 cancelled, generation 1 is live",
        ],
    ),
    "a rollback": (
        [*h.FURTHER, h.received(2, action="rollback")],
        [
            'INFO control 0/2 by kafka: {"action": "rollback"}',
            "INFO control 0/2 resolves to users left accounts",
            (
                "INFO cancelled: generation 3, users_c left_outer accounts_c: rolled back to"
                " generation 1"
            ),
            (
                "INFO rolled back: generation 2, users_b inner accounts_b → generation 1,"
                " users left accounts"
            ),
            "INFO control 0/2: generation 1 is live again",
        ],
    ),
    "a rejection says that what is live goes on": (
        [*h.LIVE, h.received_raw(0, b"[]")],
        [
            "INFO control 0/0 by kafka: []",
            "WARN control 0/0 rejected: expected a JSON object, got []",
            "INFO control 0/0: no change, generation 1 keeps serving",
        ],
    ),
    "a rejection while nothing is live": (
        [*h.FIRST, h.received_raw(0, b"[]")],
        [
            "INFO control 0/0 by kafka: []",
            "WARN control 0/0 rejected: expected a JSON object, got []",
            "INFO control 0/0: no change",
        ],
    ),
    "a preview": (
        [*h.LIVE, h.received(0, joinType="inner", action="preview")],
        [
            'INFO control 0/0 by kafka: {"joinType": "inner", "action": "preview"}',
            "INFO control 0/0 resolves to users inner accounts",
            "INFO control 0/0: preview only, no change",
        ],
    ),
    "an id again": (
        [*h.LIVE, h.received(0, id="7"), h.received(1, id="7")],
        [
            'INFO control 0/1 by kafka: {"id": "7"}',
            "INFO control 0/1 resolves to nothing new: id 7 was already decided",
            "INFO control 0/1: no change",
        ],
    ),
    "an unknown field": (
        [*h.LIVE, h.received(0, joinType="left", jointype="x")],
        [
            'INFO control 0/0 by kafka: {"joinType": "left", "jointype": "x"}',
            'WARN control 0/0: unknown field "jointype", did you mean joinType?; it is ignored',
            "INFO control 0/0 resolves to users left accounts",
            "INFO control 0/0: no change, generation 1 is live",
        ],
    ),
    "what was given up is tried again": (
        [*h.LIVE_DOWN, h.received(0, joinType="left")],
        [
            'INFO control 0/0 by kafka: {"joinType": "left"}',
            "INFO control 0/0 resolves to users left accounts",
            "INFO control 0/0: its query is restarted, generation 1 is live",
        ],
    ),
}


@pytest.mark.parametrize("rule", LINES)
def test_log_lines(rule: str) -> None:
    history, expected = LINES[rule]
    assert h.lines(history) == expected


def test_raw_text_in_the_log_is_truncated() -> None:
    message = h.received_raw(0, b"\xff" * 2000)
    (first, *_) = h.lines([*h.LIVE, message])
    assert first == f"INFO control 0/0 by kafka: {message.origin.raw[:1024]}"


def test_a_message_that_confirms_the_live_choice_updates_live_at() -> None:
    state = h.after([*h.LIVE, h.ticked(109.0), h.received_choice(0, h.A)])
    before = h.after(h.LIVE).live
    assert before is not None
    assert state.live == replace(before, live_at=109.0)


def test_a_build_keeps_its_requester_time_and_start() -> None:
    message = h.received(0, start={"users": "1h"})
    building = h.after([*h.LIVE, message]).building
    assert building is not None
    assert (building.by, building.origin, building.start, building.requested_at) == (
        "kafka",
        replace(message.origin, read_order=104_000),
        {"users": "1h"},
        104.0,
    )


def test_repeating_a_build_request_retries_it_at_once() -> None:
    state = h.after([*h.SWAP_READS, h.died(2)])
    building = state.building
    assert building is not None
    assert building not in state.runnable()
    assert building in h.after([h.received_choice(1, h.B)], state).runnable()


def test_requesting_a_given_up_generation_resets_its_restarts() -> None:
    state = h.after([*h.LIVE_DOWN, h.received_choice(0, h.A)])
    live = state.live
    assert live is not None
    assert state.runnable() == (live,)
    assert (state.health_of(live).given_up, state.health_of(live).restarts) == (False, 0)
    assert not state.health_of(h.after([*[h.died(1)] * 5], state).live or live).given_up


def test_requesting_an_unrecoverable_generation_does_not_run_it() -> None:
    history = [
        *h.LIVE,
        Unrecoverable(1, "gone"),
        h.received(0, start="1h"),
        Unrecoverable(3, "gone"),
    ]
    state = h.after([*history, h.received_choice(1, h.A)])
    assert h.numbers(state) == (1, None, None)
    assert state.runnable() == ()


def test_a_superseded_build_ends() -> None:
    assert h.ends([*h.SWAPPING, h.received_choice(1, h.C)]) == [
        (2, "superseded", "by generation 3")
    ]


def test_a_cancelled_build_ends_as_superseded() -> None:
    assert h.ends([*h.SWAPPING, h.received_choice(1, h.A)]) == [
        (2, "superseded", "cancelled: control 0/1 requests the live choice")
    ]


def test_a_rollback_ends_no_generation_and_restarts_the_standby_time() -> None:
    history = [*h.SWAPPED, h.ticked(112.0), h.received(1, action="rollback")]
    assert h.ends(history) == []
    state = h.after(history)
    assert (state.swapped_at, state.standby_until) == (112.0, 1012.0)
    assert state.live is not None
    assert state.live.live_at == 112.0


def test_a_burst_redelivered_in_any_order_is_decided_once() -> None:
    burst = [
        h.received_choice(offset, choice) for offset, choice in enumerate([h.B, h.C, h.B, h.A, h.C])
    ]
    state = h.after([*h.LIVE, *burst])
    redelivered = h.after([burst[3], burst[0], burst[4], burst[2], burst[1]], state)
    assert redelivered is state
    assert state.last_number == 1 + 4  # one of the five cancels a build
    assert h.numbers(state) == (1, None, 5)


def test_each_partition_has_a_position_of_its_own() -> None:
    first, second = h.received_choice(5, h.B, partition=1), h.received_choice(2, h.C, partition=0)
    state = h.after([*h.LIVE, first, second])
    assert state.position == {1: 6, 0: 3}
    assert state.desired == h.C, "the last message that was read wins, wherever it stands"
    for again in (first, second, h.received_choice(1, h.B), h.received_choice(0, h.B, partition=1)):
        assert decide(state, again) is state
    assert decide(state, h.received_choice(0, h.B, partition=2)).desired == h.B


def test_log_lines_and_replies_name_partition_and_offset() -> None:
    history = [*h.LIVE, h.received_choice(5, h.B, partition=3)]
    lines, replies, _ = h.new_outbox(history)
    assert lines[0].startswith("INFO control 3/5 by kafka: ")
    assert lines[1] == f"INFO control 3/5 resolves to {h.B}"
    row = replies[0].control_raw_row(spec.DEFAULT)
    assert (row["partition"], row["offset"]) == (3, 5)
    record = replies[0].reply_record()
    assert (record["partition"], record["offset"]) == (3, 5)
    building = h.after(history).building
    assert building is not None
    assert building.origin is not None
    assert building.origin.position == "3-5"
    outbox = decide(h.after(history[:-1]), history[-1]).outbox
    keys = {one.control for one in outbox if isinstance(one, LogLine)}
    assert keys - {None} == {"3-5"}, "what programs read"


def _row_ids(state: State) -> list[str]:
    return [one.row_id for one in state.outbox if isinstance(one, Reply)]


def test_rows_sort_by_the_order_in_which_messages_were_read() -> None:
    positions = [(900, 0), (3, 2), (1, 1), (901, 0), (4, 2)]  # offset and partition
    read = [h.received(offset, partition=p, joinType="x") for offset, p in positions]
    ids = _row_ids(h.after([*h.LIVE, *read]))
    assert ids == sorted(ids)
    assert len(set(ids)) == len(positions)
    # also if the clock is set back
    later = h.after([*h.LIVE, *read, h.ticked(105.0, -90.0), h.received(0, partition=3)])
    assert _row_ids(later)[:-1] == ids
    assert _row_ids(later)[-1] > ids[-1]


def test_rows_of_a_topic_that_was_made_again_come_after_those_before() -> None:
    past = [Reply(h.received(n, partition=n).origin, "history", 1.0) for n in range(3)]
    folded = HistoryReplayed("t", {0: 1, 1: 1, 2: 1}, Request(), 3, tuple(past))
    state = h.after([*h.SWAPPED, folded, h.received(1, joinType="x")])
    ids = _row_ids(state)
    assert len({*ids[-4:]}) == 4
    assert ids[-4:] == sorted(ids[-4:])
    assert ids[-4] > max(ids[:-4])


def test_rows_come_after_those_of_a_ledger_that_was_lost() -> None:
    old = _row_ids(h.after([*h.LIVE, *(h.received(n) for n in range(50))]))
    restarted = h.started(at=h.after(h.LIVE).now + 60, choice=h.A)
    assert _row_ids(h.after([restarted, h.REPLAYED, h.received(0)]))[0] > old[-1]


def _reply_lines(state: State) -> list[int]:
    return [one.line for one in state.outbox if isinstance(one, Reply)]


def test_replies_are_numbered_without_gaps() -> None:
    past = [Reply(h.received(n).origin, "history", 1.0) for n in range(3)]
    folded = HistoryReplayed("t", {0: 3}, Request(), 3, tuple(past))
    swap: list[Fact] = [
        h.received_choice(3, h.B),
        SourcesResolved(2, h.reading(h.B)),
        CaughtUp(2, 5),
    ]
    lines = _reply_lines(h.after([*h.LIVE, h.received(0), folded, *swap]))
    assert len(lines) >= 8
    assert lines == list(range(lines[0], lines[0] + len(lines)))


def test_replies_after_a_ledger_that_was_lost_have_higher_numbers() -> None:
    old = _reply_lines(h.after([*h.LIVE, *(h.received(n) for n in range(50))]))
    restarted = h.started(at=h.after(h.LIVE).now + 60, choice=h.A)
    assert _reply_lines(h.after([restarted, h.REPLAYED, h.received(0)]))[0] > old[-1]


def test_every_reply_to_a_message_has_its_warnings() -> None:
    built: list[Fact] = [
        SourcesResolved(2, h.reading(h.B)),
        TopicsCreated(2, "id-2"),
        CaughtUp(2, ready_at=5),
    ]
    state = h.after([*h.LIVE, h.received_choice(0, h.B, colour=1), *built])
    replies = [item for item in state.outbox if isinstance(item, Reply)]
    assert replies[-1].outcome == "live"
    warnings = [reply.reply_record()["warnings"] for reply in replies]
    assert warnings == [['unknown field "colour"']] * len(replies)


def test_offsets_can_have_gaps() -> None:
    state = h.after([*h.LIVE, h.received_choice(7, h.B)])
    assert state.position == {0: 8}
    assert decide(state, h.received_choice(3, h.C)) is state


def test_the_last_1000_ids_are_remembered() -> None:
    history = [h.received(n, id=f"id-{n}", action="preview") for n in range(IDS_KEPT + 1)]
    state = h.after([*h.LIVE, *history])
    assert len(state.ids) == IDS_KEPT == 1000
    known = h.after([h.received_choice(IDS_KEPT + 1, h.B, id="id-1")], state)
    assert h.numbers(known) == (1, None, None)
    forgotten = h.after([h.received_choice(IDS_KEPT + 1, h.B, id="id-0")], state)
    assert h.numbers(forgotten) == (1, None, 2)


def test_an_invalid_message_does_not_use_up_its_id() -> None:
    invalid = h.received(0, id="7", usersTopic="a,b")
    assert h.numbers(h.after([*h.LIVE, invalid, h.received_choice(1, h.B, id="7")])) == (1, None, 2)


def test_a_rejection_echoes_the_id() -> None:
    (reply,) = h.new_outbox([*h.LIVE, h.received(0, id="7", usersTopic="users_x")])[1]
    assert reply.reply_record()["id"] == "7"


def test_a_message_before_the_start_is_rejected() -> None:
    (reply,) = [
        item for item in h.after([h.received_choice(0, h.B)]).outbox if isinstance(item, Reply)
    ]
    assert (reply.outcome, reply.reason) == ("rejected", "livejoin has not started yet")


# The history of a control topic that is read for the first time.
REPLAYED_HISTORIES: dict[
    str, tuple[list[Fact], HistoryReplayed, tuple[int | None, int | None, int | None], str, str]
] = {
    "no past: what the settings say is built": (
        h.FIRST[:1],
        HistoryReplayed("t", {0: 0}, Request()),
        (None, None, 1),
        str(h.A),
        "settings",
    ),
    "a past stands over the settings, and is built once": (
        h.FIRST[:1],
        HistoryReplayed("t", {0: 3}, Request({"users": "users_b"}, join="inner"), message_count=3),
        (None, None, 1),
        "users_b inner accounts",
        "history",
    ),
    "a past that reads one topic twice is ignored": (
        h.FIRST[:1],
        HistoryReplayed("t", {0: 3}, Request({"users": "accounts"}), message_count=3),
        (None, None, 1),
        str(h.A),
        "history",
    ),
    "a topic that was made again and says nothing leaves what is live": (
        h.SWAPPED,
        HistoryReplayed("t", {0: 0}, Request()),
        (2, 1, None),
        str(h.B),
        "kafka",
    ),
    "a topic that was made again and says what is live leaves it": (
        h.SWAPPED,
        HistoryReplayed("t", {0: 1}, Request({"users": "users_b"}), message_count=1),
        (2, 1, None),
        str(h.B),
        "kafka",
    ),
    "a topic that was made again and says what is being built leaves it": (
        h.SWAPPING,
        HistoryReplayed("t", {0: 1}, Request(join="inner"), message_count=1),
        (1, None, 2),
        str(h.B),
        "kafka",
    ),
    "a topic that was made again and says something else asks for it": (
        h.SWAPPED,
        HistoryReplayed("t", {0: 1}, Request(join="left"), message_count=1),
        (2, 1, 3),
        "users_b left accounts_b",
        "history",
    ),
    "a topic that was made again and reads one topic twice leaves what is live": (
        h.SWAPPED,
        HistoryReplayed("t", {0: 1}, Request({"accounts": "accounts_b"}), message_count=1),
        (2, 1, None),
        str(h.B),
        "kafka",
    ),
}


@pytest.mark.parametrize("rule", REPLAYED_HISTORIES)
def test_replayed_history(rule: str) -> None:
    before, replayed, expected, choice, by = REPLAYED_HISTORIES[rule]
    state = h.after([*before, replayed])
    newest = state.building or state.live
    assert newest is not None
    assert (h.numbers(state), str(newest.choice), newest.by) == (expected, choice, by)
    assert (state.topic_id, state.position) == ("t", replayed.position)


def test_log_lines_have_event_generation_and_message() -> None:
    """The page's timeline is built from these fields."""
    history = [
        *h.SWAPPED,
        h.received(1, action="rollback"),
        h.received_choice(2, h.A),
        h.received(3, expectedGeneration=7),
    ]
    state = h.after(history)
    lines = [item.row() for item in state.outbox if isinstance(item, LogLine)]
    assert [(line["event"], line["generation"], line["control"]) for line in lines] == [
        ("started", None, None),
        ("building", 1, None),
        ("building", 1, None),
        ("caught-up", 1, None),
        ("live", 1, None),
        ("received", None, "0-0"),
        ("resolved", None, "0-0"),
        ("accepted", 2, "0-0"),
        ("building", 2, "0-0"),
        ("caught-up", 2, "0-0"),
        ("live", 2, "0-0"),
        ("received", None, "0-1"),
        ("resolved", None, "0-1"),
        ("rolled-back", 1, "0-1"),
        ("confirmed", 1, "0-1"),
        ("received", None, "0-2"),
        ("resolved", None, "0-2"),
        ("confirmed", 1, "0-2"),
        ("received", None, "0-3"),
        ("rejected", None, "0-3"),
        ("no-change", None, "0-3"),
    ]


def test_replayed_replies_are_written_and_ids_remembered() -> None:
    reply = h.new_outbox([*h.LIVE, h.received_choice(0, h.B, id="7")])[1][0]
    replayed = HistoryReplayed("t", {0: 1}, Request({"users": "users_b"}), 1, (reply,), ("7",))
    state = h.after([*h.FIRST[:1], replayed])
    assert state.ids == ("7",)
    (written,) = [item for item in state.outbox if isinstance(item, Reply)]
    origin = replace(reply.origin, read_order=100_000)
    assert written == replace(reply, origin=origin, line=100_000)
    assert [item.msg for item in state.outbox if isinstance(item, LogLine)] == [
        "ready: first start",
        "1 earlier control messages resolve to users_b left accounts",
        "building: generation 1, users_b left accounts",
    ]


def test_an_ignored_history_is_logged_with_the_reason() -> None:
    assert h.lines(
        [*h.FIRST[:1], HistoryReplayed("t", {0: 1}, Request({"users": "accounts"}), 1)]
    ) == [
        "INFO 1 earlier control messages resolve to accounts left accounts",
        "WARN accounts left accounts reads accounts twice: earlier messages are ignored",
        "INFO building: generation 1, users left accounts",
    ]


def test_the_last_1000_ids_of_the_history_are_remembered() -> None:
    ids = tuple(str(n) for n in range(IDS_KEPT + 5))
    assert h.after([*h.FIRST[:1], HistoryReplayed("t", {0: 1}, Request(), ids=ids)]).ids == ids[5:]


def test_slots_of_a_generation_with_several_partitions() -> None:
    state = h.after([*h.FIRST, SourcesResolved(1, h.reading(h.A, partitions=3))])
    assert state.building is not None
    assert state.building.partitions_of("users") == 3
    assert state.building.partitions_of("users_b") is None
    assert state.slots_of(state.building) == 3 + 1 + 1 + 2
    assert state.slots_of(None) == 0
