"""One numbered build of the pipeline, and the control plane's whole state. Data, written whole."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from livejoin.core import spec

# Keys of the ledger topic's records.
STATE_KEY = b"state"
STATUS_KEY = b"status"

Level = Literal["INFO", "WARN", "ERROR"]
Offsets = Mapping[int, int]


@dataclass(frozen=True)
class Reading:
    """What one source reads: a topic by name and id, its start, and what it must catch up with."""

    topic: str
    topic_id: str
    start: Offsets
    pins: Offsets


@dataclass(frozen=True)
class Generation:
    """A build for one choice.

    It can run once its positions are resolved, and be live once `ready_at` is known.
    """

    number: int
    choice: spec.Choice
    requested_at: float
    sources: Mapping[str, Reading] = field(default_factory=dict)
    ready_at: int | None = None  # changelog offset from which on its tables are complete
    live_at: float | None = None

    @property
    def resolved(self) -> bool:
        """Whether it is known where to read."""
        return bool(self.sources)


@dataclass(frozen=True)
class Line:
    """What must be told, once, even across a crash: its id is its place in the history."""

    id: int
    at: float
    level: Level
    msg: str


@dataclass(frozen=True)
class State:
    """All that the control plane knows. What is not durable is rebuilt by facts after a restart."""

    last_number: int = 0
    live: Generation | None = None
    building: Generation | None = None
    lines: int = 0  # how many were ever told or are waiting
    untold: tuple[Line, ...] = ()
    # not durable
    now: float = 0.0
    progress: int = 0
    trouble: str = ""  # why nothing is live yet, or why the live query is down
    restarts: int = 0  # in a row without a new source position
    try_again_at: float = 0.0
    broken: bool = False  # given up on the live query

    def running(self) -> tuple[Generation, ...]:
        """The generations whose queries should be running now."""
        held = self.now < self.try_again_at or self.broken
        wanted = (generation for generation in (self.live, self.building) if generation is not None)
        return () if held else tuple(generation for generation in wanted if generation.resolved)


def to_json(state: State) -> dict[str, Any]:
    """The durable part, for the ledger."""
    return {
        "lastNumber": state.last_number,
        "live": _generation_to_json(state.live),
        "building": _generation_to_json(state.building),
        "lines": state.lines,
        "untold": [[line.id, line.at, line.level, line.msg] for line in state.untold],
    }


def from_json(data: Mapping[str, Any]) -> State:
    """Read the durable part back."""
    return State(
        last_number=data["lastNumber"],
        live=_generation_from_json(data["live"]),
        building=_generation_from_json(data["building"]),
        lines=data["lines"],
        untold=tuple(Line(*line) for line in data["untold"]),
    )


def _generation_to_json(generation: Generation | None) -> dict[str, Any] | None:
    if generation is None:
        return None
    choice = generation.choice
    return {
        "number": generation.number,
        "choice": {"users": choice.users, "accounts": choice.accounts, "join": choice.join},
        "requestedAt": generation.requested_at,
        "sources": {
            name: {
                "topic": reading.topic,
                "topicId": reading.topic_id,
                "start": {str(p): offset for p, offset in reading.start.items()},
                "pins": {str(p): offset for p, offset in reading.pins.items()},
            }
            for name, reading in generation.sources.items()
        },
        "readyAt": generation.ready_at,
        "liveAt": generation.live_at,
    }


def _generation_from_json(data: Mapping[str, Any] | None) -> Generation | None:
    if data is None:
        return None
    return Generation(
        number=data["number"],
        choice=spec.Choice(**data["choice"]),
        requested_at=data["requestedAt"],
        sources={
            name: Reading(
                reading["topic"],
                reading["topicId"],
                {int(p): offset for p, offset in reading["start"].items()},
                {int(p): offset for p, offset in reading["pins"].items()},
            )
            for name, reading in data["sources"].items()
        },
        ready_at=data["readyAt"],
        live_at=data["liveAt"],
    )
