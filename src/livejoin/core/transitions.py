"""Transitions of generations between roles, each with its log lines, replies and counters.

Handlers of facts decide which transition is made; nothing else assigns `live`, `standby` or
`building`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from livejoin.core import changelog
from livejoin.core.generation import Generation, GenerationHealth, Origin
from livejoin.core.spec import Choice
from livejoin.core.state import (
    LOG_LEVELS,
    EndedGeneration,
    EndState,
    LogEvent,
    LogLine,
    Outcome,
    Reply,
    State,
    TallyKey,
)


def log_line(
    state: State,
    event: LogEvent,
    msg: str,
    *,
    generation: Generation | None = None,
    origin: Origin | None = None,
) -> State:
    """Add a log line to the outbox: about a generation, a control message, both or neither."""
    number = generation.number if generation else None
    source = origin or (generation.origin if generation else None)
    control = source.position if source else None
    level = LOG_LEVELS.get(event, "INFO")
    line = LogLine(state.line_count + 1, state.now, level, msg, event, number, control)
    return replace(state, line_count=line.id, outbox=(*state.outbox, line))


def increment_tally(state: State, what: TallyKey) -> State:
    """Increment a durable counter for the metrics."""
    return replace(state, tally={**state.tally, what: state.tally.get(what, 0) + 1})


def reply(
    state: State,
    origin: Origin | None,
    outcome: Outcome,
    reason: str = "",
    generation: int | None = None,
) -> State:
    """Add an outcome for the sender of a message, if there is one, to the outbox."""
    if origin is None:
        return state
    item = Reply(origin, outcome, state.now, reason, generation, state.next_reply_line)
    return replace(state, reply_line=item.line, outbox=(*state.outbox, item))


def build(
    state: State,
    choice: Choice,
    by: str,
    origin: Origin | None = None,
    start: Mapping[str, str] | None = None,
) -> State:
    """Start to build a new generation; it supersedes one that is being built."""
    number = state.last_number + 1
    old = state.building
    if old is not None:
        state = log_line(
            state,
            "superseded",
            f"superseded: {old} by generation {number}",
            generation=old,
        )
        state = increment_tally(state, "superseded")
        state = end_generation(state, old, "superseded", f"by generation {number}")
    new = Generation(
        number,
        choice,
        state.now,
        by,
        origin,
        start or {},
        max_rows=state.limits.max_rows,
        changelog_format=changelog.format_number(state.spec),
        spec=state.spec,
    )
    state = replace(state, building=new, last_number=number, desired=choice)
    return state.with_health(new, progressed_at=state.monotonic, requested_at=state.monotonic)


def mark_running(state: State, generation: Generation) -> State:
    """Its query runs: clear its error, and end the cold-start grace period."""
    state = replace(state, cold_start_until=min(state.cold_start_until, state.monotonic))
    if not state.health_of(generation).error or state.health_of(generation).given_up:
        return state
    role = "live" if generation == state.live else "running"
    state = state.with_health(generation, error="")
    return log_line(
        state,
        "running",
        f"{role} again: generation {generation.number}",
        generation=generation,
    )


def go_live(state: State, ready_at: int) -> State:
    """The build is complete: table names point to it, and the previous one is on standby."""
    building, old = state.building, state.live
    assert building is not None
    took = state.monotonic - state.health_of(building).requested_at
    state = log_line(
        state,
        "caught-up",
        f"caught up: generation {building.number} after {took:.1f} s",
        generation=building,
    )
    state = reply(state, building.origin, "caught-up", generation=building.number)
    new = replace(building, ready_at=ready_at, live_at=state.now, took_s=took)
    state = replace(state, live=new, building=None)
    state = increment_tally(_mark_swapped(state).with_health(new, done=0, total=0), "live")
    line = f"live: {new}" if old is None else f"live: {old} → {new}"
    state = log_line(state, "live", line, generation=new)
    state = reply(state, new.origin, "live", generation=new.number)
    if old is None:
        return state
    if state.health_of(old).given_up or not state.limits.standby_s:
        return retire(state, old, "replaced by another generation")
    if state.standby is not None:
        state = retire(state, state.standby, "replaced by a newer standby")
    return replace(state, standby=old)


def roll_back(state: State, origin: Origin) -> State:
    """Swap live and standby."""
    live, standby = state.live, state.standby
    assert live is not None
    assert standby is not None
    back = replace(standby, live_at=state.now)
    state = _mark_swapped(replace(state, live=back, standby=live, desired=back.choice))
    state = log_line(
        increment_tally(state, "rolled-back"),
        "rolled-back",
        f"rolled back: {live} → {back}",
        generation=back,
        origin=origin,
    )
    return reply(state, live.origin, "rolled-back", generation=live.number)


def _mark_swapped(state: State) -> State:
    """Record the time of a swap or rollback: standby_s starts now."""
    return replace(state, swapped_at=state.now, swapped_monotonic=state.monotonic)


def cancel(state: State, why: str) -> State:
    """End the build because of another request."""
    building = state.building
    assert building is not None
    state = log_line(
        increment_tally(state, "cancelled"),
        "cancelled",
        f"cancelled: {building}: {why}",
        generation=building,
    )
    state = end_generation(state, building, "superseded", f"cancelled: {why}", "cancelled")
    return _desire_live_choice(state)


def fail(state: State, why: str) -> State:
    """End the build because it failed. The live generation is not affected."""
    building = state.building
    assert building is not None
    state = log_line(
        increment_tally(state, "failed"),
        "failed",
        f"failed: {building}: {why}{_still_serving(state)}",
        generation=building,
    )
    return _desire_live_choice(end_generation(state, building, "failed", why))


def retire(state: State, generation: Generation, why: str) -> State:
    """End a generation that was live."""
    state = log_line(state, "retired", f"retired: {generation}: {why}", generation=generation)
    return end_generation(state, generation, "retired", why)


def end_generation(
    state: State, generation: Generation, how: EndState, why: str, outcome: Outcome | None = None
) -> State:
    """Remove a generation from the state; the plan then removes its topics and checkpoint."""
    state = reply(state, generation.origin, outcome or how, why, generation.number)
    last = EndedGeneration(generation, how, state.now, why, state.health_of(generation).figures)
    health: dict[int, GenerationHealth] = {
        n: h for n, h in state.health.items() if n != generation.number
    }
    return replace(
        state,
        outbox=(*state.outbox, last),
        health=health,
        standby=None if state.standby == generation else state.standby,
        building=None if state.building == generation else state.building,
    )


def replace_generation(state: State, generation: Generation) -> State:
    """Replace the generation that has the same number."""
    return _change_each(state, lambda old: generation if old.number == generation.number else old)


def clear_origins(state: State) -> State:
    """Forget which messages requested the generations."""
    return _change_each(state, lambda generation: replace(generation, origin=None))


def _change_each(state: State, change: Callable[[Generation], Generation]) -> State:
    """Change the generations, each in its role."""
    live, standby, building = state.live, state.standby, state.building
    return replace(
        state,
        live=change(live) if live else None,
        standby=change(standby) if standby else None,
        building=change(building) if building else None,
    )


def _still_serving(state: State) -> str:
    if state.live is None:
        return ""
    if state.health_of(state.live).given_up:
        return f"; the last rows of generation {state.live.number} are kept"
    return f"; generation {state.live.number} keeps serving"


def _desire_live_choice(state: State) -> State:
    """After a build has ended, the live choice is the desired one again, if there is one."""
    return replace(state, desired=state.live.choice) if state.live else state
