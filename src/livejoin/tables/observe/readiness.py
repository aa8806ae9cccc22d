"""Whether this server is alive and ready, check by check."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from livejoin import __version__
from livejoin.tables.http.json_bodies import problem
from livejoin.tables.ingest.catalog import Catalog

_FOLLOWER_TIMEOUT_S = (
    10.0  # the follower looks ten times a second; a slow answer of Kafka takes seconds
)


@dataclass(frozen=True)
class Check:
    """One thing that should be so. Without a required one there is nothing to serve."""

    name: str
    why: str  # it is not so; empty: it is
    required: bool = False

    @property
    def ok(self) -> bool:
        """Whether it is so."""
        return not self.why


class HealthRoutes:
    """Answers `/livez` and `/readyz`.

    A server that has rows is ready, also where they are old: they are served, marked stale. If it
    were not, all servers would leave a balancer at once when nobody leads.
    """

    def __init__(self, host: Catalog) -> None:
        self._catalog = host

    async def livez(self, _request: Request) -> Response:
        """The event loop answers."""
        return JSONResponse({"status": "alive", "version": __version__})

    async def readyz(self, request: Request) -> Response:
        """Whether there is something to serve; with `verbose` also what each check says."""
        checks = list(self._checks())
        failing = [check for check in checks if check.required and not check.ok]
        verbose = "verbose" in request.query_params
        more = {"checks": [{**asdict(c), "ok": c.ok} for c in checks]} if verbose else {}
        if failing:
            return problem(503, str(self._catalog.status["state"]), failing[0].why, **more)
        return JSONResponse({"status": "ready", "generation": self._catalog.generation, **more})

    def _checks(self) -> Iterator[Check]:
        host, signs = self._catalog, self._catalog.liveness
        said = (
            signs.trouble
            or signs.newer_format
            or str(host.status["message"] or "")
            or "nothing is live yet"
        )
        live = host.state.live
        unread = signs.trouble or (
            f"generation {live.number} is still being read" if live else said
        )
        unread_s = signs.since_read_s
        reads = unread_s is not None and unread_s < _FOLLOWER_TIMEOUT_S
        how_long = "yet" if unread_s is None else f"for {unread_s:.0f} s"
        yield Check("kafka", signs.trouble)
        yield Check("ledger", "" if host.has_ledger else said, required=True)
        yield Check("follower", "" if reads else f"has not read {how_long}")
        yield Check("format", signs.newer_format)
        yield Check("leader", signs.leader_missing)
        shows = host.generation is not None
        yield Check("live generation", "" if shows else unread, required=True)
        yield Check("staleness", host.stale_reason)
        yield Check("lag", host.lag.trouble)
