"""Histories: lists of facts that are told to a fresh state one by one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from livejoin.core.control_messages import Request, Rules
from livejoin.core.control_records import understood
from livejoin.core.decide import decide
from livejoin.core.facts import (
    Asked,
    CaughtUp,
    Died,
    Fact,
    Folded,
    Found,
    NotResolved,
    Resolved,
    Started,
    Ticked,
    TopicsMade,
)
from livejoin.core.generation import Generation, Reading
from livejoin.core.health import MAX_RESTARTS
from livejoin.core.names import Names
from livejoin.core.outbox import Ended, Line, Reply
from livejoin.core.spec import Choice
from livejoin.core.state import Limits, State

A = Choice("users", "accounts")
B = Choice("users_b", "accounts_b", "inner")
C = Choice("users_c", "accounts_c", "left_outer")
RULES = Rules(Names("livejoin"), "control")
TOPICS: Mapping[str, Found | str] = {
    topic: Found(partitions=1, records=10)
    for choice in (A, B, C)
    for topic in (choice.users, choice.accounts)
}
NO_USERS_X = 'topic "users_x" does not exist'


def said_by(offset: int, raw: bytes, topics: Mapping[str, Found | str] | None = None) -> Asked:
    """A message as somebody wrote it."""
    one = understood(offset, 1000.0 + offset, "kafka", raw, RULES)
    return Asked(one.origin, one.request, one.wrong, TOPICS if topics is None else topics)


def ask(offset: int, topics: Mapping[str, Found | str] | None = None, **fields: Any) -> Asked:
    """A message with these fields."""
    return said_by(offset, json.dumps(fields).encode(), topics)


def ask_for(offset: int, choice: Choice, **fields: Any) -> Asked:
    """A message that asks for all of a choice."""
    wanted: dict[str, Any] = {
        "usersTopic": choice.users,
        "accountsTopic": choice.accounts,
        "joinType": choice.join,
    }
    return ask(offset, **wanted, **fields)


def reading(choice: Choice, partitions: int = 1) -> dict[str, Reading]:
    """Where a generation reads: ten users in each partition, and accounts that are empty."""
    numbers = range(partitions)
    return {
        "users": Reading(
            choice.users, "id-u", dict.fromkeys(numbers, 0), dict.fromkeys(numbers, 9)
        ),
        "accounts": Reading(choice.accounts, "id-a", {0: 0}, {}),
    }


def ticked(at: float, ahead_s: float = 0.0) -> Ticked:
    """Time has passed. Both clocks show the same, unless the one on the wall was set."""
    return Ticked(at + ahead_s, at)


def started(at: float, choice: Choice, limits: Limits | None = None) -> Started:
    """A process starts, and both clocks show the same."""
    return Started(at, at, choice, limits or Limits())


def died(number: int) -> Died:
    return Died(number, "boom", counts=True)


STARTED = started(at=100.0, choice=A)
FOLDED = Folded("id-c", 0, Request())
FIRST: list[Fact] = [STARTED, FOLDED]
FIRST_RESOLVED: list[Fact] = [*FIRST, Resolved(1, reading(A))]
FIRST_READS: list[Fact] = [*FIRST_RESOLVED, TopicsMade(1, "id-1")]
WAITING: list[Fact] = [*FIRST, NotResolved(1, "no users", missing=True)]
# it dies at once, is tried again every time, and given up
FIRST_FAILED: list[Fact] = [*FIRST_READS, *[died(1)] * (MAX_RESTARTS + 1)]
LIVE: list[Fact] = [*FIRST_READS, ticked(104.0), CaughtUp(1, ready_at=77)]
SWAPPING: list[Fact] = [*LIVE, ask_for(0, B)]
SWAP_RESOLVED: list[Fact] = [*SWAPPING, Resolved(2, reading(B))]
SWAP_READS: list[Fact] = [*SWAP_RESOLVED, TopicsMade(2, "id-2")]
SWAPPED: list[Fact] = [*SWAP_READS, ticked(108.0), CaughtUp(2, ready_at=5)]
FURTHER: list[Fact] = [*SWAPPED, ask_for(1, C)]
FURTHER_RESOLVED: list[Fact] = [*FURTHER, Resolved(3, reading(C))]
FURTHER_READS: list[Fact] = [*FURTHER_RESOLVED, TopicsMade(3, "id-3")]
LIVE_DOWN: list[Fact] = [*LIVE, *[died(1)] * (MAX_RESTARTS + 1)]


def limited(history: Sequence[Fact], **limits: Any) -> list[Fact]:
    """The same under other limits, with a feed and one partition of the state: two slots."""
    first = history[0]
    assert isinstance(first, Started)
    return [replace(first, limits=replace(first.limits, **{"shuffle": 1, **limits})), *history[1:]]


def after(history: Sequence[Fact], state: State | None = None) -> State:
    """The state that a history comes to."""
    return reduce(decide, history, state or State())


def told(
    history: Sequence[Fact], state: State | None = None
) -> tuple[list[str], list[Reply], list[Ended]]:
    """What the last fact of a history has told: lines, replies, ends."""
    before = after(history[:-1], state)
    now = decide(before, history[-1])
    assert now.untold[: len(before.untold)] == before.untold
    new = now.untold[len(before.untold) :]
    return (
        [f"{one.level} {one.msg}" for one in new if isinstance(one, Line)],
        [one for one in new if isinstance(one, Reply)],
        [one for one in new if isinstance(one, Ended)],
    )


def lines(history: Sequence[Fact], state: State | None = None) -> list[str]:
    """What the last fact of a history adds to the log."""
    return told(history, state)[0]


def replies(history: Sequence[Fact]) -> list[tuple[int, str, int | None]]:
    """Whom the last fact of a history answers: offset of the message, outcome, generation."""
    return [(one.origin.offset, one.outcome, one.generation) for one in told(history)[1]]


def ends(history: Sequence[Fact]) -> list[tuple[int, str, str]]:
    """Which generations the last fact of a history ends, how, and why."""
    return [(one.generation.number, one.end, one.message) for one in told(history)[2]]


def numbers(state: State) -> tuple[int | None, int | None, int | None]:
    """Which generations are live, stand by and are being built."""
    live, standby, building = state.live, state.standby, state.building
    return _number(live), _number(standby), _number(building)


def _number(generation: Generation | None) -> int | None:
    return generation.number if generation else None
