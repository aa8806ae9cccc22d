"""Rows that show a state: `orchestrator_status` and `generations`."""

import math
from datetime import UTC, datetime
from typing import Any

from livejoin.core.generation import Generation
from livejoin.core.state import EndedGeneration, State

_TIME_STEP_S = 10


def status_row(state: State) -> dict[str, Any]:
    """The row of `orchestrator_status`: the live choice, state, progress and message."""
    live, building = state.live, state.building
    return {
        **(live.spec if live else state.spec).topic_cells(live.choice if live else None),
        "lastApplied": _iso(live.live_at) if live and live.live_at else None,
        "generation": live.number if live else None,
        "state": _status_name(state),
        "progress": state.health_of(building).percent if building else 100 if live else 0,
        "message": _message(state),
    }


def stale_reason(state: State) -> str:
    """Why the rows of the tables may be stale; empty if they are not."""
    return state.health_of(state.live).problem if state.live else ""


def generation_rows(state: State) -> dict[int, dict[str, Any]]:
    """The rows of the existing generations, by number."""
    roles = {"live": state.live, "standby": state.standby, "building": state.building}
    return {
        generation.number: _generation_row(generation, name, state.health_of(generation).problem)
        for name, generation in roles.items()
        if generation is not None
    }


def ended_row(ended: EndedGeneration) -> dict[str, Any]:
    """The last row of a generation."""
    last = _generation_row(ended.generation, ended.end, ended.message)
    return {**last, **ended.figures, "retiredAt": int(ended.at * 1000)}


def _generation_row(generation: Generation, state: str, message: str) -> dict[str, Any]:
    return {
        "generation": generation.number,
        **generation.spec.topic_cells(generation.choice),
        "state": state,
        "by": generation.by,
        "requestedAt": int(generation.requested_at * 1000),
        "liveAt": int(generation.live_at * 1000) if generation.live_at else None,
        "retiredAt": None,
        "catchUpSeconds": generation.took_s,
        "message": message or None,
    }


def _status_name(state: State) -> str:
    live, building = state.live, state.building
    if live is not None:
        if building is not None:
            return "building"
        health = state.health_of(live)
        return "failed" if health.given_up else "restarting" if health.problem else "live"
    if state.control_error or (building is not None and state.health_of(building).error):
        return "waiting"
    if building is not None:
        return "building"
    return "waiting" if state.topic_id else "starting"


def _message(state: State) -> str:
    control = state.control_error and f"not listening: {state.control_error}"
    parts = [_live_text(state), _capped_text(state), _building_text(state), control]
    return "; ".join(filter(None, parts)) or "starting"


def _live_text(state: State) -> str:
    live = state.live
    if live is None:
        return ""
    health = state.health_of(live)
    if health.problem:
        how = "is down" if health.error else "waits"
        return f"generation {live.number} {how}: {health.problem}"
    return "" if state.building else f"generation {live.number} is live"


def _capped_text(state: State) -> str:
    """The tables that have reached max_rows, and since when their rows are complete."""
    live = state.live
    if live is None or not (health := state.health_of(live)).capped:
        return ""
    tables = [f"{table}{_since_text(health.capped_from.get(table))}" for table in health.capped]
    return f"{' and '.join(tables)}: only the newest {live.max_rows} rows"


def _since_text(ts: int | None) -> str:
    if ts is None:
        return ""
    # rounded up, so all rows since then are present; in steps, as each change is a transaction
    return f" (since {_iso(math.ceil(ts / 1000 / _TIME_STEP_S) * _TIME_STEP_S)})"


def _building_text(state: State) -> str:
    building = state.building
    if building is None:
        failed = state.live is None and state.topic_id
        return "the build failed and will be retried soon" if failed else ""
    health = state.health_of(building)
    text = f"building {building}"
    if health.problem:
        return f"{text}: {health.problem}"
    left = time_left(state)
    return f"{text}: {health.percent} %, about {left:.0f} s left" if left is not None else text


def time_left(state: State) -> float | None:
    """Estimated seconds until the build is complete, by its speed so far."""
    if state.building is None:
        return None
    health = state.health_of(state.building)
    took = state.monotonic - health.reading_since
    if not health.done or took <= 0:
        return None
    return took * max(0, health.total - health.done) / health.done


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
