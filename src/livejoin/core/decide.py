"""What follows from a fact: `decide(state, fact) -> State`.

Pure: no clock, no topic, no file, no thread.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from livejoin.core import facts, moves
from livejoin.core.asked import asked, folded
from livejoin.core.generation import Generation, Reading
from livejoin.core.moves import reply, say
from livejoin.core.state import State

MAX_RESTARTS = 5  # in a row without a new source position
_RETRY_S = 2.0  # for a topic that is not there yet
_REBUILD_S = 10.0  # for a build that failed while there is nothing better to show
_COLD_S = 120.0  # Spark's JVM and its first query take half a minute on a busy machine
_PAUSE_S = 5.0  # between two ticks: we were stopped, or Kafka was out of reach


def decide(state: State, fact: facts.Fact) -> State:
    """The state after a fact. One about a generation that is no longer wanted changes nothing."""
    match fact:
        case facts.Started():
            return _started(state, fact)
        case facts.Ticked(at):
            return _ticked(state, max(at, state.now))
        case facts.Folded():
            return folded(state, fact)
        case facts.Listened() | facts.Deafened():
            return _heard(state, fact)
        case facts.Asked():
            return asked(state, fact)
        case _:
            generation = state.find(fact.generation)
            return state if generation is None else _fared(state, generation, fact)


def _fared(state: State, generation: Generation, fact: facts.OfGeneration) -> State:
    if isinstance(fact, facts.Ran | facts.Progressed | facts.CaughtUp):
        state = replace(state, warm_at=min(state.warm_at, state.now))
    match fact:
        case facts.Ran():
            return _ran(state, generation)
        case facts.Died():
            return _died(state, generation, fact)
        case facts.Spoilt(_, why):
            return _spoilt(state, generation, why)
        case _:
            return _built(state, generation, fact) if generation is state.building else state


def _built(state: State, building: Generation, fact: facts.OfBuild) -> State:
    match fact:
        case facts.Resolved():
            return _resolved(state, building, fact)
        case facts.NotResolved():
            return _not_resolved(state, building, fact)
        case facts.Progressed(_, done, total):
            health = state.of(building)
            moved_at = health.moved_at if done == health.done else state.now
            return state.faring(building, done=done, total=total, moved_at=moved_at)
        case facts.CaughtUp(_, ready_at):
            return moves.go_live(state, ready_at)
    assert_never(fact)


def _heard(state: State, fact: facts.Listened | facts.Deafened) -> State:
    if isinstance(fact, facts.Listened):
        state = replace(state, deaf="")
        if fact.first > state.position:
            lost = f"control messages {state.position} to {fact.first - 1} were deleted unread"
            state = replace(say(state, "WARN", lost), position=fact.first)
        return say(state, "INFO", f"listening to {fact.topic} from message {state.position} on")
    if fact.why != state.deaf:
        state = say(state, "ERROR", f"not listening: {fact.why}")
    return replace(state, deaf=fact.why)


def _started(state: State, fact: facts.Started) -> State:
    state = replace(
        state,
        now=fact.at,
        limits=fact.limits,
        wanted=state.wanted or fact.choice,
        deaf="",
        warm_at=fact.at + _COLD_S,
    )
    for generation in state.wants:
        state = state.faring(generation, moved_at=fact.at, began_at=fact.at)
    going = state.live or state.building
    return say(state, "INFO", f"ready: going on with {going}" if going else "ready: a first start")


def _ticked(state: State, at: float) -> State:
    gap = at - state.now
    state = replace(state, now=at)
    building, standby, limits = state.building, state.standby, state.limits
    if building is not None:
        health = state.of(building)
        moved_at = max(health.moved_at, state.warm_at)
        if gap > _PAUSE_S:  # nobody could have made progress
            state = state.faring(building, moved_at=health.moved_at + gap)
        elif (building.resolved or state.live) and at > moved_at + limits.build_stall_s:
            cause = f": {health.trouble}" if health.trouble else ""
            state = _failed(state, f"no progress for {limits.build_stall_s:.0f} s{cause}")
    if standby is not None and state.standby_until is not None and at >= state.standby_until:
        state = moves.retire(state, standby, f"stood by for {limits.standby_s:.0f} s")
    return _rebuilt(state)


def _failed(state: State, why: str) -> State:
    return replace(moves.fail(state, why), again_at=state.now + _REBUILD_S)


def _rebuilt(state: State) -> State:
    """With nothing to show, or nothing that can go on, the wanted choice is built by itself."""
    if state.building is not None or not state.topic_id or state.now < state.again_at:
        return state
    if state.live is None:
        assert state.wanted is not None, "there is no topic_id before a choice"
        state = moves.build(state, state.wanted, "settings")
    elif state.of(state.live).unusable:
        state = moves.build(state, state.live.choice, "livejoin")
    else:
        return state
    return say(state, "INFO", f"building: {state.building}")


def _resolved(state: State, building: Generation, fact: facts.Resolved) -> State:
    if building.resolved:
        return state  # the query reads by the first answer
    reads = replace(building, sources=fact.sources, fingerprint=fact.fingerprint)
    state = replace(state, building=reads)
    state = state.faring(
        reads, trouble="", try_again_at=0.0, moved_at=state.now, began_at=state.now
    )
    needed = state.slots_of(state.live) + state.slots_of(reads)
    if needed > state.limits.slots:
        return _failed(state, f"{needed} task slots are needed and Spark has {state.limits.slots}")
    if state.standby is not None and needed + state.slots_of(state.standby) > state.limits.slots:
        state = moves.retire(state, state.standby, "its task slots are needed")
    state = reply(state, reads.origin, "building", generation=reads.number)
    return say(
        state, "INFO", f"building: generation {reads.number} reads {_described(fact.sources)}"
    )


def _not_resolved(state: State, building: Generation, fact: facts.NotResolved) -> State:
    if building.resolved:
        return state
    if fact.missing and state.live is not None:
        return _failed(state, fact.why)
    if fact.why != state.of(building).trouble:
        state = say(state, "WARN", f"waiting: {fact.why}")
    return state.faring(building, trouble=fact.why, try_again_at=state.now + _RETRY_S)


def _ran(state: State, generation: Generation) -> State:
    if not state.of(generation).trouble or state.of(generation).broken:
        return state
    role = "live" if generation == state.live else "running"
    state = state.faring(generation, trouble="")
    return say(state, "INFO", f"{role} again: generation {generation.number}")


def _died(state: State, generation: Generation, fact: facts.Died) -> State:
    number = generation.number
    if state.of(generation).broken:
        return state
    restarts = state.of(generation).restarts + 1 if fact.counts else 0
    state = state.faring(generation, restarts=restarts, trouble=fact.why)
    if restarts <= MAX_RESTARTS:
        wait = 2.0 ** max(0, restarts - 1)
        state = state.faring(generation, try_again_at=state.now + wait)
        return say(
            state,
            "ERROR",
            f"restarting: generation {number} died: {fact.why}; next try in {wait:.0f} s",
        )
    why = f"died {restarts} times without reading on: {fact.why}"
    if generation == state.building:
        return _failed(state, why)
    if generation == state.standby:
        state = say(state, "ERROR", f"failed: generation {number} {why}; no rollback to it")
        return moves.retire(state, generation, why)
    state = state.faring(generation, broken=True)
    return say(
        state,
        "ERROR",
        f"failed: generation {number} {why}; its last rows stay;"
        " once the cause is gone, send the same choice again",
    )


def _spoilt(state: State, generation: Generation, why: str) -> State:
    if state.of(generation).unusable:
        return state
    if generation == state.building:
        return _failed(state, why)
    if generation == state.standby:
        return moves.retire(state, generation, why)
    state = state.faring(generation, broken=True, unusable=True, trouble=why)
    state = say(
        state,
        "ERROR",
        f"generation {generation.number} cannot go on: {why};"
        " its last rows stay until the same choice is built anew",
    )
    return _rebuilt(replace(state, again_at=state.now))


def _described(sources: Mapping[str, Reading]) -> str:
    return " and ".join(f"{r.topic} ({_count(r)} records)" for r in sources.values())


def _count(reading: Reading) -> int:
    return sum(pin + 1 - reading.start[p] for p, pin in reading.pins.items())
