"""The tables under their stable names: which generation they show, and who is told of changes.

Everything here runs on one thread, the event loop's. A generation is filled out of sight; the
ledger says from which changelog offset on it is complete, and the names move once that much of it
has been read.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from livejoin.core import spec
from livejoin.core.facts import Counted
from livejoin.core.state import State
from livejoin.tables.chunks import Chunk
from livejoin.tables.decode import SCHEMAS
from livejoin.tables.lag import BySource, Lag, Shown, further
from livejoin.tables.signs import Signs
from livejoin.tables.store import Delta, Store
from livejoin.tables.system import System

DATA = tuple(name for name, table in spec.TABLES.items() if table.data)


class Audience(Protocol):
    """Who is told of changes."""

    def changed(self, table: str, delta: Delta) -> None:
        """Rows of a table changed."""

    def cut_over(self) -> None:
        """All data tables show another generation now."""


@dataclass
class Held:
    """One generation's tables, shown or not."""

    number: int
    rejects_kept: int
    least: int = 0  # how much of the changelog was there when we began: all of it, before it shows
    seq: int = 0
    newest: int = 0  # source time in ms
    reached: BySource = field(default_factory=dict)  # replaced as a whole: others look at it
    stores: dict[str, Store] = field(init=False)
    rejected: dict[str, set[str]] = field(
        default_factory=lambda: {s.name: set() for s in spec.SOURCES}
    )
    tombstones: dict[str, set[str]] = field(
        default_factory=lambda: {s.name: set() for s in spec.SOURCES}
    )
    shown_rejects: dict[str, deque[str]] = field(
        default_factory=lambda: {s.name: deque() for s in spec.SOURCES}
    )

    def __post_init__(self) -> None:
        self.stores = {name: Store(SCHEMAS[name]) for name in DATA}

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
            delta = self.stores[table].apply(records, chunk.seq)
            if table == spec.REJECTS:
                delta = self._trim(delta, chunk.seq)
            deltas.append((table, delta))
            self.newest = max(self.newest, pc.max(records.rows.column("_ts")).value or 0)
        for row_id in chunk.tombstones:
            self.tombstones[row_id.partition("/")[0]].add(row_id)
        self.seq = chunk.seq
        self.reached = further(self.reached, chunk.reached)
        return deltas

    def _trim(self, delta: Delta, seq: int) -> Delta:
        """Keep the newest rejects of each source; all of them count."""
        removed = list(delta.removed)
        new = []
        for row_id in delta.upserts.column("_id").to_pylist():
            source = row_id.partition("/")[0]
            again = row_id in self.rejected[source]
            self.rejected[source].add(row_id)
            shown = self.shown_rejects[source]
            if again and row_id not in shown:  # written again after a crash, let go long ago
                removed.append(row_id)
                continue
            new.append(row_id)
            shown.append(row_id)
            if len(shown) > self.rejects_kept:
                removed.append(shown.popleft())
        self.stores[spec.REJECTS].drop(removed, seq)
        gone = set(removed)
        keep = pa.array(
            [row_id not in gone for row_id in delta.upserts.column("_id").to_pylist()], pa.bool_()
        )
        fresh = set(new)
        return Delta(
            delta.upserts.filter(keep), [row_id for row_id in removed if row_id not in fresh]
        )

    def counts(self) -> dict[str, dict[str, int]]:
        """Records read per source, and what became of them."""
        counts = {}
        for source in spec.SOURCES:
            rows = len(self.stores[source.table])
            rejected, tombstones = (
                len(self.rejected[source.name]),
                len(self.tombstones[source.name]),
            )
            counts[source.name] = {
                "read": rows + rejected + tombstones,
                "rows": rows,
                "rejected": rejected,
                "tombstones": tombstones,
            }
        return counts


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
        self._nothing = Held(0, rejects_kept)
        self._shown: Held = self._nothing
        self.audience: list[Audience] = []
        self.system = System(self._tell, logs_kept=logs_kept, control_kept=control_kept)
        self.state = State()  # as the ledger last told it
        self.signs = Signs()
        self.lag = Lag()
        self.followed = False  # whether a ledger was read
        self.counted: Mapping[int, Counted] = {}  # by generation, replaced as a whole

    # --- told by the follower

    def follow(self, state: State, ends: Mapping[int, int] | None = None) -> None:
        """The ledger says what exists and what is live; `ends`, how long new changelogs are.

        A server that starts reads that far before it shows a generation: its viewers have seen it.
        """
        self.state, self.followed = state, True
        for number in self._wanted() - self._held.keys():
            self._held[number] = Held(number, self._rejects_kept, (ends or {}).get(number, 0))
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
        sums: dict[int, dict[str, int]] = {}
        for number, held in self._held.items():
            counts = held.counts().values()
            names = ("read", "rejected", "tombstones")
            sums[number] = {name: sum(count[name] for count in counts) for name in names}
            sums[number]["rows"] = len(held.stores[spec.FINAL])
        self.counted = {
            number: Counted(
                number, sums[number], {table: len(store) for table, store in held.stores.items()}
            )
            for number, held in self._held.items()
        }
        known = {row["generation"] for row in self.system.generations()}
        self.system.show_generations({n: row for n, row in sums.items() if n in known})

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
        return None if generation is None else Shown(generation, held.reached)

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
        return self._shown.counts()

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
        if held.seq >= max(live.ready_at or 0, held.least):
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
