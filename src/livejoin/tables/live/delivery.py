"""Writes frames to sockets: small ones at once, large ones in fragments, at the viewer's speed.

A slow viewer's socket buffers one or two fragments; the rest stays in parts that viewers share.
Large frames take turns: a viewer sends until its socket is full, and between two fragments the
event loop runs everything else.
"""

import asyncio
import contextlib
import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect

from livejoin.tables.live import frames
from livejoin.tables.live.broadcast import FrameCache
from livejoin.tables.live.viewer import BUFFER_BYTES, OutgoingFrame, Viewer

log = structlog.get_logger()

FRAGMENT_BYTES = 64 << 10
_MAX_FRAGMENTS = 1000  # per frame, or they are larger; clients accept a few thousand
# The minimum speed of a large frame while others wait for the memory it holds. Two hundred viewers
# that share 100 MB/s read twice as fast.
MIN_BYTES_PER_S = 256 << 10
GRACE_S = 10.0  # before the speed of a viewer is judged
_RECHECK_S = 0.5
# Memory for outdated large parts that are still being sent, beside one more frame.
MAX_STALE_BYTES = 128 << 20
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)  # of the time changes waited

_Fragment = tuple[bytes | memoryview, bool]  # its bytes, and whether more follow


@dataclass(eq=False)
class _LargeSend:
    """A large frame that is being sent."""

    frame: OutgoingFrame
    socket: WebSocket
    sent_bytes: int = 0

    def __post_init__(self) -> None:
        self.started_at = _now()
        self.fragments = _fragments(self.frame)  # not sent yet

    def next_fragment(self) -> _Fragment | None:
        """Take the next fragment to send."""
        fragment = next(self.fragments, None)
        self.sent_bytes += len(fragment[0]) if fragment else 0
        return fragment

    @property
    def bytes_per_s(self) -> float:
        """The viewer's speed; infinite during the grace period."""
        took_s = _now() - self.started_at
        return self.sent_bytes / took_s if took_s > GRACE_S else math.inf


class Delivery:
    """Sends the frames of one server, with bounded memory for large ones."""

    def __init__(self, frame_cache: FrameCache) -> None:
        self._frame_cache = frame_cache
        self._send_lock, self._memory_lock = asyncio.Lock(), asyncio.Lock()
        self._large_sends: list[_LargeSend] = []  # oldest first
        self._send_ended = asyncio.Event()  # set when a large send has ended, then replaced
        self._waiting_viewers: dict[Viewer, WebSocket] = {}  # for a catch-up frame

    async def send(self, socket: WebSocket, viewer: Viewer, frame: OutgoingFrame) -> None:
        """Send a queued frame."""
        if frame.size <= FRAGMENT_BYTES:
            await socket.send_bytes(b"".join(frame.pieces))
            return
        for fragment in _fragments(frame):
            if viewer.closing:
                return
            await _send_fragment(socket, viewer, fragment)

    async def send_catch_up(
        self, socket: WebSocket, viewer: Viewer, build: Callable[[], OutgoingFrame]
    ) -> OutgoingFrame:
        """Build and send a catch-up frame, which may be large, once there is memory for it."""
        self._waiting_viewers[viewer] = socket
        try:
            await self._wait_for_memory()
            frame = build()
            if frame.size > BUFFER_BYTES:
                del frame  # rebuilt when it is its turn: rows change meanwhile
                return await self._send_large(socket, viewer, build)
            await self.send(socket, viewer, frame)
            return frame
        finally:
            del self._waiting_viewers[viewer]

    async def send_keepalives(self) -> None:
        """Send an empty frame to viewers that have rows and wait for a large frame."""
        for viewer, socket in list(self._waiting_viewers.items()):
            cursor = viewer.cursor
            if (
                cursor is None
                or viewer.nothing_sent
                or viewer.mid_frame
                or not socket.state.writable.is_set()
            ):
                continue
            header = {"type": "data", **cursor._asdict(), "at": int(time.time() * 1000)}
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await socket.send_bytes(frames.encode_frame(header))

    async def _send_large(
        self, socket: WebSocket, viewer: Viewer, build: Callable[[], OutgoingFrame]
    ) -> OutgoingFrame:
        send: _LargeSend | None = None
        writable: asyncio.Event = socket.state.writable
        try:
            while True:
                await writable.wait()
                async with self._send_lock:
                    if send is None and not self._sends_to_wait_for():
                        send = _LargeSend(build(), socket)
                        self._large_sends.append(send)
                    while send is not None and writable.is_set():
                        fragment = send.next_fragment()
                        if fragment is None or viewer.closing:
                            return send.frame
                        await _send_fragment(socket, viewer, fragment)
                if send is None:
                    await self._wait_for_memory()
        finally:
            self._large_sends = [other for other in self._large_sends if other is not send]
            self._send_ended.set()
            self._send_ended = asyncio.Event()

    def _sends_to_wait_for(self) -> list[_LargeSend]:
        """The sends that hold outdated parts, if those take too much memory for another frame."""
        sizes: dict[int, int] = {}  # by part: sends share them
        holders = []
        for send in self._large_sends:
            stale = [part for part in send.frame.parts if self._frame_cache.is_stale(part)]
            sizes |= {id(part): len(part.payload) for part in stale}
            holders += [send] if stale else []
        return holders if sum(sizes.values()) > MAX_STALE_BYTES else []

    async def _wait_for_memory(self) -> None:
        """Wait until there is memory for another large frame.

        A viewer that reads an outdated frame too slowly is disconnected, and may reconnect.
        """
        async with self._memory_lock:  # one waiter checks for all
            while holders := self._sends_to_wait_for():
                slowest = min(holders, key=lambda send: send.bytes_per_s)
                if slowest.bytes_per_s < MIN_BYTES_PER_S:
                    log.warning(
                        "disconnected a viewer that reads too slowly",
                        bytes_per_s=int(slowest.bytes_per_s),
                    )
                    slowest.socket.state.abort()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_RECHECK_S):
                        await self._send_ended.wait()


class DeliveryStats:
    """Counts the frames sent to viewers, and how long the oldest change in each had waited.

    A frame sent to two viewers counts twice.
    """

    def __init__(self) -> None:
        self.frames = 0
        self.total_wait_s = 0.0
        self._counts = [0] * (len(BUCKETS_S) + 1)

    def record_frame(self, waited_s: float | None = None) -> None:
        """Count a frame; `waited_s` is the age of its first change, if it carries any."""
        self.frames += 1
        if waited_s is not None:
            self.total_wait_s += waited_s
            self._counts[bisect_left(BUCKETS_S, waited_s)] += 1

    def buckets(self) -> list[tuple[str, int]]:
        """Cumulative counts by upper bound, as Prometheus expects them."""
        buckets, total = [], 0
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, total))
        return buckets


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _send_fragment(socket: WebSocket, viewer: Viewer, fragment: _Fragment) -> None:
    data, more = fragment
    await socket.send({"type": "websocket.send", "bytes": data, "more": more})
    viewer.mid_frame = more
    await asyncio.sleep(0)


def _fragments(frame: OutgoingFrame) -> Iterator[_Fragment]:
    """The fragments of a frame, and whether more follow."""
    left = frame.size
    for data in frames.split_fragments(
        frame.pieces, max(FRAGMENT_BYTES, frame.size // _MAX_FRAGMENTS)
    ):
        left -= len(data)
        yield data, left > 0
