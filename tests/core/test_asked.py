"""What a control message does. A rule: what came before, the message, and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from core.histories import (
    FIRST,
    FIRST_FAILED,
    FIRST_READS,
    FURTHER,
    FURTHER_READS,
    LIVE,
    LIVE_DOWN,
    NO_USERS_X,
    SWAP_READS,
    SWAPPED,
    SWAPPING,
    WAITING,
    A,
    B,
    C,
    after,
    ask,
    ask_for,
    died,
    ends,
    limited,
    lines,
    numbers,
    reading,
    replies,
    said_by,
    started,
    ticked,
    told,
)
from livejoin.core.control_messages import Request
from livejoin.core.decide import decide
from livejoin.core.facts import (
    Asked,
    CaughtUp,
    Fact,
    Folded,
    Found,
    Ran,
    Resolved,
    Spoilt,
)
from livejoin.core.outbox import Line, Reply
from livejoin.core.spec import Choice
from livejoin.core.state import IDS_KEPT, Limits

NO_STANDBY = (
    "no generation stands by: there was no swap yet, or standby_s has passed;"
    " ask for the topics and the join instead"
)
UNREADABLE = 'topic "users_b" may not be read'
LIVE_OF_THREE: list[Fact] = [Resolved(1, reading(A, partitions=3)), CaughtUp(1, 77)]
ALL_OF_A = {"usersTopic": "users", "accountsTopic": "accounts", "joinType": "left"}


@dataclass(frozen=True)
class Rule:
    before: Sequence[Fact]
    message: Asked
    outcome: str
    now: tuple[int | None, int | None, int | None]  # live, standby, building
    wanted: Choice
    reason: str = ""
    generation: int | None = None


RULES: dict[str, Rule] = {
    "anything new is built beside what is live": Rule(
        LIVE, ask_for(0, B), "accepted", (1, None, 2), B, generation=2
    ),
    "one field changes one thing, the others stay": Rule(
        LIVE,
        ask(0, joinType="inner"),
        "accepted",
        (1, None, 2),
        replace(A, join="inner"),
        generation=2,
    ),
    "while something is being built, what is left out is that": Rule(
        SWAPPING,
        ask(1, joinType="left"),
        "accepted",
        (1, None, 3),
        replace(B, join="left"),
        generation=3,
    ),
    "two messages in a burst add up": Rule(
        [*LIVE, ask(0, usersTopic="users_b")],
        ask(1, accountsTopic="accounts_b"),
        "accepted",
        (1, None, 3),
        Choice("users_b", "accounts_b"),
        generation=3,
    ),
    "after a build that failed, what is left out is live again": Rule(
        [*SWAP_READS, Spoilt(2, "gone")],
        ask(1, joinType="inner"),
        "accepted",
        (1, None, 3),
        replace(A, join="inner"),
        generation=3,
    ),
    "before anything is live, what is left out is what the settings say": Rule(
        WAITING,
        ask(0, usersTopic="users_b"),
        "accepted",
        (None, None, 2),
        Choice("users_b", "accounts"),
        generation=2,
    ),
    "with nothing live after a build that failed, what is left out is what was wanted": Rule(
        FIRST_FAILED,
        ask(0, joinType="inner"),
        "accepted",
        (None, None, 2),
        replace(A, join="inner"),
        generation=2,
    ),
    "with nothing live after a build that failed, the same again is built at once": Rule(
        FIRST_FAILED, ask_for(0, A), "accepted", (None, None, 2), A, generation=2
    ),
    "what is live already is a heartbeat": Rule(
        LIVE, ask_for(0, A), "live", (1, None, None), A, "no change", 1
    ),
    "a heartbeat need not name anything": Rule(
        LIVE, ask(0, usersTopic=None), "live", (1, None, None), A, "no change", 1
    ),
    "a heartbeat leaves the standby alone": Rule(
        SWAPPED, ask_for(1, B), "live", (2, 1, None), B, "no change", 2
    ),
    "what is live, while something else is built, cancels the build": Rule(
        SWAP_READS, ask_for(1, A), "live", (1, None, None), A, "generation 2 is not built", 1
    ),
    "what is being built already goes on": Rule(
        SWAPPING,
        ask_for(1, B),
        "building",
        (1, None, 2),
        B,
        "generation 2 is being built for it already",
        2,
    ),
    "what is being built as the first one goes on": Rule(
        FIRST,
        ask(0, joinType="left"),
        "building",
        (None, None, 1),
        A,
        "generation 1 is being built for it already",
        1,
    ),
    "anything else supersedes the build": Rule(
        SWAP_READS, ask_for(1, C), "accepted", (1, None, 3), C, generation=3
    ),
    "the last valid message wins, also over the first build": Rule(
        FIRST_READS, ask_for(0, B), "accepted", (None, None, 2), B, generation=2
    ),
    "what stands by is built anew when it is asked for": Rule(
        SWAPPED, ask_for(1, A), "accepted", (2, 1, 3), A, generation=3
    ),
    "a start forces a build of what is live": Rule(
        LIVE, ask(0, start="1h"), "accepted", (1, None, 2), A, generation=2
    ),
    "a start forces a build of what is being built": Rule(
        SWAPPING, ask(1, start={"users": "latest"}), "accepted", (1, None, 3), B, generation=3
    ),
    "an invalid message changes nothing": Rule(
        SWAPPED,
        said_by(1, b"[]"),
        "rejected",
        (2, 1, None),
        B,
        "expected a JSON object, got []",
    ),
    "an invalid message does not touch a build": Rule(
        SWAP_READS, said_by(1, b""), "rejected", (1, None, 2), B, "empty: expected a JSON object"
    ),
    "a topic that does not exist": Rule(
        LIVE, ask(0, usersTopic="users_x"), "rejected", (1, None, None), A, NO_USERS_X
    ),
    "a topic that may not be read": Rule(
        LIVE,
        ask(0, {"users_b": UNREADABLE}, usersTopic="users_b"),
        "rejected",
        (1, None, None),
        A,
        UNREADABLE,
    ),
    "an invalid message is rejected whole": Rule(
        SWAP_READS,
        ask(1, usersTopic="users_x", accountsTopic="accounts_c", joinType="left"),
        "rejected",
        (1, None, 2),
        B,
        NO_USERS_X,
    ),
    "one topic for both sources": Rule(
        LIVE,
        ask(0, usersTopic="accounts"),
        "rejected",
        (1, None, None),
        A,
        "usersTopic and accountsTopic are both accounts: they must differ",
    ),
    "topics may change places": Rule(
        LIVE,
        ask(0, usersTopic="accounts", accountsTopic="users"),
        "accepted",
        (1, None, 2),
        Choice("accounts", "users"),
        generation=2,
    ),
    "the generation that is expected is live": Rule(
        LIVE, ask_for(0, B, expectedGeneration=1), "accepted", (1, None, 2), B, generation=2
    ),
    "another generation than expected is live": Rule(
        SWAPPED,
        ask_for(1, C, expectedGeneration=1),
        "rejected",
        (2, 1, None),
        B,
        "expectedGeneration is 1, but generation 2 is live",
    ),
    "a generation is expected that is still being built": Rule(
        SWAPPING,
        ask_for(1, C, expectedGeneration=2),
        "rejected",
        (1, None, 2),
        B,
        "expectedGeneration is 2, but generation 1 is live",
    ),
    "a generation is expected while nothing is live": Rule(
        FIRST,
        ask_for(0, B, expectedGeneration=1),
        "rejected",
        (None, None, 1),
        A,
        "expectedGeneration is 1, but nothing is live",
    ),
    "generation 0 never was live": Rule(
        FIRST,
        ask_for(0, B, expectedGeneration=0),
        "rejected",
        (None, None, 1),
        A,
        "expectedGeneration is 0, but nothing is live",
    ),
    "a rollback: live and standby change places": Rule(
        SWAPPED, ask(1, action="rollback"), "live", (1, 2, None), A, "rolled back", 1
    ),
    "a rollback can be rolled back": Rule(
        [*SWAPPED, ask(1, action="rollback")],
        ask(2, action="rollback"),
        "live",
        (2, 1, None),
        B,
        "rolled back",
        2,
    ),
    "a rollback cancels a build": Rule(
        FURTHER_READS, ask(2, action="rollback"), "live", (1, 2, None), A, "rolled back", 1
    ),
    "a rollback away from what is down": Rule(
        [*SWAPPED, *[died(2)] * 6],
        ask(1, action="rollback"),
        "live",
        (1, 2, None),
        A,
        "rolled back",
        1,
    ),
    "a rollback away from what is unusable and is being rebuilt": Rule(
        [*SWAPPED, Spoilt(2, "gone")],
        ask(1, action="rollback"),
        "live",
        (1, 2, None),
        A,
        "rolled back",
        1,
    ),
    "a rollback to the generation before the expected one": Rule(
        SWAPPED,
        ask(1, action="rollback", expectedGeneration=2),
        "live",
        (1, 2, None),
        A,
        "rolled back",
        1,
    ),
    "a rollback from a generation that is not live any more": Rule(
        SWAPPED,
        ask(1, action="rollback", expectedGeneration=1),
        "rejected",
        (2, 1, None),
        B,
        "expectedGeneration is 1, but generation 2 is live",
    ),
    "no rollback before the first swap": Rule(
        LIVE, ask(0, action="rollback"), "rejected", (1, None, None), A, NO_STANDBY
    ),
    "no rollback before anything is live": Rule(
        FIRST, ask(0, action="rollback"), "rejected", (None, None, 1), A, NO_STANDBY
    ),
    "no rollback once the standby is retired": Rule(
        [*SWAPPED, ticked(1008.0)],
        ask(1, action="rollback"),
        "rejected",
        (2, None, None),
        B,
        NO_STANDBY,
    ),
    "no rollback to what is down": Rule(
        [*SWAPPED, died(1)],
        ask(1, action="rollback"),
        "rejected",
        (2, 1, None),
        B,
        "generation 1 is down: boom",
    ),
    "a rollback to what was down once and runs again": Rule(
        [*SWAPPED, died(1), Ran(1)],
        ask(1, action="rollback"),
        "live",
        (1, 2, None),
        A,
        "rolled back",
        1,
    ),
    "no rollback back to what is unusable": Rule(
        [*SWAPPED, Spoilt(2, "gone"), ask(1, action="rollback")],
        ask(2, action="rollback"),
        "rejected",
        (1, 2, None),
        A,
        "generation 2 is down: gone",
    ),
    "no rollback back to what was broken": Rule(
        [*SWAPPED, *[died(2)] * 6, ask(1, action="rollback")],
        ask(2, action="rollback"),
        "rejected",
        (1, 2, None),
        A,
        "generation 2 is down: boom",
    ),
    "a rollback that is refused does not touch a build": Rule(
        SWAP_READS, ask(1, action="rollback"), "rejected", (1, None, 2), B, NO_STANDBY
    ),
    "a preview changes nothing": Rule(
        LIVE,
        ask_for(0, B, action="preview"),
        "previewed",
        (1, None, None),
        A,
        "would resolve to users_b inner accounts_b",
    ),
    "a preview leaves a build alone": Rule(
        SWAP_READS,
        ask_for(1, A, action="preview"),
        "previewed",
        (1, None, 2),
        B,
        "would resolve to users left accounts",
    ),
    "a preview with a start changes nothing": Rule(
        LIVE,
        ask(0, action="preview", start="1h"),
        "previewed",
        (1, None, None),
        A,
        "would resolve to users left accounts",
    ),
    "a preview of what cannot be": Rule(
        LIVE,
        ask(0, action="preview", usersTopic="users_x"),
        "rejected",
        (1, None, None),
        A,
        NO_USERS_X,
    ),
    "an id that was seen before is a no-op": Rule(
        [*LIVE, ask_for(0, A, id="7")],
        ask_for(1, B, id="7"),
        "repeated",
        (1, None, None),
        A,
        "id 7 was decided before",
    ),
    "the id of a message that was refused was seen": Rule(
        [*LIVE, ask(0, usersTopic="users_x", id="7")],
        ask_for(1, B, id="7"),
        "repeated",
        (1, None, None),
        A,
        "id 7 was decided before",
    ),
    "the id of a preview was seen": Rule(
        [*LIVE, ask_for(0, B, id="7", action="preview")],
        ask_for(1, B, id="7"),
        "repeated",
        (1, None, None),
        A,
        "id 7 was decided before",
    ),
    "another id is another request": Rule(
        [*LIVE, ask_for(0, A, id="7")],
        ask_for(1, B, id="8"),
        "accepted",
        (1, None, 2),
        B,
        generation=2,
    ),
    "more slots than Spark has beside what is live": Rule(
        limited(LIVE, slots=7),
        ask_for(0, B),
        "rejected",
        (1, None, None),
        A,
        "users_b inner accounts_b needs 4 task slots beside what is live, and 3 of 7 are free;"
        " give Spark more in spark.master",
    ),
    "just as many slots as Spark has beside what is live": Rule(
        limited(LIVE, slots=8), ask_for(0, B), "accepted", (1, None, 2), B, generation=2
    ),
    "a build that is superseded gives its slots back": Rule(
        limited(SWAP_READS, slots=8), ask_for(1, C), "accepted", (1, None, 3), C, generation=3
    ),
    "partitions of a topic that is kept count, by what reads it": Rule(
        limited(LIVE, slots=8),
        ask(0, {"users_b": Found(2)}, usersTopic="users_b"),
        "rejected",
        (1, None, None),
        A,
        "users_b left accounts needs 5 task slots beside what is live, and 4 of 8 are free;"
        " give Spark more in spark.master",
    ),
    "fewer slots than what is live already holds": Rule(
        [*LIVE, started(at=110.0, choice=A, limits=Limits(slots=3, shuffle=1))],
        ask_for(0, B),
        "rejected",
        (1, None, None),
        A,
        "users_b inner accounts_b needs 4 task slots beside what is live, and 0 of 3 are free;"
        " give Spark more in spark.master",
    ),
    "a preview of more slots than Spark has": Rule(
        limited(LIVE, slots=7),
        ask_for(0, B, action="preview"),
        "rejected",
        (1, None, None),
        A,
        "users_b inner accounts_b needs 4 task slots beside what is live, and 3 of 7 are free;"
        " give Spark more in spark.master",
    ),
    "a heartbeat needs no slots": Rule(
        limited(LIVE, slots=7), ask_for(0, A), "live", (1, None, None), A, "no change", 1
    ),
    "a cancellation needs no slots": Rule(
        limited([*FIRST, *LIVE_OF_THREE, ask_for(0, B)], slots=10),
        ask(1, {"users": Found(3), "accounts": Found(1)}, **ALL_OF_A),
        "live",
        (1, None, None),
        A,
        "generation 2 is not built",
        1,
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: str) -> None:
    expected = RULES[rule]
    history = [*expected.before, expected.message]
    state = after(history)
    (answer,) = [one for one in told(history)[1] if one.origin == expected.message.origin]
    assert (answer.outcome, answer.reason, answer.generation) == (
        expected.outcome,
        expected.reason,
        expected.generation,
    )
    assert numbers(state) == expected.now
    assert state.wanted == expected.wanted
    assert state.position == expected.message.origin.offset + 1
    newest = state.building or state.live
    assert newest is None or newest.choice == expected.wanted


@pytest.mark.parametrize("rule", RULES)
def test_a_message_that_comes_again_changes_nothing(rule: str) -> None:
    state = after([*RULES[rule].before, RULES[rule].message])
    assert decide(state, RULES[rule].message) is state


@pytest.mark.parametrize("rule", RULES)
def test_a_message_leaves_three_facts_in_the_log(rule: str) -> None:
    message = RULES[rule].message
    offset = message.origin.offset
    said = lines([*RULES[rule].before, message])
    assert said[0] == f"INFO control {offset} by kafka: {message.origin.raw}"
    second = [f"control {offset} resolves to ", f"control {offset} rejected: "]
    assert any(line.split(" ", 1)[1].startswith(tuple(second)) for line in said[1:2])
    assert len(said) >= 3
    changes = f"control {offset}: "
    assert said[-1].startswith(tuple(f"INFO {change}" for change in changes))


# Whom a message answers besides its own sender: the messages that what it ends came from.
OTHERS: dict[str, tuple[list[Fact], list[tuple[int, str, int | None]]]] = {
    "a swap": ([*LIVE, ask_for(0, B)], [(0, "accepted", 2)]),
    "a build of a message is superseded": (
        [*SWAPPING, ask_for(1, C)],
        [(0, "superseded", 2), (1, "accepted", 3)],
    ),
    "a build of the settings is superseded, and nobody asked": (
        [*FIRST, ask_for(0, B)],
        [(0, "accepted", 2)],
    ),
    "a build is cancelled": (
        [*SWAPPING, ask_for(1, A)],
        [(0, "cancelled", 2), (1, "live", 1)],
    ),
    "a rollback": (
        [*SWAPPED, ask(1, action="rollback")],
        [(0, "rolled-back", 2), (1, "live", 1)],
    ),
    "a rollback that cancels": (
        [*FURTHER, ask(2, action="rollback")],
        [(1, "cancelled", 3), (0, "rolled-back", 2), (2, "live", 1)],
    ),
}


@pytest.mark.parametrize("rule", OTHERS)
def test_everyone_concerned_is_answered(rule: str) -> None:
    history, expected = OTHERS[rule]
    assert replies(history) == expected


LINES: dict[str, tuple[list[Fact], list[str]]] = {
    "a swap": (
        [*LIVE, ask(0, joinType="inner")],
        [
            'INFO control 0 by kafka: {"joinType": "inner"}',
            "INFO control 0 resolves to users inner accounts",
            (
                "INFO control 0: building generation 2, users inner accounts beside generation 1,"
                " users left accounts"
            ),
        ],
    ),
    "the first build": (
        [*FIRST, ask(0, joinType="inner")],
        [
            'INFO control 0 by kafka: {"joinType": "inner"}',
            "INFO control 0 resolves to users inner accounts",
            "INFO superseded: generation 1, users left accounts by generation 2",
            "INFO control 0: building generation 2, users inner accounts",
        ],
    ),
    "a heartbeat": (
        [*LIVE, ask(0, joinType="left")],
        [
            'INFO control 0 by kafka: {"joinType": "left"}',
            "INFO control 0 resolves to users left accounts",
            "INFO control 0: no change, generation 1 is live",
        ],
    ),
    "noted": (
        [*SWAPPING, ask(1, joinType="inner")],
        [
            'INFO control 1 by kafka: {"joinType": "inner"}',
            "INFO control 1 resolves to users_b inner accounts_b",
            "INFO control 1: no change, generation 2 is being built for it already",
        ],
    ),
    "a cancellation": (
        [*LIVE, ask(0, joinType="inner"), ask(1, joinType="left")],
        [
            'INFO control 1 by kafka: {"joinType": "left"}',
            "INFO control 1 resolves to users left accounts",
            "INFO cancelled: generation 2, users inner accounts: control 1 asks for what is live",
            "INFO control 1: generation 2 is not built, generation 1 is live",
        ],
    ),
    "a rollback": (
        [*FURTHER, ask(2, action="rollback")],
        [
            'INFO control 2 by kafka: {"action": "rollback"}',
            "INFO control 2 resolves to users left accounts",
            (
                "INFO cancelled: generation 3, users_c left_outer accounts_c: rolled back to"
                " generation 1"
            ),
            (
                "INFO rolled back: generation 2, users_b inner accounts_b → generation 1,"
                " users left accounts"
            ),
            "INFO control 2: generation 1 is live again",
        ],
    ),
    "a rejection says that what is live goes on": (
        [*LIVE, said_by(0, b"[]")],
        [
            "INFO control 0 by kafka: []",
            "WARN control 0 rejected: expected a JSON object, got []",
            "INFO control 0: nothing changes, generation 1 goes on serving",
        ],
    ),
    "a rejection while nothing is live": (
        [*FIRST, said_by(0, b"[]")],
        [
            "INFO control 0 by kafka: []",
            "WARN control 0 rejected: expected a JSON object, got []",
            "INFO control 0: nothing changes",
        ],
    ),
    "a preview": (
        [*LIVE, ask(0, joinType="inner", action="preview")],
        [
            'INFO control 0 by kafka: {"joinType": "inner", "action": "preview"}',
            "INFO control 0 resolves to users inner accounts",
            "INFO control 0: a preview, nothing changes",
        ],
    ),
    "an id again": (
        [*LIVE, ask(0, id="7"), ask(1, id="7")],
        [
            'INFO control 1 by kafka: {"id": "7"}',
            "INFO control 1 resolves to nothing new: id 7 was decided before",
            "INFO control 1: no change",
        ],
    ),
    "an unknown field": (
        [*LIVE, ask(0, joinType="left", jointype="x")],
        [
            'INFO control 0 by kafka: {"joinType": "left", "jointype": "x"}',
            'WARN control 0: unknown field "jointype", did you mean joinType?; it is ignored',
            "INFO control 0 resolves to users left accounts",
            "INFO control 0: no change, generation 1 is live",
        ],
    ),
    "what was given up is tried again": (
        [*LIVE_DOWN, ask(0, joinType="left")],
        [
            'INFO control 0 by kafka: {"joinType": "left"}',
            "INFO control 0 resolves to users left accounts",
            "INFO control 0: its query is tried again, generation 1 is live",
        ],
    ),
}


@pytest.mark.parametrize("rule", LINES)
def test_lines(rule: str) -> None:
    history, expected = LINES[rule]
    assert lines(history) == expected


def test_the_raw_text_in_the_log_is_cut() -> None:
    message = said_by(0, b"\xff" * 2000)
    (first, *_) = lines([*LIVE, message])
    assert first == f"INFO control 0 by kafka: {message.origin.raw[:1024]}"


def test_a_heartbeat_refreshes_when_the_choice_was_last_confirmed() -> None:
    state = after([*LIVE, ticked(109.0), ask_for(0, A)])
    before = after(LIVE).live
    assert before is not None
    assert state.live == replace(before, live_at=109.0)


def test_a_build_remembers_who_asked_for_it_when_and_from_where_on() -> None:
    message = ask(0, start={"users": "1h"})
    building = after([*LIVE, message]).building
    assert building is not None
    assert (building.by, building.origin, building.start, building.requested_at) == (
        "kafka",
        message.origin,
        {"users": "1h"},
        104.0,
    )


def test_to_ask_again_for_what_is_being_built_tries_it_again_now() -> None:
    state = after([*SWAP_READS, died(2)])
    building = state.building
    assert building is not None
    assert building not in state.running()
    assert building in after([ask_for(1, B)], state).running()


def test_to_ask_again_for_what_is_given_up_tries_it_again_with_as_many_restarts() -> None:
    state = after([*LIVE_DOWN, ask_for(0, A)])
    live = state.live
    assert live is not None
    assert state.running() == (live,)
    assert (state.of(live).broken, state.of(live).restarts) == (False, 0)
    assert not state.of(after([*[died(1)] * 5], state).live or live).broken


def test_to_ask_again_for_what_is_unusable_does_not_run_it() -> None:
    history = [*LIVE, Spoilt(1, "gone"), ask(0, start="1h"), Spoilt(3, "gone")]
    state = after([*history, ask_for(1, A)])
    assert numbers(state) == (1, None, None)
    assert state.running() == ()


def test_a_superseded_build_ends() -> None:
    assert ends([*SWAPPING, ask_for(1, C)]) == [(2, "superseded", "by generation 3")]


def test_a_cancelled_build_ends_as_superseded() -> None:
    assert ends([*SWAPPING, ask_for(1, A)]) == [
        (2, "superseded", "cancelled: control 1 asks for what is live")
    ]


def test_a_rollback_ends_nothing_and_moves_the_time_of_the_standby() -> None:
    history = [*SWAPPED, ticked(112.0), ask(1, action="rollback")]
    assert ends(history) == []
    state = after(history)
    assert (state.moved_at, state.standby_until) == (112.0, 1012.0)
    assert state.live is not None
    assert state.live.live_at == 112.0


def test_out_of_a_burst_in_any_order_of_delivery_each_message_counts_once() -> None:
    burst = [ask_for(offset, choice) for offset, choice in enumerate([B, C, B, A, C])]
    state = after([*LIVE, *burst])
    again = after([burst[3], burst[0], burst[4], burst[2], burst[1]], state)
    assert again is state
    assert state.last_number == 1 + 4  # one of the five cancels
    assert numbers(state) == (1, None, 5)


def test_offsets_may_have_gaps() -> None:
    state = after([*LIVE, ask_for(7, B)])
    assert state.position == 8
    assert decide(state, ask_for(3, C)) is state


def test_the_last_thousand_ids_are_known() -> None:
    history = [ask(n, id=f"id-{n}", action="preview") for n in range(IDS_KEPT + 1)]
    state = after([*LIVE, *history])
    assert len(state.ids) == IDS_KEPT == 1000
    known = after([ask_for(IDS_KEPT + 1, B, id="id-1")], state)
    assert numbers(known) == (1, None, None)
    forgotten = after([ask_for(IDS_KEPT + 1, B, id="id-0")], state)
    assert numbers(forgotten) == (1, None, 2)


def test_an_invalid_message_does_not_use_up_its_id() -> None:
    wrong = ask(0, id="7", usersTopic="a,b")
    assert numbers(after([*LIVE, wrong, ask_for(1, B, id="7")])) == (1, None, 2)


def test_a_rejection_echoes_the_id() -> None:
    (reply,) = told([*LIVE, ask(0, id="7", usersTopic="users_x")])[1]
    assert reply.record()["id"] == "7"


def test_before_livejoin_has_started_nothing_can_be_asked_for() -> None:
    (reply,) = [one for one in after([ask_for(0, B)]).untold if isinstance(one, Reply)]
    assert (reply.outcome, reply.reason) == ("rejected", "livejoin has not started yet")


# The past of a control topic that is new to us.
PAST: dict[str, tuple[list[Fact], Folded, tuple[int | None, int | None, int | None], str, str]] = {
    "no past: what the settings say is built": (
        FIRST[:1],
        Folded("t", 0, Request()),
        (None, None, 1),
        str(A),
        "settings",
    ),
    "a past stands over the settings, and is built once": (
        FIRST[:1],
        Folded("t", 3, Request("users_b", join="inner"), count=3),
        (None, None, 1),
        "users_b inner accounts",
        "history",
    ),
    "a past that reads one topic twice is ignored": (
        FIRST[:1],
        Folded("t", 3, Request("accounts"), count=3),
        (None, None, 1),
        str(A),
        "history",
    ),
    "a topic that was made again and says nothing leaves what is live": (
        SWAPPED,
        Folded("t", 0, Request()),
        (2, 1, None),
        str(B),
        "kafka",
    ),
    "a topic that was made again and says what is live leaves it": (
        SWAPPED,
        Folded("t", 1, Request("users_b"), count=1),
        (2, 1, None),
        str(B),
        "kafka",
    ),
    "a topic that was made again and says what is being built leaves it": (
        SWAPPING,
        Folded("t", 1, Request(join="inner"), count=1),
        (1, None, 2),
        str(B),
        "kafka",
    ),
    "a topic that was made again and says something else asks for it": (
        SWAPPED,
        Folded("t", 1, Request(join="left"), count=1),
        (2, 1, 3),
        "users_b left accounts_b",
        "history",
    ),
    "a topic that was made again and reads one topic twice leaves what is live": (
        SWAPPED,
        Folded("t", 1, Request("accounts_b"), count=1),
        (2, 1, None),
        str(B),
        "kafka",
    ),
}


@pytest.mark.parametrize("rule", PAST)
def test_past(rule: str) -> None:
    before, folded, expected, choice, by = PAST[rule]
    state = after([*before, folded])
    newest = state.building or state.live
    assert newest is not None
    assert (numbers(state), str(newest.choice), newest.by) == (expected, choice, by)
    assert (state.topic_id, state.position) == ("t", folded.position)


def test_the_past_is_told_and_its_ids_are_known() -> None:
    old = told([*LIVE, ask_for(0, B, id="7")])[1][0]
    folded = Folded("t", 1, Request("users_b"), 1, (old,), ("7",))
    state = after([*FIRST[:1], folded])
    assert state.ids == ("7",)
    assert old in state.untold
    assert [one.msg for one in state.untold if isinstance(one, Line)] == [
        "ready: a first start",
        "1 control messages of the past come to users_b left accounts",
        "building: generation 1, users_b left accounts",
    ]


def test_a_past_that_is_ignored_says_why() -> None:
    assert lines([*FIRST[:1], Folded("t", 1, Request("accounts"), 1)]) == [
        "INFO 1 control messages of the past come to accounts left accounts",
        "WARN accounts left accounts reads accounts twice: the past is ignored",
        "INFO building: generation 1, users left accounts",
    ]


def test_of_the_ids_of_the_past_a_thousand_are_known() -> None:
    ids = tuple(str(n) for n in range(IDS_KEPT + 5))
    assert after([*FIRST[:1], Folded("t", 1, Request(), ids=ids)]).ids == ids[5:]


def test_slots_of_what_reads_many_partitions() -> None:
    state = after([*FIRST, Resolved(1, reading(A, partitions=3))])
    assert state.building is not None
    assert state.building.partitions("users") == 3
    assert state.building.partitions("users_b") is None
    assert state.slots_of(state.building) == 3 + 1 + 1 + 2
    assert state.slots_of(None) == 0
