"""Signs of life, as one table server sees them: that Kafka is followed, and that somebody leads.

Times are our own clock's: a leader's clock may be another.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from livejoin.core.state import LEADER_TIMEOUT_S

Clock = Callable[[], float]


class Liveness:
    """What was last heard, and when."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self.trouble = ""  # why Kafka cannot be followed
        self.newer_format = ""  # why the ledger is not followed: a newer livejoin writes it
        self._read_at: float | None = None
        self._leader_heard_at: float | None = None
        self._leader_time = ""  # when, as the leader said it

    def record_read(self) -> None:
        """The follower is at work, whether there was something to read or not."""
        self._read_at = self._clock()

    def set_trouble(self, why: str) -> None:
        """Following does not work, or works again."""
        if self.trouble and not why and self._leader_heard_at is not None:
            self._leader_heard_at = self._clock()  # nobody could be heard meanwhile
        self.trouble = why

    def record_leader(self, at_ms: int | None = None) -> None:
        """A leader wrote something; when, if it said so."""
        self._leader_heard_at = self._clock()
        if at_ms is not None:
            when = datetime.fromtimestamp(at_ms / 1000, UTC)
            self._leader_time = when.isoformat(timespec="seconds").replace("+00:00", "Z")

    def reset(self) -> None:
        """The ledger is another one."""
        self._leader_heard_at, self._leader_time, self.newer_format = None, "", ""

    @property
    def since_read_s(self) -> float | None:
        """How long the follower has not been at work; None before it ever was."""
        return None if self._read_at is None else self._clock() - self._read_at

    @property
    def leader_silence_s(self) -> float | None:
        """How long no leader was heard; None where there was never one."""
        return None if self._leader_heard_at is None else self._clock() - self._leader_heard_at

    @property
    def leader_missing(self) -> str:
        """That nobody leads, or nothing. While Kafka is out of reach nobody can tell."""
        silence = self.leader_silence_s
        if self.trouble or silence is None or silence < LEADER_TIMEOUT_S:
            return ""
        return (
            f"no orchestrator leads since {self._leader_time}"
            if self._leader_time
            else "no orchestrator leads"
        )
