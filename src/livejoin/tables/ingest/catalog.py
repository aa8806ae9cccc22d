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
from livejoin.core.changelog import ChangelogRecord, compact_json
from livejoin.core.facts import RecordsCounted
from livejoin.core.generation import Generation
from livejoin.core.state import State
from livejoin.tables.ingest.decode import SCHEMAS, Chunk
from livejoin.tables.ingest.read_progress import ReadProgress
from livejoin.tables.ingest.store import Cap, Delta, Store
from livejoin.tables.ingest.system_tables import SystemTables
from livejoin.tables.observe.lag import Lag, ServedGeneration
from livejoin.tables.observe.liveness import Liveness

_MAX_REWRITES = 1000  # winners to be written again at a time

DATA_TABLES = tuple(name for name, table in spec.TABLES.items() if table.data)


class ChangeListener(Protocol):
    """Who is told of changes."""

    def on_change(self, table: str, delta: Delta) -> None:
        """Rows of a table changed."""

    def on_cutover(self) -> None:
        """All data tables show another generation now."""


class GenerationTables:
    """One generation's tables, shown or not."""

    def __init__(self, generation: Generation, rejects_kept: int) -> None:
        self.number, self.max_rows = generation.number, generation.max_rows
        self.initial_end = 0  # how long the changelog was when we began: all that before it shows
        self.seq = 0
        self.newest_ts = 0  # source time in ms
        self.progress = ReadProgress()
        rejects = Cap(rejects_kept, groups=tuple(source.name for source in spec.SOURCES))
        rows = Cap(generation.max_rows, null_rows=generation.choice.join == "left_outer")
        self.stores = {
            name: Store(SCHEMAS[name], rejects if name == spec.REJECTS else rows)
            for name in DATA_TABLES
        }

    def limit_viewers(self, most: int | None) -> None:
        """Show viewers so many rows of a table; of rejects a few are kept in any case."""
        for name, store in self.stores.items():
            store.limit_viewers(None if name == spec.REJECTS else most)

    def apply(self, chunk: Chunk) -> list[tuple[str, Delta]]:
        """Take in the next run of the changelog."""
        if chunk.seq <= self.seq:
            return []  # read again, by a follower that had to begin anew
        deltas = []
        for table, records in chunk.batches:
            deltas.append((table, self.stores[table].apply(records, chunk.seq)))
            self.newest_ts = max(self.newest_ts, int(records.times.max(initial=0)))
        self.progress.add(chunk.read_offsets)
        self.seq = chunk.seq
        return deltas

    def is_complete(self, ready_at: int | None) -> bool:
        """Whether all was read that its tables showed when we began."""
        return self.seq >= max(ready_at or 0, self.initial_end)

    def capped(self) -> dict[str, int]:
        """The tables that older rows had to leave, and the lowest `_ts` that is there."""
        found = {
            name: self.stores[name].capped_from for name in DATA_TABLES if name != spec.REJECTS
        }
        return {name: ts for name, ts in found.items() if ts is not None}


