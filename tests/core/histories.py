"""Histories: lists of facts that are applied to a fresh state one by one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from livejoin.core.control_messages import MessageRules, Request
from livejoin.core.control_records import parse_record
from livejoin.core.decide import decide
from livejoin.core.facts import (
    CaughtUp,
    ClockTicked,
    Fact,
    HistoryReplayed,
    LeaderStarted,
    MessageReceived,
    QueryDied,
    ResolutionFailed,
    SourcesResolved,
    TopicInfo,
    TopicsCreated,
)
from livejoin.core.generation import Generation, Reading
from livejoin.core.generation_decisions import MAX_RESTARTS
from livejoin.core.names import Names
from livejoin.core.spec import DEFAULT, Choice
from livejoin.core.state import EndedGeneration, Limits, LogLine, Reply, State

A = DEFAULT.choice("users", "accounts")
B = DEFAULT.choice("users_b", "accounts_b", join="inner")
C = DEFAULT.choice("users_c", "accounts_c", join="left_outer")
RULES = MessageRules(Names("livejoin"), "control")
TOPICS: Mapping[str, TopicInfo | str] = {
    topic: TopicInfo(partitions=1, records=10)
    for choice in (A, B, C)
    for topic in choice.topics.values()
}
NO_USERS_X = 'topic "users_x" does not exist'


def received_raw(
    offset: int,
    raw: bytes,
    topics: Mapping[str, TopicInfo | str] | None = None,
    partition: int = 0,
) -> MessageReceived:
    """A message with this raw text."""
    record = parse_record(partition, offset, 1000.0 + offset, "kafka", raw, RULES)
    return MessageReceived(
        record.origin, record.request, record.error, TOPICS if topics is None else topics
    )


def received(
    offset: int,
    topics: Mapping[str, TopicInfo | str] | None = None,
    partition: int = 0,
    **fields: Any,
) -> MessageReceived:
    """A message with these fields."""
    return received_raw(offset, json.dumps(fields).encode(), topics, partition)


def received_choice(offset: int, choice: Choice, **fields: Any) -> MessageReceived:
    """A message that requests every field of a choice."""
    requested: dict[str, Any] = {
        "usersTopic": choice.topics["users"],
        "accountsTopic": choice.topics["accounts"],
        "joinType": choice.join,
    }
    return received(offset, **requested, **fields)


def reading(choice: Choice, partitions: int = 1) -> dict[str, Reading]:
    """Readings of a generation: ten users in each partition, and an empty accounts topic."""
    numbers = range(partitions)
    return {
        "users": Reading(
            choice.topics["users"], "id-u", dict.fromkeys(numbers, 0), dict.fromkeys(numbers, 9)
        ),
        "accounts": Reading(choice.topics["accounts"], "id-a", {0: 0}, {}),
    }


def ticked(at: float, ahead_s: float = 0.0) -> ClockTicked:
    """A tick of both clocks, with the wall clock ahead by `ahead_s`."""
    return ClockTicked(at + ahead_s, at)


def started(at: float, choice: Choice, limits: Limits | None = None) -> LeaderStarted:
    """A leader starts, with both clocks equal."""
    return LeaderStarted(at, at, choice, limits or Limits())


def died(number: int) -> QueryDied:
    return QueryDied(number, "boom", counts_as_failure=True)


STARTED = started(at=100.0, choice=A)
REPLAYED = HistoryReplayed("id-c", {0: 0}, Request())
FIRST: list[Fact] = [STARTED, REPLAYED]
FIRST_RESOLVED: list[Fact] = [*FIRST, SourcesResolved(1, reading(A))]
FIRST_READS: list[Fact] = [*FIRST_RESOLVED, TopicsCreated(1, "id-1")]
WAITING: list[Fact] = [*FIRST, ResolutionFailed(1, "no users", missing=True)]
# it dies after every restart and is given up
FIRST_FAILED: list[Fact] = [*FIRST_READS, *[died(1)] * (MAX_RESTARTS + 1)]
LIVE: list[Fact] = [*FIRST_READS, ticked(104.0), CaughtUp(1, ready_at=77)]
SWAPPING: list[Fact] = [*LIVE, received_choice(0, B)]
SWAP_RESOLVED: list[Fact] = [*SWAPPING, SourcesResolved(2, reading(B))]
SWAP_READS: list[Fact] = [*SWAP_RESOLVED, TopicsCreated(2, "id-2")]
SWAPPED: list[Fact] = [*SWAP_READS, ticked(108.0), CaughtUp(2, ready_at=5)]
FURTHER: list[Fact] = [*SWAPPED, received_choice(1, C)]
FURTHER_RESOLVED: list[Fact] = [*FURTHER, SourcesResolved(3, reading(C))]
FURTHER_READS: list[Fact] = [*FURTHER_RESOLVED, TopicsCreated(3, "id-3")]
LIVE_DOWN: list[Fact] = [*LIVE, *[died(1)] * (MAX_RESTARTS + 1)]


def with_limits(history: Sequence[Fact], **limits: Any) -> list[Fact]:
    """The same history under other limits; bootstrap topic and state use two slots."""
    first = history[0]
    assert isinstance(first, LeaderStarted)
    return [
        replace(first, limits=replace(first.limits, **{"shuffle_partitions": 1, **limits})),
        *history[1:],
    ]


def after(history: Sequence[Fact], state: State | None = None) -> State:
    """The state after a history."""
    return reduce(decide, history, state or State())


def new_outbox(
    history: Sequence[Fact], state: State | None = None
) -> tuple[list[str], list[Reply], list[EndedGeneration]]:
    """Outbox items of the last fact of a history: log lines, replies, ended generations."""
    before = after(history[:-1], state)
    now = decide(before, history[-1])
    assert now.outbox[: len(before.outbox)] == before.outbox
    new = now.outbox[len(before.outbox) :]
    return (
        [f"{item.level} {item.msg}" for item in new if isinstance(item, LogLine)],
        [item for item in new if isinstance(item, Reply)],
        [item for item in new if isinstance(item, EndedGeneration)],
    )


def lines(history: Sequence[Fact], state: State | None = None) -> list[str]:
    """Log lines of the last fact of a history."""
    return new_outbox(history, state)[0]


def replies(history: Sequence[Fact]) -> list[tuple[int, str, int | None]]:
    """Replies of the last fact of a history: offset of the message, outcome, generation."""
    return [
        (reply.origin.offset, reply.outcome, reply.generation) for reply in new_outbox(history)[1]
    ]


def ends(history: Sequence[Fact]) -> list[tuple[int, str, str]]:
    """Generations ended by the last fact of a history: number, end, reason."""
    return [(ended.generation.number, ended.end, ended.message) for ended in new_outbox(history)[2]]


def numbers(state: State) -> tuple[int | None, int | None, int | None]:
    """Numbers of the live, the standby and the building generation."""
    live, standby, building = state.live, state.standby, state.building
    return _number(live), _number(standby), _number(building)


def _number(generation: Generation | None) -> int | None:
    return generation.number if generation else None
