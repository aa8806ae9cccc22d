"""The tables under their stable names: which generation they show, and who is told of changes.

Everything here runs on one thread, the event loop's. A generation is filled out of sight; the
ledger says from which changelog offset on it is complete, and the names move once that much of it
has been read.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

import pyarrow as pa

from livejoin.core import spec
from livejoin.core.changelog import Change, as_json
from livejoin.core.facts import Counted
from livejoin.core.generation import Generation
from livejoin.core.state import State
from livejoin.tables.ingest.chunks import Chunk
from livejoin.tables.ingest.decode import SCHEMAS
from livejoin.tables.ingest.marks import Read
from livejoin.tables.ingest.store import Cap, Delta, Store
from livejoin.tables.ingest.system_tables import System
from livejoin.tables.observe.lag import Lag, Shown
from livejoin.tables.observe.liveness import Signs

_OVERTAKEN = 1000  # winners to be written again at a time

DATA = tuple(name for name, table in spec.TABLES.items() if table.data)


class Audience(Protocol):
    """Who is told of changes."""

    def changed(self, table: str, delta: Delta) -> None:
        """Rows of a table changed."""

    def cut_over(self) -> None:
        """All data tables show another generation now."""


class Held:
    """One generation's tables, shown or not."""

    def __init__(self, generation: Generation, rejects_kept: int) -> None:
        self.number, self.max_rows = generation.number, generation.max_rows
        self.least = 0  # how long the changelog was when we began: all that before it shows
        self.seq = 0
        self.newest = 0  # source time in ms
        self.read = Read()
        rejects = Cap(rejects_kept, groups=tuple(source.name for source in spec.SOURCES))
        rows = Cap(generation.max_rows, null_rows=generation.choice.join == "left_outer")
        self.stores = {
            name: Store(SCHEMAS[name], rejects if name == spec.REJECTS else rows) for name in DATA
        }

    def limit(self, most: int | None) -> None:
        """Show viewers so many rows of a table; of rejects a few are kept in any case."""
        for name, store in self.stores.items():
            store.limit(None if name == spec.REJECTS else most)

    def apply(self, chunk: Chunk) -> list[tuple[str, Delta]]:
        """Take in the next run of the changelog."""
        if chunk.seq <= self.seq:
            return []  # read again, by a follower that had to begin anew
        deltas = []
        for table, records in chunk.records:
            deltas.append((table, self.stores[table].apply(records, chunk.seq)))
            self.newest = max(self.newest, int(records.times.max(initial=0)))
        self.read.add(chunk.marks)
        self.seq = chunk.seq
        return deltas

    def complete(self, ready_at: int | None) -> bool:
        """Whether all was read that its tables showed when we began."""
        return self.seq >= max(ready_at or 0, self.least)

    def capped(self) -> dict[str, int]:
        """The tables that older rows had to leave, and the lowest `_ts` that is there."""
        found = {name: self.stores[name].capped_from for name in DATA if name != spec.REJECTS}
        return {name: ts for name, ts in found.items() if ts is not None}