class Catalog:
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
        self._generations: dict[int, GenerationTables] = {}
        self._empty = GenerationTables(Generation(0, spec.Choice("", ""), 0.0), rejects_kept)
        self._served: GenerationTables = self._empty
        self.listeners: list[ChangeListener] = []
        self.system = SystemTables(self._notify, logs_kept=logs_kept, control_kept=control_kept)
        self.state = State()  # as the ledger last told it
        self.liveness = Liveness()
        self.lag = Lag()
        self.has_ledger = False  # whether a ledger was read
        # both by generation, replaced as a whole: others look at them from their threads
        self.counted: Mapping[int, RecordsCounted] = {}
        self.pending_rewrites: Mapping[int, Sequence[ChangelogRecord]] = {}
        self._rewrite_generations: frozenset[int] = (
            frozenset()
        )  # generations whose winners are asked for
        self._rewrite_candidates: dict[int, list[str]] = {}

    # --- told by the follower

    def apply_state(self, state: State, ends: Mapping[int, int] | None = None) -> None:
        """The ledger says what exists and what is live; `ends`, how long new changelogs are.

        A server that starts reads that far before it shows a generation: its viewers have seen it.
        """
        self.state, self.has_ledger = state, True
        for generation in state.generations:
            if generation.number not in self._generations:
                self._generations[generation.number] = GenerationTables(
                    generation, self._rejects_kept
                )
        for number, end in (ends or {}).items():
            held = self._generations[number]
            if not held.seq:  # it may have been held before it had a changelog
                held.initial_end = end
        self._cut_over_if_ready()
        self._release_unused()

    def apply(self, chunk: Chunk) -> None:
        """The next run of a generation's changelog."""
        held = self._generations.get(chunk.generation)
        if held is None:
            return
        deltas = held.apply(chunk)
        if held is self._served:
            for table, delta in deltas:
                self._notify(table, delta)
        else:
            self._cut_over_if_ready()

    def set_status(self, row: Mapping[str, Any]) -> None:
        """Replace the one row of the status table."""
        self.system.set_status(row)

    def set_trouble(self, why: str) -> None:
        """Following does not work, or works again."""
        self.liveness.set_trouble(why)

    def set_newer_format(self, why: str) -> None:
        """The ledger is written by a newer livejoin, or no longer: what is shown stays."""
        self.liveness.newer_format = why
        if why and not self.has_ledger:
            self.set_status({"state": "waiting", "progress": 0, "message": why})

    def reset(self) -> None:
        """Start over: the ledger is another one."""
        self._generations.clear()
        self.state, self.has_ledger = State(), False
        self.liveness.reset()
        self.system.clear()
        self._serve(self._empty)

    def update_figures(self) -> None:
        """Bring the figures of the generations up to date."""
        figures = {number: _figures_of(held) for number, held in self._generations.items()}
        self.counted = {
            number: RecordsCounted(number, figures[number], tuple(capped := held.capped()), capped)
            for number, held in self._generations.items()
        }
        known = {row["generation"] for row in self.system.generations()}
        self.system.put_generations({n: row for n, row in figures.items() if n in known})

    def request_rewrites(
        self, generations: frozenset[int]
    ) -> Mapping[int, Sequence[ChangelogRecord]]:
        """What the last look found; from the next one on, look at these generations.

        Called by the leader, from its thread. Where nobody leads, nobody looks.
        """
        self._rewrite_generations = generations
        return self.pending_rewrites

    def find_rewrites(self) -> None:
        """Find the winning records that an older one has followed, for longer than a moment.

        A changelog's compaction keeps the last record of a key, not the winner. Some of them are
        followed by the winner again, and need no help. What was not read to its end yet may hold
        a newer winner.
        """
        found: dict[int, Sequence[ChangelogRecord]] = {}
        late: dict[int, list[str]] = {}
        for number in self._rewrite_generations & self._generations.keys():
            held, generation = self._generations[number], self.state.find(number)
            if generation is None or not held.is_complete(generation.ready_at):
                continue
            store = held.stores[spec.FINAL]
            waited = {
                row_id
                for row_id in self._rewrite_candidates.get(number, ())
                if row_id in store.needs_rewrite
            }
            if waited:
                found[number] = store.winning_records(spec.FINAL, waited)
            others = (row_id for row_id in store.needs_rewrite if row_id not in waited)
            late[number] = list(islice(others, _MAX_REWRITES))
        self._rewrite_candidates = late
        if found or self.pending_rewrites:
            self.pending_rewrites = found

    # --- asked by readers

    @property
    def status(self) -> Mapping[str, Any]:
        """The one row of the status table."""
        return self.system.status

    def store(self, table: str) -> Store:
        """A table under its stable name, as it is shown now."""
        return self._served.stores[table] if table in DATA_TABLES else self.system.store(table)

    @property
    def generation(self) -> int | None:
        """Which generation the names show."""
        return self._served.number or None

    @property
    def served(self) -> ServedGeneration | None:
        """The same with what it has read; nothing where the ledger does not know it any more."""
        held = self._served
        generation = self.state.find(held.number)
        return None if generation is None else ServedGeneration(generation, held.progress.positions)

    @property
    def seq(self) -> int:
        """How far the changelog of the shown generation has been read."""
        return self._served.seq

    @property
    def newest_ts(self) -> int | None:
        """The newest source time shown, in ms."""
        return self._served.newest_ts or None

    def counts(self) -> dict[str, dict[str, int]]:
        """What became of the records that the shown generation has read."""
        return self._served.progress.counts()

    def capped(self) -> dict[str, dict[str, int]]:
        """The tables that hold as many rows as they may: how many, and their lowest `_ts`."""
        most = self._served.max_rows
        return {name: {"rows": most, "from": ts} for name, ts in self._served.capped().items()}

    @property
    def stale_reason(self) -> str:
        """Why the rows may be old, or nothing."""
        signs = self.liveness
        return (
            signs.trouble
            or signs.newer_format
            or signs.leader_missing
            or str(self.status.get("stale") or "")
        )

    # --- inside

    def _desired_numbers(self) -> set[int]:
        return {generation.number for generation in self.state.generations}

    def _cut_over_if_ready(self) -> None:
        live = self.state.live
        if live is None or live.number == self._served.number:
            return
        held = self._generations[live.number]
        if held.is_complete(live.ready_at):
            self._serve(held)
            self._release_unused()

    def _release_unused(self) -> None:
        gone = self._generations.keys() - self._desired_numbers() - {self._served.number}
        for number in gone:
            del self._generations[number]
        if gone:
            pa.default_memory_pool().release_unused()  # it keeps what was freed; under 1 ms

    def _serve(self, held: GenerationTables) -> None:
        held.limit_viewers(self._viewer_rows)
        self._served = held
        for one in self.listeners:
            one.on_cutover()

    def _notify(self, table: str, delta: Delta) -> None:
        if not delta.empty:
            for one in self.listeners:
                one.on_change(table, delta)


def _figures_of(held: GenerationTables) -> dict[str, int | str]:
    """What became of the records that a generation has read: cells of its row."""
    counts = held.progress.counts()
    names = ("read", "rejected", "tombstones")
    return {
        **{name: sum(count[name] for count in counts.values()) for name in names},
        "rows": len(held.stores[spec.FINAL]),
        "sources": compact_json(counts),
    }
