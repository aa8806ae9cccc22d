"""Client side of `livejoin.v1` without socket, clock or thread: bytes in, events out.

    waiting ─connected()─▶ subscribed ─snapshots of all tables, or resumed─▶ following
       ▲                       ▲                                                │
       └─disconnected()────────┴── a table was added, or a hash differs ◀───────┘

A connection sends what it returns, passes it what arrives and when, and waits as long as it says.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from livejoin.client import frames
from livejoin.client.replica import Replica
from livejoin.errors import NewerFormat, ProtocolViolation, RequestError

SILENCE_S = 5.0  # heartbeats come every second
FIRST_FRAME_S = 30.0  # time for a snapshot of a large table over a slow connection
_MIN_BACKOFF_S, _MAX_BACKOFF_S = 0.25, 5.0
_MAX_RESYNC_INTERVAL_S = 60.0  # a permanent mismatch must not cause a stream of snapshots

Kind = Literal["snapshot", "upsert", "remove", "cutover", "gone"]


@dataclass(frozen=True)
class Change:
    """A change of a table, and the generation and seq that the table has from then on.

    `snapshot` and `cutover` contain the whole table, `upsert` rows that are new or replace those
    with the same `_id`, `remove` the `_id` of removed rows. After `gone` the table does not exist
    until its next `cutover`, which may have other columns.
    """

    table: str
    kind: Kind
    rows: pa.Table
    generation: int | None
    seq: int


@dataclass(frozen=True)
class Send:
    """A message to send to the server."""

    text: str


@dataclass(frozen=True)
class SubscriptionRefused:
    """The server refused the subscription; a retry cannot help."""

    reason: str


Event = Change | Send | SubscriptionRefused


class ClientSession:
    """The state of one subscription across successive sockets."""

    def __init__(self, *tables: str) -> None:
        self._tables = list(tables)
        self._replicas: dict[str, Replica] = {}
        self._gone: frozenset[str] = frozenset()  # tables that do not exist now
        self._first_request: tuple[str, ...] = ()  # tables of the first subscription on this socket
        self._last_request: tuple[str, ...] = ()  # tables of the last one
        self._resuming = False
        self._awaiting: Literal["", "first", "again"] = "first"
        self._resumable: frozenset[str] | None = None  # tables complete at (generation, seq)
        self._connected = False
        self._disconnect_reason = "not opened yet"
        self._server_stale: str | None = None
        self._nothing_live = False  # old rows are kept meanwhile
        self._backoff_s = _MIN_BACKOFF_S
        self._consecutive_mismatches = 0  # since the last match
        self._next_resync_at = 0.0
        self.generation: int | None = None
        self.seq = 0
        self.heartbeat_at: float | None = None
        self.mismatches = 0
        self.reconnects = 0

    # --- state

    def total(self, table: str) -> int:
        """Rows that the server has of a table; the client may hold fewer."""
        replica = self._replicas.get(table)
        if replica is None:
            return 0
        return len(replica) if replica.total is None else replica.total

    def snapshot(self, table: str) -> Change | None:
        """Return a table as a snapshot, or None if it has not been received."""
        replica = self._replicas.get(table)
        if replica is None:
            return None
        return Change(table, "snapshot", replica.rows(), self.generation, self.seq)

    def is_gone(self, table: str) -> bool:
        """Whether the served generation does not have this table."""
        return table in self._gone and table not in self._replicas

    def stale_reason(self, now: float) -> str | None:
        """Return why the rows may be stale, or None."""
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
        """Seconds without a message after which the socket is reopened."""
        return FIRST_FRAME_S if self._awaiting == "first" else SILENCE_S

    # --- called by the connection

    def add_table(self, table: str) -> str | None:
        """Add a table. Returns the message to send on an open socket, if any."""
        if table in self._tables:
            return None
        self._tables.append(table)
        return self._resubscribe() if self._connected else None

    def connected(self) -> str:
        """Note that a socket is open, and return the first message to send."""
        self._connected = True
        self._awaiting = "first"
        self._first_request = self._last_request = tuple(self._tables)
        resume = None
        # a different set of tables cannot be resumed
        if self.generation is not None and self._resumable == frozenset(self._last_request):
            resume = (self.generation, self.seq)
        self._resuming = resume is not None
        return frames.subscribe_message(self._last_request, resume)

    def disconnected(self, reason: str, jitter: float = 1.0) -> float:
        """Note that the socket is closed or did not open; return the seconds until a retry."""
        self.reconnects += self._connected
        self._connected = False
        self._disconnect_reason = reason
        wait_s = self._backoff_s * jitter  # clients must not all reconnect at once
        self._backoff_s = min(self._backoff_s * 2, _MAX_BACKOFF_S)
        return wait_s

    def receive(self, data: bytes, now: float) -> list[Event]:
        """Apply a message. After a ProtocolViolation the socket must be closed."""
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
            self._resumable = None  # the frame may be partly applied
            raise
        return []  # types of later versions are ignored

    # --- internals

    def _resubscribe(self) -> str:
        """Return a subscription for new snapshots on the same socket."""
        if self._awaiting != "first":
            self._awaiting = "again"
        self._resumable = None
        self._last_request = tuple(self._tables)
        return frames.subscribe_message(self._last_request, None)

    def _apply(self, frame: frames.ServerFrame) -> list[Event]:
        whole = {part.table for part in frame.parts if part.kind == "snapshot"} | frame.gone
        first = self._awaiting == "first"
        resumed = first and self._resuming and self._is_resumed(frame, whole)
        if first and not resumed and not whole.issuperset(self._first_request):
            raise ProtocolViolation("the first frame lacks a table")
        answered = whole.issuperset(self._last_request) or (
            resumed and self._last_request == self._first_request
        )
        self._nothing_live = frame.generation is None and self.generation is not None
        parts = [part for part in frame.parts if not self._keeps_rows(part.table)]
        for part in parts:
            self._apply_update(part, frame)
        changes: list[Event] = [self._to_change(part, frame) for part in parts]
        if answered or frame.type == "cutover":
            changes += self._remove_gone(frame)
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
        """Whether a frame resumes from the rows here; if nothing is live it omits data tables."""
        data = {name for name, replica in self._replicas.items() if replica.has_generation}
        return frame.resumed or (
            frame.generation is None and data | whole >= {*self._first_request}
        )

    def _keeps_rows(self, table: str) -> bool:
        """Whether to keep a table's rows: a server that just started has nothing live yet."""
        replica = self._replicas.get(table)
        return self._nothing_live and replica is not None and replica.has_generation

    def _apply_update(self, part: frames.TableUpdate, frame: frames.ServerFrame) -> None:
        replica = self._replicas.get(part.table)
        if part.kind == "snapshot":
            self._replicas[part.table] = replica = Replica(part.rows)
            replica.total = frame.totals.get(part.table)
        elif replica is None:
            raise ProtocolViolation(f"update of {part.table} before its snapshot")
        elif part.kind == "upsert":
            replica.upsert(part.rows)
        else:
            replica.remove(part.rows)

    def _remove_gone(self, frame: frames.ServerFrame) -> list[Event]:
        """Drop tables that no longer exist; while nothing is live their rows are kept."""
        self._gone = frame.gone
        if self._nothing_live:
            return []
        gone = [name for name in sorted(frame.gone) if name in self._replicas]
        dropped = [(name, self._replicas.pop(name)) for name in gone]
        return [
            Change(name, "gone", replica.schema.empty_table(), frame.generation, frame.seq)
            for name, replica in dropped
        ]

    def _to_change(self, part: frames.TableUpdate, frame: frames.ServerFrame) -> Change:
        kind: Kind = part.kind  # type: ignore[assignment] # checked by the parser
        if kind == "snapshot" and self._replicas[part.table].has_generation:
            switched = self.generation is not None and frame.generation != self.generation
            kind = "cutover" if switched or frame.type == "cutover" else kind
        return Change(part.table, kind, part.rows, frame.generation, frame.seq)

    def _advance(self, frame: frames.ServerFrame) -> None:
        if frame.generation is not None:
            self.generation, self.seq = frame.generation, frame.seq

    def _apply_heartbeat(self, frame: frames.ServerFrame, now: float) -> list[Event]:
        self.heartbeat_at = now
        self._server_stale = frame.stale
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
    """Return the current generation, or None if it is still `after`."""
    return None if session.generation == after else session.generation


def has_reached(session: ClientSession, before: int | None, target: int | None) -> bool | None:
    """Return True if the target or a later generation is shown, else None."""
    shown = session.generation
    return shown == target or (before is not None and shown not in (None, before)) or None


def snapshot_of(session: ClientSession, table: str) -> Change | None:
    """Return a table as a snapshot, or None if it has not been received."""
    if session.is_gone(table):
        raise RequestError(
            f"there is no table {table!r} any more", hint="spec() tells which tables there are."
        )
    return session.snapshot(table)
