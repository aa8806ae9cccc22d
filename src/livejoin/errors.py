"""Every error that livejoin raises on purpose: what failed, why, and what to do next.

LivejoinError
├── SettingsError              a setting is wrong
├── MachineError               Java, a jar, a package, a port or a folder is missing or in use
├── BrokerStartFailed          the embedded broker did not start
├── KafkaUnavailable           the cluster does not respond, or refused a request (retriable)
│   └── LeaderNotAvailable     a partition has no leader for a moment
├── TopicError                 a topic cannot be used until somebody acts (retriable)
│   ├── TopicMissing           it does not exist
│   ├── TopicExists            it exists already
│   ├── TopicReplaced          it was deleted, and perhaps recreated, while in use
│   ├── TopicMisconfigured     it has several partitions where one is needed
│   ├── TopicRefused           Kafka's rules forbid it, or a setting of it
│   ├── NotAuthorized          Kafka denied livejoin an operation
│   ├── LedgerUnreadable       another program wrote the ledger's state
│   └── LedgerUnwritable       the producer of the ledger failed for good
├── QueryFailed                a streaming query died, or cannot run now (retriable)
├── GenerationUnrecoverable    a generation can never run again
├── LeadershipLost             another livejoin with this name leads
├── NewerFormat                written by a newer livejoin
├── ProtocolViolation          a server sent something that is not livejoin.v1 (retriable)
└── RequestError               a request was invalid, denied or refused
    ├── Rejected               a control message was rejected
    ├── NotLive                an accepted control message did not go live
    ├── Unreachable            no livejoin responds (retriable)
    └── TookTooLong            the caller's timeout expired (retriable)
"""

from livejoin.redaction import redact


class LivejoinError(Exception):
    """A message that says what failed and why, and a hint that says what to do next."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = redact(message)
        self.hint = hint
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message


def first_line(error: BaseException) -> str:
    """Return the first informative line of an error message, without a stack trace."""
    lines = [line.strip(": ") for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        del lines[0]  # Py4J names the call first, then quotes the JVM
    return lines[0][:500] if lines else type(error).__name__


class SettingsError(LivejoinError):
    """A setting is unknown, malformed or contradicts another."""


class MachineError(LivejoinError):
    """The machine lacks something that livejoin cannot provide."""


class BrokerStartFailed(LivejoinError):
    """The embedded broker did not start."""


class KafkaUnavailable(LivejoinError):
    """No broker responds; it may come back."""

    def __init__(
        self, message: str, *, hint: str = "Check that the broker is running; livejoin retries."
    ) -> None:
        super().__init__(message, hint=hint)


class LeaderNotAvailable(KafkaUnavailable):
    """A partition has no leader for a moment, after its creation or the death of a broker."""


class TopicError(LivejoinError):
    """A topic cannot be used, though the cluster responds; somebody may fix it."""


class TopicMissing(TopicError):
    """The topic does not exist."""


class TopicExists(TopicError):
    """The topic exists already."""


class TopicReplaced(TopicError):
    """The topic was deleted while in use; another one of its name may exist."""


class TopicMisconfigured(TopicError):
    """The topic has several partitions, which have no common order."""


class TopicRefused(TopicError):
    """Kafka's policies or limits forbid the topic or a setting of it; `reason` is Kafka's text."""

    def __init__(
        self, message: str, *, reason: str, is_about_config: bool = False, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason
        self.is_about_config = is_about_config  # so that the broker's defaults may pass


class NotAuthorized(TopicError):
    """Kafka denied livejoin a topic, or the consumer group or transactional id to use it."""

    def __init__(self, message: str, *, hint: str = "", action: str = "") -> None:
        super().__init__(message, hint=hint)
        self.action = action  # with a topic: read (or describe, which precedes it), create, …


class LedgerUnreadable(TopicError):
    """The ledger's state is not one that a livejoin writes."""


class LedgerUnwritable(TopicError):
    """The producer of the ledger failed for good; the next term creates another one."""


class QueryFailed(LivejoinError):
    """A streaming query died or cannot run now; it can be restarted from its checkpoint."""


class GenerationUnrecoverable(LivejoinError):
    """A generation's topics or checkpoint are gone or changed; it has to be rebuilt."""


class LeadershipLost(LivejoinError):
    """Another livejoin with the same name leads; this one must not write."""


class NewerFormat(LivejoinError):
    """Stored data has a format that this livejoin does not know; nothing was changed."""

    def __init__(self, message: str, *, hint: str = "Run a newer livejoin here.") -> None:
        super().__init__(message, hint=hint)


class ProtocolViolation(LivejoinError):
    """A server sent an invalid frame; a new connection may help."""


class RequestError(LivejoinError):
    """A request was invalid or denied, or named something that does not exist."""


class Rejected(RequestError):
    """A control message was rejected; nothing changed."""


class NotLive(RequestError):
    """A control message was accepted, but its generation failed, was superseded or cancelled."""


class Unreachable(RequestError):
    """No livejoin responds; it may come back."""


class TookTooLong(RequestError):
    """The caller's timeout expired; the request may still complete."""
