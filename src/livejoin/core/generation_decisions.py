"""Facts about generations, from the build until they end.

A build resolves its sources, gets topics, progresses, and goes live or fails. A running query dies,
loses a topic, gets more partitions, or counts its records.
"""

from collections.abc import Mapping
from dataclasses import replace

from livejoin.core import facts, transitions
from livejoin.core.generation import Generation, Reading
from livejoin.core.state import State
from livejoin.core.task_slots import free_slots
from livejoin.core.transitions import log_line, mark_running, reply

MAX_RESTARTS = 5  # consecutive ones without a new source position
_RETRY_S = 2.0  # for a topic that does not exist yet
_REBUILD_DELAY_S = 10.0  # before a failed build is retried if nothing else can serve


def on_sources_resolved(state: State, building: Generation, fact: facts.SourcesResolved) -> State:
    """Record what the build reads; fail it if Spark has too few task slots."""
    if building.resolved:
        return state  # the query uses the first result
    reads = replace(building, sources=fact.sources, fingerprint=fact.fingerprint)
    state = transitions.replace_generation(state, reads)
    state = state.with_health(
        reads, error="", retry_at=0.0, progressed_at=state.monotonic, reading_since=state.monotonic
    )
    needed = state.slots_of(state.live) + state.slots_of(reads)
    if needed > state.limits.slots:
        return fail_build(
            state, f"{needed} task slots are needed and Spark has {state.limits.slots}"
        )
    state = free_slots(state, needed)
    state = reply(state, reads.origin, "building", generation=reads.number)
    return log_line(
        state,
        "building",
        f"building: generation {reads.number} reads {_describe_sources(fact.sources)}",
        generation=reads,
    )


def on_resolution_failed(state: State, building: Generation, fact: facts.ResolutionFailed) -> State:
    """Retry; fail the build if a topic is missing while another generation is live."""
    if building.resolved:
        return state
    if fact.missing and state.live is not None:
        return fail_build(state, fact.why)
    if fact.why != state.health_of(building).error:
        state = log_line(state, "waiting", f"waiting: {fact.why}", generation=building)
    return state.with_health(building, error=fact.why, retry_at=state.monotonic + _RETRY_S)


def on_topics_created(state: State, building: Generation, fact: facts.TopicsCreated) -> State:
    """Record the ids of its topics."""
    if building.has_topics:
        return state  # the query writes to the first topics
    known = replace(building, changelog_id=fact.changelog_id, feed_id=fact.feed_id)
    return transitions.replace_generation(state, known)


def on_build_progressed(state: State, building: Generation, fact: facts.BuildProgressed) -> State:
    """Record the progress; only a higher count resets the stall timer."""
    if fact.done <= state.health_of(building).done:
        return state.with_health(building, total=fact.total)
    state = mark_running(state, building)
    return state.with_health(
        building, done=fact.done, total=fact.total, progressed_at=state.monotonic
    )


def on_caught_up(state: State, building: Generation, fact: facts.CaughtUp) -> State:
    """The build is complete: it goes live."""
    return transitions.go_live(mark_running(state, building), fact.ready_at)


def fail_build(state: State, why: str) -> State:
    """Fail the build; it is retried later if nothing else can serve."""
    return replace(transitions.fail(state, why), rebuild_at=state.monotonic + _REBUILD_DELAY_S)


def rebuild_if_due(state: State) -> State:
    """Build the desired choice again if nothing is live, or if the live one is unrecoverable."""
    if state.building is not None or not state.topic_id or state.monotonic < state.rebuild_at:
        return state
    if state.live is None:
        assert state.desired is not None, "a choice is known before the topic_id"
        state = transitions.build(state, state.desired, "settings")
    elif state.health_of(state.live).unrecoverable:
        state = transitions.build(state, state.live.choice, "livejoin", start=state.live.start)
    else:
        return state
    return log_line(state, "building", f"building: {state.building}", generation=state.building)


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
    state = transitions.increment_tally(state, "restarted")
    return log_line(state, "restarting", line, generation=generation)


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
        "unrecoverable",
        f"generation {generation.number} cannot continue: {why};"
        " its last rows are kept until the same choice is rebuilt",
        generation=generation,
    )
    return rebuild_if_due(replace(state, rebuild_at=state.monotonic))


def _give_up(state: State, generation: Generation, why: str) -> State:
    number = generation.number
    if generation == state.building:
        return fail_build(state, why)
    if generation == state.standby:
        line = f"failed: generation {number} {why}; no rollback to it is possible"
        state = log_line(state, "failed", line, generation=generation)
        return transitions.retire(state, generation, why)
    state = state.with_health(generation, given_up=True)
    return log_line(
        state,
        "failed",
        f"failed: generation {number} {why}; its last rows are kept;"
        " fix the cause, then send the same choice again",
        generation=generation,
    )


def on_sources_checked(state: State, generation: Generation, fact: facts.SourcesChecked) -> State:
    """Record whether its topics can be read; log each change."""
    number, why = generation.number, fact.why
    if why == state.health_of(generation).blocked:
        return state
    state = state.with_health(generation, blocked=why)
    if why:
        line = f"generation {number} cannot read its topics: {why}"
        return log_line(state, "sources-unreadable", line, generation=generation)
    line = f"generation {number} can read its topics again"
    return log_line(state, "sources-readable", line, generation=generation)


def on_sources_unreachable(state: State) -> State:
    """A build cannot go on meanwhile: that it makes no progress says nothing about it."""
    if state.building is None:
        return state
    return state.with_health(state.building, progressed_at=state.monotonic)


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
    state = log_line(
        state,
        "partitions-added",
        f"generation {number} now reads {' and '.join(topics)}",
        generation=grown,
    )
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
        "table-full",
        f"generation {generation.number}: {tables} reached max_rows ({generation.max_rows}):"
        " the oldest rows are dropped as new ones arrive",
        generation=generation,
    )


def _describe_sources(sources: Mapping[str, Reading]) -> str:
    """The topics, each with its number of records."""
    return " and ".join(f"{r.topic} ({r.history_length} records)" for r in sources.values())


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"
