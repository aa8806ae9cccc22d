"""The steps planned for a state."""

from collections.abc import Sequence

import pytest

from core import histories as h
from livejoin.core.facts import (
    Fact,
    QueryResumed,
    ResolutionFailed,
    SourcesResolved,
    TopicsCreated,
    Unrecoverable,
)
from livejoin.core.ledger_format import from_json, to_json
from livejoin.core.plan import CreateTopics, KeepOnly, ResolveSources, RunQueries, plan
from livejoin.core.spec import DEFAULT
from livejoin.core.state import State

# generations to resolve, to run, to keep
STEPS: dict[str, tuple[Sequence[Fact], list[int], list[int], set[int]]] = {
    "nothing wanted, nothing runs and nothing is kept": ([h.STARTED], [], [], set()),
    "what is asked for is resolved": (h.FIRST, [1], [], {1}),
    "not before the next retry": (h.WAITING, [], [], {1}),
    "at the time of the next try": ([*h.WAITING, h.ticked(102.0)], [1], [], {1}),
    "what is resolved runs": (h.FIRST_READS, [], [1], {1}),
    "what is live runs": (h.LIVE, [], [1], {1}),
    "what is live runs while the next is resolved": (h.SWAPPING, [2], [1], {1, 2}),
    "what is live runs while the next waits": (
        [*h.SWAPPING, ResolutionFailed(2, "no broker")],
        [],
        [1],
        {1, 2},
    ),
    "a build runs beside what is live": (h.SWAP_READS, [], [1, 2], {1, 2}),
    "what stands by runs": (h.SWAPPED, [], [2, 1], {1, 2}),
    "three at most": (h.FURTHER_READS, [], [2, 1, 3], {1, 2, 3}),
    "a rollback starts and stops nothing": (
        [*h.SWAPPED, h.received(1, action="rollback")],
        [],
        [1, 2],
        {1, 2},
    ),
    "what is cancelled is neither run nor kept": (
        [*h.FURTHER, h.received(2, action="rollback")],
        [],
        [1, 2],
        {1, 2},
    ),
    "what failed is not kept": (h.FIRST_FAILED, [], [], set()),
    "what is retired is not kept": ([*h.SWAPPED, h.ticked(2000.0)], [], [2], {2}),
    "a query that died is stopped until the next try": ([*h.LIVE, h.died(1)], [], [], {1}),
    "then it runs": ([*h.LIVE, h.died(1), h.ticked(105.0)], [], [1], {1}),
    "a query that runs again before that is not stopped for longer": (
        [*h.LIVE, h.died(1), QueryResumed(1)],
        [],
        [],
        {1},
    ),
    "the others run on": ([*h.SWAP_READS, h.died(2)], [], [1], {1, 2}),
    "a query that was given up is stopped and kept": (h.LIVE_DOWN, [], [], {1}),
    "what is unusable is kept until it is built anew": (
        [*h.LIVE, Unrecoverable(1, "x")],
        [2],
        [],
        {1, 2},
    ),
}


def _steps(state: State) -> tuple[list[int], list[int], set[int]]:
    steps = plan(state)
    resolve = [step.generation.number for step in steps if isinstance(step, ResolveSources)]
    (run,) = [step for step in steps if isinstance(step, RunQueries)]
    (keep,) = [step for step in steps if isinstance(step, KeepOnly)]
    return resolve, [generation.number for generation in run.generations], set(keep.numbers)


@pytest.mark.parametrize("rule", STEPS)
def test_steps(rule: str) -> None:
    history, *expected = STEPS[rule]
    assert _steps(h.after(history)) == tuple(expected)


@pytest.mark.parametrize("rule", STEPS)
def test_queries_are_stopped_before_generations_are_removed(rule: str) -> None:
    kinds = [type(step) for step in plan(h.after(STEPS[rule][0]))]
    assert kinds in (
        [ResolveSources, CreateTopics, RunQueries, KeepOnly],
        [CreateTopics, RunQueries, KeepOnly],
    )


@pytest.mark.parametrize("rule", STEPS)
def test_the_same_generations_are_kept_after_a_crash(rule: str) -> None:
    before = h.after(STEPS[rule][0])
    restarted = h.after([h.started(200.0, DEFAULT.choice("x", "y"))], from_json(to_json(before)))
    assert _steps(restarted)[2] == _steps(before)[2]


def test_topics_are_created_once_the_sources_are_resolved() -> None:
    resolved = [*h.SWAPPING, SourcesResolved(2, h.reading(h.B))]
    assert _topics_to_create(h.after(h.SWAPPING)) == []
    assert _topics_to_create(h.after(resolved)) == [2]
    assert _steps(h.after(resolved))[1] == [1], "it does not run before its topics exist"
    assert _topics_to_create(h.after([*resolved, h.died(2)])) == [], "not before the next retry"
    assert _topics_to_create(h.after([*resolved, h.died(2), h.ticked(110.0)])) == [2]
    assert _topics_to_create(h.after([*resolved, TopicsCreated(2, "id-2")])) == []


def test_unrecorded_topics_are_recreated_after_a_crash() -> None:
    crashed = from_json(to_json(h.after([*h.SWAPPING, SourcesResolved(2, h.reading(h.B))])))
    restarted = h.after([h.started(200.0, DEFAULT.choice("x", "y"))], crashed)
    assert _topics_to_create(restarted) == [2]


def _topics_to_create(state: State) -> list[int]:
    (create,) = [step for step in plan(state) if isinstance(step, CreateTopics)]
    return [generation.number for generation in create.generations]
