"""What time alone causes: a start, a stall, the end of a standby, a rebuild.

Durations are measured by the monotonic clock; the wall clock is for people and across restarts.
"""

from dataclasses import replace

from livejoin.core import facts, format_versions, transitions
from livejoin.core.builds import fail_build, rebuild_if_due
from livejoin.core.state import State
from livejoin.core.transitions import log_line

_COLD_START_S = 120.0  # Spark's JVM and its first query take half a minute on a busy machine
_CLOCK_JUMP_S = 1.0  # by which the clocks differ: the one on the wall was set
_PAUSE_S = 5.0  # between two ticks: we were stopped, or Kafka was out of reach


def on_leader_started(state: State, fact: facts.LeaderStarted) -> State:
    """Resume what the ledger says, under the limits of this process."""
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
            generation, error=trouble, progressed_at=up, reading_since=up, requested_at=asked_at
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


def on_clock_ticked(state: State, fact: facts.ClockTicked) -> State:
    """Fail a build that stalls, retire a standby whose time is over, rebuild what is due."""
    up = max(fact.monotonic, state.monotonic)
    gap = up - state.monotonic
    state = _adjust_swap_time(replace(state, now=fact.at, monotonic=up))
    building, standby, limits = state.building, state.standby, state.limits
    if building is not None:
        health = state.health_of(building)
        moved_at = max(health.progressed_at, state.cold_start_until)
        if gap > _PAUSE_S:  # nobody could have made progress
            state = state.with_health(building, progressed_at=health.progressed_at + gap)
        elif (building.resolved or state.live) and up > moved_at + limits.build_stall_s:
            cause = f": {health.problem}" if health.problem else ""
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
