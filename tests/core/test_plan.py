"""Which steps make a state true."""

from collections.abc import Sequence

import pytest

from core.histories import (
    FIRST,
    FIRST_FAILED,
    FIRST_READS,
    FURTHER,
    FURTHER_READS,
    LIVE,
    LIVE_DOWN,
    STARTED,
    SWAP_READS,
    SWAPPED,
    SWAPPING,
    WAITING,
    B,
    after,
    ask,
    died,
    reading,
    started,
    ticked,
)
from livejoin.core.facts import Fact, NotResolved, Ran, Resolved, Spoilt, TopicsMade
from livejoin.core.plan import Keep, MakeTopics, Resolve, Run, plan
from livejoin.core.spec import Choice
from livejoin.core.state import State, from_json, to_json

# what is resolved, what runs, what is kept
STEPS: dict[str, tuple[Sequence[Fact], list[int], list[int], set[int]]] = {
    "nothing wanted, nothing runs and nothing is kept": ([STARTED], [], [], set()),
    "what is asked for is resolved": (FIRST, [1], [], {1}),
    "not before the next try": (WAITING, [], [], {1}),
    "at the time of the next try": ([*WAITING, ticked(102.0)], [1], [], {1}),
    "what is resolved runs": (FIRST_READS, [], [1], {1}),
    "what is live runs": (LIVE, [], [1], {1}),
    "what is live runs while the next is resolved": (SWAPPING, [2], [1], {1, 2}),
    "what is live runs while the next waits": (
        [*SWAPPING, NotResolved(2, "no broker")],
        [],
        [1],
        {1, 2},
    ),
    "a build runs beside what is live": (SWAP_READS, [], [1, 2], {1, 2}),
    "what stands by runs": (SWAPPED, [], [2, 1], {1, 2}),
    "three at most": (FURTHER_READS, [], [2, 1, 3], {1, 2, 3}),
    "a rollback starts and stops nothing": (
        [*SWAPPED, ask(1, action="rollback")],
        [],
        [1, 2],
        {1, 2},
    ),
    "what is cancelled is neither run nor kept": (
        [*FURTHER, ask(2, action="rollback")],
        [],
        [1, 2],
        {1, 2},
    ),
    "what failed is not kept": (FIRST_FAILED, [], [], set()),
    "what is retired is not kept": ([*SWAPPED, ticked(2000.0)], [], [2], {2}),
    "a query that died is stopped until the next try": ([*LIVE, died(1)], [], [], {1}),
    "then it runs": ([*LIVE, died(1), ticked(105.0)], [], [1], {1}),
    "a query that runs again before that is not stopped for longer": (
        [*LIVE, died(1), Ran(1)],
        [],
        [],
        {1},
    ),
    "the others run on": ([*SWAP_READS, died(2)], [], [1], {1, 2}),
    "a query that was given up is stopped and kept": (LIVE_DOWN, [], [], {1}),
    "what is unusable is kept until it is built anew": (
        [*LIVE, Spoilt(1, "x")],
        [2],
        [],
        {1, 2},
    ),
}


def _steps(state: State) -> tuple[list[int], list[int], set[int]]:
    steps = plan(state)
    resolve = [step.generation.number for step in steps if isinstance(step, Resolve)]
    (run,) = [step for step in steps if isinstance(step, Run)]
    (keep,) = [step for step in steps if isinstance(step, Keep)]
    return resolve, [generation.number for generation in run.generations], set(keep.numbers)


@pytest.mark.parametrize("rule", STEPS)
def test_steps(rule: str) -> None:
    history, *expected = STEPS[rule]
    assert _steps(after(history)) == tuple(expected)


@pytest.mark.parametrize("rule", STEPS)
def test_what_still_runs_is_not_removed(rule: str) -> None:
    kinds = [type(step) for step in plan(after(STEPS[rule][0]))]
    assert kinds in ([Resolve, MakeTopics, Run, Keep], [MakeTopics, Run, Keep])


@pytest.mark.parametrize("rule", STEPS)
def test_after_a_crash_the_same_is_kept(rule: str) -> None:
    before = after(STEPS[rule][0])
    again = after([started(200.0, Choice("x", "y"))], from_json(to_json(before)))
    assert _steps(again)[2] == _steps(before)[2]


def test_topics_are_made_once_it_is_known_where_to_read_and_until_they_are_recorded() -> None:
    resolved = [*SWAPPING, Resolved(2, reading(B))]
    assert _made(after(SWAPPING)) == []
    assert _made(after(resolved)) == [2]
    assert _steps(after(resolved))[1] == [1], "it does not run before"
    assert _made(after([*resolved, died(2)])) == [], "not before the next try"
    assert _made(after([*resolved, died(2), ticked(110.0)])) == [2]
    assert _made(after([*resolved, TopicsMade(2, "id-2")])) == []


def test_topics_that_were_made_just_before_a_crash_are_made_again() -> None:
    crashed = from_json(to_json(after([*SWAPPING, Resolved(2, reading(B))])))
    again = after([started(200.0, Choice("x", "y"))], crashed)
    assert _made(again) == [2]


def _made(state: State) -> list[int]:
    (make,) = [step for step in plan(state) if isinstance(step, MakeTopics)]
    return [generation.number for generation in make.generations]
