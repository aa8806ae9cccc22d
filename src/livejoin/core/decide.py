"""The state machine: `decide(state, fact) -> State`, one case per fact; and what time does.

Reading order: `facts` lists what can happen, this module which handler is called. The handlers are
named `on_<fact>`: those of a start and of the clock are in this module, the others in
`control_decisions` and `generation_decisions`. They change roles through `transitions`, the only
module that assigns `live`, `standby` and `building`. `docs/lifecycle.md` is generated from this
function.

It is pure: no clock, no topic, no file, no thread. Durations use the monotonic clock; the wall
clock is for display and across restarts.
"""

from dataclasses import replace
from typing import assert_never

from livejoin.core import (
    control_decisions,
    facts,
    format_versions,
    generation_decisions,
    transitions,
)
from livejoin.core.generation import Generation
from livejoin.core.generation_decisions import fail_build, rebuild_if_due
from livejoin.core.state import State
from livejoin.core.transitions import log_line

_COLD_START_S = 120.0  # Spark's JVM and its first query take half a minute on a busy machine
_CLOCK_JUMP_S = 1.0  # if the clocks differ by more, the wall clock was set
_PAUSE_S = 5.0  # between two ticks: the process was suspended, or Kafka unreachable


def decide(state: State, fact: facts.Fact) -> State:
    """The state after a fact. Facts about generations that no longer exist change nothing."""
    match fact:
        case facts.LeaderStarted():
            return on_leader_started(state, fact)
        case facts.ClockTicked():
            return on_clock_ticked(state, fact)
        case facts.HistoryReplayed():
            return control_decisions.on_history_replayed(state, fact)
        case facts.ControlTopicOpened():
            return control_decisions.on_control_topic_opened(state, fact)
        case facts.ControlTopicLost():
            return control_decisions.on_control_topic_lost(state, fact)
        case facts.MessageReceived():
            return control_decisions.on_message_received(state, fact)
        case facts.SourcesUnreachable():
            return generation_decisions.on_sources_unreachable(state)
        case _:
            generation = state.find(fact.generation)
            return state if generation is None else _decide_generation(state, generation, fact)


def _decide_generation(state: State, generation: Generation, fact: facts.GenerationFact) -> State:
    match fact:
        case facts.QueryResumed():
            return transitions.mark_running(state, generation)
        case facts.QueryDied():
            return generation_decisions.on_query_died(state, generation, fact)
        case facts.Unrecoverable():
            return generation_decisions.on_unrecoverable(state, generation, fact)
        case facts.SourcesChecked():
            return generation_decisions.on_sources_checked(state, generation, fact)
        case facts.PartitionsAdded():
            return generation_decisions.on_partitions_added(state, generation, fact)
        case facts.RecordsCounted():
            return generation_decisions.on_records_counted(state, generation, fact)
        case _:
            return _decide_build(state, generation, fact) if generation is state.building else state


def _decide_build(state: State, building: Generation, fact: facts.BuildFact) -> State:
    match fact:
        case facts.SourcesResolved():
            return generation_decisions.on_sources_resolved(state, building, fact)
        case facts.ResolutionFailed():
            return generation_decisions.on_resolution_failed(state, building, fact)
        case facts.TopicsCreated():
            return generation_decisions.on_topics_created(state, building, fact)
        case facts.BuildProgressed():
            return generation_decisions.on_build_progressed(state, building, fact)
        case facts.CaughtUp():
            return generation_decisions.on_caught_up(state, building, fact)
    assert_never(fact)


def on_leader_started(state: State, fact: facts.LeaderStarted) -> State:
    """Resume the state of the ledger with the limits of this process."""
    limits, now = fact.limits, fact.monotonic
    # Only the wall clock spans a restart. It may have been set meanwhile, so the result is clamped.
    standby_age_s = min(max(0.0, fact.at - state.swapped_at), limits.standby_s)
    last = state.last_number
    state = replace(
        state,
        now=fact.at,
        monotonic=now,
        swapped_monotonic=now - standby_age_s,
        limits=limits,
        spec=fact.spec,
        default_choice=fact.choice,
        desired=state.desired or fact.choice,
        last_number=max(state.last_number, fact.last_used),
        control_error="",
        cold_start_until=now + _COLD_START_S,
    )
    for generation in state.generations:
        error = "livejoin has just started" if generation.ready_at is not None else ""
        requested_at = now - max(0.0, fact.at - generation.requested_at)
        state = state.with_health(
            generation,
            error=error,
            progressed_at=now,
            reading_since=now,
            requested_at=requested_at,
        )
    state = _adjust_swap_time(state)
    if state.ledger_format < format_versions.LEDGER:
        state = log_line(state, "ledger-migrated", _migration_note(state))
    if state.last_number > last:
        state = log_line(
            state,
            "leftovers-found",
            f"found topics or checkpoints up to generation {state.last_number}, but the ledger"
            f" ends at {last}: removing them",
        )
    resumed = state.live or state.building
    line = f"ready: resuming {resumed}" if resumed else "ready: first start"
    state = log_line(state, "started", line, generation=resumed)
    return _build_for_changed_spec(state)


def _build_for_changed_spec(state: State) -> State:
    """Build the same choice with the sources of the settings, if those have changed."""
    newest = state.building or state.live
    if newest is None or newest.spec == state.spec:
        return state
    choice = state.fitted(newest.choice)
    if choice.join != newest.choice.join or dict(newest.choice.topics) != dict(choice.topics):
        line = f"{newest.choice} does not fit the sources of the settings: {choice} is built"
        state = log_line(state, "warning", line, generation=newest)
    state = transitions.build(state, choice, "settings")
    line = f"the sources of the settings have changed: building {state.building}"
    return log_line(state, "building", line, generation=state.building)


def _migration_note(state: State) -> str:
    note = f"migrating the ledger from format {state.ledger_format} to {format_versions.LEDGER}"
    rebuilt = state.live is not None and not state.live.has_topics  # format 1 has no topic ids
    return f"{note}; the live generation is rebuilt" if rebuilt else note


def on_clock_ticked(state: State, fact: facts.ClockTicked) -> State:
    """Fail a stalled build, retire an expired standby, start a rebuild that is due."""
    now = max(fact.monotonic, state.monotonic)
    gap_s = now - state.monotonic
    state = _adjust_swap_time(replace(state, now=fact.at, monotonic=now))
    building, standby, limits = state.building, state.standby, state.limits
    if building is not None:
        health = state.health_of(building)
        stalled_since = max(health.progressed_at, state.cold_start_until)
        if gap_s > _PAUSE_S:  # no progress was possible meanwhile
            state = state.with_health(building, progressed_at=health.progressed_at + gap_s)
        elif (building.resolved or state.live) and now > stalled_since + limits.build_stall_s:
            cause = f": {health.problem}" if health.problem else ""
            state = fail_build(state, f"no progress for {limits.build_stall_s:.0f} s{cause}")
    if standby is not None and state.standby_expired:
        why = f"standby_s ({limits.standby_s:.0f} s) has passed"
        state = transitions.retire(state, standby, why)
    return rebuild_if_due(state)


def _adjust_swap_time(state: State) -> State:
    """Correct the wall clock time of the last swap if the wall clock was set."""
    swapped_at = state.now - (state.monotonic - state.swapped_monotonic)
    if state.standby is None or abs(swapped_at - state.swapped_at) <= _CLOCK_JUMP_S:
        return state
    return replace(state, swapped_at=swapped_at)
