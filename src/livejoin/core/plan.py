"""How to make a state true: steps in the order they must run.

A step states a result, so doing it twice is harmless.
"""

from dataclasses import dataclass

from livejoin.core.generation import Generation
from livejoin.core.state import State


@dataclass(frozen=True)
class ResolveSources:
    """Have it known where this generation reads."""

    generation: Generation


@dataclass(frozen=True)
class CreateTopics:
    """Have new topics for these generations, whose ids are not recorded yet.

    Whatever has their names was left over, or made just before a crash: it is deleted first.
    """

    generations: tuple[Generation, ...]


@dataclass(frozen=True)
class RunQueries:
    """Have the queries of these generations running, and no others."""

    generations: tuple[Generation, ...]


@dataclass(frozen=True)
class KeepOnly:
    """Have changelogs and checkpoints of these generations, and of no other up to the last.

    Beyond the last there may be those of a later leader, whom we do not know of.
    """

    numbers: frozenset[int]
    last_number: int


Step = ResolveSources | CreateTopics | RunQueries | KeepOnly


def plan(state: State) -> tuple[Step, ...]:
    """The same steps follow every decision and every restart."""
    steps: list[Step] = []
    building = state.building
    waits = building is None or state.monotonic < state.health_of(building).retry_at
    if building is not None and not building.resolved and not waits:
        steps.append(ResolveSources(building))
    steps += [CreateTopics(state.needing_topics()), RunQueries(state.runnable())]
    # after Run: what still runs cannot be removed
    kept = frozenset(generation.number for generation in state.generations)
    steps.append(KeepOnly(kept, state.last_number))
    return tuple(steps)
