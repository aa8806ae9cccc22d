"""What people see of a state: the row of `orchestrator_status` and the rows of `generations`."""

import math
from datetime import UTC, datetime
from typing import Any

from livejoin.core.generation import Generation
from livejoin.core.outbox import EndedGeneration
from livejoin.core.state import State

_TIME_STEP_S = 10


def status_row(state: State) -> dict[str, Any]:
    """The one row of `orchestrator_status`: what is live, and what is going on."""
    live, building = state.live, state.building
    return {
        "usersTopic": live.choice.users if live else None,
        "accountsTopic": live.choice.accounts if live else None,
        "joinType": live.choice.join if live else None,
        "lastApplied": _iso(live.live_at) if live and live.live_at else None,
        "generation": live.number if live else None,
        "state": _status_name(state),
        "progress": state.health_of(building).percent if building else 100 if live else 0,
        "message": _message(state),
    }


def stale_reason(state: State) -> str:
    """Why the rows that are shown may be old, or nothing."""
    return state.health_of(state.live).problem if state.live else ""


def generation_rows(state: State) -> dict[int, dict[str, Any]]:
    """The rows of the generations that exist, by number."""
    named = {"live": state.live, "standby": state.standby, "building": state.building}
    return {
        generation.number: _generation_row(generation, name, state.health_of(generation).problem)
        for name, generation in named.items()
        if generation is not None
    }


def ended_row(ended: EndedGeneration) -> dict[str, Any]:
    """The last row of a generation."""
    last = _generation_row(ended.generation, ended.end, ended.message)
    return {**last, **ended.figures, "retiredAt": int(ended.at * 1000)}


def _generation_row(generation: Generation, state: str, message: str) -> dict[str, Any]:
    choice = generation.choice
    return {
        "generation": generation.number,
        "usersTopic": choice.users,
        "accountsTopic": choice.accounts,
        "joinType": choice.join,
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
    deaf = state.control_error and f"not listening: {state.control_error}"
    said = [_live_text(state), _capped_text(state), _building_text(state), deaf]
    return "; ".join(filter(None, said)) or "starting"


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
    """Which tables older rows had to leave, and from when on rows are there."""
    live = state.live
    if live is None or not (health := state.health_of(live)).capped:
        return ""
    tables = [f"{table}{_since_text(health.capped_from.get(table))}" for table in health.capped]
    return f"{' and '.join(tables)}: only the newest {live.max_rows} rows"


def _since_text(ts: int | None) -> str:
    if ts is None:
        return ""
    # up: from then on all are there. In steps, as each change is a transaction of the ledger
    return f" (from {_iso(math.ceil(ts / 1000 / _TIME_STEP_S) * _TIME_STEP_S)} on)"


def _building_text(state: State) -> str:
    building = state.building
    if building is None:
        return "" if state.live or not state.topic_id else "a build failed and is tried again soon"
    health = state.health_of(building)
    text = f"building {building}"
    if health.problem:
        return f"{text}: {health.problem}"
    left = time_left(state)
    return f"{text}: {health.percent} %, about {left:.0f} s left" if left is not None else text


def time_left(state: State) -> float | None:
    """How many seconds a build will take, by its speed so far."""
    if state.building is None:
        return None
    health = state.health_of(state.building)
    took = state.monotonic - health.reading_since
    if not health.done or took <= 0:
        return None
    return took * max(0, health.total - health.done) / health.done


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
