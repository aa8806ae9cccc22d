"""One viewer: its subscription, its position in the changelog, and the frames queued for it."""

import asyncio
from collections import deque
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple, Self

from livejoin.core import spec
from livejoin.core.json_object import parse_object
from livejoin.errors import RequestError
from livejoin.tables.live import frames
from livejoin.tables.live.frames import EncodedPart

BUFFER_BYTES = 1 << 20  # queued per viewer; one that exceeds it catches up instead
_EXPECTED = 'expected {"subscribe": ["final_ui", …]}'


class Cursor(NamedTuple):
    """What a viewer has received: a generation, up to before an offset of its changelog."""

    generation: int
    seq: int


class OutgoingFrame(NamedTuple):
    """A frame to be sent; `cursor` is where a viewer stands once it has received it."""

    head: bytes
    parts: tuple[EncodedPart, ...]  # shared with the frames of other viewers
    size: int
    cursor: Cursor | None
    changed_at: float | None = None  # the time of its first change

    @classmethod
    def build(
        cls,
        header: dict[str, Any],
        parts: Iterable[EncodedPart],
        cursor: Cursor | None,
        changed_at: float | None = None,
    ) -> Self:
        """A frame with this header and these parts."""
        chosen = tuple(parts)
        head = frames.encode_header(header, chosen)
        size = len(head) + sum(len(part.payload) for part in chosen)
        return cls(head, chosen, size, cursor, changed_at)

    @property
    def pieces(self) -> tuple[bytes | memoryview, ...]:
        """Its bytes, in buffers that are not joined."""
        return (self.head, *(part.payload for part in self.parts))


class Subscription(NamedTuple):
    """The tables a viewer asks for; `resume` is the position of the rows it has kept."""

    tables: frozenset[str]
    resume: Cursor | None = None


class Viewer:
    """One open socket with its queue of frames; a viewer that is too slow catches up instead."""

    def __init__(self, subscription: Subscription) -> None:
        self.wake = asyncio.Event()
        self.closing = False
        self.mid_frame = False  # whether only some fragments of a frame were sent
        self.subscribe(subscription)

    def subscribe(self, subscription: Subscription) -> None:
        """Start over with these tables."""
        self.subscription = subscription
        self.tables = subscription.tables
        self.cursor = subscription.resume
        self.nothing_sent = True  # for this subscription
        self.fall_behind()

    def offer(self, frame: OutgoingFrame) -> None:
        """Queue a frame, or fall behind if the queue would be too large."""
        if self.behind:
            return
        if self.queued_bytes + frame.size > BUFFER_BYTES:
            self.fall_behind()
            return
        self.queue.append(frame)
        self.queued_bytes += frame.size
        self.wake.set()

    def fall_behind(self) -> None:
        """Drop the queue; the next frame brings the viewer up to date."""
        self.queue: deque[OutgoingFrame] = deque()
        self.queued_bytes = 0
        self.behind = True
        self.wake.set()

    def start_catch_up(self) -> None:
        """Queue frames again: the catch-up frame is about to be built."""
        self.behind = False
        self._answered_subscription = self.subscription

    def next_frame(self) -> OutgoingFrame:
        """Take the next frame from the queue."""
        frame = self.queue.popleft()
        self.queued_bytes -= frame.size
        self._answered_subscription = self.subscription
        return frame

    def mark_sent(self, cursor: Cursor | None) -> None:
        """Note that a frame was sent. While nothing is live, viewers keep their rows."""
        # a frame for an earlier subscription says nothing about the current one
        if self._answered_subscription is self.subscription:
            self.cursor = cursor or self.cursor
            self.nothing_sent = False

    def close(self) -> None:
        """Ask the send loop to close the socket."""
        self.closing = True
        self.wake.set()


def parse_subscription(text: str, known: Collection[str]) -> Subscription:
    """Parse a viewer's message; `known` are the tables it may read.

    With `wait` it may ask for others: they are sent if they appear, with another spec.
    """
    message = parse_object(text)
    if message is None or "subscribe" not in message:
        raise RequestError(_EXPECTED)
    names = message["subscribe"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise RequestError("subscribe must list at least one table")
    wait = message.get("wait") is True
    unknown = [
        name for name in names if name not in known and (name in spec.RESTRICTED or not wait)
    ]
    if unknown:
        raise RequestError(f"there is no table {unknown[0][:100]!r}; there are {', '.join(known)}")
    return Subscription(frozenset(names), _parse_resume(message.get("resume")))


def _parse_resume(resume: Any) -> Cursor | None:
    if resume is None:
        return None
    fields = resume if isinstance(resume, dict) else {}
    generation, seq = fields.get("generation"), fields.get("seq")
    if type(generation) is not int or type(seq) is not int or generation < 0 or seq < 0:
        raise RequestError('resume must be {"generation": 7, "seq": 123}')
    return Cursor(generation, seq)
