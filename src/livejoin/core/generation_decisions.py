"""Facts about running generations: queries that die, topics that change, record counts."""

from dataclasses import replace

from livejoin.core import facts, transitions
from livejoin.core.builds import fail_build, rebuild_if_due
from livejoin.core.generation import Generation
from livejoin.core.state import State
from livejoin.core.task_slots import free_slots
from livejoin.core.transitions import log_line

MAX_RESTARTS = 5  # consecutive ones without a new source position


def on_query_died(state: State, generation: Generation, fact: facts.QueryDied) -> State:
    """Restart its query with backoff; give up after too many restarts without progress."""
    number = generation.number
    if state.health_of(generation).given_up:
        return state
    old = state.health_of(generation)
    restarts = old.restarts + 1 if fact.counts_as_failure else 0
    state = state.with_health(generation, restarts=restarts, error=fact.why)
    if restarts > MAX_RESTARTS:
        why = f"died {restarts} times without progress: {fact.why}"
        return _give_up(state, generation, why)
    wait = 2.0 ** max(0, restarts - 1)
    # the next run counts from zero
    state = state.with_health(generation, retry_at=state.monotonic + wait, done=0)
    if not fact.counts_as_failure and fact.why == old.error:
        return state  # already logged
    line = f"restarting: generation {number} died: {fact.why}; retrying in {wait:.0f} s"
    return log_line(transitions.increment_tally(state, "restarted"), "ERROR", line)


def on_unrecoverable(state: State, generation: Generation, fact: facts.Unrecoverable) -> State:
    """It can never run again. A live one keeps serving its last rows until it is rebuilt."""
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
        f"generation {generation.number} cannot continue: {why};"
        " its last rows are kept until the same choice is rebuilt",
    )
    return rebuild_if_due(replace(state, rebuild_at=state.monotonic))


def _give_up(state: State, generation: Generation, why: str) -> State:
    number = generation.number
    if generation == state.building:
        return fail_build(state, why)
    if generation == state.standby:
        line = f"failed: generation {number} {why}; no rollback to it is possible"
        state = log_line(state, "ERROR", line)
        return transitions.retire(state, generation, why)
    state = state.with_health(generation, given_up=True)
    return log_line(
        state,
        "ERROR",
        f"failed: generation {number} {why}; its last rows are kept;"
        " fix the cause, then send the same choice again",
    )


def on_sources_checked(state: State, generation: Generation, fact: facts.SourcesChecked) -> State:
    """Record whether its topics can be read; log each change."""
    number, why = generation.number, fact.why
    if why == state.health_of(generation).blocked:
        return state
    state = state.with_health(generation, blocked=why)
    if why:
        return log_line(state, "ERROR", f"generation {number} cannot read its topics: {why}")
    return log_line(state, "INFO", f"generation {number} can read its topics again")


def on_partitions_added(state: State, generation: Generation, fact: facts.PartitionsAdded) -> State:
    """Read the new partitions: its query is restarted, and needs more task slots."""
    grown = replace(generation, sources=fact.sources)
    number = grown.number
    if generation == grown or state.health_of(grown).given_up:
        return state
    state = transitions.replace_generation(state, grown).with_health(
        grown, error="restarting to read more partitions"
    )
    topics = (f"{r.topic} ({_partitions(len(r.start))})" for r in grown.sources.values())
    state = log_line(state, "INFO", f"generation {number} now reads {' and '.join(topics)}")
    needed = state.slots_of(state.live) + state.slots_of(state.building)
    if needed > state.limits.slots:
        slots = f"{needed} task slots are needed and Spark has {state.limits.slots}"
        why = f"its topics have more partitions now: {slots}"
        return _give_up(state.with_health(grown, error=why), grown, why)
    return free_slots(state, needed)


def on_records_counted(state: State, generation: Generation, fact: facts.RecordsCounted) -> State:
    """Record the counts; log each table that reaches max_rows."""
    new = [table for table in fact.capped if table not in state.health_of(generation).capped]
    state = state.with_health(
        generation, figures=fact.figures, capped=fact.capped, capped_from=fact.capped_from
    )
    if not new:
        return state
    tables = f"{' and '.join(new)} {'has' if len(new) == 1 else 'have'}"
    return log_line(
        state,
        "WARN",
        f"generation {generation.number}: {tables} reached max_rows ({generation.max_rows}):"
        " the oldest rows are dropped as new ones arrive",
    )


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"
