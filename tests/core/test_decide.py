"""What follows from which fact. A history is a list of facts, told to a fresh state one by one."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, cast

import pytest

from livejoin.core.decide import MAX_RESTARTS, decide
from livejoin.core.facts import (
    CaughtUp,
    Died,
    Fact,
    NotResolved,
    Progressed,
    Ran,
    Resolved,
    Started,
    Ticked,
    Told,
)
from livejoin.core.generation import Generation, Reading, State
from livejoin.core.spec import Choice

A, B = Choice("users", "accounts"), Choice("users_b", "accounts_b", "inner")
SOURCES = {
    "users": Reading("users", "id-u", {0: 0, 1: 10}, {0: 4, 1: 19}),
    "accounts": Reading("accounts", "id-a", {0: 0}, {}),
}
STARTED, RESOLVED = Started(at=100.0, choice=A), Resolved(1, SOURCES)
REQUESTED = Generation(1, A, requested_at=100.0)
BUILDING = replace(REQUESTED, sources=SOURCES)
LIVE = replace(BUILDING, ready_at=77, live_at=112.5)
TO_LIVE: list[Fact] = [STARTED, RESOLVED, Ticked(112.5), CaughtUp(1, ready_at=77)]
DIED = Died(1, "boom", counts=True)


def _after(history: Sequence[Fact], state: State | None = None) -> State:
    return reduce(decide, history, state or State())


def _said(history: Sequence[Fact], state: State | None = None) -> list[str]:
    """What the last fact of a history adds to the log."""
    before = _after(history[:-1], state)
    after = decide(before, history[-1])
    new = after.untold[len(before.untold) :]
    assert after.untold[: len(before.untold)] == before.untold
    return [f"{line.level} {line.msg}" for line in new]


RULES: dict[str, tuple[list[Fact], dict[str, Any]]] = {
    "a first start asks for generation 1": (
        [STARTED],
        {"building": REQUESTED, "live": None, "last_number": 1, "now": 100.0},
    ),
    "where it reads is kept with the generation": (
        [STARTED, RESOLVED],
        {"building": BUILDING, "trouble": "", "try_again_at": 0.0},
    ),
    "a topic that is not there is waited for": (
        [STARTED, NotResolved(1, "no users")],
        {"building": REQUESTED, "trouble": "no users", "try_again_at": 102.0},
    ),
    "waiting ends when the topic is there": (
        [STARTED, NotResolved(1, "no users"), RESOLVED],
        {"building": BUILDING, "trouble": "", "try_again_at": 0.0},
    ),
    "progress is noted": (
        [STARTED, RESOLVED, Progressed(1, 42)],
        {"progress": 42, "building": BUILDING},
    ),
    "a generation that caught up is live": (
        TO_LIVE,
        {"live": LIVE, "building": None, "progress": 0, "trouble": ""},
    ),
    "progress of what is live changes nothing": ([*TO_LIVE, Progressed(1, 42)], {"progress": 0}),
    "what is live cannot catch up again": ([*TO_LIVE, CaughtUp(1, 99)], {"live": LIVE}),
    "time goes on": ([STARTED, Ticked(101.0)], {"now": 101.0}),
    "time does not go back": ([STARTED, Ticked(99.0)], {"now": 100.0}),
    "a live query that died is tried again after a second": (
        [*TO_LIVE, DIED],
        {"live": LIVE, "trouble": "boom", "restarts": 1, "try_again_at": 113.5, "broken": False},
    ),
    "a build that died is tried again as well": (
        [STARTED, RESOLVED, DIED],
        {"building": BUILDING, "trouble": "boom", "restarts": 1, "try_again_at": 101.0},
    ),
    "a query that runs again is no trouble any more": (
        [*TO_LIVE, DIED, Ran(1)],
        {"trouble": "", "restarts": 1, "live": LIVE},
    ),
    "a death after new positions counts from the beginning": (
        [*TO_LIVE, DIED, DIED, DIED, Died(1, "boom", counts=False)],
        {"restarts": 0, "trouble": "boom", "try_again_at": 113.5, "broken": False},
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: str) -> None:
    history, expected = RULES[rule]
    state = _after(history)
    assert {name: getattr(state, name) for name in expected} == expected


LINES: dict[str, tuple[list[Fact], list[str]]] = {
    "a first start says what it builds": (
        [STARTED],
        ["INFO ready: building generation 1, users left accounts"],
    ),
    "a build says how much it reads": (
        [STARTED, RESOLVED],
        ["INFO building: generation 1 reads users (15 records) and accounts (0 records)"],
    ),
    "waiting says for what": ([STARTED, NotResolved(1, "no users")], ["WARN waiting: no users"]),
    "waiting for the same says nothing again": (
        [STARTED, NotResolved(1, "no users"), NotResolved(1, "no users")],
        [],
    ),
    "waiting for something else says so": (
        [STARTED, NotResolved(1, "no users"), NotResolved(1, "no accounts")],
        ["WARN waiting: no accounts"],
    ),
    "progress is not worth a line": ([STARTED, RESOLVED, Progressed(1, 42)], []),
    "caught up says how long it took, and what is live": (
        TO_LIVE,
        [
            "INFO caught up: generation 1 after 12.5 s",
            "INFO live: generation 1, users left accounts",
        ],
    ),
    "a death says why, and when the next try is": (
        [*TO_LIVE, DIED],
        ["ERROR restarting: generation 1 died: boom; next try in 1 s"],
    ),
    "running again says so": ([*TO_LIVE, DIED, Ran(1)], ["INFO live again: generation 1"]),
    "running as ever says nothing": ([*TO_LIVE, Ran(1)], []),
    "running again is said once": ([*TO_LIVE, DIED, Ran(1), Ran(1)], []),
    "time says nothing": ([STARTED, Ticked(101.0)], []),
}


@pytest.mark.parametrize("rule", LINES)
def test_line(rule: str) -> None:
    history, expected = LINES[rule]
    assert _said(history) == expected


def test_a_restart_goes_on_with_what_is_live_whatever_the_settings_say() -> None:
    durable = State(last_number=1, live=LIVE)
    state = decide(durable, Started(at=200.0, choice=B))
    assert (state.live, state.building, state.last_number) == (LIVE, None, 1)
    assert [line.msg for line in state.untold] == [
        "ready: going on with generation 1, users left accounts"
    ]


def test_a_restart_goes_on_with_the_build_whatever_the_settings_say() -> None:
    durable = State(last_number=1, building=BUILDING)
    state = decide(durable, Started(at=200.0, choice=B))
    assert (state.live, state.building, state.last_number) == (None, BUILDING, 1)
    assert [line.msg for line in state.untold] == [
        "ready: going on to build generation 1, users left accounts"
    ]


def test_a_number_is_never_given_twice() -> None:
    state = decide(State(last_number=7), STARTED)
    assert state.building is not None
    assert (state.building.number, state.last_number) == (8, 8)


def test_each_restart_in_a_row_waits_twice_as_long_and_the_one_after_the_last_gives_up() -> None:
    state, waits = _after(TO_LIVE), []
    for _ in range(MAX_RESTARTS):
        state = decide(state, DIED)
        waits.append(state.try_again_at - state.now)
        assert not state.broken
    assert waits == [1, 2, 4, 8, 16]
    state = decide(state, DIED)
    assert state.broken
    assert state.live == LIVE  # its last rows stay
    assert state.running() == ()


def test_giving_up_says_what_died_how_often_and_why_and_what_to_do() -> None:
    (line,) = _said([*TO_LIVE, *[DIED] * (MAX_RESTARTS + 1)])
    assert line == (
        "ERROR failed: generation 1 died 6 times without reading on: boom;"
        " its last rows stay; restart livejoin once the cause is gone"
    )


def test_an_unreachable_broker_never_counts() -> None:
    unreachable = Died(1, "no broker", counts=False)
    state = _after([*TO_LIVE, *[unreachable] * 100])
    assert (state.restarts, state.broken) == (0, False)
    assert state.try_again_at == state.now + 1


@pytest.mark.parametrize(
    "fact",
    [
        Resolved(2, {}),
        NotResolved(2, "no users"),
        Progressed(2, 42),
        CaughtUp(2, 5),
        Ran(2),
        Died(2, "boom", counts=True),
    ],
    ids=lambda fact: type(fact).__name__,
)
@pytest.mark.parametrize(
    "history",
    [[], [STARTED], [STARTED, RESOLVED, DIED], TO_LIVE, [*TO_LIVE, DIED]],
    ids=["fresh", "asked for", "build died", "live", "live died"],
)
def test_a_fact_about_a_generation_that_is_not_wanted_changes_nothing(
    history: list[Fact], fact: Fact
) -> None:
    state = _after(history)
    assert decide(state, fact) == state


def test_lines_are_numbered_without_gaps_and_carry_the_time() -> None:
    state = _after([*TO_LIVE, DIED])
    assert [line.id for line in state.untold] == [1, 2, 3, 4, 5]
    assert [line.at for line in state.untold] == [100.0, 100.0, 112.5, 112.5, 112.5]
    assert state.lines == 5


def test_a_line_that_was_told_is_not_told_again_and_its_number_not_given_again() -> None:
    state = _after([*TO_LIVE, Told(3)])
    assert [line.id for line in state.untold] == [4]
    assert decide(state, Told(3)) == state
    state = _after([Told(4), DIED], state)
    assert [line.id for line in state.untold] == [5]


def test_a_fact_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(AssertionError):
        decide(State(), cast("Fact", object()))


def test_where_a_generation_reads_is_decided_once() -> None:
    # the executor may ask twice: another fact may make the same plan before its answer is read
    later = {**SOURCES, "accounts": Reading("accounts", "id-a", {0: 5}, {0: 9})}
    state = _after([STARTED, RESOLVED])
    assert decide(state, Resolved(1, later)) == state


def test_a_build_that_runs_again_is_no_trouble_any_more() -> None:
    assert _after([STARTED, RESOLVED, DIED, Ticked(101.0), Ran(1)]).trouble == ""
