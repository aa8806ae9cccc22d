"""How a generation fares once it reads: it runs, dies, is spoilt, its topics change, it fails."""

from collections.abc import Mapping
from dataclasses import replace

from livejoin.core import facts, transitions
from livejoin.core.generation import Generation, Reading
from livejoin.core.state import State
from livejoin.core.transitions import say

MAX_RESTARTS = 5  # in a row without a new source position
_REBUILD_S = 10.0  # for a build that failed while there is nothing better to show


def ran(state: State, generation: Generation) -> State:
    """Its query is at work."""
    if not state.of(generation).trouble or state.of(generation).broken:
        return state
    role = "live" if generation == state.live else "running"
    state = state.faring(generation, trouble="")
    return say(state, "INFO", f"{role} again: generation {generation.number}")


def died(state: State, generation: Generation, fact: facts.Died) -> State:
    """Its query ended by itself: it is started again, or given up when that leads nowhere."""
    number = generation.number
    if state.of(generation).broken:
        return state
    old = state.of(generation)
    restarts = old.restarts + 1 if fact.counts else 0
    state = state.faring(generation, restarts=restarts, trouble=fact.why)
    if restarts > MAX_RESTARTS:
        why = f"died {restarts} times without reading on: {fact.why}"
        return _given_up(state, generation, why)
    wait = 2.0 ** max(0, restarts - 1)
    # the next run counts from the beginning what it reads
    state = state.faring(generation, try_again_at=state.up + wait, done=0)
    if not fact.counts and fact.why == old.trouble:
        return state  # it waits for something, which has been said
    said = f"restarting: generation {number} died: {fact.why}; next try in {wait:.0f} s"
    return say(transitions.tallied(state, "restarted"), "ERROR", said)


def _given_up(state: State, generation: Generation, why: str) -> State:
    number = generation.number
    if generation == state.building:
        return failed(state, why)
    if generation == state.standby:
        state = say(state, "ERROR", f"failed: generation {number} {why}; no rollback to it")
        return transitions.retire(state, generation, why)
    state = state.faring(generation, broken=True)
    return say(
        state,
        "ERROR",
        f"failed: generation {number} {why}; its last rows stay;"
        " once the cause is gone, send the same choice again",
    )


def looked(state: State, generation: Generation, why: str) -> State:
    """Its topics cannot be read, or can be again."""
    number = generation.number
    if why == state.of(generation).blocked:
        return state
    state = state.faring(generation, blocked=why)
    if why:
        return say(state, "ERROR", f"generation {number} cannot read on: {why}")
    return say(state, "INFO", f"generation {number} can read its topics again")


def counted(state: State, generation: Generation, fact: facts.Counted) -> State:
    """Its figures are known, and which of its tables hold as many rows as they may."""
    new = [table for table in fact.capped if table not in state.of(generation).capped]
    state = state.faring(
        generation, figures=fact.figures, capped=fact.capped, capped_from=fact.capped_from
    )
    if not new:
        return state
    most = f"{generation.max_rows} rows, which is max_rows: the oldest leave as new ones come"
    which = f"generation {generation.number}: {' and '.join(new)}"
    return say(state, "WARN", f"{which} {'has' if len(new) == 1 else 'have'} {most}")


def grew(state: State, grown: Generation) -> State:
    """More partitions take more slots. The plan starts its query again, which then reads them."""
    number = grown.number
    before = state.find(number)
    if before == grown or state.of(grown).broken:
        return state
    state = transitions.put(state, grown).faring(
        grown, trouble="it starts again to read more partitions"
    )
    topics = (f"{r.topic} in {len(r.start)} partitions" for r in grown.sources.values())
    state = say(state, "INFO", f"generation {number} now reads {' and '.join(topics)}")
    needed = state.slots_of(state.live) + state.slots_of(state.building)
    if needed > state.limits.slots:
        have = f"{needed} task slots are needed and Spark has {state.limits.slots}"
        why = f"its topics have more partitions now: {have}"
        return _given_up(state.faring(grown, trouble=why), grown, why)
    return with_room(state, needed)


def with_room(state: State, needed: int) -> State:
    """When slots are short the standby goes first."""
    if state.standby is None or needed + state.slots_of(state.standby) <= state.limits.slots:
        return state
    return transitions.retire(state, state.standby, "its task slots are needed")


def spoilt(state: State, generation: Generation, why: str) -> State:
    """It can never run again. What was live is built anew, and its last rows stay until then."""
    if state.of(generation).unusable:
        return state
    if generation == state.building:
        return failed(state, why)
    if generation == state.standby:
        return transitions.retire(state, generation, why)
    state = state.faring(generation, broken=True, unusable=True, trouble=why)
    state = say(
        state,
        "ERROR",
        f"generation {generation.number} cannot go on: {why};"
        " its last rows stay until the same choice is built anew",
    )
    return rebuilt(replace(state, again_at=state.up))


def failed(state: State, why: str) -> State:
    """The build came to nothing."""
    return replace(transitions.fail(state, why), again_at=state.up + _REBUILD_S)


def rebuilt(state: State) -> State:
    """With nothing to show, or nothing that can go on, the wanted choice is built by itself."""
    if state.building is not None or not state.topic_id or state.up < state.again_at:
        return state
    if state.live is None:
        assert state.wanted is not None, "there is no topic_id before a choice"
        state = transitions.build(state, state.wanted, "settings")
    elif state.of(state.live).unusable:
        state = transitions.build(state, state.live.choice, "livejoin", start=state.live.start)
    else:
        return state
    return say(state, "INFO", f"building: {state.building}")


def described(sources: Mapping[str, Reading]) -> str:
    """What is read, and how many records there were."""
    return " and ".join(f"{r.topic} ({_count(r)} records)" for r in sources.values())


def _count(reading: Reading) -> int:
    return sum(pin + 1 - reading.start[p] for p, pin in reading.pins.items())
