"""How to make a state true: steps in the order they must run.

A step states a result, so doing it twice is harmless.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from livejoin.core.generation import Generation, Line, State


@dataclass(frozen=True)
class Tell:
    """Have these lines published."""

    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Show:
    """Have `orchestrator_status` show this row."""

    status: dict[str, Any]


@dataclass(frozen=True)
class Resolve:
    """Have it known where this generation reads."""

    generation: Generation


@dataclass(frozen=True)
class Run:
    """Have the queries of these generations running, and no others."""

    generations: tuple[Generation, ...]


Step = Tell | Show | Resolve | Run


def plan(state: State) -> tuple[Step, ...]:
    """The same steps follow every decision and every restart."""
    steps: list[Step] = []
    if state.untold:
        steps.append(Tell(state.untold))
    steps.append(Show(status(state)))
    if (
        state.building is not None
        and not state.building.resolved
        and state.now >= state.try_again_at
    ):
        steps.append(Resolve(state.building))
    steps.append(Run(state.running()))
    return tuple(steps)


def status(state: State) -> dict[str, Any]:
    """The one row of `orchestrator_status`: what is live, and what is going on."""
    live = state.live
    return {
        "usersTopic": live.choice.users if live else None,
        "accountsTopic": live.choice.accounts if live else None,
        "joinType": live.choice.join if live else None,
        "lastApplied": _iso(live.live_at) if live and live.live_at else None,
        "generation": live.number if live else None,
        "state": _named(state),
        "progress": state.progress if state.building else 100,
        "message": _message(state),
    }


def _named(state: State) -> str:
    if state.broken:
        return "failed"
    if state.live is not None:
        return "restarting" if state.trouble else "building" if state.building else "live"
    if state.trouble:
        return "waiting"
    return "building" if state.building else "starting"


def _message(state: State) -> str:
    if state.trouble:
        return state.trouble
    if state.building is not None:
        return f"building generation {state.building.number}, {state.building.choice}"
    return f"generation {state.live.number} is live" if state.live else "starting"


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
