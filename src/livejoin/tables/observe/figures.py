"""Figures of what is shown: records and lag per source, matched users, how long a way back lasts.

Cheap ones go out with every heartbeat; matching looks at all rows and is done when asked, on a
thread of its own, once for all who ask.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from livejoin.core import spec
from livejoin.core.state import Limits
from livejoin.tables.ingest.catalog import Catalog

_CACHE_S = 5.0  # matching a million users takes a tenth of a second


def source_figures(host: Catalog) -> dict[str, dict[str, Any]]:
    """By source what became of its records, and how far it is behind, where that is known."""
    shown = host.served
    lag = host.lag.by_source(shown) if shown else {}
    found = {}
    for source, counts in host.counts().items():
        left, behind_s = lag.get(source, (None, None))
        found[source] = {**counts, "lag": left, "behind": behind_s}
    return found


def count_matches(users: pa.Table, accounts: pa.Table) -> dict[str, int]:
    """How many users rows have an account, and how many have none. A null matches nothing."""
    known = pc.unique(accounts.column(spec.JOIN_KEY)).drop_null()
    found = pc.is_in(users.column(spec.JOIN_KEY), value_set=known)
    count = pc.sum(found).as_py() or 0
    return {"users": users.num_rows, "matched": count, "unmatched": users.num_rows - count}


class Figures:
    """Answers `GET figures`."""

    def __init__(
        self,
        host: Catalog,
        viewers: Callable[[], int],
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalog = host
        self._viewers = viewers
        self._limits = limits
        self._clock = clock
        self._match_lock = asyncio.Lock()
        # when it was made, of which generation and place in its changelog
        self._last_matches: tuple[float, tuple[int | None, int], dict[str, int]] | None = None

    async def serve(self, _request: Request) -> Response:
        """All of them."""
        host = self._catalog
        until = replace(host.state, limits=self._limits).standby_until
        return JSONResponse(
            {
                "generation": host.generation,
                "seq": host.seq,
                "viewers": self._viewers(),
                "sources": source_figures(host),
                "matched": await self._cached_matches(),
                "lagTrouble": host.lag.trouble or None,
                "standbyUntil": None if until is None else int(until * 1000),
                # for who counts down: a viewer's clock may show another time than ours
                "standbySeconds": None if until is None else max(0.0, until - time.time()),
                "sparkUi": host.spark_ui or None,
            }
        )

    async def _cached_matches(self) -> dict[str, int]:
        async with self._match_lock:  # whoever comes meanwhile takes the same answer
            host, now = self._catalog, self._clock()
            at = host.generation, host.seq
            if self._last_matches:
                made, of, found = self._last_matches
                if of == at or (of[0] == at[0] and now - made < _CACHE_S):
                    return found
            tables = [host.store(s.table).freeze() for s in (spec.USERS, spec.ACCOUNTS)]
            found = await run_in_threadpool(lambda: count_matches(*(one.table() for one in tables)))
            self._last_matches = now, at, found
            return found
