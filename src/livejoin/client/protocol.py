"""The client's side of `livejoin.v1` without a socket, a clock or a thread: bytes in, events out.

    wait ─hello()─▶ subscription sent ─snapshots of all tables, or resumed─▶ following
     ▲                  ▲                                                       │
     └─lost()───────────┴── a table was added, or a hash differs ◀──────────────┘

Whoever drives it sends what it says, tells it what came and when, and waits as long as it says.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from livejoin.client import frames
from livejoin.client.replica import Replica
from livejoin.errors import NewerFormat, ProtocolViolation

SILENCE_S = 5.0  # heartbeats come every second
FIRST_FRAME_S = 30.0  # a snapshot of a large table over a slow line
_MIN_BACKOFF_S, _MAX_BACKOFF_S = 0.25, 5.0
_MAX_RESYNC_INTERVAL_S = 60.0  # a hash that never fits must not become a stream of snapshots

Kind = Literal["snapshot", "upsert", "remove", "cutover"]


@dataclass(frozen=True)
class Change:
    """What changed in a table: its rows, and the generation and seq that it holds from now on.

    `snapshot` and `cutover` bring the whole table, `upsert` new rows and rows in the place of
    those with their `_id`, `remove` the `_id` of rows that are gone.
    """

    table: str
    kind: Kind
    rows: pa.Table
    generation: int | None
    seq: int


@dataclass(frozen=True)
class Send:
    """Something the server must be told."""

    text: str


@dataclass(frozen=True)
class SubscriptionRefused:
    """The server will not serve this client; trying again is of no use."""

    reason: str


Event = Change | Send | SubscriptionRefused


class ClientSession:
    """One subscription over any number of sockets, one after the other."""

    def __init__(self, *tables: str) -> None:
        self._tables = list(tables)
        self._replicas: dict[str, Replica] = {}
        self._first_request: tuple[str, ...] = ()  # asked for first over this socket
        self._last_request: tuple[str, ...] = ()  # asked for last
        self._resuming = False
        self._awaiting: Literal["", "first", "again"] = "first"
        self._resumable: frozenset[str] | None = None  # tables that all stand at our position
        self._connected = False
        self._disconnect_reason = "it has just begun"
        self._server_stale: str | None = None
        self._nothing_live = False  # rows are kept although nothing is live
        self._backoff_s = _MIN_BACKOFF_S
        self._consecutive_mismatches = 0  # hashes that differed, without one that fitted
        self._next_resync_at = 0.0
        self.generation: int | None = None
        self.seq = 0
        self.heartbeat_at: float | None = None
        self.newest: int | None = None  # source time in ms
        self.mismatches = 0
        self.reconnects = 0

    # --- what is held

    def total(self, table: str) -> int:
        """How many rows the server has of a table, which may be more than have come."""
        replica = self._replicas.get(table)
        if replica is None:
            return 0
        return len(replica) if replica.total is None else replica.total

    def snapshot(self, table: str) -> Change | None:
        """A table as one change, for somebody who begins now."""
        replica = self._replicas.get(table)
        if replica is None:
            return None
        return Change(table, "snapshot", replica.rows(), self.generation, self.seq)

    def stale_reason(self, now: float) -> str | None:
        """Why the rows may be old, or None."""
        if not self._connected:
            return f"not connected: {self._disconnect_reason}"
        if self._awaiting == "first":
            return "waiting for the first rows"
        if self.heartbeat_at is not None and now - self.heartbeat_at > SILENCE_S:
            return f"no heartbeat for {now - self.heartbeat_at:.0f} s"
        if self._nothing_live:
            return "nothing is live; the last rows are kept"
        return self._server_stale

    @property
    def receive_timeout_s(self) -> float:
        """How long the server may be silent before it counts as gone."""
        return FIRST_FRAME_S if self._awaiting == "first" else SILENCE_S

    # --- what the driver does

    def add_table(self, table: str) -> str | None:
        """Add a table; what to send if there is an open socket, or None if there is no need."""
        if table in self._tables:
            return None
        self._tables.append(table)
        return self._resubscribe() if self._connected else None

    def connected(self) -> str:
        """A socket is open: what to send first."""
        self._connected = True
        self._awaiting = "first"
        self._first_request = self._last_request = tuple(self._tables)
        resume = None
        # with other tables than before there is nothing to go on from
        if self.generation is not None and self._resumable == frozenset(self._last_request):
            resume = (self.generation, self.seq)
        self._resuming = resume is not None
        return frames.subscribe_message(self._last_request, resume)

    def disconnected(self, why: str, spread: float = 1.0) -> float:
        """The socket is gone, or could not be opened. How many seconds to wait before another."""
        self.reconnects += self._connected
        self._connected = False
        self._disconnect_reason = why
        wait_s = self._backoff_s * spread  # so that a thousand do not come back at once
        self._backoff_s = min(self._backoff_s * 2, _MAX_BACKOFF_S)
        return wait_s

    def receive(self, data: bytes, now: float) -> list[Event]:
        """A message came. Garbled means: close the socket, it is no use any more."""
        try:
            frame = frames.parse(data)
            if frame.type == "error":
                return [SubscriptionRefused(frame.message)]
            if frame.type == "heartbeat":
                return self._apply_heartbeat(frame, now)
            if frame.type in ("data", "cutover"):
                return self._apply(frame)
        except NewerFormat as error:
            return [SubscriptionRefused(str(error))]
        except ProtocolViolation:
            self._resumable = None  # half a frame may have been applied
            raise
        return []  # a type of a later version

    # --- inside

    def _resubscribe(self) -> str:
        """Ask for fresh snapshots over the same socket."""
        if self._awaiting != "first":
            self._awaiting = "again"
        self._resumable = None
        self._last_request = tuple(self._tables)
        return frames.subscribe_message(self._last_request, None)

    def _apply(self, frame: frames.ServerFrame) -> list[Event]:
        whole = {part.table for part in frame.parts if part.kind == "snapshot"}
        first = self._awaiting == "first"
        resumed = first and self._resuming and self._is_resumed(frame, whole)
        if first and not resumed and not whole.issuperset(self._first_request):
            raise ProtocolViolation("the first frame does not hold all tables")
        answered = whole.issuperset(self._last_request) or (
            resumed and self._last_request == self._first_request
        )
        self._nothing_live = frame.generation is None and self.generation is not None
        parts = [part for part in frame.parts if not self._keeps_rows(part.table)]
        for part in parts:
            self._apply_update(part, frame)
        changes: list[Event] = [self._to_change(part, frame) for part in parts]
        if first:
            self._awaiting = "again"  # a table may have been added since
        if answered:
            self._awaiting = ""
            if frame.generation is not None:
                self._resumable = frozenset(self._last_request)
            elif self._resumable != frozenset(self._last_request):
                self._resumable = None
        self._advance(frame)
        return changes

    def _is_resumed(self, frame: frames.ServerFrame, whole: AbstractSet[str]) -> bool:
        """Whether a frame goes on from what we hold; while nothing is live, by saying nothing."""
        data = {name for name, replica in self._replicas.items() if replica.has_generation}
        return frame.resumed or (
            frame.generation is None and data | whole >= {*self._first_request}
        )

    def _keeps_rows(self, table: str) -> bool:
        """A server that has just started shows nothing yet: the rows that are here are better."""
        replica = self._replicas.get(table)
        return self._nothing_live and replica is not None and replica.has_generation

    def _apply_update(self, part: frames.TableUpdate, frame: frames.ServerFrame) -> None:
        replica = self._replicas.get(part.table)
        if part.kind == "snapshot":
            self._replicas[part.table] = replica = Replica(part.rows)
            replica.total = frame.totals.get(part.table)
        elif replica is None:
            raise ProtocolViolation(f"{part.table} changed before it came")
        elif part.kind == "upsert":
            replica.upsert(part.rows)
        else:
            replica.remove(part.rows)

    def _to_change(self, part: frames.TableUpdate, frame: frames.ServerFrame) -> Change:
        kind: Kind = part.kind  # type: ignore[assignment] # checked when it was read
        if kind == "snapshot" and self._replicas[part.table].has_generation:
            moved = self.generation is not None and frame.generation != self.generation
            kind = "cutover" if moved or frame.type == "cutover" else kind
        return Change(part.table, kind, part.rows, frame.generation, frame.seq)

    def _advance(self, frame: frames.ServerFrame) -> None:
        if frame.generation is not None:
            self.generation, self.seq = frame.generation, frame.seq

    def _apply_heartbeat(self, frame: frames.ServerFrame, now: float) -> list[Event]:
        self.heartbeat_at = now
        self.newest, self._server_stale = frame.newest, frame.stale
        self._backoff_s = _MIN_BACKOFF_S
        if self._awaiting:
            return []
        self._advance(frame)
        differ = False
        for name, replica in self._replicas.items():
            if name not in frame.digests or (replica.has_generation and frame.generation is None):
                continue
            replica.total = frame.totals.get(name)
            differ = differ or (len(replica), replica.hash) != frame.digests[name]
        if not differ:
            self._consecutive_mismatches = 0
            return []
        self.mismatches += 1
        if now < self._next_resync_at:
            return []
        self._next_resync_at = now + min(
            2.0 ** min(self._consecutive_mismatches, 10), _MAX_RESYNC_INTERVAL_S
        )
        self._consecutive_mismatches += 1
        return [Send(self._resubscribe())]


def generation_after(session: ClientSession, after: int | None) -> int | None:
    """The generation that is shown, unless it is still this one."""
    return None if session.generation == after else session.generation


def has_reached(session: ClientSession, before: int | None, target: int | None) -> bool | None:
    """Whether a generation is shown that was waited for, or one that came after it; else None."""
    shown = session.generation
    return shown == target or (before is not None and shown not in (None, before)) or None
