"""The data tables of one generation, served or not, as far as its changelog was read."""

from livejoin.core import spec
from livejoin.core.changelog import compact_json
from livejoin.core.generation import Generation
from livejoin.tables.ingest.decode import SCHEMAS, Chunk
from livejoin.tables.ingest.read_progress import ReadProgress
from livejoin.tables.ingest.row_limits import Cap
from livejoin.tables.ingest.store import Delta, Store

DATA_TABLES = tuple(name for name, table in spec.TABLES.items() if table.data)


class GenerationTables:
    """One store per data table, and which input records they reflect."""

    def __init__(self, generation: Generation, rejects_kept: int) -> None:
        self.number, self.max_rows = generation.number, generation.max_rows
        self.initial_end = 0  # the changelog's end offset when this server started to read it
        self.seq = 0  # the next changelog offset
        self.newest_ts = 0  # source time in ms
        self.progress = ReadProgress()
        rejects = Cap(rejects_kept, groups=tuple(source.name for source in spec.SOURCES))
        rows = Cap(generation.max_rows, null_rows=generation.choice.join == "left_outer")
        self.stores = {
            name: Store(SCHEMAS[name], rejects if name == spec.REJECTS else rows)
            for name in DATA_TABLES
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
            name: self.stores[name].capped_from for name in DATA_TABLES if name != spec.REJECTS
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
