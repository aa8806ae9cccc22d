"""Whole tables for those who ask over HTTP: put together off the event loop, once for all who wait.

One at a time for each table, and what takes long one after the other for all: whoever watches a
table live must not wait for those who read all of it.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from starlette.concurrency import run_in_threadpool

from livejoin.tables.ingest.catalog import Catalog

_LARGE_ROWS = 50_000  # rows: fewer are read, sorted and written in some ten milliseconds


class Snapshot(NamedTuple):
    """A table as it was at one point of the changelog."""

    generation: int | None
    seq: int
    rows: pa.Table
    number: int  # how many were taken before it, itself included


class SnapshotReader:
    """Takes snapshots of a host's tables, on the loop that owns it."""

    def __init__(self, host: Catalog) -> None:
        self._catalog = host
        self._taken = 0
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._waiting: Counter[str] = Counter()
        self._latest: dict[str, Snapshot] = {}  # while others wait for it
        self._large_lock = asyncio.Lock()

    async def read(self, table: str) -> Snapshot:
        """A table as it is now, or was after the question."""
        asked_after = self._taken
        self._waiting[table] += 1
        try:
            async with self._locks[table]:
                last = self._latest.get(table)
                if last is None or last.number <= asked_after:
                    self._latest[table] = last = await self._take(table)
                return last
        finally:
            self._waiting[table] -= 1
            if not self._waiting[table]:
                self._latest.pop(table, None)

    async def _take(self, table: str) -> Snapshot:
        host, frozen = self._catalog, self._catalog.store(table).freeze()
        generation, seq = host.generation, host.seq
        self._taken += 1
        number = self._taken
        return Snapshot(generation, seq, await run_in_threadpool(frozen.table), number)

    async def run(self, rows: pa.Table, do: Callable[..., Any], *given: Any) -> Any:
        """Have something done with a table's rows elsewhere."""
        if rows.num_rows < _LARGE_ROWS:
            return await run_in_threadpool(do, *given)
        async with self._large_lock:
            return await run_in_threadpool(do, *given)

    async def stream(self, rows: pa.Table, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        """The pieces of an answer, each made when the one before it is on its way."""
        while (piece := await self.run(rows, next, pieces, None)) is not None:
            yield piece
