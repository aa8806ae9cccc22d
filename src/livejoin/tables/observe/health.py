"""Whether this server is alive and ready, check by check."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from livejoin import __version__
from livejoin.tables.http.json_bodies import problem
from livejoin.tables.ingest.catalog import Catalog

# the follower polls ten times a second, but a slow answer of Kafka takes seconds
_FOLLOWER_TIMEOUT_S = 10.0


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
            liveness.trouble
            or liveness.newer_format
            or str(catalog.status["message"] or "")
            or "nothing is live yet"
        )
        live = catalog.state.live
        not_served = liveness.trouble or (
            f"generation {live.number} is still being read" if live else message
        )
        idle_s = liveness.since_read_s
        reads = idle_s is not None and idle_s < _FOLLOWER_TIMEOUT_S
        how_long = "yet" if idle_s is None else f"for {idle_s:.0f} s"
        yield Check("kafka", liveness.trouble)
        yield Check("ledger", "" if catalog.has_ledger else message, required=True)
        yield Check("follower", "" if reads else f"has not read {how_long}")
        yield Check("format", liveness.newer_format)
        yield Check("leader", liveness.leader_missing)
        serves = catalog.generation is not None
        yield Check("live generation", "" if serves else not_served, required=True)
        yield Check("staleness", catalog.stale_reason)
        yield Check("lag", catalog.lag.trouble)
