"""What follows from a fact: `decide(state, fact) -> State`.

Pure: no clock, no topic, no file, no thread.
"""

from dataclasses import replace
from typing import assert_never

from livejoin.core import facts, format_versions, transitions
from livejoin.core.generation import Generation
from livejoin.core.health import (
    describe_sources,
    fail_build,
    free_slots,
    mark_running,
    on_partitions_added,
    on_query_died,
    on_records_counted,
    on_sources_checked,
    on_unrecoverable,
    rebuild_if_due,
)
from livejoin.core.requests import on_history_replayed, on_message_received
from livejoin.core.state import State
from livejoin.core.transitions import log_line, reply

_RETRY_S = 2.0  # for a topic that is not there yet
_COLD_START_S = 120.0  # Spark's JVM and its first query take half a minute on a busy machine
_CLOCK_JUMP_S = 1.0  # by which the clocks differ: the one on the wall was set
_PAUSE_S = 5.0  # between two ticks: we were stopped, or Kafka was out of reach


def decide(state: State, fact: facts.Fact) -> State:
    """The state after a fact. One about a generation that is no longer wanted changes nothing."""
    match fact:
        case facts.LeaderStarted():
            return _on_leader_started(state, fact)
        case facts.ClockTicked():
            return _on_clock_ticked(state, fact)
        case facts.HistoryReplayed():
            return on_history_replayed(state, fact)
        case facts.ControlTopicOpened() | facts.ControlTopicLost():
            return _on_control_topic(state, fact)
        case facts.MessageReceived():
            return on_message_received(state, fact)
        case _:
            generation = state.find(fact.generation)
            return state if generation is None else _decide_generation(state, generation, fact)


def _decide_generation(state: State, generation: Generation, fact: facts.GenerationFact) -> State:
    match fact:
        case facts.QueryResumed():
            return mark_running(_end_cold_start(state), generation)
        case facts.QueryDied():
            return on_query_died(state, generation, fact)
        case facts.Unrecoverable(_, why):
            return on_unrecoverable(state, generation, why)
        case facts.SourcesChecked(_, why):
            return on_sources_checked(state, generation, why)
        case facts.PartitionsAdded(_, sources):
            return on_partitions_added(state, replace(generation, sources=sources))
        case facts.RecordsCounted():
            return on_records_counted(state, generation, fact)
        case _:
            return _decide_build(state, generation, fact) if generation is state.building else state


def _decide_build(state: State, building: Generation, fact: facts.BuildFact) -> State:
    match fact:
        case facts.SourcesResolved():
            return _on_sources_resolved(state, building, fact)
        case facts.ResolutionFailed():
            return _on_resolution_failed(state, building, fact)
        case facts.TopicsCreated(_, changelog_id, feed_id):
            if building.has_topics:
                return state  # the query writes to the first ones
            return replace(
                state,
                building=replace(building, changelog_id=changelog_id, feed_id=feed_id),
            )
        case facts.BuildProgressed(_, done, total):
            if done <= state.health_of(building).done:
                return state.with_health(building, total=total)
            state = mark_running(_end_cold_start(state), building)
            return state.with_health(building, done=done, total=total, moved_at=state.monotonic)
        case facts.CaughtUp(_, ready_at):
            return transitions.go_live(mark_running(_end_cold_start(state), building), ready_at)
    assert_never(fact)


def _end_cold_start(state: State) -> State:
    """A query has read something: from now on none has Spark's start for an excuse."""
    return replace(state, cold_start_until=min(state.cold_start_until, state.monotonic))


def _on_control_topic(
    state: State, fact: facts.ControlTopicOpened | facts.ControlTopicLost
) -> State:
    if isinstance(fact, facts.ControlTopicOpened):
        state = replace(state, control_error="")
        if fact.first_offset > state.position:
            lost = (
                f"control messages {state.position} to {fact.first_offset - 1} were deleted unread"
            )
            state = replace(log_line(state, "WARN", lost), position=fact.first_offset)
        return log_line(
            state, "INFO", f"listening to {fact.topic} from message {state.position} on"
        )
    if fact.why != state.control_error:
        state = log_line(state, "ERROR", f"not listening: {fact.why}")
    return replace(state, control_error=fact.why)


