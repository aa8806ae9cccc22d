"""Requests to livejoin without I/O, shared by both kinds of connection.

Each is a generator that yields steps (calls and pauses), is sent the answers, and returns a result.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from livejoin.core import spec
from livejoin.errors import NotLive, RequestError, TookTooLong, Unreachable

_POLL_S = 0.2
_FIELDS = ("joinType", "start", "id", "action", "expectedGeneration")  # beside those of topics
_PENDING = ("accepted", "building", "caught-up")
_NOT_LIVE = ("failed", "superseded", "cancelled")


@dataclass(frozen=True)
class Call:
    """An HTTP request; a POST if it has a message."""

    path: str
    message: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Pause:
    """A pause before the next step."""

    seconds: float


@dataclass(frozen=True)
class Outcome:
    """The outcome of a control message."""

    outcome: str
    reason: str | None
    generation: int | None
    offset: int
    partition: int = 0  # servers of earlier versions do not name it: they know only this one
    warnings: tuple[str, ...] = ()  # what of the message was ignored

    @property
    def position(self) -> str:
        """Partition and offset of the message, for people."""
        return f"{self.partition}/{self.offset}"

    @property
    def live(self) -> int | None:
        """The generation that the message made live, if any."""
        return self.generation if self.outcome == "live" else None


Result = TypeVar("Result")
Steps = Generator[Call | Pause, dict[str, Any], Result]


@dataclass(frozen=True)
class Deadline:
    """A point in time until which a caller waits."""

    seconds: float
    clock: Callable[[], float]
    expires_at: float

    @staticmethod
    def after(seconds: float, clock: Callable[[], float]) -> "Deadline":
        """Return the deadline in a number of seconds."""
        return Deadline(seconds, clock, clock() + seconds)

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline."""
        return max(0.0, self.expires_at - self.clock())

    def check(self, what: str) -> None:
        """Raise TookTooLong if the deadline has passed."""
        if self.clock() > self.expires_at:
            raise TookTooLong(
                f"{what} after {self.seconds:.0f} s",
                hint="It continues; status() shows its progress.",
            )


def send_control(
    path: str, message: Mapping[str, Any], deadline: Deadline | None
) -> Steps[Outcome]:
    """Send a message. With a deadline, wait until it is decided and its generation is live."""
    message = yield from _name_topic_fields(message)
    outcome = _parse_outcome((yield Call(path, message)))
    if deadline is None:
        return outcome
    if outcome.outcome == "written":
        outcome = yield from _wait_until_decided(outcome, deadline)
    if outcome.outcome in _PENDING and outcome.generation is not None:
        outcome = yield from _wait_until_built(outcome, outcome.generation, deadline)
    if outcome.outcome in (*_NOT_LIVE, "rejected"):
        raise NotLive(
            f"control message {outcome.position} is not live: {outcome.outcome}, {outcome.reason}",
            hint="The live generation has not changed; see the table generations.",
        )
    return outcome


def preview(message: Mapping[str, Any]) -> Steps[dict[str, Any]]:
    """Request a preview of a message."""
    message = yield from _name_topic_fields(message)
    return (yield Call("api/v1/preview", message))


def _name_topic_fields(message: Mapping[str, Any]) -> Steps[dict[str, Any]]:
    """Replace names of sources by the fields of their topics."""
    if all(name in _FIELDS or name.endswith(spec.TOPIC_FIELD_SUFFIX) for name in message):
        return dict(message)
    control = (yield Call("api/v1/spec"))["control"]
    fields = {source["name"]: source["field"] for source in control["sources"]}
    return {
        name if name in _FIELDS else fields.get(name, name): value
        for name, value in message.items()
    }


def _wait_until_decided(outcome: Outcome, deadline: Deadline) -> Steps[Outcome]:
    """Wait for the decision on a message that was only written when the server responded."""
    while True:
        deadline.check(f"control message {outcome.position} is not decided yet")
        yield Pause(_POLL_S)
        rows = (yield Call("api/v1/tables/control_raw"))["rows"]
        position = outcome.partition, outcome.offset
        row = next((row for row in rows if (row["partition"], row["offset"]) == position), None)
        if row is not None and row["outcome"] not in _PENDING:
            live = (yield Call("api/v1/status"))["generation"]
            return replace(outcome, outcome=row["outcome"], reason=row["reason"], generation=live)


def _wait_until_built(outcome: Outcome, generation: int, deadline: Deadline) -> Steps[Outcome]:
    """Wait until a generation is live or ended."""
    while True:
        row = finished_generation((yield Call("api/v1/generations")), generation)
        if row is not None:
            return replace(
                outcome, outcome=row["state"], reason=row["message"], generation=generation
            )
        deadline.check(f"generation {generation} is still being built")
        yield Pause(_POLL_S)


def finished_generation(answer: Mapping[str, Any], number: int) -> dict[str, Any] | None:
    """Return the row of a generation from the server's list, once it is live or ended."""
    row = next((row for row in answer["generations"] if row["generation"] == number), None)
    finished = row is not None and row["state"] not in ("building", "caught-up")
    return row if finished else None


def table_names(answer: Mapping[str, Any]) -> frozenset[str]:
    """Return the names in the server's list of tables."""
    try:
        return frozenset(table["name"] for table in answer["tables"])
    except (KeyError, TypeError):
        raise Unreachable(
            "not a livejoin server: it lists no tables", hint="Check the URL."
        ) from None


def find_table(name: str, known: frozenset[str]) -> Steps[frozenset[str]]:
    """Return the tables that there are; raises RequestError if this one is not among them."""
    if name not in known:  # it may have appeared since
        known = table_names((yield Call("api/v1/tables")))
    check_table(name, known)
    return known


def check_table(name: str, known: frozenset[str]) -> None:
    """Raise RequestError if there is no such table."""
    if name not in known:
        listed = ", ".join(sorted(known))
        raise RequestError(f"there is no table {name!r}", hint=f"There are {listed}.")


def _parse_outcome(answer: Mapping[str, Any]) -> Outcome:
    return Outcome(
        answer["outcome"],
        answer["reason"],
        answer["generation"],
        answer["offset"],
        answer.get("partition", 0),
        tuple(answer.get("warnings") or ()),
    )
