"""One viewer: which tables it wants, what it holds already, and what waits for it."""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from livejoin.core import spec
from livejoin.errors import AskError

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

    data: bytes
    held: Held | None
    since: float | None = None  # when the first of its changes came


class Subscription(NamedTuple):
    """What a viewer asks for; `resume` is what it has kept of it."""

    tables: frozenset[str]
    resume: Held | None = None


class Viewer:
    """One open socket. Frames wait for it until it takes them; a slow one misses some."""

    def __init__(self, asked: Subscription) -> None:
        self.wake = asyncio.Event()
        self.leaving = False
        self.ask(asked)

    def ask(self, asked: Subscription) -> None:
        """Start over with these tables."""
        self.asked = asked
        self.tables = asked.tables
        self.held = asked.resume
        self.miss()

    def offer(self, frame: Frame) -> None:
        """Queue a frame, or have the viewer miss all that waits."""
        if self.missing:
            return
        if self.waiting and self.size + len(frame.data) > BUFFER_BYTES:
            self.miss()
            return
        self.waiting.append(frame)
        self.size += len(frame.data)
        self.wake.set()

    def miss(self) -> None:
        """Drop what waits: next comes whatever the viewer does not hold by then."""
        self.waiting: deque[Frame] = deque()
        self.size = 0
        self.missing = True
        self.wake.set()

    def miss_no_more(self, frame: Frame) -> None:
        """Queue all that was missed."""
        self.missing = False
        self.offer(frame)

    def take(self) -> Frame:
        """The next frame that waits; nobody else keeps it for this viewer."""
        frame = self.waiting.popleft()
        self.size -= len(frame.data)
        return frame

    def took(self, held: Held | None) -> None:
        """A frame is on its way. While nothing is live, viewers keep what they have."""
        self.held = held or self.held

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