def _on_leader_started(state: State, fact: facts.LeaderStarted) -> State:
    limits, up = fact.limits, fact.monotonic
    # The one time that is told by the clock on the wall: nothing else has gone on meanwhile. It may
    # have been set, so that the standby has stood by for all of its time at most, and not less than
    # nothing.
    stood_s = min(max(0.0, fact.at - state.swapped_at), limits.standby_s)
    last = state.last_number
    state = replace(
        state,
        now=fact.at,
        monotonic=up,
        swapped_monotonic=up - stood_s,
        limits=limits,
        desired=state.desired or fact.choice,
        last_number=max(state.last_number, fact.last_used),
        control_error="",
        cold_start_until=up + _COLD_START_S,
    )
    for generation in state.generations:
        trouble = "livejoin has just started" if generation.ready_at is not None else ""
        asked_at = up - max(0.0, fact.at - generation.requested_at)
        state = state.with_health(
            generation, trouble=trouble, moved_at=up, began_at=up, asked_at=asked_at
        )
    state = _adjust_swap_time(state)
    if state.ledger_format < format_versions.LEDGER:
        state = log_line(state, "INFO", _migration_note(state))
    if state.last_number > last:
        left = f"generations up to {state.last_number} have left topics or checkpoints"
        state = log_line(state, "WARN", f"{left}, and the ledger knows none after {last}: removed")
    going = state.live or state.building
    return log_line(
        state, "INFO", f"ready: going on with {going}" if going else "ready: a first start"
    )


def _migration_note(state: State) -> str:
    was = (
        f"the ledger has format {state.ledger_format} and is taken over as {format_versions.LEDGER}"
    )
    return f"{was}; what is live is built anew" if state.live else was


def _on_clock_ticked(state: State, fact: facts.ClockTicked) -> State:
    up = max(fact.monotonic, state.monotonic)
    gap = up - state.monotonic
    state = _adjust_swap_time(replace(state, now=fact.at, monotonic=up))
    building, standby, limits = state.building, state.standby, state.limits
    if building is not None:
        health = state.health_of(building)
        moved_at = max(health.moved_at, state.cold_start_until)
        if gap > _PAUSE_S:  # nobody could have made progress
            state = state.with_health(building, moved_at=health.moved_at + gap)
        elif (building.resolved or state.live) and up > moved_at + limits.build_stall_s:
            cause = f": {health.wrong}" if health.wrong else ""
            state = fail_build(state, f"no progress for {limits.build_stall_s:.0f} s{cause}")
    if standby is not None and state.standby_expired:
        state = transitions.retire(state, standby, f"stood by for {limits.standby_s:.0f} s")
    return rebuild_if_due(state)


def _adjust_swap_time(state: State) -> State:
    """The swap's time as the clock counts now, where it was set: for people and the next start."""
    moved_at = state.now - (state.monotonic - state.swapped_monotonic)
    if state.standby is None or abs(moved_at - state.swapped_at) <= _CLOCK_JUMP_S:
        return state
    return replace(state, swapped_at=moved_at)


def _on_sources_resolved(state: State, building: Generation, fact: facts.SourcesResolved) -> State:
    if building.resolved:
        return state  # the query reads by the first answer
    reads = replace(building, sources=fact.sources, fingerprint=fact.fingerprint)
    state = replace(state, building=reads)
    state = state.with_health(
        reads, trouble="", try_again_at=0.0, moved_at=state.monotonic, began_at=state.monotonic
    )
    needed = state.slots_of(state.live) + state.slots_of(reads)
    if needed > state.limits.slots:
        return fail_build(
            state, f"{needed} task slots are needed and Spark has {state.limits.slots}"
        )
    state = free_slots(state, needed)
    state = reply(state, reads.origin, "building", generation=reads.number)
    return log_line(
        state, "INFO", f"building: generation {reads.number} reads {describe_sources(fact.sources)}"
    )


def _on_resolution_failed(
    state: State, building: Generation, fact: facts.ResolutionFailed
) -> State:
    if building.resolved:
        return state
    if fact.missing and state.live is not None:
        return fail_build(state, fact.why)
    if fact.why != state.health_of(building).trouble:
        state = log_line(state, "WARN", f"waiting: {fact.why}")
    return state.with_health(building, trouble=fact.why, try_again_at=state.monotonic + _RETRY_S)
