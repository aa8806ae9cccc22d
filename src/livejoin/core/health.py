"""How a generation fares once it reads: it runs, dies, is spoilt, its topics change."""

from dataclasses import replace

from livejoin.core import facts, transitions
from livejoin.core.builds import fail_build, free_slots, rebuild_if_due
from livejoin.core.generation import Generation
from livejoin.core.state import State
from livejoin.core.transitions import log_line

MAX_RESTARTS = 5  # in a row without a new source position


def on_query_died(state: State, generation: Generation, fact: facts.QueryDied) -> State:
    """Its query ended by itself: it is started again, or given up when that leads nowhere."""
    number = generation.number
    if state.health_of(generation).given_up:
        return state
    old = state.health_of(generation)
    restarts = old.restarts + 1 if fact.counts_as_failure else 0
    state = state.with_health(generation, restarts=restarts, error=fact.why)
    if restarts > MAX_RESTARTS:
        why = f"died {restarts} times without reading on: {fact.why}"
        return _give_up(state, generation, why)
    wait = 2.0 ** max(0, restarts - 1)
    # the next run counts from the beginning what it reads
    state = state.with_health(generation, retry_at=state.monotonic + wait, done=0)
    if not fact.counts_as_failure and fact.why == old.error:
        return state  # it waits for something, which has been said
    said = f"restarting: generation {number} died: {fact.why}; next try in {wait:.0f} s"
    return log_line(transitions.increment_tally(state, "restarted"), "ERROR", said)


def on_unrecoverable(state: State, generation: Generation, fact: facts.Unrecoverable) -> State:
    """It can never run again. What was live is built anew, and its last rows stay until then."""
    why = fact.why
    if state.health_of(generation).unrecoverable:
        return state
    if generation == state.building:
        return fail_build(state, why)
    if generation == state.standby:
        return transitions.retire(state, generation, why)
    state = state.with_health(generation, given_up=True, unrecoverable=True, error=why)
    state = log_line(
        state,
        "ERROR",
        f"generation {generation.number} cannot go on: {why};"
        " its last rows stay until the same choice is built anew",
    )
    return rebuild_if_due(replace(state, rebuild_at=state.monotonic))


def _give_up(state: State, generation: Generation, why: str) -> State:
    number = generation.number
    if generation == state.building:
        return fail_build(state, why)
    if generation == state.standby:
        state = log_line(state, "ERROR", f"failed: generation {number} {why}; no rollback to it")
        return transitions.retire(state, generation, why)
    state = state.with_health(generation, given_up=True)
    return log_line(
        state,
        "ERROR",
        f"failed: generation {number} {why}; its last rows stay;"
        " once the cause is gone, send the same choice again",
    )


def on_sources_checked(state: State, generation: Generation, fact: facts.SourcesChecked) -> State:
    """Its topics cannot be read, or can be again."""
    number, why = generation.number, fact.why
    if why == state.health_of(generation).blocked:
        return state
    state = state.with_health(generation, blocked=why)
    if why:
        return log_line(state, "ERROR", f"generation {number} cannot read on: {why}")
    return log_line(state, "INFO", f"generation {number} can read its topics again")


def on_partitions_added(state: State, generation: Generation, fact: facts.PartitionsAdded) -> State:
    """More partitions take more slots. The plan starts its query again, which then reads them."""
    grown = replace(generation, sources=fact.sources)
    number = grown.number
    if generation == grown or state.health_of(grown).given_up:
        return state
    state = transitions.replace_generation(state, grown).with_health(
        grown, error="it starts again to read more partitions"
    )
    topics = (f"{r.topic} in {len(r.start)} partitions" for r in grown.sources.values())
    state = log_line(state, "INFO", f"generation {number} now reads {' and '.join(topics)}")
    needed = state.slots_of(state.live) + state.slots_of(state.building)
    if needed > state.limits.slots:
        have = f"{needed} task slots are needed and Spark has {state.limits.slots}"
        why = f"its topics have more partitions now: {have}"
        return _give_up(state.with_health(grown, error=why), grown, why)
    return free_slots(state, needed)


def on_records_counted(state: State, generation: Generation, fact: facts.RecordsCounted) -> State:
    """Its figures are known, and which of its tables hold as many rows as they may."""
    new = [table for table in fact.capped if table not in state.health_of(generation).capped]
    state = state.with_health(
        generation, figures=fact.figures, capped=fact.capped, capped_from=fact.capped_from
    )
    if not new:
        return state
    most = f"{generation.max_rows} rows, which is max_rows: the oldest leave as new ones come"
    which = f"generation {generation.number}: {' and '.join(new)}"
    return log_line(state, "WARN", f"{which} {'has' if len(new) == 1 else 'have'} {most}")
