"""What has happened. Facts are past tense, carry their time, and name their generation."""

from collections.abc import Mapping
from dataclasses import dataclass

from livejoin.core.generation import Reading
from livejoin.core.spec import Choice


@dataclass(frozen=True)
class Started:
    """Our process leads now. The settings' choice counts only if nothing else does."""

    at: float
    choice: Choice


@dataclass(frozen=True)
class Ticked:
    """Time has passed."""

    at: float


@dataclass(frozen=True)
class Resolved:
    """It is known where a generation reads."""

    generation: int
    sources: Mapping[str, Reading]


@dataclass(frozen=True)
class NotResolved:
    """A generation cannot read yet."""

    generation: int
    why: str


@dataclass(frozen=True)
class Ran:
    """A generation's query is at work."""

    generation: int


@dataclass(frozen=True)
class Progressed:
    """A generation has come this far on its way to the pins."""

    generation: int
    percent: int


@dataclass(frozen=True)
class CaughtUp:
    """A generation's tables are complete once the changelog is read up to `ready_at`."""

    generation: int
    ready_at: int


@dataclass(frozen=True)
class Died:
    """A generation's query ended by itself.

    `counts` is false where it had moved on, or Kafka was out of reach.
    """

    generation: int
    why: str
    counts: bool


@dataclass(frozen=True)
class Told:
    """Every line up to this one has been published."""

    up_to: int


Fact = Started | Ticked | Resolved | NotResolved | Ran | Progressed | CaughtUp | Died | Told
