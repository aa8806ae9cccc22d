"""The control plane's whole state: one record, written whole, so that its parts cannot disagree."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from livejoin.core import format_versions
from livejoin.core import generation as generations
from livejoin.core.generation import Generation
from livejoin.core.outbox import OutboxItem
from livejoin.core.spec import Choice

# Keys of the ledger topic's records; a generation's row is kept under its own.
STATE_KEY = b"state"
STATUS_KEY = b"status"
GENERATION_KEY = b"generation/"

# Of the leader topic: its leader says every few seconds that it leads.
LEADER_KEY = b"leader"
HEARTBEAT_S = 3.0
LEADER_TIMEOUT_S = 10.0  # three beats are missing: nobody leads

IDS_KEPT = 1000


@dataclass(frozen=True)
class Limits:
    """The settings that decide."""

    standby_s: float = 900.0  # infinite: until the next swap
    build_stall_s: float = 60.0
    slots: int = 512
    shuffle: int = 2  # partitions of a query's state: each holds a slot
    max_rows: int = 2_000_000  # of a table

    def slots_needed(self, partitions: int) -> int:
        """How many slots a generation holds that reads so many partitions, and maybe its feed."""
        return partitions + 1 + self.shuffle


@dataclass(frozen=True)
class GenerationHealth:
    """How a generation fares in this run of livejoin. Not durable; its times are those of `up`."""

    error: str = ""  # why its query is down, or cannot be started
    restarts: int = 0  # in a row without a new source position
    retry_at: float = 0.0
    given_up: bool = False  # given up
    unrecoverable: bool = False  # broken for good: only a new generation helps
    done: int = 0  # records read on the way to the pins
    total: int = 0
    progressed_at: float = 0.0  # when a build last came further
    reading_since: float = 0.0  # when a build began to read
    requested_at: float = 0.0  # when a build was asked for
    blocked: str = ""  # why one of its topics cannot be read
    # what became of the records read
    figures: Mapping[str, int | str] = field(default_factory=dict)
    capped: tuple[str, ...] = ()  # tables that hold as many rows as they may
    capped_from: Mapping[str, int] = field(default_factory=dict)  # their lowest `_ts`

    @property
    def problem(self) -> str:
        """Why its rows may be old, or nothing."""
        return self.error or self.blocked

    @property
    def percent(self) -> int:
        """How far a build is, in whole per cent; 100 only when it is live."""
        return min(99, 100 * self.done // self.total) if self.total else 0


@dataclass(frozen=True)
class State:
    """All that the control plane knows. What is not durable is rebuilt by facts after a restart."""

    last_number: int = 0
    topic_id: str = ""  # of the control topic whose position this is
    position: int = 0  # the next control message
    ids: tuple[str, ...] = ()  # of the newest control messages
    desired: Choice | None = None  # the newest accepted choice that was not given up
    live: Generation | None = None
    standby: Generation | None = None
    building: Generation | None = None
    swapped_at: float = 0.0  # when live and standby last changed, as the clock counts now
    line_count: int = 0  # how many were ever told
    # how often swaps came to what, and queries were restarted, ever
    tally: Mapping[str, int] = field(default_factory=dict)
    # not durable
    ledger_format: int = format_versions.LEDGER  # of the ledger that it was read from
    outbox: tuple[OutboxItem, ...] = ()
    now: float = 0.0  # what the clock on the wall shows: it may be set, and decides nothing
    monotonic: float = 0.0  # seconds of a clock that only goes on, as are all times below
    swapped_monotonic: float = 0.0  # when live and standby last changed
    limits: Limits = field(default_factory=Limits)
    health: Mapping[int, GenerationHealth] = field(default_factory=dict)
    control_error: str = ""  # why control messages are not read
    cold_start_until: float = 0.0  # from when on queries can be expected to start at once
    rebuild_at: float = 0.0  # when a build that failed is tried again, with nothing else to show

    @property
    def generations(self) -> tuple[Generation, ...]:
        """The generations that exist; three at most."""
        return tuple(g for g in (self.live, self.standby, self.building) if g is not None)

    def find(self, number: int) -> Generation | None:
        """A generation by its number, if it is wanted."""
        return next((g for g in self.generations if g.number == number), None)

    def health_of(self, generation: Generation) -> GenerationHealth:
        """How a generation fares."""
        return self.health.get(generation.number, GenerationHealth())

    def with_health(self, generation: Generation, **changes: Any) -> "State":
        """The same with a change of a generation's health."""
        health = replace(self.health_of(generation), **changes)
        return replace(self, health={**self.health, generation.number: health})

    def runnable(self) -> tuple[Generation, ...]:
        """The generations whose queries should be running now."""
        return tuple(
            g for g in self.generations if self._is_prepared(g) and self._is_due(self.health_of(g))
        )

    def needing_topics(self) -> tuple[Generation, ...]:
        """The generations whose topics should be made now."""
        new = self.building
        if (
            new is None
            or not new.resolved
            or new.has_topics
            or not self._is_due(self.health_of(new))
        ):
            return ()
        return (new,)

    def _is_prepared(self, generation: Generation) -> bool:
        # one that was built before ids were recorded is tried, and refused by its pipeline
        return generation.resolved and (generation.has_topics or generation.ready_at is not None)

    def _is_due(self, health: GenerationHealth) -> bool:
        return not health.given_up and self.monotonic >= health.retry_at

    def slots_of(self, generation: Generation | None) -> int:
        """How many task slots a generation holds."""
        return 0 if generation is None else self.limits.slots_needed(generation.partitions_read)

    @property
    def standby_until(self) -> float | None:
        """When the standby is retired, for people; None for never."""
        if self.standby is None or math.isinf(self.limits.standby_s):
            return None
        return self.swapped_at + self.limits.standby_s

    @property
    def standby_expired(self) -> bool:
        """Whether the standby has stood by for long enough."""
        return (
            self.standby is not None
            and self.monotonic >= self.swapped_monotonic + self.limits.standby_s
        )


