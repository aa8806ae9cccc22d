"""Facts: what has happened. Each is a past participle with its noun."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from livejoin.core.control_messages import Request
from livejoin.core.generation import Offsets, Origin, Reading
from livejoin.core.spec import DEFAULT, Choice, JoinSpec
from livejoin.core.state import Limits, Reply


@dataclass(frozen=True)
class LeaderStarted:
    """The process became leader. The choice of the settings is used only if there is no other."""

    at: float  # wall clock: for display, and across restarts
    monotonic: float  # monotonic clock: for durations
    choice: Choice
    limits: Limits = field(default_factory=Limits)
    last_used: int = 0  # highest generation number of any topic or checkpoint found
    spec: JoinSpec = DEFAULT


@dataclass(frozen=True)
class ClockTicked:
    """Time has passed on both clocks."""

    at: float
    monotonic: float


@dataclass(frozen=True)
class HistoryReplayed:
    """The history of a new control topic was read and merged into one request."""

    topic_id: str
    position: Offsets  # after it: the next offset of each partition
    request: Request
    message_count: int = 0
    replies: tuple[Reply, ...] = ()
    ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class ControlTopicOpened:
    """Control messages can be read. Those before the first offsets were deleted by the broker."""

    topic: str
    first_offsets: Offsets  # of all partitions, also those that were added


@dataclass(frozen=True)
class ControlTopicLost:
    """Control messages cannot be read."""

    why: str


@dataclass(frozen=True)
class TopicInfo:
    """An existing topic that a message names or keeps."""

    partitions: int
    records: int | None = None


@dataclass(frozen=True)
class MessageReceived:
    """A control message was read: its request or why it is invalid, and its topics."""

    origin: Origin
    request: Request | None = None
    error: str = ""
    topics: Mapping[str, TopicInfo | str] = field(default_factory=dict)  # or why it cannot be read


@dataclass(frozen=True)
class SourcesResolved:
    """The topics and offsets that a generation reads are known."""

    generation: int
    sources: Mapping[str, Reading]
    fingerprint: str = ""


@dataclass(frozen=True)
class ResolutionFailed:
    """They could not be determined. `missing`: because of a topic, not of the connection."""

    generation: int
    why: str
    missing: bool = False


@dataclass(frozen=True)
class TopicsCreated:
    """The topics of a generation were created; a bootstrap topic only if it needs one."""

    generation: int
    changelog_id: str
    feed_id: str = ""


@dataclass(frozen=True)
class QueryResumed:
    """The query of a generation runs again and has reprocessed its last batch."""

    generation: int


@dataclass(frozen=True)
class BuildProgressed:
    """A generation has read this many of the records up to its pins."""

    generation: int
    done: int
    total: int


@dataclass(frozen=True)
class CaughtUp:
    """The tables of a generation are complete at changelog offset `ready_at`."""

    generation: int
    ready_at: int


@dataclass(frozen=True)
class QueryDied:
    """The query of a generation ended unexpectedly, or has to be restarted.

    It is no failure if the query had made progress, if Kafka was unreachable, or if the cause lies
    outside.
    """

    generation: int
    why: str
    counts_as_failure: bool


@dataclass(frozen=True)
class Unrecoverable:
    """A generation can never run again: a topic was replaced or its checkpoint is unusable."""

    generation: int
    why: str


@dataclass(frozen=True)
class SourcesChecked:
    """The topics of a generation were checked: why one cannot be read, or empty."""

    generation: int
    why: str = ""


@dataclass(frozen=True)
class SourcesUnreachable:
    """The cluster of the sources does not answer; reported at each check.

    Only of one that is apart: without livejoin's own nothing can be written, so nothing is decided.
    """


@dataclass(frozen=True)
class PartitionsAdded:
    """A topic has more partitions than a generation reads: what to read from now on."""

    generation: int
    sources: Mapping[str, Reading]


@dataclass(frozen=True)
class RecordsCounted:
    """Counts of the records that a generation has read, by column of its row."""

    generation: int
    figures: Mapping[str, int | str]
    capped: tuple[str, ...] = ()  # tables that have reached max_rows
    capped_from: Mapping[str, int] = field(default_factory=dict)  # lowest `_ts` of each


BuildFact = SourcesResolved | ResolutionFailed | TopicsCreated | BuildProgressed | CaughtUp
SourceFact = SourcesChecked | PartitionsAdded | RecordsCounted
GenerationFact = BuildFact | SourceFact | QueryResumed | QueryDied | Unrecoverable
Fact = (
    LeaderStarted
    | ClockTicked
    | HistoryReplayed
    | ControlTopicOpened
    | ControlTopicLost
    | MessageReceived
    | SourcesUnreachable
    | GenerationFact
)
