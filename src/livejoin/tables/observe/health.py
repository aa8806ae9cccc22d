"""The health of this server: `/livez`, `/readyz` check by check, the figures of the Health view."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from livejoin import __version__
from livejoin.core.spec import JoinSpec
from livejoin.core.state import Limits
from livejoin.kafka.clusters import FIRST
from livejoin.tables.http.json_bodies import problem
from livejoin.tables.ingest.catalog import Catalog

# the follower polls ten times a second, but a slow answer of Kafka takes seconds
_FOLLOWER_TIMEOUT_S = 10.0
_CACHE_S = 5.0  # matching a million rows takes a tenth of a second
MAX_PARTITIONS = 20  # listed per source


@dataclass(frozen=True)
class Check:
    """One condition. If a required one fails, there is nothing to serve."""

    name: str
    why: str  # it fails; empty: it passes
    required: bool = False

    @property
    def ok(self) -> bool:
        """Whether it passes."""
        return not self.why


class HealthRoutes:
    """Answers `/livez` and `/readyz`.

    A server with rows is ready even if they are stale: it serves them, marked as such. Otherwise
    all servers would leave the load balancer at once when no leader runs.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def livez(self, _request: Request) -> Response:
        """Answer that the event loop runs."""
        return JSONResponse({"status": "alive", "version": __version__})

    async def readyz(self, request: Request) -> Response:
        """Answer whether there is something to serve; with `verbose`, include every check."""
        checks = list(self._checks())
        failing = [check for check in checks if check.required and not check.ok]
        verbose = "verbose" in request.query_params
        details = {"checks": [{**asdict(c), "ok": c.ok} for c in checks]} if verbose else {}
        if failing:
            return problem(503, str(self._catalog.status["state"]), failing[0].why, **details)
        return JSONResponse({"status": "ready", "generation": self._catalog.generation, **details})

    def _checks(self) -> Iterator[Check]:
        catalog, liveness = self._catalog, self._catalog.liveness
        message = (
            liveness.own_trouble
            or liveness.newer_format
            or str(catalog.status["message"] or "")
            or "nothing is live yet"
        )
        live = catalog.state.live
        not_served = liveness.own_trouble or (
            f"generation {live.number} is still being read" if live else message
        )
        idle_s = liveness.since_read_s
        reads = idle_s is not None and idle_s < _FOLLOWER_TIMEOUT_S
        how_long = "yet" if idle_s is None else f"for {idle_s:.0f} s"
        yield Check(FIRST, liveness.own_trouble)
        for section, trouble in sorted(liveness.clusters.items()):
            if section != FIRST:
                yield Check(section, trouble)
        yield Check("ledger", "" if catalog.has_ledger else message, required=True)
        yield Check("follower", "" if reads else f"has not read {how_long}")
        yield Check("format", liveness.newer_format)
        yield Check("leader", liveness.leader_missing)
        serves = catalog.generation is not None
        yield Check("live generation", "" if serves else not_served, required=True)
        yield Check("staleness", catalog.stale_reason)
        yield Check("lag", catalog.lag.trouble)


class Figures:
    """Answers `GET figures`: records, lag by partition, matches, time left to roll back.

    Matching scans all rows: it runs on request, on a worker thread, once for all concurrent
    requests.
    """

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
        self._last_matches: tuple[float, tuple[int | None, int], dict[str, Any]] | None = None

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
                "partitions": partition_figures(catalog),
                **await self._cached_matches(),
                "lagTrouble": catalog.lag.trouble or None,
                "standbyUntil": None if until is None else int(until * 1000),
                # for a countdown: the viewer's clock may differ from the server's
                "standbySeconds": None if until is None else max(0.0, until - time.time()),
                "sparkUi": catalog.spark_ui or None,
            }
        )

    async def _cached_matches(self) -> dict[str, Any]:
        async with self._match_lock:  # concurrent requests share one result
            catalog, now = self._catalog, self._clock()
            version = catalog.generation, catalog.seq
            if self._last_matches:
                counted_at, counted, matches = self._last_matches
                if counted == version or (counted[0] == version[0] and now - counted_at < _CACHE_S):
                    return matches
            join_spec = catalog.spec
            frozen = {s.name: catalog.store(s.table).freeze() for s in join_spec.sources}
            matches = await run_in_threadpool(
                lambda: count_matches(
                    join_spec, {name: rows.table() for name, rows in frozen.items()}
                )
            )
            self._last_matches = now, version, matches
            return matches


def partition_figures(catalog: Catalog) -> dict[str, dict[str, Any]]:
    """How far the partitions of each source were read: those with the most unread records."""
    served, lag = catalog.served, catalog.lag
    if served is None:
        return {}
    return {
        source: {
            "topic": reading.topic,
            "count": len(lag.partitions(served, source)),
            "worst": [
                {
                    "partition": it.partition,
                    "newestOffset": it.end_offset - 1 if it.end_offset else None,
                    "nextOffset": it.next_offset,
                    "lag": it.unread,
                    "behind": it.behind_s,
                }
                for it in lag.worst_partitions(served, source, MAX_PARTITIONS)
            ],
        }
        for source, reading in served.generation.sources.items()
    }


def count_matches(join_spec: JoinSpec, tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """How many rows of the driver have a record of all lookups, and of each. Null never matches.

    `tables` are the rows by source.
    """
    driver = join_spec.driver
    keys, total = tables[driver.name].column(driver.key), tables[driver.name].num_rows
    everywhere, lookups = None, {}
    for lookup in join_spec.lookups:
        known = pc.unique(tables[lookup.name].column(lookup.key)).drop_null()
        found = pc.is_in(keys, value_set=known)
        everywhere = found if everywhere is None else pc.and_(everywhere, found)
        lookups[lookup.name] = _matches(found, total)
    return {"matched": {driver.name: total, **_matches(everywhere, total)}, "lookups": lookups}


def _matches(found: pa.ChunkedArray, total: int) -> dict[str, int]:
    matched = pc.sum(found).as_py() or 0
    return {"matched": matched, "unmatched": total - matched}
