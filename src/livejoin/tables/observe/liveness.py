"""Liveness as one table server observes it: whether it follows Kafka, and whether a leader runs.

Durations are measured with the server's own clock: the leader's may differ.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from livejoin.core.state import LEADER_TIMEOUT_S
from livejoin.kafka.clusters import FIRST

Clock = Callable[[], float]


class Liveness:
    """When the follower last read, and when a leader was last heard."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self.trouble = ""  # why Kafka cannot be followed
        # where there are several: why a cluster does not answer, by section of the settings
        self.clusters: dict[str, str] = {}
        self.newer_format = ""  # why the ledger's format is not supported
        self._read_at: float | None = None
        self._leader_heard_at: float | None = None
        self._leader_time = ""  # of its last heartbeat, by its own clock

    def record_read(self) -> None:
        """Record that the follower has polled, with or without records."""
        self._read_at = self._clock()

    def set_trouble(self, reason: str) -> None:
        """Set why Kafka cannot be followed; empty: it can."""
        before, self.trouble = self.own_trouble, reason
        self._forgive_silence(before)

    def set_cluster(self, section: str, reason: str) -> None:
        """Set why one of several clusters does not answer; empty: it does."""
        before, self.clusters[section] = self.own_trouble, reason
        self._forgive_silence(before)

    @property
    def own_trouble(self) -> str:
        """Why livejoin's own cluster cannot be followed, or does not answer."""
        return self.trouble or self.clusters.get(FIRST, "")

    def _forgive_silence(self, trouble_before: str) -> None:
        if trouble_before and not self.own_trouble and self._leader_heard_at is not None:
            self._leader_heard_at = self._clock()  # a leader could not be heard meanwhile

    def record_leader(self, at_ms: int | None = None) -> None:
        """Record a sign of the leader; `at_ms` is the time in its heartbeat."""
        self._leader_heard_at = self._clock()
        if at_ms is not None:
            when = datetime.fromtimestamp(at_ms / 1000, UTC)
            self._leader_time = when.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def reset(self) -> None:
        """Forget the leader of a ledger that was replaced."""
        self._leader_heard_at, self._leader_time, self.newer_format = None, "", ""

    @property
    def since_read_s(self) -> float | None:
        """Seconds since the follower last polled; None before the first time."""
        return None if self._read_at is None else self._clock() - self._read_at

    @property
    def leader_silence_s(self) -> float | None:
        """Seconds since a leader was last heard; None if there never was one."""
        return None if self._leader_heard_at is None else self._clock() - self._leader_heard_at

    @property
    def leader_missing(self) -> str:
        """The message that no leader runs, or empty; also while Kafka is unreachable."""
        silence = self.leader_silence_s
        if self.own_trouble or silence is None or silence < LEADER_TIMEOUT_S:
            return ""
        return (
            f"no orchestrator leads since {self._leader_time}"
            if self._leader_time
            else "no orchestrator leads"
        )
