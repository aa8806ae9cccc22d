"""Table snapshots for HTTP queries, built on worker threads and shared by concurrent requests.

Snapshots of one table are built one at a time, and work on large tables runs one job at a time,
so that HTTP readers do not slow down live viewers.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from starlette.concurrency import run_in_threadpool

from livejoin.tables.ingest.catalog import Catalog

_LARGE_ROWS = 50_000  # smaller tables take about 10 ms to read, sort and encode


class Snapshot(NamedTuple):
    """A table at one offset of the changelog."""

    generation: int | None
    seq: int
    rows: pa.Table
    number: int  # counts all snapshots, from 1


class SnapshotReader:
    """Takes snapshots of the catalog's tables. Used on the event loop only."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._taken = 0
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._waiting: Counter[str] = Counter()
        self._latest: dict[str, Snapshot] = {}  # by table, while requests wait for it
        self._large_lock = asyncio.Lock()

    async def read(self, table: str) -> Snapshot:
        """Return a snapshot of the table taken after this call."""
        newest_before = self._taken
        self._waiting[table] += 1
        try:
            async with self._locks[table]:
                snapshot = self._latest.get(table)
                if snapshot is None or snapshot.number <= newest_before:
                    self._latest[table] = snapshot = await self._take(table)
                return snapshot
        finally:
            self._waiting[table] -= 1
            if not self._waiting[table]:
                self._latest.pop(table, None)

    async def _take(self, table: str) -> Snapshot:
        catalog, frozen = self._catalog, self._catalog.store(table).freeze()
        generation, seq = catalog.generation, catalog.seq
        self._taken += 1
        number = self._taken
        return Snapshot(generation, seq, await run_in_threadpool(frozen.table), number)

    async def run(self, rows: pa.Table, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function on a worker thread; one at a time for large tables."""
        if rows.num_rows < _LARGE_ROWS:
            return await run_in_threadpool(function, *args)
        async with self._large_lock:
            return await run_in_threadpool(function, *args)

    async def stream(self, rows: pa.Table, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the chunks of a response, each encoded after the previous one was sent."""
        while (chunk := await self.run(rows, next, chunks, None)) is not None:
            yield chunk
