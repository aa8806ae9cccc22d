"""A generation: one numbered build of the pipeline for one choice of topics and join.

Field names are JSON keys of the ledger, except those of its health, which is not written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from livejoin.core.spec import DEFAULT, Choice, JoinSpec

Offsets = Mapping[int, int]

_PATH_SAFE = str.maketrans("+/", "-_")  # topic ids are base64


def position_text(partition: int, offset: int) -> str:
    """A position in a topic, as texts for people name it."""
    return f"{partition}/{offset}"


@dataclass(frozen=True)
class Reading:
    """What one source reads: a topic by name and id, start offsets, and pins.

    The pins are the last offsets that must be processed before the generation can go live.
    """

    topic: str
    topic_id: str
    start: Offsets
    pins: Offsets

    @property
    def history_length(self) -> int:
        """Number of offsets from the start up to the pins."""
        return sum(pin + 1 - self.start[p] for p, pin in self.pins.items())

    @property
    def after_pins(self) -> Offsets:
        """The first offsets after the pins."""
        return {p: self.pins.get(p, offset - 1) + 1 for p, offset in self.start.items()}


@dataclass(frozen=True)
class Origin:
    """Where a control message came from: partition, offset, time, sender and content."""

    offset: int
    at: float
    by: str
    raw: str  # truncated, for display
    id: str | None = None
    topics: Mapping[str, str] = field(default_factory=dict)  # that it names, by source
    join: str | None = None
    partition: int = 0  # messages of ledger format 2 and earlier have none
    # The time of reading in ms, counted up where several have the same: messages of all partitions
    # in the order in which they were read. None in ledger format 2 and earlier.
    read_order: int | None = None
    warnings: tuple[str, ...] = ()  # what of the message was ignored

    @property
    def position(self) -> str:
        """Partition and offset of the record: key of its replies, `control` of its log lines."""
        return f"{self.partition}-{self.offset}"

    def __str__(self) -> str:
        """The same, as texts for people name it."""
        return position_text(self.partition, self.offset)


@dataclass(frozen=True)
class Generation:
    """A build for one choice.

    It can run once its sources are resolved and its topics are created, and go live once `ready_at`
    is known.
    """

    number: int
    choice: Choice
    requested_at: float
    by: str = "settings"
    origin: Origin | None = None
    start: Mapping[str, str] = field(default_factory=dict)  # by source; overrides the settings
    sources: Mapping[str, Reading] = field(default_factory=dict)
    fingerprint: str = ""  # of the query: its checkpoint fits no other
    ready_at: int | None = None  # changelog offset at which its tables are complete
    live_at: float | None = None  # when it went live or was last requested again
    took_s: float | None = None  # from the request to complete tables
    max_rows: int = 2_000_000  # per table; a changed setting applies to the next generation
    changelog_id: str = ""  # id of its changelog topic: one with the same name may be another
    feed_id: str = ""  # id of its bootstrap topic, if it has one
    changelog_format: int = 1
    spec: JoinSpec = DEFAULT  # of its sources and tables; that of the settings may differ

    @property
    def resolved(self) -> bool:
        """Whether topics and offsets to read are known."""
        return bool(self.sources)

    @property
    def has_topics(self) -> bool:
        """Whether its topics are created and their ids known."""
        return bool(self.changelog_id)

    @property
    def checkpoint(self) -> str:
        """Its folder below `checkpoints`, unique even if a number is used again."""
        topic_id = self.changelog_id.translate(_PATH_SAFE)
        return f"{self.number}/{topic_id}" if topic_id else str(self.number)

    @property
    def history_length(self) -> int:
        """Number of offsets of all sources up to the pins."""
        return sum(reading.history_length for reading in self.sources.values())

    @property
    def partitions_read(self) -> int:
        """Number of partitions of all sources."""
        return sum(len(reading.start) for reading in self.sources.values())

    def partitions_of(self, topic: str) -> int | None:
        """Number of partitions of a topic that it reads; None if it does not read the topic."""
        readings = (r for r in self.sources.values() if r.topic == topic)
        return next((len(reading.start) for reading in readings), None)

    def __str__(self) -> str:
        return f"generation {self.number}, {self.choice}"


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
