"""The outbox: log lines, replies to control messages, and ended generations to be written.

Items are part of the state until they are written in the same transaction as the state.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from livejoin.core.generation import Generation, Origin

Level = Literal["INFO", "WARN", "ERROR"]
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
    """A row of `orchestrator_logs`. Its id is its sequence number."""

    id: int
    at: float
    level: Level
    msg: str


@dataclass(frozen=True)
class Reply:
    """The outcome of a control message: a row of `control_raw` and a record for its sender."""

    origin: Origin
    outcome: Outcome
    at: float
    reason: str = ""
    generation: int | None = None

    def control_raw_row(self) -> dict[str, Any]:
        """The row of `control_raw`."""
        origin = self.origin
        return {
            "usersTopic": origin.users,
            "accountsTopic": origin.accounts,
            "joinType": origin.join,
            "partition": 0,  # the control topic has only one
            "offset": origin.offset,
            "ts": int(origin.at * 1000),
            "by": origin.by,
            "outcome": self.outcome,
            "reason": self.reason or None,
            "raw": origin.raw,
            "generation": self.generation,  # not a column: for senders that wait for the outcome
        }

    def reply_record(self) -> dict[str, Any]:
        """The record of the replies topic, for the sender."""
        return {
            "id": self.origin.id,
            "offset": self.origin.offset,
            "outcome": self.outcome,
            "generation": self.generation,
            "at": int(self.at * 1000),
            "reason": self.reason or None,
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
