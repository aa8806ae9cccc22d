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
from livejoin.errors import Garbled, NewerFormat

SILENCE_S = 5.0  # heartbeats come every second
FIRST_S = 30.0  # a snapshot of a large table over a slow line
_SHORTEST_S, _LONGEST_S = 0.25, 5.0
_AFRESH_LONGEST_S = 60.0  # a hash that never fits must not become a stream of snapshots

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
class Refused:
    """The server will not serve this client; trying again is of no use."""

    why: str


Event = Change | Send | Refused


class Session:
    """One subscription over any number of sockets, one after the other."""

    def __init__(self, *tables: str) -> None:
        self._wanted = list(tables)
        self._replicas: dict[str, Replica] = {}
        self._opened: tuple[str, ...] = ()  # asked for first over this socket
        self._asked: tuple[str, ...] = ()  # asked for last
        self._resuming = False
        self._awaiting: Literal["", "first", "again"] = "first"
        self._complete: frozenset[str] | None = None  # tables that all stand at our position
        self._connected = False
        self._why = "it has just begun"
        self._told_stale: str | None = None
        self._vacant = False  # rows are kept although nothing is live
        self._wait_s = _SHORTEST_S
        self._in_a_row = 0  # hashes that differed, without one that fitted
        self._afresh_at = 0.0
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

    def whole(self, table: str) -> Change | None:
        """A table as one change, for somebody who begins now."""
        replica = self._replicas.get(table)
        if replica is None:
            return None
        return Change(table, "snapshot", replica.rows(), self.generation, self.seq)

    def stale(self, now: float) -> str | None:
        """Why the rows may be old, or None."""
        if not self._connected:
            return f"not connected: {self._why}"
        if self._awaiting == "first":
            return "waiting for the first rows"
        if self.heartbeat_at is not None and now - self.heartbeat_at > SILENCE_S:
            return f"no heartbeat for {now - self.heartbeat_at:.0f} s"
        if self._vacant:
            return "nothing is live; the last rows are kept"
        return self._told_stale

    @property
    def patience_s(self) -> float:
        """How long the server may be silent before it counts as gone."""
        return FIRST_S if self._awaiting == "first" else SILENCE_S

    # --- what the driver does

    def want(self, table: str) -> str | None:
        """Add a table; what to send if there is an open socket, or None if there is no need."""
        if table in self._wanted:
            return None
        self._wanted.append(table)
        return self._again() if self._connected else None

    def hello(self) -> str:
        """A socket is open: what to send first."""
        self._connected = True
        self._awaiting = "first"
        self._opened = self._asked = tuple(self._wanted)
        resume = None
        # with other tables than before there is nothing to go on from
        if self.generation is not None and self._complete == frozenset(self._asked):
            resume = (self.generation, self.seq)
        self._resuming = resume is not None
        return frames.subscription(self._asked, resume)

    def lost(self, why: str, spread: float = 1.0) -> float:
        """The socket is gone, or could not be opened. How many seconds to wait before another."""
        self.reconnects += self._connected
        self._connected = False
        self._why = why
        wait_s = self._wait_s * spread  # so that a thousand do not come back at once
        self._wait_s = min(self._wait_s * 2, _LONGEST_S)
        return wait_s

    def receive(self, data: bytes, now: float) -> list[Event]:
        """A message came. Garbled means: close the socket, it is no use any more."""
        try:
            frame = frames.read(data)
            if frame.type == "error":
                return [Refused(frame.message)]
            if frame.type == "heartbeat":
                return self._beat(frame, now)
            if frame.type in ("data", "cutover"):
                return self._apply(frame)
        except NewerFormat as error:
            return [Refused(str(error))]
        except Garbled:
            self._complete = None  # half a frame may have been applied
            raise
        return []  # a type of a later version

    # --- inside

    def _again(self) -> str:
        """Ask for fresh snapshots over the same socket."""
        if self._awaiting != "first":
            self._awaiting = "again"
        self._complete = None
        self._asked = tuple(self._wanted)
        return frames.subscription(self._asked, None)

    def _apply(self, frame: frames.Frame) -> list[Event]:
        whole = {part.table for part in frame.parts if part.kind == "snapshot"}
        first = self._awaiting == "first"
        resumed = first and self._resuming and self._resumed(frame, whole)
        if first and not resumed and not whole.issuperset(self._opened):
            raise Garbled("the first frame does not hold all tables")
        answered = whole.issuperset(self._asked) or (resumed and self._asked == self._opened)
        self._vacant = frame.generation is None and self.generation is not None
        parts = [part for part in frame.parts if not self._kept(part.table)]
        for part in parts:
            self._put(part, frame)
        changes: list[Event] = [self._change(part, frame) for part in parts]
        if first:
            self._awaiting = "again"  # a table may have been added since
        if answered:
            self._awaiting = ""
            if frame.generation is not None:
                self._complete = frozenset(self._asked)
            elif self._complete != frozenset(self._asked):
                self._complete = None
        self._move(frame)
        return changes

    def _resumed(self, frame: frames.Frame, whole: AbstractSet[str]) -> bool:
        """Whether a frame goes on from what we hold; while nothing is live, by saying nothing."""
        data = {name for name, replica in self._replicas.items() if replica.data}
        return frame.resumed or (frame.generation is None and data | whole >= {*self._opened})

    def _kept(self, table: str) -> bool:
        """A server that has just started shows nothing yet: the rows that are here are better."""
        replica = self._replicas.get(table)
        return self._vacant and replica is not None and replica.data

    def _put(self, part: frames.Part, frame: frames.Frame) -> None:
        replica = self._replicas.get(part.table)
        if part.kind == "snapshot":
            self._replicas[part.table] = replica = Replica(part.rows)
            replica.total = frame.totals.get(part.table)
        elif replica is None:
            raise Garbled(f"{part.table} changed before it came")
        elif part.kind == "upsert":
            replica.upsert(part.rows)
        else:
            replica.remove(part.rows)

    def _change(self, part: frames.Part, frame: frames.Frame) -> Change:
        kind: Kind = part.kind  # type: ignore[assignment] # checked when it was read
        if kind == "snapshot" and self._replicas[part.table].data:
            moved = self.generation is not None and frame.generation != self.generation
            kind = "cutover" if moved or frame.type == "cutover" else kind
        return Change(part.table, kind, part.rows, frame.generation, frame.seq)

    def _move(self, frame: frames.Frame) -> None:
        if frame.generation is not None:
            self.generation, self.seq = frame.generation, frame.seq

    def _beat(self, frame: frames.Frame, now: float) -> list[Event]:
        self.heartbeat_at = now
        self.newest, self._told_stale = frame.newest, frame.stale
        self._wait_s = _SHORTEST_S
        if self._awaiting:
            return []
        self._move(frame)
        differ = False
        for name, replica in self._replicas.items():
            if name not in frame.tables or (replica.data and frame.generation is None):
                continue
            replica.total = frame.totals.get(name)
            differ = differ or (len(replica), replica.hash) != frame.tables[name]
        if not differ:
            self._in_a_row = 0
            return []
        self.mismatches += 1
        if now < self._afresh_at:
            return []
        self._afresh_at = now + min(2.0 ** min(self._in_a_row, 10), _AFRESH_LONGEST_S)
        self._in_a_row += 1
        return [Send(self._again())]


def another(session: Session, after: int | None) -> int | None:
    """The generation that is shown, unless it is still this one."""
    return None if session.generation == after else session.generation


def moved(session: Session, before: int | None, target: int | None) -> bool | None:
    """Whether a generation is shown that was waited for, or one that came after it; else None."""
    shown = session.generation
    return shown == target or (before is not None and shown not in (None, before)) or None
