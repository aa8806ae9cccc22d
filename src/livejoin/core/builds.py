"""Facts about the generation that is being built, until it is live or has failed."""

from collections.abc import Mapping
from dataclasses import replace

from livejoin.core import facts, transitions
from livejoin.core.generation import Generation, Reading
from livejoin.core.state import State
from livejoin.core.task_slots import free_slots
from livejoin.core.transitions import log_line, mark_running, reply

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
        "INFO",
        f"building: generation {reads.number} reads {_describe_sources(fact.sources)}",
    )


def on_resolution_failed(state: State, building: Generation, fact: facts.ResolutionFailed) -> State:
    """Retry; fail the build if a topic is missing while another generation is live."""
    if building.resolved:
        return state
    if fact.missing and state.live is not None:
        return fail_build(state, fact.why)
    if fact.why != state.health_of(building).error:
        state = log_line(state, "WARN", f"waiting: {fact.why}")
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
    return log_line(state, "INFO", f"building: {state.building}")


def _describe_sources(sources: Mapping[str, Reading]) -> str:
    """The topics, each with its number of records."""
    return " and ".join(f"{r.topic} ({r.history_length} records)" for r in sources.values())
