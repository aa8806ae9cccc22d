"""A clock on the wall that is set: nothing is early or late by it, and people see what it shows."""

from collections.abc import Sequence
from itertools import pairwise

import pytest

from core import histories as h
from livejoin.core.decide import decide
from livejoin.core.facts import (
    BuildProgressed,
    CaughtUp,
    Fact,
    LeaderStarted,
    QueryResumed,
    SourcesResolved,
    Unrecoverable,
)
from livejoin.core.ledger_format import from_json, to_json
from livejoin.core.plan import ResolveSources, plan
from livejoin.core.state import Limits, LogLine, State
from livejoin.core.status_rows import time_left

HOUR, DAY = 3600.0, 86400.0
STEPS = (-DAY, -HOUR, HOUR, DAY)


def on(state: State, start: float, end: float, ahead_s: float) -> State:
    """Time goes on by half seconds, while the clock on the wall is ahead by so much."""
    ticks = round(2 * (end - start))
    return h.after([h.ticked(start + tick / 2, ahead_s) for tick in range(1, ticks + 1)], state)


def test_only_one_clock_never_goes_back() -> None:
    assert h.after([h.STARTED, h.ticked(101.0)]).monotonic == 101.0
    assert h.after([h.STARTED, h.ticked(99.0)]).monotonic == 100.0
    assert h.after([h.STARTED, h.ticked(99.0)]).now == 99.0


@pytest.mark.parametrize("step", STEPS)
def test_log_lines_carry_the_time_that_the_clock_shows(step: float) -> None:
    state = h.after([*h.LIVE, h.ticked(105.0, step), h.died(1)])
    line = state.outbox[-1]
    assert isinstance(line, LogLine)
    assert line.at == 105.0 + step


@pytest.mark.parametrize("step", STEPS)
def test_a_query_that_died_is_started_again_as_soon_as_ever(step: float) -> None:
    state = h.after([*h.LIVE, h.died(1), h.ticked(104.9, step)])
    assert state.runnable() == ()
    assert h.after([h.ticked(105.0, step)], state).runnable() == (state.live,)


@pytest.mark.parametrize("step", STEPS)
def test_a_topic_that_is_waited_for_is_looked_for_as_soon_as_ever(step: float) -> None:
    waits = h.after([*h.WAITING, h.ticked(101.9, step)])
    due = h.after([h.ticked(102.0, step)], waits)
    found = [
        [one for one in plan(state) if isinstance(one, ResolveSources)] for state in (waits, due)
    ]
    assert [len(steps) for steps in found] == [0, 1]


@pytest.mark.parametrize("step", STEPS)
def test_a_standby_stands_by_for_as_long_as_ever(step: float) -> None:
    state = on(h.after(h.SWAPPED), 108.0, 1007.5, step)
    assert h.numbers(state) == (2, 1, None)
    assert h.numbers(h.after([h.ticked(1008.0, step)], state)) == (2, None, None)


@pytest.mark.parametrize("step", STEPS)
def test_until_when_is_told_by_the_clock_that_people_look_at(step: float) -> None:
    state = h.after([*h.SWAPPED, h.ticked(208.0, step)])
    assert state.standby_until == 1008.0 + step
    assert h.after([h.ticked(300.0)], state).standby_until == 1008.0  # it was set back


def test_clocks_that_drift_apart_a_little_are_no_reason_to_write() -> None:
    state = h.after(h.SWAPPED)
    assert to_json(h.after([h.ticked(109.0, 0.9)], state)) == to_json(state)
    assert to_json(h.after([h.ticked(109.0, 1.1)], state)) != to_json(state)


@pytest.mark.parametrize("step", STEPS)
def test_a_build_has_as_much_time_as_ever(step: float) -> None:
    state = on(h.after([*h.SWAP_READS, QueryResumed(1)]), 104.0, 164.0, step)
    assert h.numbers(state) == (1, None, 2)
    assert h.numbers(on(state, 164.0, 165.0, step)) == (1, None, None)


