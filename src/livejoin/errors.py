"""Everything that livejoin raises on purpose: what failed, why, and what to do next.

LivejoinError
├── SettingsError        a setting is wrong
├── MachineError         Java, a jar, a port or a folder is missing or taken
├── BrokerError          the embedded broker did not start
├── KafkaUnavailable     the cluster does not answer (retriable)
├── TopicMissing         a topic is not there, or may not be read (retriable)
├── QueryFailed          the pipeline's query died (retriable)
├── Spoilt               a generation can never run again
├── Deposed              another livejoin of this name leads
├── NewerFormat          a newer livejoin wrote it
├── Garbled              what a server sent is not livejoin's protocol (retriable)
└── AskError             a request for something that does not exist
    ├── Rejected         a control message was rejected
    ├── NotLive          what was asked for was accepted and did not go live
    ├── Unreachable      no livejoin answers (retriable)
    └── TookTooLong      not within the time that the caller gave (retriable)
"""

from livejoin.redaction import redact


class LivejoinError(Exception):
    """What failed and why in one sentence, and a hint that says what to do next."""

    retriable = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = redact(message)
        self.hint = hint
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message


def first_line(error: BaseException) -> str:
    """The part of a long message that says something, without the trace."""
    said = [line.strip(": ") for line in str(error).splitlines() if line.strip()]
    if len(said) > 1 and said[0].startswith("An error occurred while calling"):
        del said[0]  # Py4J: which call, and then what the JVM says
    return said[0][:500] if said else type(error).__name__


class SettingsError(LivejoinError):
    """A setting is unknown, malformed or contradicts another."""


class MachineError(LivejoinError):
    """The machine lacks something that livejoin cannot bring itself."""


class BrokerStartFailed(LivejoinError):
    """The embedded broker did not come up."""


class KafkaUnavailable(LivejoinError):
    """No broker answers; it may come back."""

    retriable = True

    def __init__(
        self, message: str, *, hint: str = "Check that the broker runs; it is tried again."
    ) -> None:
        super().__init__(message, hint=hint)


class TopicUnusable(LivejoinError):
    """A topic does not exist or may not be read; it may appear."""

    retriable = True


class QueryFailed(LivejoinError):
    """The streaming query ended by itself; it can be started again from its checkpoint."""

    retriable = True


class GenerationUnrecoverable(LivejoinError):
    """What a generation depends on is not what it was; the same choice has to be built anew."""


class LeadershipLost(LivejoinError):
    """Another livejoin of the same name leads; we may not write any more."""


class NewerFormat(LivejoinError):
    """What is there has a format that this livejoin does not know; nothing was changed."""

    def __init__(self, message: str, *, hint: str = "Run a newer livejoin here.") -> None:
        super().__init__(message, hint=hint)


class ProtocolViolation(LivejoinError):
    """What came over the wire cannot be read; a new connection may do better."""

    retriable = True


class AskError(LivejoinError):
    """A reader asked for something that does not exist or makes no sense."""


class Rejected(AskError):
    """A control message was rejected; nothing has changed."""


class NotLive(AskError):
    """A control message was accepted, and its generation failed, was superseded or cancelled."""


class Unreachable(AskError):
    """No livejoin answers; it may come back."""

    retriable = True


class TookTooLong(AskError):
    """What was waited for did not happen in time; it may still happen."""

    retriable = True