class Host:
    """All tables of one table server."""

    def __init__(
        self,
        *,
        logs_kept: int = 10_000,
        rejects_kept: int = 10_000,
        control_kept: int = 10_000,
        viewer_rows: int | None = None,
        spark_ui: str = "",
    ) -> None:
        self.spark_ui = spark_ui  # where people find Spark's own pages, if anywhere
        self._rejects_kept = rejects_kept
        self._viewer_rows = viewer_rows
        self._held: dict[int, Held] = {}
        self._nothing = Held(Generation(0, spec.Choice("", ""), 0.0), rejects_kept)
        self._shown: Held = self._nothing
        self.audience: list[Audience] = []
        self.system = System(self._tell, logs_kept=logs_kept, control_kept=control_kept)
        self.state = State()  # as the ledger last told it
        self.signs = Signs()
        self.lag = Lag()
        self.followed = False  # whether a ledger was read
        # both by generation, replaced as a whole: others look at them from their threads
        self.counted: Mapping[int, Counted] = {}
        self.overtaken: Mapping[int, Sequence[Change]] = {}
        self._rewritten: frozenset[int] = frozenset()  # generations whose winners are asked for
        self._late: dict[int, list[str]] = {}

    # --- told by the follower

    def follow(self, state: State, ends: Mapping[int, int] | None = None) -> None:
        """The ledger says what exists and what is live; `ends`, how long new changelogs are.

        A server that starts reads that far before it shows a generation: its viewers have seen it.
        """
        self.state, self.followed = state, True
        for generation in state.wants:
            if generation.number not in self._held:
                self._held[generation.number] = Held(generation, self._rejects_kept)
        for number, end in (ends or {}).items():
            held = self._held[number]
            if not held.seq:  # it may have been held before it had a changelog
                held.least = end
        self._move_if_ready()
        self._let_go()

    def apply(self, chunk: Chunk) -> None:
        """The next run of a generation's changelog."""
        held = self._held.get(chunk.generation)
        if held is None:
            return
        deltas = held.apply(chunk)
        if held is self._shown:
            for table, delta in deltas:
                self._tell(table, delta)
        else:
            self._move_if_ready()

    def show_status(self, row: Mapping[str, Any]) -> None:
        """Replace the one row of the status table."""
        self.system.show_status(row)

    def trouble_with(self, why: str) -> None:
        """Following does not work, or works again."""
        self.signs.trouble_with(why)

    def refuse(self, why: str) -> None:
        """The ledger is written by a newer livejoin, or no longer: what is shown stays."""
        self.signs.newer = why
        if why and not self.followed:
            self.show_status({"state": "waiting", "progress": 0, "message": why})

    def forget(self) -> None:
        """Start over: the ledger is another one."""
        self._held.clear()
        self.state, self.followed = State(), False
        self.signs.forget()
        self.system.clear()
        self._show(self._nothing)

    def count(self) -> None:
        """Bring the figures of the generations up to date."""
        figures = {number: _figures(held) for number, held in self._held.items()}
        self.counted = {
            number: Counted(number, figures[number], tuple(capped := held.capped()), capped)
            for number, held in self._held.items()
        }
        known = {row["generation"] for row in self.system.generations()}
        self.system.show_generations({n: row for n, row in figures.items() if n in known})

    def overtaken_of(self, generations: frozenset[int]) -> Mapping[int, Sequence[Change]]:
        """What the last look found; from the next one on, look at these generations.

        Called by the leader, from its thread. Where nobody leads, nobody looks.
        """
        self._rewritten = generations
        return self.overtaken

    def find_overtaken(self) -> None:
        """Find the winning records that an older one has followed, for longer than a moment.

        A changelog's compaction keeps the last record of a key, not the winner. Some of them are
        followed by the winner again, and need no help. What was not read to its end yet may hold
        a newer winner.
        """
        found: dict[int, Sequence[Change]] = {}
        late: dict[int, list[str]] = {}
        for number in self._rewritten & self._held.keys():
            held, generation = self._held[number], self.state.find(number)
            if generation is None or not held.complete(generation.ready_at):
                continue
            store = held.stores[spec.FINAL]
            waited = {row_id for row_id in self._late.get(number, ()) if row_id in store.late}
            if waited:
                found[number] = store.winners(spec.FINAL, waited)
            others = (row_id for row_id in store.late if row_id not in waited)
            late[number] = list(islice(others, _OVERTAKEN))
        self._late = late
        if found or self.overtaken:
            self.overtaken = found

    # --- asked by readers

    @property
    def status(self) -> Mapping[str, Any]:
        """The one row of the status table."""
        return self.system.status

    def store(self, table: str) -> Store:
        """A table under its stable name, as it is shown now."""
        return self._shown.stores[table] if table in DATA else self.system.store(table)

    @property
    def generation(self) -> int | None:
        """Which generation the names show."""
        return self._shown.number or None

    @property
    def shown(self) -> Shown | None:
        """The same with what it has read; nothing where the ledger does not know it any more."""
        held = self._shown
        generation = self.state.find(held.number)
        return None if generation is None else Shown(generation, held.read.reached)

    @property
    def seq(self) -> int:
        """How far the changelog of the shown generation has been read."""
        return self._shown.seq

    @property
    def newest(self) -> int | None:
        """The newest source time shown, in ms."""
        return self._shown.newest or None

    def counts(self) -> dict[str, dict[str, int]]:
        """What became of the records that the shown generation has read."""
        return self._shown.read.counts()

    def capped(self) -> dict[str, dict[str, int]]:
        """The tables that hold as many rows as they may: how many, and their lowest `_ts`."""
        most = self._shown.max_rows
        return {name: {"rows": most, "from": ts} for name, ts in self._shown.capped().items()}

    @property
    def stale(self) -> str:
        """Why the rows may be old, or nothing."""
        signs = self.signs
        return (
            signs.trouble
            or signs.newer
            or signs.nobody_leads
            or str(self.status.get("stale") or "")
        )

    # --- inside

    def _wanted(self) -> set[int]:
        return {generation.number for generation in self.state.wants}

    def _move_if_ready(self) -> None:
        live = self.state.live
        if live is None or live.number == self._shown.number:
            return
        held = self._held[live.number]
        if held.complete(live.ready_at):
            self._show(held)
            self._let_go()

    def _let_go(self) -> None:
        gone = self._held.keys() - self._wanted() - {self._shown.number}
        for number in gone:
            del self._held[number]
        if gone:
            pa.default_memory_pool().release_unused()  # it keeps what was freed; under 1 ms

    def _show(self, held: Held) -> None:
        held.limit(self._viewer_rows)
        self._shown = held
        for one in self.audience:
            one.cut_over()

    def _tell(self, table: str, delta: Delta) -> None:
        if not delta.empty:
            for one in self.audience:
                one.changed(table, delta)


def _figures(held: Held) -> dict[str, int | str]:
    """What became of the records that a generation has read: cells of its row."""
    counts = held.read.counts()
    names = ("read", "rejected", "tombstones")
    return {
        **{name: sum(count[name] for count in counts.values()) for name in names},
        "rows": len(held.stores[spec.FINAL]),
        "sources": as_json(counts),
    }
