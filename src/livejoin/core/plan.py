"""The plan: steps that bring Kafka and Spark in line with a state, in order.

A step states a result, so repeating it is harmless.
"""

from dataclasses import dataclass

from livejoin.core.generation import Generation
from livejoin.core.state import State


@dataclass(frozen=True)
class ResolveSources:
    """Determine the topics and offsets that this generation reads."""

    generation: Generation


@dataclass(frozen=True)
class CreateTopics:
    """Create new topics for these generations, whose topic ids are not recorded yet.

    Existing topics of the same names are leftovers, perhaps of a crash: they are deleted first.
    """

    generations: tuple[Generation, ...]


@dataclass(frozen=True)
class RunQueries:
    """Run the queries of these generations and no others."""

    generations: tuple[Generation, ...]


@dataclass(frozen=True)
class KeepOnly:
    """Keep topics and checkpoints of these generations; remove all others up to the last number.

    Higher numbers may belong to a later leader.
    """

    numbers: frozenset[int]
    last_number: int


Step = ResolveSources | CreateTopics | RunQueries | KeepOnly


def plan(state: State) -> tuple[Step, ...]:
    """The steps for a state; the same after every decision and every restart."""
    steps: list[Step] = []
    building = state.building
    waiting = building is None or state.monotonic < state.health_of(building).retry_at
    if building is not None and not building.resolved and not waiting:
        steps.append(ResolveSources(building))
    steps += [CreateTopics(state.needing_topics()), RunQueries(state.runnable())]
    # after RunQueries: what still runs cannot be removed
    kept = frozenset(generation.number for generation in state.generations)
    steps.append(KeepOnly(kept, state.last_number))
    return tuple(steps)
