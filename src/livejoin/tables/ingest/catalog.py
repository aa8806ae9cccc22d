"""The tables under their stable names: which generation they show, and who listens to changes.

Everything here runs on the event loop's thread. A new generation is filled in the background. The
ledger says from which changelog offset on it is complete, and the names switch to it once this
server has read that far.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

import pyarrow as pa

from livejoin.core import spec
from livejoin.core.changelog import ChangelogRecord, compact_json
from livejoin.core.facts import RecordsCounted
from livejoin.core.generation import Generation
from livejoin.core.spec import JoinSpec
from livejoin.core.state import State
from livejoin.tables.ingest.arrow_schema import schema
from livejoin.tables.ingest.batches import Chunk
from livejoin.tables.ingest.merge import RowParts
from livejoin.tables.ingest.read_progress import ReadProgress
from livejoin.tables.ingest.row_limits import Cap
from livejoin.tables.ingest.store import Delta, Store
from livejoin.tables.ingest.system_tables import SystemTables
from livejoin.tables.observe.lag import Lag, ServedGeneration
from livejoin.tables.observe.liveness import Liveness

_MAX_REWRITES = 1000  # per generation and scan


class ChangeListener(Protocol):
    """Is told of changes to the served tables."""

    def on_change(self, table: str, delta: Delta) -> None:
        """Rows of a table changed."""

    def on_cutover(self, replaced: Collection[str]) -> None:
        """All data tables show another generation now; `replaced` are all tables with new rows."""


class Catalog:
    """All tables of one table server. `join_spec` is that of the settings, until one is live."""

    def __init__(  # noqa: PLR0913 - limits of tables, one argument each
        self,
        join_spec: JoinSpec = State.spec,
        *,
        logs_kept: int = 10_000,
        rejects_kept: int = 10_000,
        control_kept: int = 10_000,
        viewer_rows: int | None = None,
        spark_ui: str = "",
    ) -> None:
        self.spark_ui = spark_ui  # the address of Spark's UI for people, or empty
        self._rejects_kept = rejects_kept
        self._viewer_rows = viewer_rows
        self._generations: dict[int, GenerationTables] = {}
        self._configured_spec = join_spec
        self._served = self._no_generation(join_spec)
        self.listeners: list[ChangeListener] = []
        self.system = SystemTables(
            join_spec, self._notify, logs_kept=logs_kept, control_kept=control_kept
        )
        self.state = State()  # as last read from the ledger
        self.liveness = Liveness()
        self.lag = Lag()
        self.has_ledger = False  # whether a ledger was read
        # both by generation, and replaced as a whole: other threads read them
        self.counted: Mapping[int, RecordsCounted] = {}
        self.pending_rewrites: Mapping[int, Sequence[ChangelogRecord]] = {}
        self._rewrite_generations: frozenset[int] = frozenset()  # those the leader asked for
        self._rewrite_candidates: dict[int, list[str]] = {}

    # --- called by the follower

    def apply_state(self, state: State, ends: Mapping[int, int] | None = None) -> None:
        """Follow the ledger's state; `ends` are the end offsets of new changelogs.

        A server that starts reads up to these ends before it shows a generation: other servers
        have shown that much to its viewers already.
        """
        self.state, self.has_ledger = state, True
        for generation in state.generations:
            if generation.number not in self._generations:
                self._generations[generation.number] = GenerationTables(
                    generation, self._rejects_kept
                )
        for number, end in (ends or {}).items():
            tables = self._generations[number]
            if not tables.seq:  # the changelog may have been created after its generation
                tables.initial_end = end
        self._cut_over_if_ready()
        self._release_unused()

    def apply(self, chunk: Chunk) -> None:
        """Apply the next chunk of a generation's changelog."""
        tables = self._generations.get(chunk.generation)
        if tables is None:
            return
        deltas = tables.apply(chunk)
        if tables is self._served:
            for table, delta in deltas:
                self._notify(table, delta)
        else:
            self._cut_over_if_ready()

    def set_status(self, row: Mapping[str, Any]) -> None:
        """Replace the one row of the status table."""
        self.system.set_status(row)

    def set_trouble(self, reason: str) -> None:
        """Set why Kafka cannot be followed; empty: it can."""
        self.liveness.set_trouble(reason)

    def set_newer_format(self, reason: str) -> None:
        """Set why the ledger's format is not supported; empty: it is. The served rows stay."""
        self.liveness.newer_format = reason
        if reason and not self.has_ledger:
            self.set_status({"state": "waiting", "progress": 0, "message": reason})

    def reset(self) -> None:
        """Drop everything: the ledger was replaced."""
        self._generations.clear()
        self.state, self.has_ledger = State(), False
        self.liveness.reset()
        self.system.clear()
        self._serve(self._no_generation(self._configured_spec))

    def update_figures(self) -> None:
        """Bring the record counts of the generations up to date."""
        figures = {number: tables.figures() for number, tables in self._generations.items()}
        self.counted = {
            number: RecordsCounted(
                number, figures[number], tuple(capped := tables.capped()), capped
            )
            for number, tables in self._generations.items()
        }
        known = {row["generation"] for row in self.system.generations()}
        self.system.put_generations({n: row for n, row in figures.items() if n in known})

    def request_rewrites(
        self, generations: frozenset[int]
    ) -> Mapping[int, Sequence[ChangelogRecord]]:
        """What the last scan found; the next scans cover these generations.

        Called by the leader, from its thread. Without a leader nothing is scanned.
        """
        self._rewrite_generations = generations
        return self.pending_rewrites

    def find_rewrites(self) -> None:
        """Find winning records that an older one has followed since the last scan or longer.

        Compaction of the changelog keeps the last record of a key, not the winner. Most winners
        follow again by themselves. A changelog that was not read to its end is skipped: it may
        hold a newer winner.
        """
        rewrites: dict[int, Sequence[ChangelogRecord]] = {}
        candidates: dict[int, list[str]] = {}
        for number in self._rewrite_generations & self._generations.keys():
            tables, generation = self._generations[number], self.state.find(number)
            if generation is None or not tables.is_complete(generation.ready_at):
                continue
            store = tables.stores[spec.FINAL]
            known = self._rewrite_candidates.get(number, ())
            lasting = {row_id for row_id in known if row_id in store.needs_rewrite}
            if lasting:
                rewrites[number] = store.winning_records(spec.FINAL, lasting)
            others = (row_id for row_id in store.needs_rewrite if row_id not in lasting)
            candidates[number] = list(islice(others, _MAX_REWRITES))
        self._rewrite_candidates = candidates
        if rewrites or self.pending_rewrites:
            self.pending_rewrites = rewrites

    # --- called by readers

    @property
    def status(self) -> Mapping[str, Any]:
        """The one row of the status table."""
        return self.system.status

    def store(self, table: str) -> Store:
        """The rows of a table under its stable name, as served now."""
        stores = self._served.stores
        return stores[table] if table in stores else self.system.store(table)

    @property
    def spec(self) -> JoinSpec:
        """The spec of the served tables."""
        return self._served.spec

    @property
    def data_tables(self) -> tuple[str, ...]:
        """The names of the served data tables."""
        return self.spec.data_tables

    @property
    def generation(self) -> int | None:
        """The number of the served generation."""
        return self._served.number or None

    @property
    def served(self) -> ServedGeneration | None:
        """The served generation with its read positions; None if it left the ledger."""
        tables = self._served
        generation = self.state.find(tables.number)
        return (
            None if generation is None else ServedGeneration(generation, tables.progress.positions)
        )

    @property
    def seq(self) -> int:
        """The changelog offset up to which the served generation was read."""
        return self._served.seq

    @property
    def newest_ts(self) -> int | None:
        """The newest source time in the served tables, in ms."""
        return self._served.newest_ts or None

    def counts(self) -> dict[str, dict[str, int]]:
        """The record counts of the served generation, by source."""
        return self._served.progress.counts()

    def source_figures(self) -> dict[str, dict[str, Any]]:
        """The record counts by source, with its lag if that is known."""
        lag = self.lag.by_source(served) if (served := self.served) else {}
        figures = {}
        for source, counts in self.counts().items():
            unread, behind_s = lag.get(source, (None, None))
            figures[source] = {**counts, "lag": unread, "behind": behind_s}
        return figures

    def capped(self) -> dict[str, dict[str, int]]:
        """The served tables that have evicted rows: their cap and their lowest `_ts`."""
        max_rows = self._served.max_rows
        return {name: {"rows": max_rows, "from": ts} for name, ts in self._served.capped().items()}

    @property
    def stale_reason(self) -> str:
        """Why the rows may be stale, or empty."""
        liveness = self.liveness
        return (
            liveness.own_trouble
            or liveness.newer_format
            or liveness.leader_missing
            or str(self.status.get("stale") or "")
            or liveness.clusters.get("kafka_data", "")
        )

    # --- internal

    def _no_generation(self, join_spec: JoinSpec) -> "GenerationTables":
        """Empty tables, to be served while nothing is live."""
        nothing = Generation(0, spec.Choice({}), 0.0, spec=join_spec)
        return GenerationTables(nothing, self._rejects_kept)

    def _cut_over_if_ready(self) -> None:
        live = self.state.live
        if live is None or live.number == self._served.number:
            return
        if not self._served.number and live.spec != self.spec:
            self._serve(self._no_generation(live.spec))  # its columns, until its rows are read
        tables = self._generations[live.number]
        if tables.is_complete(live.ready_at):
            self._serve(tables)
            self._release_unused()

    def _release_unused(self) -> None:
        desired = {generation.number for generation in self.state.generations}
        unused = self._generations.keys() - desired - {self._served.number}
        for number in unused:
            del self._generations[number]
        if unused:
            pa.default_memory_pool().release_unused()  # the pool keeps freed memory; under 1 ms

    def _serve(self, tables: "GenerationTables") -> None:
        tables.limit_viewers(self._viewer_rows)
        self._served = tables
        replaced = [*tables.stores, *self.system.use_spec(tables.spec)]
        for listener in self.listeners:
            listener.on_cutover(replaced)

    def _notify(self, table: str, delta: Delta) -> None:
        if not delta.empty:
            for listener in self.listeners:
                listener.on_change(table, delta)


