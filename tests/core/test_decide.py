"""Decisions on all facts except control messages."""

import ast
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

import pytest

from core import histories as h
from livejoin.core import transitions
from livejoin.core.decide import decide
from livejoin.core.facts import (
    BuildProgressed,
    CaughtUp,
    ControlTopicLost,
    ControlTopicOpened,
    Fact,
    PartitionsAdded,
    QueryDied,
    QueryResumed,
    RecordsCounted,
    ResolutionFailed,
    SourcesChecked,
    SourcesResolved,
    SourcesUnreachable,
    TopicsCreated,
    Unrecoverable,
)
from livejoin.core.generation import Generation, Reading
from livejoin.core.generation_decisions import MAX_RESTARTS
from livejoin.core.ledger_format import from_json, to_json
from livejoin.core.state import Limits, LogLine, State

GIVEN_UP = [h.died(1)] * (MAX_RESTARTS + 1)
UNREACHABLE = QueryDied(1, "no broker", counts_as_failure=False)
NO_TOPIC = SourcesChecked(1, "no topic")
PARTITIONS_ADDED = PartitionsAdded(1, h.reading(h.A, 3))
TOO_MANY = "6 task slots are needed and Spark has 5"
FULL = RecordsCounted(1, {"read": 7}, ("final_ui",))


def _ticks(start: float, end: float) -> list[Fact]:
    """Ticks of one second each."""
    return [h.ticked(start + second) for second in range(1, round(end - start) + 1)]


@dataclass(frozen=True)
class FactRule:
    history: Sequence[Fact]
    now: tuple[int | None, int | None, int | None]  # live, standby, building
    of: int | None = None  # generation whose health is checked
    health: dict[str, Any] | None = None


