"""The live socket: accepts viewers, sends them frames and heartbeats.

A viewer that resumes, or was too slow, receives what it misses: each row that changed since, once.
A socket is closed within seconds after its token or session was revoked or expired.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from livejoin.core import spec
from livejoin.core.tokens import role_includes
from livejoin.errors import RequestError
from livejoin.tables.auth.authentication import Identities
from livejoin.tables.auth.sessions_and_codes import Identity
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.live import frames
from livejoin.tables.live.broadcast import Broadcaster
from livejoin.tables.live.delivery import Delivery, DeliveryStats
from livejoin.tables.live.viewer import (
    Cursor,
    OutgoingFrame,
    Viewer,
    parse_subscription,
)

SUBPROTOCOL = "livejoin.v1"
HEARTBEAT_S = 1.0
SUBSCRIPTION_BURST = 30  # per viewer, then one per interval
SUBSCRIPTION_INTERVAL_S = 0.5
CLOSE_UNAUTHORIZED = 4401  # a WebSocket close code
_FIRST_MESSAGE_S = 10
_RESUME_WAIT_S = 10  # for a viewer that has seen more than this server has read
_GOING_AWAY, _POLICY_VIOLATION, _TRY_AGAIN = 1001, 1008, 1013
_REASON_BYTES = 120  # a close frame holds 123
_CLOSE_TIMEOUT_S = 2.0  # for the client to read what is being sent


class LiveSocket:
    """All viewers of one table server."""

    def __init__(self, catalog: Catalog, identities: Identities) -> None:
        self._catalog = catalog
        self._broadcaster = Broadcaster(catalog)
        self._viewers = self._broadcaster.viewers
        self._frame_cache = self._broadcaster.frame_cache
        self._delivery = Delivery(self._frame_cache)
        self.stats = DeliveryStats()
        self._open_sockets = OpenSockets(identities)
        self._viewer_left = asyncio.Event()  # set when a viewer has left, then replaced
        self._closed = False

    def __len__(self) -> int:
        return len(self._viewers)

    async def run_heartbeat(self) -> None:
        """Send a heartbeat every second, forever: clients take silence for a stall."""
        catalog = self._catalog
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            self._open_sockets.close_revoked()
            self._broadcaster.notify_progress()  # not every record read changes a row
            catalog.update_figures()  # also without viewers: the leader reads the figures
            catalog.find_rewrites()
            if not self._viewers:
                continue
            self._broadcaster.flush()  # the hashes must match what viewers have received
            subscribed = frozenset[str]().union(*(viewer.tables for viewer in self._viewers))
            existing = sorted(subscribed & catalog.spec.all_tables.keys())
            digests = {name: catalog.store(name).viewer_digest() for name in existing}
            tables = {name: {"rows": rows, "hash": text} for name, (rows, text) in digests.items()}
            capped = catalog.capped()
            optional: dict[str, Any] = {"capped": capped} if capped else {}
            self._broadcaster.broadcast(
                "heartbeat",
                (),
                newest=catalog.newest_ts,
                stale=catalog.stale_reason or None,
                tables=tables,
                viewers=len(self),
                sources=catalog.source_figures(),
                **optional,
            )
            await self._delivery.send_keepalives()

    async def serve(self, socket: WebSocket) -> None:
        """Serve one viewer until it leaves."""
        if SUBPROTOCOL not in socket.scope.get("subprotocols", ()):
            await socket.close(_POLICY_VIOLATION, f"the subprotocol {SUBPROTOCOL} is required")
            return
        await socket.accept(SUBPROTOCOL)
        if self._closed:  # viewers that were closed reconnect at once
            await socket.close(_GOING_AWAY, "livejoin is stopping")
            return
        viewer: Viewer | None = None
        limit = SubscriptionLimit()
        cleanup = contextlib.ExitStack()
        identity = cleanup.enter_context(self._open_sockets.track(socket))
        is_operator = role_includes(identity.role, "operator")
        try:
            first = await asyncio.wait_for(socket.receive_text(), _FIRST_MESSAGE_S)
            subscription = parse_subscription(first, self._tables(is_operator))
            if not await self._wait_until_read(subscription.resume):
                await socket.close(_TRY_AGAIN, "this server has read less than you have seen")
                return
            viewer = Viewer(subscription)
            self._viewers.add(viewer)
            if self._closed:
                viewer.close()
            sending = asyncio.create_task(self._send_loop(socket, viewer))
            try:
                while True:
                    message = await socket.receive_text()
                    subscription = parse_subscription(message, self._tables(is_operator))
                    limit.count()
                    viewer.subscribe(subscription)
            finally:
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                    await sending
        except (RequestError, TimeoutError, KeyError) as error:
            why = (
                str(error) if isinstance(error, RequestError) else "expected a subscription as text"
            )
            last = frames.encode_frame(self._frame_cache.build_header("error", message=why))
            mid_frame = viewer is not None and viewer.mid_frame  # another one cannot be sent
            reason = why.encode()[:_REASON_BYTES].decode(errors="ignore")
            await _close_socket(socket, _POLICY_VIOLATION, reason, b"" if mid_frame else last)
        except WebSocketDisconnect:
            pass
        finally:
            cleanup.close()
            if viewer is not None:
                self._viewers.discard(viewer)
                self._viewer_left.set()
                self._viewer_left = asyncio.Event()

    def _tables(self, is_operator: bool) -> Mapping[str, spec.TableSpec]:  # noqa: FBT001 - the role
        """The tables that a viewer may read now."""
        return self._catalog.spec.all_tables if is_operator else self._catalog.spec.tables

    async def close(self, timeout_s: float) -> None:
        """Close every socket with the code for "reconnect", and wait until the viewers left.

        The web server closes those that are left when it stops, with another code.
        """
        self._closed = True
        for viewer in self._viewers:
            viewer.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._viewers:
                    await self._viewer_left.wait()

    async def _wait_until_read(self, seen: Cursor | None) -> bool:
        """Wait until this server has read what a viewer has seen: its rows must not go back."""
        if seen is None:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_RESUME_WAIT_S):
                while self._catalog.generation == seen.generation and self._catalog.seq < seen.seq:
                    await self._broadcaster.progressed.wait()
                return True
        return False

    async def _send_loop(self, socket: WebSocket, viewer: Viewer) -> None:
        while True:
            await viewer.wake.wait()
            viewer.wake.clear()
            if viewer.closing:
                await socket.close(_GOING_AWAY, "livejoin is stopping")
                return
            if viewer.behind:
                build = partial(self._build_catch_up, viewer)
                # no variable: it would keep a large frame in memory until the next one
                self._record_sent(viewer, await self._delivery.send_catch_up(socket, viewer, build))
            while viewer.queue and not viewer.behind and not viewer.closing:
                frame = viewer.next_frame()
                await self._delivery.send(socket, viewer, frame)
                self._record_sent(viewer, frame)

    def _build_catch_up(self, viewer: Viewer) -> OutgoingFrame:
        viewer.fall_behind()  # the catch-up frame includes what is queued
        self._broadcaster.flush()  # and what is pending
        viewer.start_catch_up()
        return self._frame_cache.catch_up(viewer)

    def _record_sent(self, viewer: Viewer, frame: OutgoingFrame) -> None:
        viewer.mark_sent(frame.cursor)
        now = asyncio.get_running_loop().time()
        self.stats.record_frame(None if frame.changed_at is None else now - frame.changed_at)


class OpenSockets:
    """The identity of each open socket, also before it has subscribed."""

    def __init__(self, identities: Identities) -> None:
        self._identities = identities
        self._callers: dict[WebSocket, Identity] = {}
        self._close_tasks: set[asyncio.Task[None]] = set()

    @contextlib.contextmanager
    def track(self, socket: WebSocket) -> Iterator[Identity]:
        """Track an authenticated socket while it is open; yields its identity."""
        self._callers[socket] = socket.state.who
        try:
            yield socket.state.who
        finally:
            del self._callers[socket]

    def close_revoked(self) -> None:
        """Close the sockets whose token or session is not valid any more."""
        for socket, identity in self._callers.items():
            if not self._identities.still_valid(identity):
                why = "Unauthorized: this token or session has ended."
                task = asyncio.create_task(_close_socket(socket, CLOSE_UNAUTHORIZED, why))
                self._close_tasks.add(task)  # the event loop keeps only a weak reference
                task.add_done_callback(self._close_tasks.discard)


async def _close_socket(socket: WebSocket, code: int, why: str, last: bytes = b"") -> None:
    """Close a socket, after a last frame if one is given."""
    with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            if last:
                await socket.send_bytes(last)
            await socket.close(code, why)
            return
    socket.state.abort()  # the client reads nothing, so the close frame cannot be sent


class SubscriptionLimit:
    """Rate limit for changes of a subscription: each is answered with all rows."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = float(SUBSCRIPTION_BURST)
        self._at = clock()

    def count(self) -> None:
        """Count one subscription; raises if the limit is exceeded."""
        now = self._clock()
        self._left = (
            min(SUBSCRIPTION_BURST, self._left + (now - self._at) / SUBSCRIPTION_INTERVAL_S) - 1
        )
        self._at = now
        if self._left < 0:
            raise RequestError(
                f"too many subscriptions: {SUBSCRIPTION_BURST} at once,"
                f" then one every {SUBSCRIPTION_INTERVAL_S:g} s"
            )
