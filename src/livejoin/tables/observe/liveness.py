"""Signs of life, as one table server sees them: that Kafka is followed, and that somebody leads.

Times are our own clock's: a leader's clock may be another.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from livejoin.core.state import SILENT_S

Clock = Callable[[], float]


class Signs:
    """What was last heard, and when."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self.trouble = ""  # why Kafka cannot be followed
        self.newer = ""  # why the ledger is not followed: a newer livejoin writes it
        self._read_at: float | None = None
        self._led_at: float | None = None
        self._led = ""  # when, as the leader said it

    def read(self) -> None:
        """The follower is at work, whether there was something to read or not."""
        self._read_at = self._clock()

    def trouble_with(self, why: str) -> None:
        """Following does not work, or works again."""
        if self.trouble and not why and self._led_at is not None:
            self._led_at = self._clock()  # nobody could be heard meanwhile
        self.trouble = why

    def led(self, at_ms: int | None = None) -> None:
        """A leader wrote something; when, if it said so."""
        self._led_at = self._clock()
        if at_ms is not None:
            when = datetime.fromtimestamp(at_ms / 1000, UTC)
            self._led = when.isoformat(timespec="seconds").replace("+00:00", "Z")

    def forget(self) -> None:
        """The ledger is another one."""
        self._led_at, self._led, self.newer = None, "", ""

    @property
    def unread_s(self) -> float | None:
        """How long the follower has not been at work; None before it ever was."""
        return None if self._read_at is None else self._clock() - self._read_at

    @property
    def silence_s(self) -> float | None:
        """How long no leader was heard; None where there was never one."""
        return None if self._led_at is None else self._clock() - self._led_at

    @property
    def nobody_leads(self) -> str:
        """That nobody leads, or nothing. While Kafka is out of reach nobody can tell."""
        silence = self.silence_s
        if self.trouble or silence is None or silence < SILENT_S:
            return ""
        return f"no orchestrator leads since {self._led}" if self._led else "no orchestrator leads"
