"""Changes of the wall clock: no timeout is early or late, and displayed times follow the clock."""

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


def advance(state: State, start: float, end: float, ahead_s: float) -> State:
    """Tick every half second, with the wall clock ahead by `ahead_s`."""
    ticks = round(2 * (end - start))
    return h.after([h.ticked(start + tick / 2, ahead_s) for tick in range(1, ticks + 1)], state)


def test_the_monotonic_clock_never_goes_back() -> None:
    assert h.after([h.STARTED, h.ticked(101.0)]).monotonic == 101.0
    assert h.after([h.STARTED, h.ticked(99.0)]).monotonic == 100.0
    assert h.after([h.STARTED, h.ticked(99.0)]).now == 99.0


@pytest.mark.parametrize("step", STEPS)
def test_log_lines_have_the_wall_clock_time(step: float) -> None:
    state = h.after([*h.LIVE, h.ticked(105.0, step), h.died(1)])
    line = state.outbox[-1]
    assert isinstance(line, LogLine)
    assert line.at == 105.0 + step


@pytest.mark.parametrize("step", STEPS)
def test_a_clock_step_does_not_change_when_a_dead_query_restarts(step: float) -> None:
    state = h.after([*h.LIVE, h.died(1), h.ticked(104.9, step)])
    assert state.runnable() == ()
    assert h.after([h.ticked(105.0, step)], state).runnable() == (state.live,)


@pytest.mark.parametrize("step", STEPS)
def test_a_clock_step_does_not_change_when_a_missing_topic_is_retried(step: float) -> None:
    waiting = h.after([*h.WAITING, h.ticked(101.9, step)])
    due = h.after([h.ticked(102.0, step)], waiting)
    resolves = [
        [planned for planned in plan(state) if isinstance(planned, ResolveSources)]
        for state in (waiting, due)
    ]
    assert [len(steps) for steps in resolves] == [0, 1]


@pytest.mark.parametrize("step", STEPS)
def test_a_clock_step_does_not_change_the_standby_time(step: float) -> None:
    state = advance(h.after(h.SWAPPED), 108.0, 1007.5, step)
    assert h.numbers(state) == (2, 1, None)
    assert h.numbers(h.after([h.ticked(1008.0, step)], state)) == (2, None, None)


@pytest.mark.parametrize("step", STEPS)
def test_standby_until_follows_the_wall_clock(step: float) -> None:
    state = h.after([*h.SWAPPED, h.ticked(208.0, step)])
    assert state.standby_until == 1008.0 + step
    assert h.after([h.ticked(300.0)], state).standby_until == 1008.0  # the clock was set back


def test_a_small_drift_of_the_clocks_is_not_written() -> None:
    state = h.after(h.SWAPPED)
    assert to_json(h.after([h.ticked(109.0, 0.9)], state)) == to_json(state)
    assert to_json(h.after([h.ticked(109.0, 1.1)], state)) != to_json(state)


@pytest.mark.parametrize("step", STEPS)
def test_a_clock_step_does_not_change_the_build_timeout(step: float) -> None:
    state = advance(h.after([*h.SWAP_READS, QueryResumed(1)]), 104.0, 164.0, step)
    assert h.numbers(state) == (1, None, 2)
    assert h.numbers(advance(state, 164.0, 165.0, step)) == (1, None, None)


@pytest.mark.parametrize("step", STEPS)
def test_progress_restarts_the_build_timeout(step: float) -> None:
    state = h.after([*h.SWAP_READS, h.ticked(110.0, step), BuildProgressed(2, 4, 10)])
    state = advance(state, 110.0, 170.0, step)
    assert h.numbers(state) == (1, None, 2)
    assert h.numbers(advance(state, 170.0, 171.0, step)) == (1, None, None)


@pytest.mark.parametrize("step", STEPS)
def test_a_clock_step_does_not_change_when_a_failed_build_is_retried(step: float) -> None:
    state = h.after(
        [*h.FIRST, SourcesResolved(1, h.reading(h.A)), Unrecoverable(1, "x"), h.ticked(109.5, step)]
    )
    assert h.numbers(state) == (None, None, None)
    assert h.numbers(h.after([h.ticked(110.0, step)], state)) == (None, None, 2)


@pytest.mark.parametrize("step", STEPS)
def test_build_durations_do_not_use_the_wall_clock(step: float) -> None:
    history: list[Fact] = [*h.SWAP_READS, h.ticked(106.0, step), BuildProgressed(2, 4, 10)]
    assert time_left(h.after(history)) == 3.0
    live = h.after([*history, CaughtUp(2, 5)]).live
    assert live is not None
    assert (live.took_s, live.live_at) == (2.0, 106.0 + step)


# --- restarts, over which only the wall clock continues

RESTARTS: dict[
    str, tuple[float, float, float]
] = {  # wall clock, remaining standby time, standby_until
    "the elapsed time counts": (308.0, 700.0, 1008.0),
    "a clock set back restarts the standby time": (108.0 - DAY, 900.0, 1008 - DAY),
    "a clock set forward ends the standby": (108.0 + DAY, 0.0, 108.0 + DAY),
}


@pytest.mark.parametrize("rule", RESTARTS)
def test_standby_time_after_a_restart(rule: str) -> None:
    wall, remaining, until = RESTARTS[rule]
    state = decide(from_json(to_json(h.after(h.SWAPPED))), LeaderStarted(wall, 5.0, h.A))
    assert state.standby_until == until
    ahead = wall - 5.0
    before = advance(state, 5.0, 4.5 + remaining, ahead)
    assert h.numbers(before) == (2, 1, None)
    assert h.numbers(h.after([h.ticked(5.0 + remaining, ahead)], before)) == (2, None, None)


@pytest.mark.parametrize("step", STEPS)
def test_a_clock_step_before_a_restart_has_no_effect_after_it(step: float) -> None:
    was_set = h.after([*h.SWAPPED, h.ticked(208.0, step)])
    state = decide(from_json(to_json(was_set)), LeaderStarted(308.0 + step, 5.0, h.A))
    assert state.monotonic - state.swapped_monotonic == 200.0


def test_an_unlimited_standby_survives_restarts() -> None:
    unlimited = Limits(standby_s=float("inf"))
    state = decide(from_json(to_json(h.after(h.SWAPPED))), LeaderStarted(9e9, 5.0, h.A, unlimited))
    assert h.numbers(h.after([h.ticked(9e6, 9e9)], state)) == (2, 1, None)


def test_the_build_time_includes_a_restart() -> None:
    durable = from_json(to_json(h.after([*h.LIVE, h.received_choice(0, h.B)])))
    for wall, took in ((114.0, 12.0), (0.0, 2.0)):  # requested at 104
        start, resolved = LeaderStarted(wall, 5.0, h.A), SourcesResolved(2, h.reading(h.B))
        live = h.after([start, resolved, h.ticked(7.0), CaughtUp(2, 5)], durable).live
        assert live is not None
        assert live.took_s == took


@pytest.mark.parametrize("steps", [STEPS, tuple(reversed(STEPS))])
def test_repeated_clock_steps_change_nothing(steps: Sequence[float]) -> None:
    state, at = h.after([*h.SWAPPED, h.received(1, action="rollback")]), 108.0
    for first, second in pairwise((*steps, 0.0)):
        for step in (first, second):
            at += 100
            state = h.after([h.ticked(at, step)], state)
            assert state.swapped_monotonic == 108.0
            assert state.standby_until == 1008.0 + step
    assert h.numbers(state) == (1, 2, None)
