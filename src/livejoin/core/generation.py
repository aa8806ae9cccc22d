"""One numbered build of the pipeline for one choice, and the message that asked for it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from livejoin.core import format_versions, spec

Offsets = Mapping[int, int]

_PATH_SAFE = str.maketrans("+/", "-_")  # topic ids are base64


@dataclass(frozen=True)
class Reading:
    """What one source reads: a topic by name and id, its start, and what it must catch up with."""

    topic: str
    topic_id: str
    start: Offsets
    pins: Offsets

    @property
    def history_length(self) -> int:
        """How many offsets there are from the start to the pins."""
        return sum(pin + 1 - self.start[p] for p, pin in self.pins.items())

    @property
    def after_pins(self) -> Offsets:
        """Where what comes after the pins begins."""
        return {p: self.pins.get(p, offset - 1) + 1 for p, offset in self.start.items()}


@dataclass(frozen=True)
class Origin:
    """A control message as it came: where it stands, who sent it, what it says."""

    offset: int
    at: float
    by: str
    raw: str  # cut, for people
    id: str | None = None
    users: str | None = None
    accounts: str | None = None
    join: str | None = None


@dataclass(frozen=True)
class Generation:
    """A build for one choice.

    It can run once its positions are resolved and its topics made, and be live once `ready_at` is
    known.
    """

    number: int
    choice: spec.Choice
    requested_at: float
    by: str = "settings"
    origin: Origin | None = None
    start: Mapping[str, str] = field(default_factory=dict)  # by source, over the settings'
    sources: Mapping[str, Reading] = field(default_factory=dict)
    fingerprint: str = ""  # what its checkpoint depends on besides the sources
    ready_at: int | None = None  # changelog offset from which on its tables are complete
    live_at: float | None = None  # when it went live or was last confirmed
    took_s: float | None = None  # from the request to complete tables
    max_rows: int = 2_000_000  # of a table: another setting counts from the next generation on
    changelog_id: str = ""  # of the topic that was made for it; a topic of that name may be another
    feed_id: str = ""  # the same of its feed, where it has one
    changelog_format: int = format_versions.CHANGELOG

    @property
    def resolved(self) -> bool:
        """Whether it is known where to read."""
        return bool(self.sources)

    @property
    def has_topics(self) -> bool:
        """Whether its topics are made and known by their ids."""
        return bool(self.changelog_id)

    @property
    def checkpoint(self) -> str:
        """Its folder among the checkpoints: no other build's, even if one has the same number."""
        own = self.changelog_id.translate(_PATH_SAFE)
        return f"{self.number}/{own}" if own else str(self.number)

    @property
    def history_length(self) -> int:
        """How many offsets of its sources it must catch up with."""
        return sum(reading.history_length for reading in self.sources.values())

    @property
    def partitions_read(self) -> int:
        """How many partitions it reads in all."""
        return sum(len(reading.start) for reading in self.sources.values())

    def partitions_of(self, topic: str) -> int | None:
        """How many partitions of a topic it reads, if it reads it."""
        found = (r for r in self.sources.values() if r.topic == topic)
        return next((len(reading.start) for reading in found), None)

    def __str__(self) -> str:
        return f"generation {self.number}, {self.choice}"


def to_json(generation: Generation | None) -> dict[str, Any] | None:
    """For the ledger."""
    return None if generation is None else asdict(generation)


def from_json(data: Mapping[str, Any] | None) -> Generation | None:
    """Read it back. Numbers that were keys have become text on the way."""
    if data is None:
        return None
    sources = {
        name: Reading(
            reading["topic"],
            reading["topic_id"],
            {int(p): offset for p, offset in reading["start"].items()},
            {int(p): offset for p, offset in reading["pins"].items()},
        )
        for name, reading in data["sources"].items()
    }
    origin = (
        Origin(**format_versions.known_fields(Origin, data["origin"])) if data["origin"] else None
    )
    choice = spec.Choice(**format_versions.known_fields(spec.Choice, data["choice"]))
    given = format_versions.known_fields(Generation, data)
    return Generation(**{**given, "choice": choice, "origin": origin, "sources": sources})
