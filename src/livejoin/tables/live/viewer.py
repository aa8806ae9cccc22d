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
from livejoin.tables.live.frames import EncodedPart

BUFFER_BYTES = 1 << 20  # per viewer; what does not fit is told again, each row once
SUBSCRIPTION_BURST = 30
SUBSCRIPTION_INTERVAL_S = 0.5
_EXPECTED = 'expected {"subscribe": ["final_ui", …]}'


class Cursor(NamedTuple):
    """What a viewer's data tables hold: a generation, up to a point of its changelog."""

    generation: int
    seq: int


class OutgoingFrame(NamedTuple):
    """A frame that is to be sent, after which a viewer holds this much."""

    head: bytes
    parts: tuple[EncodedPart, ...]  # shared with the frames of other viewers
    size: int
    cursor: Cursor | None
    changed_at: float | None = None  # when the first of its changes came

    @classmethod
    def build(
        cls,
        header: dict[str, Any],
        parts: Iterable[EncodedPart],
        held: Cursor | None,
        since: float | None = None,
    ) -> Self:
        """A frame with this header."""
        chosen = tuple(parts)
        head = frames.encode_header(header, chosen)
        size = len(head) + sum(len(part.payload) for part in chosen)
        return cls(head, chosen, size, held, since)

    @property
    def pieces(self) -> tuple[bytes | memoryview, ...]:
        """Its bytes, one after the other."""
        return (self.head, *(part.payload for part in self.parts))


class Subscription(NamedTuple):
    """What a viewer asks for; `resume` is what it has kept of it."""

    tables: frozenset[str]
    resume: Cursor | None = None


class Viewer:
    """One open socket. Frames wait for it until it takes them; a slow one misses some."""

    def __init__(self, asked: Subscription) -> None:
        self.wake = asyncio.Event()
        self.closing = False
        self.mid_frame = False  # whether a frame was sent in part
        self.subscribe(asked)

    def subscribe(self, asked: Subscription) -> None:
        """Start over with these tables."""
        self.subscription = asked
        self.tables = asked.tables
        self.cursor = asked.resume
        self.nothing_sent = True  # it was sent nothing of them
        self.fall_behind()

    def offer(self, frame: OutgoingFrame) -> None:
        """Queue a frame, or have the viewer miss all that waits: no large one ever waits."""
        if self.behind:
            return
        if self.queued_bytes + frame.size > BUFFER_BYTES:
            self.fall_behind()
            return
        self.queue.append(frame)
        self.queued_bytes += frame.size
        self.wake.set()

    def fall_behind(self) -> None:
        """Drop what waits: next comes whatever the viewer does not hold by then."""
        self.queue: deque[OutgoingFrame] = deque()
        self.queued_bytes = 0
        self.behind = True
        self.wake.set()

    def start_catch_up(self) -> None:
        """What was missed is about to be sent: from now on frames wait again."""
        self.behind = False
        self._answered_subscription = self.subscription

    def next_frame(self) -> OutgoingFrame:
        """The next frame that waits; nobody else keeps it for this viewer."""
        frame = self.queue.popleft()
        self.queued_bytes -= frame.size
        self._answered_subscription = self.subscription
        return frame

    def mark_sent(self, held: Cursor | None) -> None:
        """A frame is on its way. While nothing is live, viewers keep what they have."""
        if (
            self._answered_subscription is self.subscription
        ):  # else it holds nothing yet of what it wants now
            self.cursor = held or self.cursor
            self.nothing_sent = False

    def close(self) -> None:
        """Have its socket closed."""
        self.closing = True
        self.wake.set()


class SubscriptionLimit:
    """How often a viewer may ask for other tables: each time is answered with all rows."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = float(SUBSCRIPTION_BURST)
        self._at = clock()

    def count(self) -> None:
        """Count one; raises if there were too many."""
        now = self._clock()
        self._left = (
            min(SUBSCRIPTION_BURST, self._left + (now - self._at) / SUBSCRIPTION_INTERVAL_S) - 1
        )
        self._at = now
        if self._left < 0:
            raise AskError(
                f"too many subscriptions: {SUBSCRIPTION_BURST} at once,"
                f" then one every {SUBSCRIPTION_INTERVAL_S:g} s"
            )


def parse_subscription(text: str, known: Collection[str] = spec.TABLES) -> Subscription:
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
    return Subscription(frozenset(names), _parse_resume(asked.get("resume")))


def _parse_resume(resume: Any) -> Cursor | None:
    if resume is None:
        return None
    given = resume if isinstance(resume, dict) else {}
    generation, seq = given.get("generation"), given.get("seq")
    if type(generation) is not int or type(seq) is not int or generation < 0 or seq < 0:
        raise AskError('resume must be {"generation": 7, "seq": 123}')
    return Cursor(generation, seq)
