"""What has happened. Facts are past tense, and name their generation."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from livejoin.core.control_messages import Request
from livejoin.core.generation import Origin, Reading
from livejoin.core.outbox import Reply
from livejoin.core.spec import Choice
from livejoin.core.state import Limits


@dataclass(frozen=True)
class LeaderStarted:
    """Our process leads now. The settings' choice counts only if nothing else does."""

    at: float  # by the clock on the wall, which may be set: for people, and across restarts
    monotonic: float  # by a clock that only goes on, from anywhere: what durations are measured by
    choice: Choice
    limits: Limits = field(default_factory=Limits)
    last_used: int = 0  # the highest number that a topic or a checkpoint of ours has


@dataclass(frozen=True)
class ClockTicked:
    """Time has passed, by both clocks."""

    at: float
    monotonic: float


@dataclass(frozen=True)
class HistoryReplayed:
    """The history of a control topic that is new to us came down to one request."""

    topic_id: str
    position: int
    request: Request
    message_count: int = 0
    replies: tuple[Reply, ...] = ()
    ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class ControlTopicOpened:
    """Control messages are read. Those before the first have been deleted by the broker."""

    topic: str
    first_offset: int = 0


@dataclass(frozen=True)
class ControlTopicLost:
    """Control messages cannot be read."""

    why: str


@dataclass(frozen=True)
class TopicInfo:
    """A topic that a message names, or keeps."""

    partitions: int
    records: int | None = None


@dataclass(frozen=True)
class MessageReceived:
    """A control message: what it asks for or why it is invalid, and what is known of its topics."""

    origin: Origin
    request: Request | None = None
    error: str = ""
    topics: Mapping[str, TopicInfo | str] = field(default_factory=dict)  # or why one cannot be read


@dataclass(frozen=True)
class SourcesResolved:
    """It is known where a generation reads."""

    generation: int
    sources: Mapping[str, Reading]
    fingerprint: str = ""


@dataclass(frozen=True)
class ResolutionFailed:
    """A generation cannot read yet. `missing`: because of a topic, not of a broken connection."""

    generation: int
    why: str
    missing: bool = False


@dataclass(frozen=True)
class TopicsCreated:
    """A generation has new topics, with these ids; a feed only where it needs one."""

    generation: int
    changelog_id: str
    feed_id: str = ""


@dataclass(frozen=True)
class QueryResumed:
    """A generation's query is at work, and through with what it had to read again."""

    generation: int


@dataclass(frozen=True)
class BuildProgressed:
    """A generation has read this many records on its way to the pins."""

    generation: int
    done: int
    total: int


@dataclass(frozen=True)
class CaughtUp:
    """A generation's tables are complete once the changelog is read up to `ready_at`."""

    generation: int
    ready_at: int


@dataclass(frozen=True)
class QueryDied:
    """A generation's query ended by itself, or has to end.

    `counts` is false where it had moved on, where Kafka was out of reach, or where it could not
    help it.
    """

    generation: int
    why: str
    counts_as_failure: bool


@dataclass(frozen=True)
class Unrecoverable:
    """A generation can never run again: its topic is another one, or its checkpoint is no use."""

    generation: int
    why: str


@dataclass(frozen=True)
class SourcesChecked:
    """The topics of a generation were looked at: why one cannot be read, or nothing."""

    generation: int
    why: str = ""


@dataclass(frozen=True)
class PartitionsAdded:
    """A topic has more partitions than a generation reads: what it would read with them."""

    generation: int
    sources: Mapping[str, Reading]


@dataclass(frozen=True)
class RecordsCounted:
    """What became of the records that a generation has read so far, by column of its row."""

    generation: int
    figures: Mapping[str, int | str]
    capped: tuple[str, ...] = ()  # tables that hold as many rows as they may: the oldest leave
    capped_from: Mapping[str, int] = field(default_factory=dict)  # their lowest `_ts`


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
    | GenerationFact
)
