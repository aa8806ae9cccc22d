"""What Kafka removes from a topic by itself, and what that means for the control topic."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from livejoin.kafka.cluster import Kafka

_DAY_S = 86400.0
_UNITS = (("d", _DAY_S), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


class Cleanup(NamedTuple):
    """The cleanup of a topic, from its config."""

    is_compacted: bool
    keeps_s: float  # infinite: not deleted by age
    keeps_bytes: float  # of each partition; infinite: not deleted by size

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "Cleanup":
        """Read a topic's config; what the broker does not tell counts as no limit."""
        policies = config.get("cleanup.policy", "delete").replace(" ", "").split(",")
        if "delete" not in policies:
            return cls("compact" in policies, math.inf, math.inf)
        return cls(
            "compact" in policies,
            _limit(config.get("retention.ms", "-1")) / 1000,
            _limit(config.get("retention.bytes", "-1")),
        )

    def __str__(self) -> str:
        parts = ["compacted"] if self.is_compacted else []
        if math.isfinite(self.keeps_s):
            parts.append(f"keeps {age_text(self.keeps_s)}")
        if math.isfinite(self.keeps_bytes):
            parts.append(f"keeps {self.keeps_bytes:,.0f} bytes of each partition")
        return ", ".join(parts or ["keeps everything"])


def age_text(seconds: float) -> str:
    """A duration in the largest unit that fits it."""
    name, unit = next((one for one in _UNITS if seconds >= one[1]), _UNITS[-1])
    return f"{seconds / unit:.3g} {name}"


class KafkaWarning(NamedTuple):
    """Something that only the brokers know, and that does not prevent a start."""

    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.what}. {self.advice}"


def control_topic_warnings(kafka: Kafka, topic: str) -> list[KafkaWarning]:
    """Why messages of the control topic may be removed before they are read; empty if none may.

    Also empty if it does not exist, or its config is not told to this user.
    """
    if topic not in kafka.describe([topic]):
        return []
    cleanup = Cleanup.of(kafka.topic_configs(topic) or {})
    found = []
    if cleanup.is_compacted:
        found.append(
            KafkaWarning(
                f'control topic "{topic}" is compacted: it refuses messages without a key, as the'
                " page, HTTP and commands send them, and of those with one key it keeps the newest"
                " only: others may be lost before they are decided",
                "Set cleanup.policy=delete and retention.ms=-1 on it.",
            )
        )
    if cleanup.keeps_s < _DAY_S:
        found.append(
            KafkaWarning(
                f'control topic "{topic}" keeps messages for {age_text(cleanup.keeps_s)} only:'
                " those that come while livejoin is stopped or cannot read may be lost before they"
                " are decided, and a first start does not know older ones",
                "Set retention.ms=-1 on it.",
            )
        )
    return found


def _limit(text: str) -> float:
    value = float(text)
    return math.inf if value < 0 else value
