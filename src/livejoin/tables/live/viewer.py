"""One viewer: which tables it wants, what it holds already, and what waits for it."""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple, Self

from livejoin.core import spec
from livejoin.errors import AskError
from livejoin.tables.live import frames
from livejoin.tables.live.frames import Part

BUFFER_BYTES = 1 << 20  # per viewer; what does not fit is told again, each row once
ASKS = 30
ASK_S = 0.5
_EXPECTED = 'expected {"subscribe": ["final_ui", …]}'


class Held(NamedTuple):
    """What a viewer's data tables hold: a generation, up to a point of its changelog."""

    generation: int
    seq: int


class Frame(NamedTuple):
    """A frame that is to be sent, after which a viewer holds this much."""

    head: bytes
    parts: tuple[Part, ...]  # shared with the frames of other viewers
    size: int
    held: Held | None
    since: float | None = None  # when the first of its changes came

    @classmethod
    def of(
        cls,
        header: dict[str, Any],
        parts: Iterable[Part],
        held: Held | None,
        since: float | None = None,
    ) -> Self:
        """A frame with this header."""
        chosen = tuple(parts)
        head = frames.head(header, chosen)
        size = len(head) + sum(len(part.payload) for part in chosen)
        return cls(head, chosen, size, held, since)

    @property
    def pieces(self) -> tuple[bytes | memoryview, ...]:
        """Its bytes, one after the other."""
        return (self.head, *(part.payload for part in self.parts))


class Subscription(NamedTuple):
    """What a viewer asks for; `resume` is what it has kept of it."""

    tables: frozenset[str]
    resume: Held | None = None


class Viewer:
    """One open socket. Frames wait for it until it takes them; a slow one misses some."""

    def __init__(self, asked: Subscription) -> None:
        self.wake = asyncio.Event()
        self.leaving = False
        self.midway = False  # whether a frame was sent in part
        self.ask(asked)

    def ask(self, asked: Subscription) -> None:
        """Start over with these tables."""
        self.asked = asked
        self.tables = asked.tables
        self.held = asked.resume
        self.fresh = True  # it was sent nothing of them
        self.miss()

    def offer(self, frame: Frame) -> None:
        """Queue a frame, or have the viewer miss all that waits: no large one ever waits."""
        if self.missing:
            return
        if self.size + frame.size > BUFFER_BYTES:
            self.miss()
            return
        self.waiting.append(frame)
        self.size += frame.size
        self.wake.set()

    def miss(self) -> None:
        """Drop what waits: next comes whatever the viewer does not hold by then."""
        self.waiting: deque[Frame] = deque()
        self.size = 0
        self.missing = True
        self.wake.set()

    def miss_no_more(self) -> None:
        """What was missed is about to be sent: from now on frames wait again."""
        self.missing = False
        self._answered = self.asked

    def take(self) -> Frame:
        """The next frame that waits; nobody else keeps it for this viewer."""
        frame = self.waiting.popleft()
        self.size -= frame.size
        self._answered = self.asked
        return frame

    def took(self, held: Held | None) -> None:
        """A frame is on its way. While nothing is live, viewers keep what they have."""
        if self._answered is self.asked:  # else it holds nothing yet of what it wants now
            self.held = held or self.held
            self.fresh = False

    def leave(self) -> None:
        """Have its socket closed."""
        self.leaving = True
        self.wake.set()


class Asks:
    """How often a viewer may ask for other tables: each time is answered with all rows."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = float(ASKS)
        self._at = clock()

    def one_more(self) -> None:
        """Count one; raises if there were too many."""
        now = self._clock()
        self._left = min(ASKS, self._left + (now - self._at) / ASK_S) - 1
        self._at = now
        if self._left < 0:
            raise AskError(f"too many subscriptions: {ASKS} at once, then one every {ASK_S:g} s")


def subscription(text: str, known: Collection[str] = spec.TABLES) -> Subscription:
    """What a viewer's message asks for, of the tables that there are for it."""
    try:
        asked = json.loads(text)
        names = asked["subscribe"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise AskError(_EXPECTED) from None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise AskError("subscribe must list at least one table")
    if unknown := [name for name in names if name not in known]:
        raise AskError(f"there is no table {unknown[0][:100]!r}; there are {', '.join(known)}")
    return Subscription(frozenset(names), _held(asked.get("resume")))


def _held(resume: Any) -> Held | None:
    if resume is None:
        return None
    given = resume if isinstance(resume, dict) else {}
    generation, seq = given.get("generation"), given.get("seq")
    if type(generation) is not int or type(seq) is not int or generation < 0 or seq < 0:
        raise AskError('resume must be {"generation": 7, "seq": 123}')
    return Held(generation, seq)
