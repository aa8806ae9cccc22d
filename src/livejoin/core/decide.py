"""What follows from a fact: `decide(state, fact) -> State`.

Pure: no clock, no topic, no file, no thread.
"""

from dataclasses import replace
from typing import assert_never

from livejoin.core import facts, format_versions, transitions
from livejoin.core.generation import Generation
from livejoin.core.health import (
    counted,
    described,
    died,
    failed,
    grew,
    looked,
    ran,
    rebuilt,
    spoilt,
    with_room,
)
from livejoin.core.requests import asked, folded
from livejoin.core.state import State
from livejoin.core.transitions import reply, say

_RETRY_S = 2.0  # for a topic that is not there yet
_COLD_S = 120.0  # Spark's JVM and its first query take half a minute on a busy machine
_SET_S = 1.0  # by which the clocks differ: the one on the wall was set
_PAUSE_S = 5.0  # between two ticks: we were stopped, or Kafka was out of reach


def decide(state: State, fact: facts.Fact) -> State:
    """The state after a fact. One about a generation that is no longer wanted changes nothing."""
    match fact:
        case facts.Started():
            return _started(state, fact)
        case facts.Ticked():
            return _ticked(state, fact)
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
    match fact:
        case facts.Ran():
            return ran(_warm(state), generation)
        case facts.Died():
            return died(state, generation, fact)
        case facts.Spoilt(_, why):
            return spoilt(state, generation, why)
        case facts.Looked(_, why):
            return looked(state, generation, why)
        case facts.Grew(_, sources):
            return grew(state, replace(generation, sources=sources))
        case facts.Counted():
            return counted(state, generation, fact)
        case _:
            return _built(state, generation, fact) if generation is state.building else state


def _built(state: State, building: Generation, fact: facts.OfBuild) -> State:
    match fact:
        case facts.Resolved():
            return _resolved(state, building, fact)
        case facts.NotResolved():
            return _not_resolved(state, building, fact)
        case facts.TopicsMade(_, changelog_id, feed_id):
            if building.has_topics:
                return state  # the query writes to the first ones
            return replace(
                state,
                building=replace(building, changelog_id=changelog_id, feed_id=feed_id),
            )
        case facts.Progressed(_, done, total):
            if done <= state.of(building).done:
                return state.faring(building, total=total)
            state = ran(_warm(state), building)
            return state.faring(building, done=done, total=total, moved_at=state.up)
        case facts.CaughtUp(_, ready_at):
            return transitions.go_live(ran(_warm(state), building), ready_at)
    assert_never(fact)


def _warm(state: State) -> State:
    """A query has read something: from now on none has Spark's start for an excuse."""
    return replace(state, warm_at=min(state.warm_at, state.up))


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
    limits, up = fact.limits, fact.up
    # The one time that is told by the clock on the wall: nothing else has gone on meanwhile. It may
    # have been set, so that the standby has stood by for all of its time at most, and not less than
    # nothing.
    stood_s = min(max(0.0, fact.at - state.moved_at), limits.standby_s)
    last = state.last_number
    state = replace(
        state,
        now=fact.at,
        up=up,
        moved_up=up - stood_s,
        limits=limits,
        wanted=state.wanted or fact.choice,
        last_number=max(state.last_number, fact.used),
        deaf="",
        warm_at=up + _COLD_S,
    )
    for generation in state.wants:
        trouble = "livejoin has just started" if generation.ready_at is not None else ""
        asked_at = up - max(0.0, fact.at - generation.requested_at)
        state = state.faring(
            generation, trouble=trouble, moved_at=up, began_at=up, asked_at=asked_at
        )
    state = _dated(state)
    if state.read_format < format_versions.LEDGER:
        state = say(state, "INFO", _taken_over(state))
    if state.last_number > last:
        left = f"generations up to {state.last_number} have left topics or checkpoints"
        state = say(state, "WARN", f"{left}, and the ledger knows none after {last}: removed")
    going = state.live or state.building
    return say(state, "INFO", f"ready: going on with {going}" if going else "ready: a first start")


def _taken_over(state: State) -> str:
    was = f"the ledger has format {state.read_format} and is taken over as {format_versions.LEDGER}"
    return f"{was}; what is live is built anew" if state.live else was


def _ticked(state: State, fact: facts.Ticked) -> State:
    up = max(fact.up, state.up)
    gap = up - state.up
    state = _dated(replace(state, now=fact.at, up=up))
    building, standby, limits = state.building, state.standby, state.limits
    if building is not None:
        health = state.of(building)
        moved_at = max(health.moved_at, state.warm_at)
        if gap > _PAUSE_S:  # nobody could have made progress
            state = state.faring(building, moved_at=health.moved_at + gap)
        elif (building.resolved or state.live) and up > moved_at + limits.build_stall_s:
            cause = f": {health.wrong}" if health.wrong else ""
            state = failed(state, f"no progress for {limits.build_stall_s:.0f} s{cause}")
    if standby is not None and state.stood_by:
        state = transitions.retire(state, standby, f"stood by for {limits.standby_s:.0f} s")
    return rebuilt(state)


def _dated(state: State) -> State:
    """The swap's time as the clock counts now, where it was set: for people and the next start."""
    moved_at = state.now - (state.up - state.moved_up)
    if state.standby is None or abs(moved_at - state.moved_at) <= _SET_S:
        return state
    return replace(state, moved_at=moved_at)


def _resolved(state: State, building: Generation, fact: facts.Resolved) -> State:
    if building.resolved:
        return state  # the query reads by the first answer
    reads = replace(building, sources=fact.sources, fingerprint=fact.fingerprint)
    state = replace(state, building=reads)
    state = state.faring(reads, trouble="", try_again_at=0.0, moved_at=state.up, began_at=state.up)
    needed = state.slots_of(state.live) + state.slots_of(reads)
    if needed > state.limits.slots:
        return failed(state, f"{needed} task slots are needed and Spark has {state.limits.slots}")
    state = with_room(state, needed)
    state = reply(state, reads.origin, "building", generation=reads.number)
    return say(
        state, "INFO", f"building: generation {reads.number} reads {described(fact.sources)}"
    )


def _not_resolved(state: State, building: Generation, fact: facts.NotResolved) -> State:
    if building.resolved:
        return state
    if fact.missing and state.live is not None:
        return failed(state, fact.why)
    if fact.why != state.of(building).trouble:
        state = say(state, "WARN", f"waiting: {fact.why}")
    return state.faring(building, trouble=fact.why, try_again_at=state.up + _RETRY_S)