def to_json(state: State) -> dict[str, Any]:
    """The durable part, for the ledger. What is untold is written beside it at the same time."""
    return {
        "format": format_versions.LEDGER,
        "lastNumber": state.last_number,
        "topicId": state.topic_id,
        "position": state.position,
        "ids": list(state.ids),
        "wanted": asdict(state.desired) if state.desired else None,
        "live": generations.to_json(state.live),
        "standby": generations.to_json(state.standby),
        "building": generations.to_json(state.building),
        "movedAt": state.swapped_at,
        "lines": state.line_count,
        "tally": dict(state.tally),
    }


def format_error(data: Mapping[str, Any]) -> str:
    """Why a ledger's state cannot be read: a newer livejoin wrote it. Empty: it can be."""
    if why := format_versions.unsupported_reason(
        "the ledger", data.get("format"), format_versions.LEDGER
    ):
        return why
    found = (data[role] for role in ("live", "standby", "building"))
    for generation in filter(None, found):
        what = f"the changelog of generation {generation['number']}"
        if why := format_versions.unsupported_reason(
            what, generation.get("changelog_format"), format_versions.CHANGELOG
        ):
            return why
    return ""


def from_json(data: Mapping[str, Any]) -> State:
    """Read the durable part back. `refusal` comes first."""
    read_format = data.get("format", 1)
    building = generations.from_json(data["building"])
    if building is not None and read_format == 1:
        # nobody knows whose its topics are: it begins again, with new ones
        building = replace(building, sources={}, fingerprint="")
    return State(
        ledger_format=read_format,
        last_number=data["lastNumber"],
        topic_id=data["topicId"],
        position=data["position"],
        ids=tuple(data["ids"]),
        desired=Choice(**format_versions.known_fields(Choice, data["wanted"]))
        if data["wanted"]
        else None,
        live=generations.from_json(data["live"]),
        standby=generations.from_json(data["standby"]),
        building=building,
        swapped_at=data["movedAt"],
        line_count=data["lines"],
        tally=data.get("tally", {}),  # ledgers of earlier versions have none
    )
