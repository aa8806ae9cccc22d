"""Figures of the served tables: records and lag by source, matched users, time left to roll back.

The cheap ones are part of every heartbeat. Matching scans all rows: it runs on request, on a worker
thread, once for all concurrent requests.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from livejoin.core import spec
from livejoin.core.state import Limits
from livejoin.tables.ingest.catalog import Catalog

_CACHE_S = 5.0  # matching a million users takes a tenth of a second


def count_matches(users: pa.Table, accounts: pa.Table) -> dict[str, int]:
    """How many users have an account, and how many have none. Null never matches."""
    known = pc.unique(accounts.column(spec.JOIN_KEY)).drop_null()
    matches = pc.is_in(users.column(spec.JOIN_KEY), value_set=known)
    matched = pc.sum(matches).as_py() or 0
    return {"users": users.num_rows, "matched": matched, "unmatched": users.num_rows - matched}


class Figures:
    """Answers `GET figures`."""

    def __init__(
        self,
        catalog: Catalog,
        viewers: Callable[[], int],
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalog = catalog
        self._viewers = viewers
        self._limits = limits
        self._clock = clock
        self._match_lock = asyncio.Lock()
        # the time, the generation with its changelog offset, and the result
        self._last_matches: tuple[float, tuple[int | None, int], dict[str, int]] | None = None

    async def serve(self, _request: Request) -> Response:
        """Answer with all figures."""
        catalog = self._catalog
        until = replace(catalog.state, limits=self._limits).standby_until
        return JSONResponse(
            {
                "generation": catalog.generation,
                "seq": catalog.seq,
                "viewers": self._viewers(),
                "sources": catalog.source_figures(),
                "matched": await self._cached_matches(),
                "lagTrouble": catalog.lag.trouble or None,
                "standbyUntil": None if until is None else int(until * 1000),
                # for a countdown: the viewer's clock may differ from the server's
                "standbySeconds": None if until is None else max(0.0, until - time.time()),
                "sparkUi": catalog.spark_ui or None,
            }
        )

    async def _cached_matches(self) -> dict[str, int]:
        async with self._match_lock:  # concurrent requests share one result
            catalog, now = self._catalog, self._clock()
            version = catalog.generation, catalog.seq
            if self._last_matches:
                counted_at, counted, matches = self._last_matches
                if counted == version or (counted[0] == version[0] and now - counted_at < _CACHE_S):
                    return matches
            tables = [catalog.store(s.table).freeze() for s in (spec.USERS, spec.ACCOUNTS)]
            matches = await run_in_threadpool(
                lambda: count_matches(*(frozen.table() for frozen in tables))
            )
            self._last_matches = now, version, matches
            return matches
