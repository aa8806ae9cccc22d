"""The state of the control plane: one record, written as a whole, so its parts always agree.

Its outbox holds log lines, replies to control messages, and ended generations until they are
written, in the same transaction as the state.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from livejoin.core import format_versions
from livejoin.core.generation import Generation, GenerationHealth, Offsets, Origin
from livejoin.core.spec import DEFAULT, Choice, JoinSpec

# Keys of the records in the ledger topic; each generation row has its own key.
STATE_KEY = b"state"
STATUS_KEY = b"status"
GENERATION_KEY = b"generation/"
REPLY_KEY = b"reply/"  # one that another cluster has not acknowledged yet

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


Level = Literal["INFO", "WARN", "ERROR"]
LogEvent = Literal[
    # this process
    "started",
    "ledger-migrated",
    "leftovers-found",
    # the control topic
    "listening",
    "not-listening",
    "messages-lost",
    "history-replayed",
    "history-ignored",
    # a control message
    "received",
    "resolved",
    "warning",
    "accepted",
    "confirmed",
    "no-change",
    "previewed",
    "rejected",
    "repeated",
    # a generation
    "building",
    "waiting",
    "caught-up",
    "live",
    "rolled-back",
    "superseded",
    "cancelled",
    "failed",
    "retired",
    "restarting",
    "running",
    "unrecoverable",
    "sources-unreadable",
    "sources-readable",
    "partitions-added",
    "table-full",
]
LOG_LEVELS: Mapping[LogEvent, Level] = {  # INFO unless listed
    "leftovers-found": "WARN",
    "messages-lost": "WARN",
    "history-ignored": "WARN",
    "warning": "WARN",
    "rejected": "WARN",
    "waiting": "WARN",
    "table-full": "WARN",
    "not-listening": "ERROR",
    "failed": "ERROR",
    "restarting": "ERROR",
    "unrecoverable": "ERROR",
    "sources-unreadable": "ERROR",
}
Outcome = Literal[
    "accepted",
    "building",
    "caught-up",
    "live",
    "failed",
    "rejected",
    "superseded",
    "cancelled",
    "rolled-back",
    "retired",
    "previewed",
    "repeated",
    "history",
]
EndState = Literal["retired", "failed", "superseded"]
TallyKey = Literal[
    "live", "failed", "superseded", "cancelled", "rejected", "rolled-back", "restarted"
]


@dataclass(frozen=True)
class LogLine:
    """A row of `orchestrator_logs`. Its id is its sequence number.

    Programs read the fields; the message is for people and may be reworded.
    """

    id: int
    at: float
    level: Level
    msg: str
    event: LogEvent
    generation: int | None = None
    control: str | None = None  # position of the control message that it is about

    def row(self) -> dict[str, Any]:
        """The row of `orchestrator_logs`."""
        return {
            "ts": int(self.at * 1000),
            "level": self.level,
            "msg": self.msg,
            "event": self.event,
            "generation": self.generation,
            "control": self.control,
        }


@dataclass(frozen=True)
class Reply:
    """The outcome of a control message: a row of `control_raw` and a record for its sender."""

    origin: Origin
    outcome: Outcome
    at: float
    reason: str = ""
    generation: int | None = None
    line: int = 0  # its number: senders that get one twice know it by that

    @property
    def row_id(self) -> str:
        """The `_id` of its row: as text in the order of reading, and never given twice."""
        order = self.origin.read_order
        # that of format 2 has 12 digits and is below any time in ms
        return row_id(self.origin.offset) if order is None else f"{order:013d}"

    def control_raw_row(self, spec: JoinSpec) -> dict[str, Any]:
        """The row of `control_raw`."""
        origin = self.origin
        return {
            **{source.topic_field: origin.topics.get(source.name) for source in spec.sources},
            "joinType": origin.join,
            "partition": origin.partition,
            "offset": origin.offset,
            "ts": int(origin.at * 1000),
            "by": origin.by,
            "outcome": self.outcome,
            "reason": self.reason or None,
            "raw": origin.raw,
            # not columns: for senders that wait for the outcome
            "generation": self.generation,
            "warnings": list(origin.warnings),
        }

    def reply_record(self) -> dict[str, Any]:
        """The record of the replies topic, for the sender."""
        return {
            "id": self.origin.id,
            "partition": self.origin.partition,
            "offset": self.origin.offset,
            "outcome": self.outcome,
            "generation": self.generation,
            "at": int(self.at * 1000),
            "reason": self.reason or None,
            "warnings": list(self.origin.warnings),
        }

    def headers(self) -> dict[str, int]:
        """The headers of that record: what the reply is about, and its number."""
        return {
            "livejoin-partition": self.origin.partition,
            "livejoin-offset": self.origin.offset,
            "livejoin-line": self.line,
        }


@dataclass(frozen=True)
class EndedGeneration:
    """A generation that no longer exists: its last row in `generations`."""

    generation: Generation
    end: EndState
    at: float
    message: str
    figures: Mapping[str, int | str] = field(default_factory=dict)


OutboxItem = LogLine | Reply | EndedGeneration


def row_id(number: int) -> str:
    """The `_id` of a numbered row. Zero-padded, so text order is numeric order."""
    return f"{number:012d}"


@dataclass(frozen=True)
class State:
    """Everything the control plane knows. Facts rebuild the volatile part after a restart."""

    last_number: int = 0  # highest generation number ever used
    topic_id: str = ""  # id of the control topic that `position` belongs to
    # offsets of the next control messages, by partition; one that is missing is at its beginning
    position: Offsets = field(default_factory=dict)
    read_order: int = 0  # of the newest control message
    ids: tuple[str, ...] = ()  # ids of the newest control messages
    desired: Choice | None = None  # newest accepted choice that was not cancelled and did not fail
    live: Generation | None = None
    standby: Generation | None = None
    building: Generation | None = None
    swapped_at: float = 0.0  # wall clock time of the last swap or rollback
    line_count: int = 0  # log lines ever written
    reply_line: int = 0  # number of the newest reply
    # counters for metrics: outcomes of swaps, restarts of queries
    tally: Mapping[str, int] = field(default_factory=dict)
    # volatile from here on
    ledger_format: int = format_versions.LEDGER  # format of the ledger it was read from
    outbox: tuple[OutboxItem, ...] = ()  # not yet written
    now: float = 0.0  # wall clock: it may jump, so nothing is decided by it
    monotonic: float = 0.0  # monotonic clock in seconds, like all times below
    swapped_monotonic: float = 0.0  # time of the last swap or rollback
    limits: Limits = field(default_factory=Limits)
    spec: JoinSpec = DEFAULT  # of generations that are built from now on
    default_choice: Choice | None = None  # that of the settings
    health: Mapping[int, GenerationHealth] = field(default_factory=dict)
    control_error: str = ""  # why control messages cannot be read
    cold_start_until: float = 0.0  # end of the grace period for the first query
    rebuild_at: float = 0.0  # when a failed build is retried if nothing else can serve

    @property
    def next_reply_line(self) -> int:
        """Number of the next reply.

        The first one is from the clock, so that those after a ledger that was lost are higher.
        """
        return self.reply_line + 1 if self.reply_line else max(1, int(self.now * 1000))

    @property
    def generations(self) -> tuple[Generation, ...]:
        """The generations that exist: at most three."""
        return tuple(g for g in (self.live, self.standby, self.building) if g is not None)

    def fitted(self, choice: Choice) -> Choice:
        """A choice, perhaps of another spec, for the sources that are read from now on."""
        return (
            choice if self.default_choice is None else self.spec.fitted(choice, self.default_choice)
        )

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
