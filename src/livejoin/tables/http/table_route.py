"""The response to `GET tables/{name}`: the queried rows of a snapshot, streamed, or 304.

Snapshots are built on worker threads and shared by concurrent requests. Those of one table are
built one at a time, and work on large tables runs one job at a time, so that HTTP readers do not
slow down live viewers.
"""

import asyncio
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from livejoin import __version__
from livejoin.core.control_messages import excerpt
from livejoin.errors import RequestError
from livejoin.tables.http import query
from livejoin.tables.http.row_formats import FORMATS
from livejoin.tables.ingest.catalog import Catalog

GENERATION_HEADER = "livejoin-generation"
SEQ_HEADER = "livejoin-seq"
TOTAL_HEADER = "livejoin-total"
_LARGE_ROWS = 50_000  # smaller tables take about 10 ms to read, sort and encode


async def table_response(
    request: Request, catalog: Catalog, snapshots: "SnapshotReader", name: str
) -> Response:
    """Return the response of a table query. Runs on the event loop, which copies no rows."""
    parameters = query.parse_parameters(request.query_params.multi_items())
    format_name = parameters.get("format", "json")
    if format_name not in FORMATS:
        raise RequestError(
            f"unknown format {excerpt(format_name)}", hint=f"Known formats: {', '.join(FORMATS)}."
        )
    query.parse(parameters, catalog.store(name).schema)  # what is invalid is an error before 304
    # livejoin's own tables are not in the changelog, so `seq` does not count their changes
    is_data_table, store = name in catalog.data_tables, catalog.store(name)
    version = [catalog.generation, catalog.seq] if is_data_table else [store.hash]
    tag = _etag(name, parameters, version)
    # a cache may store it, and must revalidate
    headers = {"etag": tag, "cache-control": "no-cache"}
    if _etag_matches(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    try:
        snapshot = await snapshots.read(name)
    except KeyError:  # a cutover to other sources meanwhile
        raise HTTPException(404, f"there is no table {name!r} any more") from None
    parsed = query.parse(parameters, snapshot.rows.schema)
    if is_data_table:  # a shared snapshot may be newer than the request
        headers["etag"] = _etag(name, parameters, [snapshot.generation, snapshot.seq])
    metadata = {"table": name, "generation": snapshot.generation, "seq": snapshot.seq}
    result = await snapshots.run(snapshot.rows, query.run, parsed, snapshot.rows)
    headers |= {SEQ_HEADER: str(snapshot.seq), TOTAL_HEADER: str(result.total)}
    if snapshot.generation is not None:
        headers[GENERATION_HEADER] = str(snapshot.generation)
    chunks = iter(()) if request.method == "HEAD" else FORMATS[format_name].write(result, metadata)
    return StreamingResponse(
        snapshots.stream(result.rows, chunks),
        headers=headers,
        media_type=FORMATS[format_name].media_type,
    )


def _etag(name: str, parameters: dict[str, str], version: list[Any]) -> str:
    """Return an ETag of the rows and the query. Weak, as `seq` may advance without a change."""
    parts = [__version__, name, *version, sorted(parameters.items())]
    return f'W/"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}"'


def _etag_matches(header: str, tag: str) -> bool:
    """Whether If-None-Match names the tag, by weak comparison."""
    tags = [candidate.strip().removeprefix("W/") for candidate in header.split(",")]
    return "*" in tags or tag.removeprefix("W/") in tags


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
