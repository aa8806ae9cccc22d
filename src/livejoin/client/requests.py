"""Requests to livejoin as steps that somebody else takes: what to call, how long to pause.

Each is a generator of steps, which is sent the answers and returns the result, so that one text
serves callers with and without an event loop.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from livejoin.errors import AskError, NotLive, TookTooLong, Unreachable

_POLL_S = 0.2
_PENDING = ("accepted", "building", "caught-up")
_NOT_LIVE = ("failed", "superseded", "cancelled")


@dataclass(frozen=True)
class Call:
    """A request: a message makes it a POST."""

    path: str
    message: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Pause:
    """Nothing to do for a while."""

    seconds: float


@dataclass(frozen=True)
class Outcome:
    """What became of a control message."""

    outcome: str
    reason: str | None
    generation: int | None
    offset: int

    @property
    def live(self) -> int | None:
        """The generation that is live by it, if there is one."""
        return self.generation if self.outcome == "live" else None


Result = TypeVar("Result")
Steps = Generator[Call | Pause, dict[str, Any], Result]


@dataclass(frozen=True)
class Deadline:
    """A wait that ends."""

    seconds: float
    clock: Callable[[], float]
    expires_at: float

    @staticmethod
    def after(seconds: float, clock: Callable[[], float]) -> "Deadline":
        """So many seconds from now on."""
        return Deadline(seconds, clock, clock() + seconds)

    @property
    def remaining_s(self) -> float:
        """What is left of it."""
        return max(0.0, self.expires_at - self.clock())

    def check(self, what: str) -> None:
        """Raise if it is over."""
        if self.clock() > self.expires_at:
            raise TookTooLong(
                f"{what} after {self.seconds:.0f} s",
                hint="It goes on; status() tells how far it is.",
            )


def send_control(path: str, message: Mapping[str, Any], limit: Deadline | None) -> Steps[Outcome]:
    """Send a message; with a limit, wait until it is decided and what it builds is live."""
    outcome = _parse_outcome((yield Call(path, message)))
    if limit is None:
        return outcome
    if outcome.outcome == "written":
        outcome = yield from _wait_until_decided(outcome, limit)
    if outcome.outcome in _PENDING and outcome.generation is not None:
        outcome = yield from _wait_until_built(outcome, outcome.generation, limit)
    if outcome.outcome in (*_NOT_LIVE, "rejected"):
        raise NotLive(
            f"control message {outcome.offset} is not live: {outcome.outcome}, {outcome.reason}",
            hint="What was live before still is; the table generations tells more.",
        )
    return outcome


def _wait_until_decided(outcome: Outcome, limit: Deadline) -> Steps[Outcome]:
    """Follow a message that nobody had decided on in time for the answer."""
    while True:
        limit.check(f"control message {outcome.offset} is still under way")
        yield Pause(_POLL_S)
        rows = (yield Call("api/v1/tables/control_raw"))["rows"]
        row = next((row for row in rows if row["offset"] == outcome.offset), None)
        if row is not None and row["outcome"] not in _PENDING:
            live = (yield Call("api/v1/status"))["generation"]
            return Outcome(row["outcome"], row["reason"], live, outcome.offset)


def _wait_until_built(outcome: Outcome, generation: int, limit: Deadline) -> Steps[Outcome]:
    """Wait until a generation is live or has come to an end."""
    while True:
        rows = (yield Call("api/v1/generations"))["generations"]
        row = next((row for row in rows if row["generation"] == generation), None)
        if row is not None and row["state"] not in ("building", "caught-up"):
            return Outcome(row["state"], row["message"], generation, outcome.offset)
        limit.check(f"generation {generation} is still being built")
        yield Pause(_POLL_S)


def table_names(answer: Mapping[str, Any]) -> frozenset[str]:
    """The names in livejoin's list of tables."""
    try:
        return frozenset(one["name"] for one in answer["tables"])
    except (KeyError, TypeError):
        raise Unreachable(
            "what answers is no livejoin", hint="Check the address: it lists no tables."
        ) from None


def check_table(name: str, known: frozenset[str]) -> None:
    """Raise if there is no such table."""
    if name not in known:
        listed = ", ".join(sorted(known))
        raise AskError(f"there is no table {name!r}", hint=f"There are {listed}.")


def _parse_outcome(answer: Mapping[str, Any]) -> Outcome:
    return Outcome(answer["outcome"], answer["reason"], answer["generation"], answer["offset"])