class GenerationTables:
    """The data tables of one generation, served or not, as far as its changelog was read."""

    def __init__(self, generation: Generation, rejects_kept: int) -> None:
        self.number, self.max_rows = generation.number, generation.max_rows
        self.spec = generation.spec
        self.initial_end = 0  # the changelog's end offset when this server started to read it
        self.seq = 0  # the next changelog offset
        self.newest_ts = 0  # source time in ms
        self.progress = ReadProgress(self.spec.source_names)
        rejects = Cap(rejects_kept, groups=self.spec.source_names)
        rows = Cap(generation.max_rows, null_rows=generation.choice.join == "left_outer")
        self.stores = {
            name: Store(
                schema(self.spec.tables[name]),
                rejects if name == spec.REJECTS else rows,
                RowParts.of(self.spec) if name == spec.FINAL else None,
            )
            for name in self.spec.data_tables
        }

    def limit_viewers(self, max_rows: int | None) -> None:
        """Limit the rows that viewers see of each table; rejects have a small cap of their own."""
        for name, store in self.stores.items():
            store.limit_viewers(None if name == spec.REJECTS else max_rows)

    def apply(self, chunk: Chunk) -> list[tuple[str, Delta]]:
        """Apply the next chunk of the changelog; returns the deltas by table."""
        if chunk.seq <= self.seq:
            return []  # read again after the follower has restarted
        deltas = []
        for table, batch in chunk.batches:
            deltas.append((table, self.stores[table].apply(batch, chunk.seq)))
            self.newest_ts = max(self.newest_ts, int(batch.times.max(initial=0)))
        self.progress.add(chunk.read_offsets)
        self.seq = chunk.seq
        return deltas

    def is_complete(self, ready_at: int | None) -> bool:
        """Whether the tables hold at least what other servers may have shown already."""
        return self.seq >= max(ready_at or 0, self.initial_end)

    def capped(self) -> dict[str, int]:
        """The tables that have evicted rows, and the lowest `_ts` in each."""
        lowest = {
            name: store.capped_from for name, store in self.stores.items() if name != spec.REJECTS
        }
        return {name: ts for name, ts in lowest.items() if ts is not None}

    def figures(self) -> dict[str, int | str]:
        """The record counts, as cells of the generation's row."""
        counts = self.progress.counts()
        names = ("read", "rejected", "tombstones")
        return {
            **{name: sum(count[name] for count in counts.values()) for name in names},
            "rows": len(self.stores[spec.FINAL]),
            "sources": compact_json(counts),
        }
