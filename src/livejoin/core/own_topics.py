"""livejoin's own topics: their kinds and configs, what of it is needed, how large records may be.

Needed is what correctness depends on: one partition, `cleanup.policy` and `min.compaction.lag.ms`.
Everything else may be left to the broker where it refuses it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from livejoin.core import changelog
from livejoin.core.names import Names

Kind = Literal[
    "access",
    "tokens",
    "audit",
    "ledger",
    "logs",
    "replies",
    "leader",
    "control",
    "changelog",
    "feed",
]

NEEDED_CONFIGS = ("cleanup.policy", "min.compaction.lag.ms")
SIZE_CONFIG = "max.message.bytes"
SIZED_KINDS: tuple[Kind, ...] = ("changelog", "feed")  # all others hold small records
PER_GENERATION: tuple[Kind, ...] = ("changelog", "feed")  # all others last

MAX_RECORD_BYTES = 16 << 20  # of livejoin's clients, and of its topics unless they are limited
MIN_RECORD_BYTES = 64 << 10  # a reject holds 4 KiB of its value in base64, and its reason
_MAX_BATCH_BYTES = 256 << 10
MAX_VALUE_BYTES = 1 << 20  # of an input record, however large topics are

# What a record has beside rows: keys, ids, versions, the batch's header, and a few bytes per field
# for numbers, which JSON may spell longer than the input did. 1 KiB would do.
_FRAME_BYTES = 16 << 10
_BUNDLED_ROW_BYTES = (
    changelog.BUNDLE_MAX_PART_BYTES + 128
)  # with its id (at most 61 bytes) and its time

_AUDIT_BYTES = 64 << 20  # 10,000 rows are a few MB
_ACCESS_RETENTION_S = 45 * 86400  # longer than any session; signing keys are republished daily
_COMPACTED = {"cleanup.policy": "compact"}
_HOUR_MS = "3600000"

_CONFIGS: Mapping[Kind, Mapping[str, str]] = {
    "access": {
        "cleanup.policy": "compact,delete",
        "retention.ms": str(_ACCESS_RETENTION_S * 1000),
    },
    "tokens": _COMPACTED,
    "audit": {"retention.bytes": str(_AUDIT_BYTES), "retention.ms": "-1"},
    "ledger": _COMPACTED,
    "logs": {"retention.bytes": str(64 << 20), "retention.ms": "-1"},
    "replies": {},
    "leader": {"retention.ms": _HOUR_MS, "segment.ms": _HOUR_MS},
    "control": {"retention.ms": "-1"},
    # a follower that starts within an hour sees all versions
    "changelog": {**_COMPACTED, "min.compaction.lag.ms": _HOUR_MS},
    # read by one generation, and deleted with it
    "feed": {"cleanup.policy": "delete", "retention.ms": "-1"},
}


class RecordLimits(NamedTuple):
    """What fits the topics of a generation."""

    value_bytes: int  # of an input record
    bundle_rows: int
    batch_bytes: int  # of a producer's batch: a topic limits these, not single records


@dataclass(frozen=True)
class OwnTopicRules:
    """How own topics are created, from the settings."""

    replication: int = -1  # -1: the broker's default
    max_message_bytes: int = MAX_RECORD_BYTES
    config: Mapping[Kind, Mapping[str, str]] = field(default_factory=dict)
    create: bool = True  # the lasting ones; those of a generation are always created

    def config_of(self, kind: Kind) -> dict[str, str]:
        """The config of a topic; an empty value in the settings leaves one to the broker."""
        own = dict(_CONFIGS[kind])
        if kind in SIZED_KINDS:
            own[SIZE_CONFIG] = str(self.max_message_bytes)
        given = {**own, **self.config.get(kind, {})}
        return {name: value for name, value in given.items() if value}


class TopicRequest(NamedTuple):
    """A topic to create, with one partition."""

    config: Mapping[str, str]
    replication: int


def lasting_topics(names: Names, control: str) -> dict[Kind, str]:
    """Names of the topics that outlive generations, by kind."""
    return {
        "ledger": names.ledger,
        "logs": names.logs,
        "replies": names.replies,
        "leader": names.leader,
        "tokens": names.tokens,
        "audit": names.audit,
        "access": names.access,
        "control": control,
    }


def with_defaults(request: TopicRequest, why: str) -> TopicRequest | None:
    """A refused request with the broker's defaults for what the reason names.

    If it names nothing, for everything that is not needed. None if nothing is left to try.
    """
    optional = [name for name in request.config if name not in NEEDED_CONFIGS]
    named = [name for name in request.config if _names(why, name)]
    replication_named = re.search(r"replication[ ._-]?factor", why, re.IGNORECASE) is not None
    refused = named if named or replication_named else optional
    config = {
        name: value
        for name, value in request.config.items()
        if name in NEEDED_CONFIGS or name not in refused
    }
    keeps_replication = bool(named) and not replication_named
    retried = TopicRequest(config, request.replication if keeps_replication else -1)
    return None if retried == TopicRequest(dict(request.config), request.replication) else retried


def needed_settings(request: TopicRequest, why: str) -> str:
    """The needed settings that a refusal is about, as text: those it names, or all of them."""
    needed = [name for name in request.config if name in NEEDED_CONFIGS]
    named = [name for name in needed if _names(why, name)]
    texts = [f"{name}={request.config[name]}" for name in named or needed]
    return ", ".join(texts if named else [*texts, "one partition"])


def record_limits(topic_bytes: int) -> RecordLimits:
    """What fits topics of this size: a users row with an account, and a full bundle."""
    room = min(topic_bytes, MAX_RECORD_BYTES) - _FRAME_BYTES
    kib = room // 2 >> 10
    return RecordLimits(
        min(MAX_VALUE_BYTES, kib << 10),
        max(1, min(changelog.BUNDLE_MAX_ROWS, room // _BUNDLED_ROW_BYTES)),
        min(_MAX_BATCH_BYTES, room),
    )


def size_text(size: int) -> str:
    """A number of bytes, a multiple of 1 KiB, in the largest unit in which it is whole."""
    return f"{size >> 20} MiB" if size % (1 << 20) == 0 else f"{size >> 10} KiB"


def _names(why: str, name: str) -> bool:
    """Whether a text contains this config name, and not as a part of another one."""
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", why) is not None
