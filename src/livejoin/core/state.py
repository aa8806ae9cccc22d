"""The state of the control plane: one record, written as a whole, so its parts always agree."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from livejoin.core import format_versions
from livejoin.core import generation as generation_json
from livejoin.core.generation import Generation
from livejoin.core.outbox import OutboxItem
from livejoin.core.spec import Choice

# Keys of the records in the ledger topic; each generation row has its own key.
STATE_KEY = b"state"
STATUS_KEY = b"status"
GENERATION_KEY = b"generation/"

# The leader topic: heartbeats of the current leader.
LEADER_KEY = b"leader"
HEARTBEAT_S = 3.0
LEADER_TIMEOUT_S = 10.0  # three missed heartbeats: there is no leader

IDS_KEPT = 1000  # message ids remembered, to recognize repeats


@dataclass(frozen=True)
class Limits:
    """The settings that affect decisions."""

    standby_s: float = 900.0  # infinite: the standby stays until the next swap
    build_stall_s: float = 60.0
    slots: int = 512  # task slots of Spark
    shuffle_partitions: int = 2  # shuffle partitions of a query: each takes a slot
    max_rows: int = 2_000_000  # per table

    def slots_needed(self, partitions: int) -> int:
        """Task slots of a generation that reads this many partitions; one is for its bootstrap."""
        return partitions + 1 + self.shuffle_partitions


@dataclass(frozen=True)
class GenerationHealth:
    """Health of a generation in this process. Not durable; times are monotonic."""

    error: str = ""  # why its query is down, or cannot be started
    restarts: int = 0  # consecutive ones without a new source position
    retry_at: float = 0.0  # earliest time of the next attempt
    given_up: bool = False  # after too many restarts
    unrecoverable: bool = False  # it can never run again: a new generation is needed
    done: int = 0  # records read of those up to the pins
    total: int = 0
    progressed_at: float = 0.0  # when the build last made progress
    reading_since: float = 0.0  # when the build started to read
    requested_at: float = 0.0  # when the build was requested
    blocked: str = ""  # why one of its topics cannot be read
    # counts by column of its row in `generations`
    figures: Mapping[str, int | str] = field(default_factory=dict)
    capped: tuple[str, ...] = ()  # tables that have reached max_rows
    capped_from: Mapping[str, int] = field(default_factory=dict)  # lowest `_ts` of each

    @property
    def problem(self) -> str:
        """Why its rows may be stale; empty if they are not."""
        return self.error or self.blocked

    @property
    def percent(self) -> int:
        """Progress of the build in percent; never 100 before it is live."""
        return min(99, 100 * self.done // self.total) if self.total else 0


@dataclass(frozen=True)
class State:
    """Everything the control plane knows. Facts rebuild the volatile part after a restart."""

    last_number: int = 0  # highest generation number ever used
    topic_id: str = ""  # id of the control topic that `position` belongs to
    position: int = 0  # offset of the next control message
    ids: tuple[str, ...] = ()  # ids of the newest control messages
    desired: Choice | None = None  # newest accepted choice that was not cancelled and did not fail
    live: Generation | None = None
    standby: Generation | None = None
    building: Generation | None = None
    swapped_at: float = 0.0  # wall clock time of the last swap or rollback
    line_count: int = 0  # log lines ever written
    # counters for metrics: outcomes of swaps, restarts of queries
    tally: Mapping[str, int] = field(default_factory=dict)
    # volatile from here on
    ledger_format: int = format_versions.LEDGER  # format of the ledger it was read from
    outbox: tuple[OutboxItem, ...] = ()  # not yet written
    now: float = 0.0  # wall clock: it may jump, so nothing is decided by it
    monotonic: float = 0.0  # monotonic clock in seconds, like all times below
    swapped_monotonic: float = 0.0  # time of the last swap or rollback
    limits: Limits = field(default_factory=Limits)
    health: Mapping[int, GenerationHealth] = field(default_factory=dict)
    control_error: str = ""  # why control messages cannot be read
    cold_start_until: float = 0.0  # end of the grace period for the first query
    rebuild_at: float = 0.0  # when a failed build is retried if nothing else can serve

    @property
    def generations(self) -> tuple[Generation, ...]:
        """The generations that exist: at most three."""
        return tuple(g for g in (self.live, self.standby, self.building) if g is not None)

    def find(self, number: int) -> Generation | None:
        """The generation with this number, if it exists."""
        return next((g for g in self.generations if g.number == number), None)

    def health_of(self, generation: Generation) -> GenerationHealth:
        """The health of a generation."""
        return self.health.get(generation.number, GenerationHealth())

    def with_health(self, generation: Generation, **changes: Any) -> "State":
        """A copy with changed health of one generation."""
        health = replace(self.health_of(generation), **changes)
        return replace(self, health={**self.health, generation.number: health})

    def runnable(self) -> tuple[Generation, ...]:
        """The generations whose queries should run now."""
        return tuple(
            g for g in self.generations if self._is_prepared(g) and self._is_due(self.health_of(g))
        )

    def needing_topics(self) -> tuple[Generation, ...]:
        """The generations whose topics should be created now."""
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
        # one of ledger format 1 has no topic ids: it is started, and the pipeline refuses it
        return generation.resolved and (generation.has_topics or generation.ready_at is not None)

    def _is_due(self, health: GenerationHealth) -> bool:
        return not health.given_up and self.monotonic >= health.retry_at

    def slots_of(self, generation: Generation | None) -> int:
        """Task slots that a generation takes."""
        return 0 if generation is None else self.limits.slots_needed(generation.partitions_read)

    @property
    def standby_until(self) -> float | None:
        """Wall clock time at which the standby is retired; None for never."""
        if self.standby is None or math.isinf(self.limits.standby_s):
            return None
        return self.swapped_at + self.limits.standby_s

    @property
    def standby_expired(self) -> bool:
        """Whether the standby has been kept for standby_s."""
        return (
            self.standby is not None
            and self.monotonic >= self.swapped_monotonic + self.limits.standby_s
        )


def to_json(state: State) -> dict[str, Any]:
    """The durable part, for the ledger. The outbox is written in the same transaction."""
    return {
        "format": format_versions.LEDGER,
        "lastNumber": state.last_number,
        "topicId": state.topic_id,
        "position": state.position,
        "ids": list(state.ids),
        "wanted": asdict(state.desired) if state.desired else None,
        "live": generation_json.to_json(state.live),
        "standby": generation_json.to_json(state.standby),
        "building": generation_json.to_json(state.building),
        "movedAt": state.swapped_at,
        "lines": state.line_count,
        "tally": dict(state.tally),
    }


def format_error(data: Mapping[str, Any]) -> str:
    """Why a state of the ledger cannot be read: a newer version wrote it. Empty if it can."""
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
    """Decode the durable part. Call `format_error` first."""
    read_format = data.get("format", 1)
    building = generation_json.from_json(data["building"])
    if building is not None and read_format == 1:
        # format 1 has no topic ids: the build starts over with new topics
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
        live=generation_json.from_json(data["live"]),
        standby=generation_json.from_json(data["standby"]),
        building=building,
        swapped_at=data["movedAt"],
        line_count=data["lines"],
        tally=data.get("tally", {}),  # missing in ledgers of earlier versions
    )