RULES: dict[str, FactRule] = {
    "a first start builds nothing before the past is known": FactRule(
        [h.STARTED], (None, None, None)
    ),
    "nor does time": FactRule([h.STARTED, h.ticked(101.0)], (None, None, None)),
    "then what is wanted is built": FactRule(h.FIRST, (None, None, 1)),
    "a topic that is not there is waited for": FactRule(
        h.WAITING, (None, None, 1), 1, {"error": "no users", "retry_at": 102.0}
    ),
    "for as long as it takes, while nothing else can be shown": FactRule(
        [*h.WAITING, *_ticks(100, 300)], (None, None, 1)
    ),
    "a broken connection is waited for": FactRule(
        [*h.FIRST, ResolutionFailed(1, "no broker")],
        (None, None, 1),
        1,
        {"error": "no broker", "retry_at": 102.0},
    ),
    "waiting ends when the topic is there": FactRule(
        [*h.WAITING, h.ticked(103.0), SourcesResolved(1, h.reading(h.A))],
        (None, None, 1),
        1,
        {"error": "", "retry_at": 0.0, "progressed_at": 103.0, "reading_since": 103.0},
    ),
    "beside what is live a topic that is not there fails the build": FactRule(
        [*h.SWAPPING, ResolutionFailed(2, "no users_b", missing=True)], (1, None, None)
    ),
    "beside what is live a broken connection is waited for": FactRule(
        [*h.SWAPPING, ResolutionFailed(2, "no broker")], (1, None, 2), 2, {"error": "no broker"}
    ),
    "but not for ever": FactRule(
        [*h.SWAPPING, ResolutionFailed(2, "no broker"), *_ticks(104, 165)], (1, None, None)
    ),
    "what is resolved cannot become unresolved": FactRule(
        [*h.SWAP_READS, ResolutionFailed(2, "no users_b", missing=True)],
        (1, None, 2),
        2,
        {"error": ""},
    ),
    "progress is noted, and when": FactRule(
        [*h.FIRST_READS, h.ticked(103.0), BuildProgressed(1, 4, 10)],
        (None, None, 1),
        1,
        {"done": 4, "total": 10, "progressed_at": 103.0, "percent": 40},
    ),
    "no progress is noted as such": FactRule(
        [*h.FIRST_READS, BuildProgressed(1, 4, 10), h.ticked(103.0), BuildProgressed(1, 4, 12)],
        (None, None, 1),
        1,
        {"done": 4, "total": 12, "progressed_at": 100.0},
    ),
    "a build that caught up is live": FactRule(h.LIVE, (1, None, None), 1, {"done": 0, "total": 0}),
    "the one that was live stands by": FactRule(h.SWAPPED, (2, 1, None)),
    "a further swap retires the older one": FactRule(
        [*h.FURTHER_READS, CaughtUp(3, 9)], (3, 2, None)
    ),
    "with standby_s = 0 nothing stands by": FactRule(
        h.with_limits(h.SWAPPED, standby_s=0), (2, None, None)
    ),
    "what is broken does not stand by": FactRule(
        [
            *h.LIVE_DOWN,
            h.received_choice(0, h.B),
            SourcesResolved(2, h.reading(h.B)),
            CaughtUp(2, 5),
        ],
        (2, None, None),
    ),
    "what stood by stays where what was live is broken": FactRule(
        [
            *h.SWAPPED,
            *[h.died(2)] * 6,
            h.received_choice(1, h.C),
            SourcesResolved(3, h.reading(h.C)),
            CaughtUp(3, 5),
        ],
        (3, 1, None),
    ),
    "progress of what is live changes nothing": FactRule(
        [*h.LIVE, BuildProgressed(1, 4, 10)], (1, None, None), 1, {"done": 0}
    ),
    "what is live cannot catch up again": FactRule([*h.LIVE, CaughtUp(1, 99)], (1, None, None)),
    "nor can what stands by": FactRule([*h.SWAPPED, CaughtUp(1, 99)], (2, 1, None)),
    "a standby is retired after standby_s": FactRule(
        [*h.SWAPPED, h.ticked(1008.0)], (2, None, None)
    ),
    "and not before": FactRule([*h.SWAPPED, h.ticked(1007.9)], (2, 1, None)),
    "a standby may stay until the next swap": FactRule(
        [*h.with_limits(h.SWAPPED, standby_s=math.inf), h.ticked(9e9)], (2, 1, None)
    ),
    "a build that stalls has failed": FactRule([*h.SWAP_READS, *_ticks(104, 165)], (1, None, None)),
    "and not a moment before": FactRule([*h.SWAP_READS, *_ticks(104, 164)], (1, None, 2)),
    "every progress gives it as much time again": FactRule(
        [*h.SWAP_READS, *_ticks(104, 160), BuildProgressed(2, 1, 10), *_ticks(160, 220)],
        (1, None, 2),
    ),
    "a build that stalls beside nothing has failed as well": FactRule(
        [*h.FIRST_READS, QueryResumed(1), *_ticks(100, 161)], (None, None, None)
    ),
    "while Spark may still be starting, a build has two minutes more": FactRule(
        [*h.FIRST_READS, *_ticks(100, 280)], (None, None, 1)
    ),
    "then it has stalled": FactRule([*h.FIRST_READS, *_ticks(100, 281)], (None, None, None)),
    "time in which livejoin itself stood still does not count": FactRule(
        [*h.SWAP_READS, h.ticked(9000.0), *_ticks(9000, 9060)], (1, None, 2)
    ),
    "time in which the cluster of the sources does not answer does not count either": FactRule(
        [*h.SWAP_READS, *_ticks(104, 160), SourcesUnreachable(), *_ticks(160, 220)],
        (1, None, 2),
    ),
    "once it answers, the build has as much time as ever": FactRule(
        [*h.SWAP_READS, *_ticks(104, 160), SourcesUnreachable(), *_ticks(160, 221)],
        (1, None, None),
    ),
    "it does not fail a build that cannot be resolved meanwhile": FactRule(
        [
            *h.SWAPPING,
            ResolutionFailed(2, "gone"),
            *_ticks(104, 160),
            SourcesUnreachable(),
            ResolutionFailed(2, "gone"),
            *_ticks(160, 220),
        ],
        (1, None, 2),
    ),
    "without a build it changes nothing": FactRule(
        [*h.SWAPPED, SourcesUnreachable()], (2, 1, None)
    ),
    "a live query that died is tried again after a second": FactRule(
        [*h.LIVE, h.died(1)],
        (1, None, None),
        1,
        {"error": "boom", "restarts": 1, "retry_at": 105.0, "given_up": False},
    ),
    "a build that died is tried again as well": FactRule(
        [*h.FIRST_READS, h.died(1)],
        (None, None, 1),
        1,
        {"error": "boom", "restarts": 1, "retry_at": 101.0},
    ),
    "and so is a standby": FactRule(
        [*h.SWAPPED, h.died(1)], (2, 1, None), 1, {"error": "boom", "retry_at": 109.0}
    ),
    "a query that runs again is no trouble any more": FactRule(
        [*h.LIVE, h.died(1), QueryResumed(1)], (1, None, None), 1, {"error": "", "restarts": 1}
    ),
    "a build that runs again is no trouble any more": FactRule(
        [*h.SWAP_READS, h.died(2), QueryResumed(2)], (1, None, 2), 2, {"error": "", "restarts": 1}
    ),
    "what is given up does not run again by itself": FactRule(
        [*h.LIVE_DOWN, QueryResumed(1)], (1, None, None), 1, {"error": "boom", "given_up": True}
    ),
    "what is given up cannot die again": FactRule(
        [*h.LIVE_DOWN, QueryDied(1, "bang", counts_as_failure=True)],
        (1, None, None),
        1,
        {"error": "boom", "restarts": 6, "given_up": True},
    ),
    "a death after new positions counts from the beginning": FactRule(
        [*h.LIVE, *[h.died(1)] * 3, QueryDied(1, "boom", counts_as_failure=False)],
        (1, None, None),
        1,
        {"restarts": 0, "error": "boom", "retry_at": 105.0, "given_up": False},
    ),
    "an unreachable broker never counts": FactRule(
        [*h.LIVE, *[UNREACHABLE] * 100],
        (1, None, None),
        1,
        {"restarts": 0, "given_up": False, "retry_at": 105.0},
    ),
    "what is live is given up after five restarts": FactRule(
        [*h.LIVE, *GIVEN_UP],
        (1, None, None),
        1,
        {"given_up": True, "unrecoverable": False, "restarts": 6},
    ),
    "a build that dies as often has failed": FactRule(
        [*h.SWAP_READS, *[h.died(2)] * 6], (1, None, None)
    ),
    "a standby that dies as often is retired": FactRule([*h.SWAPPED, *GIVEN_UP], (2, None, None)),
    "a death of what stands by does not touch what is live": FactRule(
        [*h.SWAPPED, h.died(1)], (2, 1, None), 2, {"error": ""}
    ),
    "what is live and cannot go on is built anew": FactRule(
        [*h.LIVE, Unrecoverable(1, "another topic")],
        (1, None, 2),
        1,
        {"given_up": True, "unrecoverable": True, "error": "another topic"},
    ),
    "also when it was given up already": FactRule(
        [*h.LIVE_DOWN, Unrecoverable(1, "another topic")], (1, None, 2), 1, {"unrecoverable": True}
    ),
    "once": FactRule([*h.LIVE, Unrecoverable(1, "x"), Unrecoverable(1, "x")], (1, None, 2)),
    "not while something else is being built": FactRule(
        [*h.SWAP_READS, Unrecoverable(1, "another topic")], (1, None, 2)
    ),
    "but after that has failed": FactRule(
        [*h.SWAP_READS, Unrecoverable(1, "x"), Unrecoverable(2, "y"), *_ticks(104, 114)],
        (1, None, 3),
    ),
    "and not at once": FactRule(
        [*h.SWAP_READS, Unrecoverable(1, "x"), Unrecoverable(2, "y"), *_ticks(104, 113)],
        (1, None, None),
    ),
    "a build that cannot go on has failed": FactRule(
        [*h.SWAP_READS, Unrecoverable(2, "another topic")], (1, None, None)
    ),
    "a standby that cannot go on is retired": FactRule(
        [*h.SWAPPED, Unrecoverable(1, "another topic")], (2, None, None)
    ),
    "a build that failed is not tried again where something is live": FactRule(
        [*h.SWAP_READS, Unrecoverable(2, "y"), *_ticks(104, 200)], (1, None, None)
    ),
    "a build that failed is tried again after ten seconds where nothing is live": FactRule(
        [*h.FIRST_FAILED, *_ticks(100, 110)], (None, None, 2)
    ),
    "not sooner": FactRule([*h.FIRST_FAILED, *_ticks(100, 109)], (None, None, None)),
    "a build that needs more slots than there are has failed": FactRule(
        [*h.with_limits(h.SWAPPING, slots=9), SourcesResolved(2, h.reading(h.B, partitions=3))],
        (1, None, None),
    ),
    "a build takes the slots of the standby where it must": FactRule(
        h.with_limits(h.FURTHER_READS, slots=11), (2, None, 3)
    ),
    "and only then": FactRule(h.with_limits(h.FURTHER_READS, slots=12), (2, 1, 3)),
    "a build that reads on after its death is no trouble any more": FactRule(
        [*h.SWAP_READS, h.died(2), BuildProgressed(2, 1, 10)],
        (1, None, 2),
        2,
        {"error": "", "done": 1},
    ),
    "nor is one that is complete": FactRule(
        [*h.SWAP_READS, h.died(2), CaughtUp(2, 5)], (2, 1, None), 2, {"error": ""}
    ),
    "less than before is no progress": FactRule(
        [*h.SWAP_READS, BuildProgressed(2, 5, 10), h.ticked(106.0), BuildProgressed(2, 0, 10)],
        (1, None, 2),
        2,
        {"done": 5, "progressed_at": 104.0},
    ),
    "but a new run of a build begins anew": FactRule(
        [
            *h.SWAP_READS,
            BuildProgressed(2, 5, 10),
            h.died(2),
            h.ticked(106.0),
            BuildProgressed(2, 1, 10),
        ],
        (1, None, 2),
        2,
        {"done": 1, "progressed_at": 106.0},
    ),
    "a topic that cannot be read is known": FactRule(
        [*h.LIVE, NO_TOPIC], (1, None, None), 1, {"blocked": "no topic", "problem": "no topic"}
    ),
    "until it can be read again": FactRule(
        [*h.LIVE, NO_TOPIC, SourcesChecked(1)], (1, None, None), 1, {"blocked": "", "problem": ""}
    ),
    "what is down is said before what blocks it": FactRule(
        [*h.LIVE, NO_TOPIC, h.died(1)], (1, None, None), 1, {"problem": "boom"}
    ),
    "more partitions are read by the same generation": FactRule(
        [*h.LIVE, PARTITIONS_ADDED],
        (1, None, None),
        1,
        {"error": "restarting to read more partitions"},
    ),
    "also by one that is being built": FactRule(
        [*h.SWAP_READS, PartitionsAdded(2, h.reading(h.B, 3))], (1, None, 2), 2, {"given_up": False}
    ),
    "more partitions take the slots of the standby where they must": FactRule(
        h.with_limits([*h.SWAPPED, PartitionsAdded(2, h.reading(h.B, 3))], slots=8), (2, None, None)
    ),
    "and only then, too": FactRule(
        h.with_limits([*h.SWAPPED, PartitionsAdded(2, h.reading(h.B, 3))], slots=10), (2, 1, None)
    ),
    "with more partitions than slots what is live is given up": FactRule(
        h.with_limits([*h.LIVE, PARTITIONS_ADDED], slots=5),
        (1, None, None),
        1,
        {"given_up": True, "error": f"its topics have more partitions now: {TOO_MANY}"},
    ),
    "what was given up does not grow": FactRule([*h.LIVE_DOWN, PARTITIONS_ADDED], (1, None, None)),
    "a build with more partitions than slots has failed": FactRule(
        h.with_limits([*h.SWAP_READS, PartitionsAdded(2, h.reading(h.B, 30))], slots=20),
        (1, None, None),
    ),
    "a standby with more partitions than slots is retired": FactRule(
        h.with_limits([*h.SWAPPED, PartitionsAdded(1, h.reading(h.A, 30))], slots=20),
        (2, None, None),
    ),
    "figures are remembered": FactRule(
        [*h.LIVE, RecordsCounted(1, {"read": 7})], (1, None, None), 1, {"figures": {"read": 7}}
    ),
    "a table that is full is known, and nothing is given up": FactRule(
        [*h.LIVE, FULL],
        (1, None, None),
        1,
        {"given_up": False, "error": "", "capped": ("final_ui",)},
    ),
    "a build whose table is full goes on": FactRule(
        [*h.SWAP_READS, replace(FULL, generation=2)], (1, None, 2)
    ),
    "after a start a query is down until it is through": FactRule(
        [*h.LIVE, h.STARTED], (1, None, None), 1, {"error": "livejoin has just started"}
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: str) -> None:
    expected = RULES[rule]
    state = h.after(expected.history)
    assert h.numbers(state) == expected.now
    if expected.health is not None:
        generation = state.find(expected.of or 0)
        assert generation is not None
        health = state.health_of(generation)
        assert {name: getattr(health, name) for name in expected.health} == expected.health


@pytest.mark.parametrize("rule", RULES)
def test_health_is_kept_only_for_existing_generations(rule: str) -> None:
    state = h.after(RULES[rule].history)
    assert set(state.health) <= {generation.number for generation in state.generations}


LINES: dict[str, tuple[list[Fact], list[str]]] = {
    "a first start says so": ([h.STARTED], ["INFO ready: first start"]),
    "then it says what it builds": (h.FIRST, ["INFO building: generation 1, users left accounts"]),
    "a build says how much it reads": (
        h.FIRST_RESOLVED,
        ["INFO building: generation 1 reads users (10 records) and accounts (0 records)"],
    ),
    "waiting says for what": (h.WAITING, ["WARN waiting: no users"]),
    "waiting for the same says nothing again": ([*h.WAITING, h.WAITING[-1]], []),
    "waiting for something else says so": (
        [*h.WAITING, ResolutionFailed(1, "no accounts")],
        ["WARN waiting: no accounts"],
    ),
    "progress is not worth a line": ([*h.FIRST_READS, BuildProgressed(1, 4, 10)], []),
    "caught up says how long it took, and what is live": (
        h.LIVE,
        [
            "INFO caught up: generation 1 after 4.0 s",
            "INFO live: generation 1, users left accounts",
        ],
    ),
    "a swap says from what to what": (
        h.SWAPPED,
        [
            "INFO caught up: generation 2 after 4.0 s",
            "INFO live: generation 1, users left accounts → generation 2, users_b inner accounts_b",
        ],
    ),
    "a further swap says what is retired": (
        [*h.FURTHER_READS, CaughtUp(3, 9)],
        [
            "INFO caught up: generation 3 after 0.0 s",
            (
                "INFO live: generation 2, users_b inner accounts_b → generation 3,"
                " users_c left_outer accounts_c"
            ),
            "INFO retired: generation 1, users left accounts: replaced by a newer standby",
        ],
    ),
    "what stood by long enough says so": (
        [*h.SWAPPED, h.ticked(1008.0)],
        ["INFO retired: generation 1, users left accounts: standby_s (900 s) has passed"],
    ),
    "a failure says what failed, why, and that the old one goes on": (
        [*h.SWAPPING, ResolutionFailed(2, "no users_b", missing=True)],
        [
            (
                "ERROR failed: generation 2, users_b inner accounts_b: no users_b;"
                " generation 1 keeps serving"
            )
        ],
    ),
    "a stall says how long it was": (
        [*h.SWAP_READS, *_ticks(104, 165)],
        [
            (
                "ERROR failed: generation 2, users_b inner accounts_b: no progress for 60 s;"
                " generation 1 keeps serving"
            )
        ],
    ),
    "and what the trouble was": (
        [*h.SWAPPING, ResolutionFailed(2, "no broker"), *_ticks(104, 165)],
        [
            (
                "ERROR failed: generation 2, users_b inner accounts_b: no progress for 60 s:"
                " no broker; generation 1 keeps serving"
            )
        ],
    ),
    "a failure with nothing live": (
        h.FIRST_FAILED,
        ["ERROR failed: generation 1, users left accounts: died 6 times without progress: boom"],
    ),
    "a death says why, and when the next try is": (
        [*h.LIVE, h.died(1)],
        ["ERROR restarting: generation 1 died: boom; retrying in 1 s"],
    ),
    "running again says so": (
        [*h.LIVE, h.died(1), QueryResumed(1)],
        ["INFO live again: generation 1"],
    ),
    "a build that runs again says so": (
        [*h.SWAP_READS, h.died(2), QueryResumed(2)],
        ["INFO running again: generation 2"],
    ),
    "running as ever says nothing": ([*h.LIVE, QueryResumed(1)], []),
    "waiting for a broker is said once": ([*h.LIVE, UNREACHABLE, UNREACHABLE], []),
    "a topic that cannot be read is said": (
        [*h.LIVE, NO_TOPIC],
        ["ERROR generation 1 cannot read its topics: no topic"],
    ),
    "once": ([*h.LIVE, NO_TOPIC, NO_TOPIC], []),
    "and that it can be again": (
        [*h.LIVE, NO_TOPIC, SourcesChecked(1)],
        ["INFO generation 1 can read its topics again"],
    ),
    "more partitions are said": (
        [*h.LIVE, PARTITIONS_ADDED],
        ["INFO generation 1 now reads users (3 partitions) and accounts (1 partition)"],
    ),
    "and that once": ([*h.LIVE, PARTITIONS_ADDED, PARTITIONS_ADDED], []),
    "running again is said once": ([*h.LIVE, h.died(1), QueryResumed(1), QueryResumed(1)], []),
    "time says nothing": ([h.STARTED, h.ticked(101.0)], []),
    "giving up says what died how often and why, and what to do": (
        h.LIVE_DOWN,
        [
            (
                "ERROR failed: generation 1 died 6 times without progress: boom; its last rows"
                " are kept; fix the cause, then send the same choice again"
            )
        ],
    ),
    "a standby that is given up says what that means": (
        [*h.SWAPPED, *GIVEN_UP],
        [
            (
                "ERROR failed: generation 1 died 6 times without progress: boom; no rollback to it"
                " is possible"
            ),
            (
                "INFO retired: generation 1, users left accounts: died 6 times without progress:"
                " boom"
            ),
        ],
    ),
    "what cannot go on says why, and what follows": (
        [*h.LIVE, Unrecoverable(1, "another topic")],
        [
            (
                "ERROR generation 1 cannot continue: another topic; its last rows are kept until"
                " the same choice is rebuilt"
            ),
            "INFO building: generation 2, users left accounts",
        ],
    ),
    "too few slots say how many there are": (
        [*h.with_limits(h.SWAPPING, slots=9), SourcesResolved(2, h.reading(h.B, partitions=3))],
        [
            (
                "ERROR failed: generation 2, users_b inner accounts_b: 10 task slots are needed and"
                " Spark has 9; generation 1 keeps serving"
            )
        ],
    ),
    "a standby whose slots are needed says so": (
        h.with_limits(h.FURTHER_RESOLVED, slots=11),
        [
            "INFO retired: generation 1, users left accounts: its task slots are needed",
            "INFO building: generation 3 reads users_c (10 records) and accounts_c (0 records)",
        ],
    ),
    "listening says from where on": (
        [*h.SWAPPED, ControlTopicOpened("control", {0: 0})],
        ["INFO listening to control from 0/1"],
    ),
    "a table that is full is said": (
        [*h.LIVE, FULL],
        [
            (
                "WARN generation 1: final_ui has reached max_rows (2000000): the oldest rows are"
                " dropped as new ones arrive"
            )
        ],
    ),
    "and that once for each": (
        [*h.LIVE, FULL, replace(FULL, capped=("final_ui", "users_ui", "accounts_ui"))],
        [
            (
                "WARN generation 1: users_ui and accounts_ui have reached max_rows (2000000):"
                " the oldest rows are dropped as new ones arrive"
            )
        ],
    ),
    "and not again": ([*h.LIVE, FULL, FULL], []),
    "not listening says why": ([*h.LIVE, ControlTopicLost("boom")], ["ERROR not listening: boom"]),
    "not listening is said once": (
        [*h.LIVE, ControlTopicLost("boom"), ControlTopicLost("boom")],
        [],
    ),
    "not listening for another reason says so": (
        [*h.LIVE, ControlTopicLost("boom"), ControlTopicLost("bang")],
        ["ERROR not listening: bang"],
    ),
}


@pytest.mark.parametrize("rule", LINES)
def test_log_lines(rule: str) -> None:
    history, expected = LINES[rule]
    assert h.lines(history) == expected


# The requester of a generation gets replies until its end.
REPLIES: dict[str, tuple[list[Fact], list[tuple[int, str, int | None]]]] = {
    "it reads": (h.SWAP_RESOLVED, [(0, "building", 2)]),
    "it caught up and is live": (h.SWAPPED, [(0, "caught-up", 2), (0, "live", 2)]),
    "nobody asked for the first one": (h.LIVE, []),
    "it failed": ([*h.SWAP_READS, Unrecoverable(2, "x")], [(0, "failed", 2)]),
    "it needs too many slots": (
        [*h.with_limits(h.SWAPPING, slots=9), SourcesResolved(2, h.reading(h.B, partitions=3))],
        [(0, "failed", 2)],
    ),
    "it retired": (
        [*h.SWAPPED, h.received(1, action="rollback"), h.ticked(2000.0)],
        [(0, "retired", 2)],
    ),
    "progress is no outcome": ([*h.SWAP_READS, BuildProgressed(2, 1, 2)], []),
}


@pytest.mark.parametrize("rule", REPLIES)
def test_replies(rule: str) -> None:
    history, expected = REPLIES[rule]
    assert h.replies(history) == expected


ENDS: dict[str, tuple[list[Fact], list[tuple[int, str, str]]]] = {
    "failed": ([*h.SWAP_READS, Unrecoverable(2, "x")], [(2, "failed", "x")]),
    "retired by time": (
        [*h.SWAPPED, h.ticked(2000.0)],
        [(1, "retired", "standby_s (900 s) has passed")],
    ),
    "retired by a swap": (
        [*h.FURTHER_READS, CaughtUp(3, 9)],
        [(1, "retired", "replaced by a newer standby")],
    ),
    "retired without standing by": (
        h.with_limits(h.SWAPPED, standby_s=0),
        [(1, "retired", "replaced by another generation")],
    ),
    "a swap ends nothing": (h.SWAPPED, []),
}


@pytest.mark.parametrize("rule", ENDS)
def test_ends(rule: str) -> None:
    history, expected = ENDS[rule]
    assert h.ends(history) == expected


def test_the_live_generation_keeps_the_details_of_its_build() -> None:
    assert h.after(h.LIVE).live == Generation(
        1,
        h.A,
        requested_at=100.0,
        by="settings",
        sources=h.reading(h.A),
        ready_at=77,
        live_at=104.0,
        took_s=4.0,
        changelog_id="id-1",
    )


def test_a_resolved_generation_keeps_its_sources_and_fingerprint() -> None:
    building = h.after([*h.FIRST, SourcesResolved(1, h.reading(h.A), "4.3.0/2")]).building
    assert building is not None
    assert (building.sources, building.fingerprint) == (h.reading(h.A), "4.3.0/2")


def test_sources_are_resolved_once() -> None:
    # the executor may resolve twice: another fact can give the same plan before the first result
    later = {**h.reading(h.A), "accounts": Reading("accounts", "id-a", {0: 5}, {0: 9})}
    state = h.after(h.FIRST_READS)
    assert decide(state, SourcesResolved(1, later)) is state


def test_restarts_back_off_exponentially_and_then_give_up() -> None:
    state, delays = h.after(h.LIVE), []
    live = state.live
    assert live is not None
    for _ in range(MAX_RESTARTS):
        state = decide(state, h.died(1))
        delays.append(state.health_of(live).retry_at - state.monotonic)
        assert not state.health_of(live).given_up
    assert delays == [1, 2, 4, 8, 16]
    state = decide(state, h.died(1))
    assert state.health_of(live).given_up
    assert state.live == live  # its last rows are still served
    assert state.runnable() == ()


def test_an_automatic_rebuild_replaces_the_unrecoverable_generation() -> None:
    history = [
        *h.SWAPPED,
        Unrecoverable(2, "x"),
        SourcesResolved(3, h.reading(h.B)),
        CaughtUp(3, 5),
    ]
    state = h.after(history)
    assert h.numbers(state) == (3, 1, None)
    assert state.live is not None
    assert (state.live.choice, state.live.by, state.live.origin) == (h.B, "livejoin", None)
    assert h.ends(history) == [(2, "retired", "replaced by another generation")]


RESTARTS: dict[str, tuple[Sequence[Fact], str]] = {
    "with what is live": (h.LIVE, "ready: resuming generation 1, users left accounts"),
    "with the first build": (h.FIRST, "ready: resuming generation 1, users left accounts"),
    "with a build beside what is live": (
        h.SWAP_READS,
        "ready: resuming generation 1, users left accounts",
    ),
    "with what stands by": (
        h.SWAPPED,
        "ready: resuming generation 2, users_b inner accounts_b",
    ),
    "with nothing": (h.FIRST_FAILED, "ready: first start"),
}


@pytest.mark.parametrize("rule", RESTARTS)
def test_a_restart_resumes_the_ledger_state_whatever_the_settings(rule: str) -> None:
    history, line = RESTARTS[rule]
    before = h.after(history)
    state = decide(from_json(to_json(before)), h.started(at=200.0, choice=h.C))
    assert h.numbers(state) == h.numbers(before)
    assert (state.desired, state.position, state.now) == (before.desired, before.position, 200.0)
    assert [item.msg for item in state.outbox if isinstance(item, LogLine)] == [line]


def test_a_restart_retries_a_failed_build_with_the_desired_choice() -> None:
    failed = [
        *h.FIRST,
        h.received_choice(0, h.B),
        SourcesResolved(2, h.reading(h.B)),
        Unrecoverable(2, "x"),
    ]
    durable = from_json(to_json(h.after(failed)))
    state = h.after([h.started(at=200.0, choice=h.A), h.ticked(201.0)], durable)
    assert h.numbers(state) == (None, None, 3)
    assert state.building is not None
    assert state.building.choice == h.B


def test_a_restart_retries_a_given_up_generation() -> None:
    durable = from_json(to_json(h.after(h.LIVE_DOWN)))
    state = decide(durable, h.started(at=200.0, choice=h.A))
    assert [generation.number for generation in state.runnable()] == [1]


def test_a_restart_resets_the_build_timeout() -> None:
    durable = from_json(to_json(h.after(h.SWAP_READS)))
    state = h.after([h.started(at=900.0, choice=h.A), QueryResumed(1), *_ticks(900, 960)], durable)
    assert h.numbers(state) == (1, None, 2)
    assert h.numbers(h.after(_ticks(960, 961), state)) == (1, None, None)


def test_the_latest_start_sets_the_limits() -> None:
    state = h.after([*h.SWAPPED, h.started(at=200.0, choice=h.A, limits=Limits(standby_s=0))])
    assert h.numbers(h.after([h.ticked(201.0)], state)) == (2, None, None)


def test_messages_deleted_before_they_were_read_are_logged() -> None:
    state = h.after([*h.LIVE, ControlTopicOpened("control", {0: 7})])
    assert state.position == {0: 7}
    lines = [item.msg for item in state.outbox[-2:] if isinstance(item, LogLine)]
    assert lines == [
        "control messages 0/0 to 0/6 were deleted before they were read",
        "listening to control from 0/7",
    ]


def test_messages_that_were_deleted_unread_are_named_per_partition() -> None:
    state = h.after([*h.LIVE, h.received(0, joinType="x"), h.received(4, partition=2)])
    assert state.position == {0: 1, 2: 5}
    first = {0: 1, 1: 3, 2: 9, 3: 0}  # 1 was added, and its first messages have been deleted since
    told = h.lines([ControlTopicOpened("control", first)], state)
    assert told == [
        "WARN control messages 1/0 to 1/2 were deleted before they were read",
        "WARN control messages 2/5 to 2/8 were deleted before they were read",
        "INFO listening to control from 0/1, 1/3, 2/9, 3/0",
    ]
    assert h.after([ControlTopicOpened("control", first)], state).position == first


def test_a_partition_that_was_added_is_read_from_its_beginning() -> None:
    state = h.after([*h.LIVE, ControlTopicOpened("control", {0: 0}), h.received_choice(0, h.B)])
    state = h.after([ControlTopicOpened("control", {0: 0, 1: 0})], state)
    assert state.position == {0: 1, 1: 0}
    state = h.after([h.received_choice(0, h.C, partition=1)], state)
    assert (state.position, state.desired) == ({0: 1, 1: 1}, h.C)


def test_opening_the_control_topic_clears_its_error() -> None:
    assert h.after([*h.LIVE, ControlTopicLost("boom")]).control_error == "boom"
    assert (
        h.after(
            [*h.LIVE, ControlTopicLost("boom"), ControlTopicOpened("control", {0: 0})]
        ).control_error
        == ""
    )
    assert h.after([*h.LIVE, ControlTopicLost("boom"), h.STARTED]).control_error == ""


def test_generation_numbers_are_never_reused() -> None:
    state = h.after(h.FIRST, State(last_number=7))
    assert h.numbers(state) == (None, None, 8)
    assert state.last_number == 8


KINDS: dict[str, Sequence[Fact]] = {
    "fresh": [],
    "asked for": h.FIRST,
    "waiting": h.WAITING,
    "live": h.LIVE,
    "live died": [*h.LIVE, h.died(1)],
    "swapping": h.SWAP_READS,
    "swapped": h.SWAPPED,
}


@pytest.mark.parametrize(
    "fact",
    [
        SourcesResolved(9, {}),
        ResolutionFailed(9, "no users", missing=True),
        BuildProgressed(9, 1, 2),
        CaughtUp(9, 5),
        QueryResumed(9),
        h.died(9),
        Unrecoverable(9, "x"),
    ],
    ids=lambda fact: type(fact).__name__,
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fact_about_an_unknown_generation_changes_nothing(kind: str, fact: Fact) -> None:
    state = h.after(KINDS[kind])
    assert decide(state, fact) is state


def test_log_lines_have_consecutive_ids_and_timestamps() -> None:
    state = h.after([*h.LIVE, h.died(1)])
    lines = [item for item in state.outbox if isinstance(item, LogLine)]
    assert [line.id for line in lines] == list(range(1, len(lines) + 1))
    assert [line.at for line in lines] == [100.0] * 3 + [104.0] * 3
    assert state.line_count == len(lines)


def test_ids_of_written_log_lines_are_not_reused() -> None:
    written = replace(h.after(h.LIVE), outbox=())
    (line,) = [item for item in decide(written, h.died(1)).outbox if isinstance(item, LogLine)]
    assert line.id == written.line_count + 1


def test_a_history_before_the_start_is_an_error() -> None:
    with pytest.raises(AssertionError, match="Started comes first"):
        decide(State(), h.REPLAYED)


def test_an_unknown_fact_is_an_error() -> None:
    with pytest.raises(AttributeError):
        decide(State(), cast("Fact", object()))


def test_the_ids_of_a_builds_topics_are_recorded_once() -> None:
    state = h.after([*h.FIRST, SourcesResolved(1, h.reading(h.A)), TopicsCreated(1, "c", "f")])
    assert state.building is not None
    assert (state.building.changelog_id, state.building.feed_id) == ("c", "f")
    assert decide(state, TopicsCreated(1, "d")) is state


def test_numbers_used_by_topics_or_checkpoints_are_skipped() -> None:
    state = h.after([replace(h.STARTED, last_used=7), h.REPLAYED])
    assert h.numbers(state) == (None, None, 8)
    assert h.lines([replace(h.STARTED, last_used=7)])[0] == (
        "WARN found topics or checkpoints up to generation 7, but the ledger ends at 0:"
        " removing them"
    )
    assert h.after([replace(h.STARTED, last_used=1)], h.after(h.SWAPPED)).last_number == 2


CORE = Path(transitions.__file__).parent


def _handler_name(fact: type) -> str:
    return "on" + re.sub(r"([A-Z])", r"_\1", fact.__name__).lower()


def test_each_fact_has_one_handler() -> None:
    defined = Counter(
        node.name
        for file in CORE.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("on_")
    )
    # QueryResumed has no handler of its own: it only marks the query as running
    expected = {_handler_name(fact) for fact in get_args(Fact)} - {"on_query_resumed"}
    assert defined == dict.fromkeys(expected, 1)


def test_only_transitions_assign_the_roles_of_generations() -> None:
    files = {
        file.name
        for file in CORE.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "replace"
        if {"live", "standby", "building"} & {keyword.arg for keyword in node.keywords}
    }
    assert files == {"transitions.py"}
