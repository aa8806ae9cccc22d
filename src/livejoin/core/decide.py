"""What follows from a fact: `decide(state, fact) -> State`.

Pure: no clock, no topic, no file, no thread.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from livejoin.core import facts
from livejoin.core.generation import Generation, Level, Line, Reading, State

MAX_RESTARTS = 5  # in a row without a new source position
_RETRY_S = 2.0  # for a topic that is not there yet


def decide(state: State, fact: facts.Fact) -> State:
    """The state after a fact. One about a generation that is no longer wanted changes nothing."""
    match fact:
        case facts.Started():
            return _started(replace(state, now=fact.at), fact)
        case facts.Ticked(at):
            return replace(state, now=max(at, state.now))
        case facts.Told(up_to):
            return replace(state, untold=tuple(line for line in state.untold if line.id > up_to))
        case facts.Died():
            return _died(state, fact)
        case facts.Resolved() | facts.NotResolved() | facts.Progressed() | facts.CaughtUp():
            building = state.building
            return (
                state
                if building is None or building.number != fact.generation
                else _built(state, building, fact)
            )
        case facts.Ran(generation):
            return _ran(state, generation)
    assert_never(fact)


def _started(state: State, fact: facts.Started) -> State:
    if state.live is not None:
        return _say(
            state,
            "INFO",
            f"ready: going on with generation {state.live.number}, {state.live.choice}",
        )
    if state.building is not None:
        return _say(
            state,
            "INFO",
            f"ready: going on to build generation {state.building.number}, {state.building.choice}",
        )
    number = state.last_number + 1
    building = Generation(number, fact.choice, requested_at=fact.at)
    state = replace(state, building=building, last_number=number)
    return _say(state, "INFO", f"ready: building generation {number}, {fact.choice}")


def _built(
    state: State,
    building: Generation,
    fact: facts.Resolved | facts.NotResolved | facts.Progressed | facts.CaughtUp,
) -> State:
    match fact:
        case facts.Resolved() if building.resolved:
            return state  # the query reads by the first answer
        case facts.Resolved(_, sources):
            state = replace(
                state, building=replace(building, sources=sources), trouble="", try_again_at=0.0
            )
            return _say(
                state, "INFO", f"building: generation {building.number} reads {_described(sources)}"
            )
        case facts.NotResolved(_, why):
            told = state if why == state.trouble else _say(state, "WARN", f"waiting: {why}")
            return replace(told, trouble=why, try_again_at=state.now + _RETRY_S)
        case facts.Progressed(_, percent):
            return replace(state, progress=percent)
        case facts.CaughtUp(_, ready_at):
            live = replace(building, ready_at=ready_at, live_at=state.now)
            took = state.now - building.requested_at
            state = _say(
                state, "INFO", f"caught up: generation {building.number} after {took:.1f} s"
            )
            state = replace(state, live=live, building=None, progress=0, trouble="")
            return _say(state, "INFO", f"live: generation {building.number}, {building.choice}")
    assert_never(fact)


def _ran(state: State, generation: int) -> State:
    at_work = state.live or state.building
    if not state.trouble or at_work is None or at_work.number != generation:
        return state
    again = "live again" if state.live else "building again"
    return _say(replace(state, trouble=""), "INFO", f"{again}: generation {generation}")


def _died(state: State, fact: facts.Died) -> State:
    if fact.generation not in (g.number for g in (state.live, state.building) if g is not None):
        return state
    restarts = state.restarts + 1 if fact.counts else 0
    state = replace(state, restarts=restarts, trouble=fact.why)
    if restarts > MAX_RESTARTS:
        state = replace(state, broken=True)
        return _say(
            state,
            "ERROR",
            f"failed: generation {fact.generation} died {restarts} times without reading on:"
            f" {fact.why}; its last rows stay; restart livejoin once the cause is gone",
        )
    wait = 2.0 ** max(0, restarts - 1)
    state = replace(state, try_again_at=state.now + wait)
    return _say(
        state,
        "ERROR",
        f"restarting: generation {fact.generation} died: {fact.why}; next try in {wait:.0f} s",
    )


def _described(sources: Mapping[str, Reading]) -> str:
    return " and ".join(f"{r.topic} ({_count(r)} records)" for r in sources.values())


def _count(reading: Reading) -> int:
    return sum(pin + 1 - reading.start[p] for p, pin in reading.pins.items())


def _say(state: State, level: Level, msg: str) -> State:
    line = Line(state.lines + 1, state.now, level, msg)
    return replace(state, lines=line.id, untold=(*state.untold, line))