@pytest.mark.parametrize("step", STEPS)
def test_a_build_that_came_further_has_as_much_time_again(step: float) -> None:
    state = h.after([*h.SWAP_READS, h.ticked(110.0, step), BuildProgressed(2, 4, 10)])
    state = on(state, 110.0, 170.0, step)
    assert h.numbers(state) == (1, None, 2)
    assert h.numbers(on(state, 170.0, 171.0, step)) == (1, None, None)


@pytest.mark.parametrize("step", STEPS)
def test_what_failed_is_built_again_as_soon_as_ever(step: float) -> None:
    state = h.after(
        [*h.FIRST, SourcesResolved(1, h.reading(h.A)), Unrecoverable(1, "x"), h.ticked(109.5, step)]
    )
    assert h.numbers(state) == (None, None, None)
    assert h.numbers(h.after([h.ticked(110.0, step)], state)) == (None, None, 2)


@pytest.mark.parametrize("step", STEPS)
def test_how_long_a_build_took_and_will_take_is_told_by_no_clock_on_the_wall(step: float) -> None:
    history: list[Fact] = [*h.SWAP_READS, h.ticked(106.0, step), BuildProgressed(2, 4, 10)]
    assert time_left(h.after(history)) == 3.0
    live = h.after([*history, CaughtUp(2, 5)]).live
    assert live is not None
    assert (live.took_s, live.live_at) == (2.0, 106.0 + step)


# --- over a restart, where nothing but the clock on the wall goes on

RESTARTS: dict[str, tuple[float, float, float]] = {  # it shows then; still to stand by; until
    "what has passed counts": (308.0, 700.0, 1008.0),
    "one that was set back has it stand by for all of its time": (108.0 - DAY, 900.0, 1008 - DAY),
    "one that was set forward ends it": (108.0 + DAY, 0.0, 108.0 + DAY),
}


@pytest.mark.parametrize("rule", RESTARTS)
def test_after_a_restart(rule: str) -> None:
    wall, left, until = RESTARTS[rule]
    state = decide(from_json(to_json(h.after(h.SWAPPED))), LeaderStarted(wall, 5.0, h.A))
    assert state.standby_until == until
    ahead = wall - 5.0
    before = on(state, 5.0, 4.5 + left, ahead)
    assert h.numbers(before) == (2, 1, None)
    assert h.numbers(h.after([h.ticked(5.0 + left, ahead)], before)) == (2, None, None)


@pytest.mark.parametrize("step", STEPS)
def test_a_clock_that_was_set_before_a_restart_does_not_count_after_it(step: float) -> None:
    was_set = h.after([*h.SWAPPED, h.ticked(208.0, step)])
    state = decide(from_json(to_json(was_set)), LeaderStarted(308.0 + step, 5.0, h.A))
    assert state.monotonic - state.swapped_monotonic == 200.0


def test_what_stands_by_until_the_next_swap_does_so_over_restarts() -> None:
    ever = Limits(standby_s=float("inf"))
    state = decide(from_json(to_json(h.after(h.SWAPPED))), LeaderStarted(9e9, 5.0, h.A, ever))
    assert h.numbers(h.after([h.ticked(9e6, 9e9)], state)) == (2, 1, None)


def test_how_long_a_build_took_counts_what_a_restart_took() -> None:
    durable = from_json(to_json(h.after([*h.LIVE, h.received_choice(0, h.B)])))
    for wall, took in ((114.0, 12.0), (0.0, 2.0)):  # it was asked for at 104
        begins, reads = LeaderStarted(wall, 5.0, h.A), SourcesResolved(2, h.reading(h.B))
        live = h.after([begins, reads, h.ticked(7.0), CaughtUp(2, 5)], durable).live
        assert live is not None
        assert live.took_s == took


@pytest.mark.parametrize("steps", [STEPS, tuple(reversed(STEPS))])
def test_a_clock_that_is_set_again_and_again_changes_nothing(steps: Sequence[float]) -> None:
    state, at = h.after([*h.SWAPPED, h.received(1, action="rollback")]), 108.0
    for one, other in pairwise((*steps, 0.0)):
        for step in (one, other):
            at += 100
            state = h.after([h.ticked(at, step)], state)
            assert state.swapped_monotonic == 108.0
            assert state.standby_until == 1008.0 + step
    assert h.numbers(state) == (1, 2, None)
