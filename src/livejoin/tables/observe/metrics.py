"""`GET /metrics`: what this server knows, in Prometheus' text format, read when it is asked for."""

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from livejoin import __version__
from livejoin.core import spec
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.live.socket import LiveSocket

STATES = ("starting", "waiting", "live", "building", "restarting", "failed")
OUTCOMES = ("live", "failed", "superseded", "cancelled", "rejected", "rolled-back")
_SOURCE_COUNTERS = (
    ("livejoin_source_read", "read", "Records read: rows, rejects and tombstones"),
    ("livejoin_source_rows", "rows", "Records that are rows"),
    ("livejoin_source_rejects", "rejected", "Records that were rejected"),
    ("livejoin_source_tombstones", "tombstones", "Records without a value"),
)


class Metrics(Collector):
    """Reads a host on the thread that owns it; nothing is counted twice, nothing waits.

    What comes from the ledger is left out until it was read: a counter that jumps from nothing to
    its value would look like a burst.
    """

    def __init__(self, host: Catalog, live: LiveSocket) -> None:
        self._catalog = host
        self._live = live
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    async def serve(self, _request: Request) -> Response:
        """Answer a scrape."""
        return Response(
            generate_latest(self._registry), headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4}
        )

    def collect(self) -> Iterator[Metric]:
        """All families of ours."""
        yield InfoMetricFamily(
            "livejoin_build", "The version that runs", value={"version": __version__}
        )
        yield from self._control_metrics()
        yield from self._table_metrics()
        yield from self._source_metrics()
        yield from self._viewer_metrics()

    def _control_metrics(self) -> Iterator[Metric]:
        host = self._catalog
        state = GaugeMetricFamily(
            "livejoin_state", "1 for the state of orchestrator_status", labels=["state"]
        )
        for name in STATES:
            state.add_metric([name], host.status["state"] == name)
        yield state
        yield _gauge("livejoin_generation", "The generation shown, 0: none", host.generation)
        yield _gauge("livejoin_stale", "1 where the rows may be old", bool(host.stale_reason))
        if (silence := host.liveness.leader_silence_s) is not None:
            yield _gauge("livejoin_leader_silence_seconds", "Since a leader was heard", silence)
        if not host.has_ledger:
            return
        tally = host.state.tally
        swaps = CounterMetricFamily(
            "livejoin_swaps", "What swaps came to, since the ledger was made", labels=["outcome"]
        )
        for outcome in OUTCOMES:
            swaps.add_metric([outcome], tally.get(outcome, 0))
        yield swaps
        yield CounterMetricFamily(
            "livejoin_restarts",
            "Queries that died and were started again, since the ledger was made",
            tally.get("restarted", 0),
        )

    def _table_metrics(self) -> Iterator[Metric]:
        host = self._catalog
        rows = GaugeMetricFamily("livejoin_table_rows", "Rows of a table", labels=["table"])
        for table in spec.TABLES:
            rows.add_metric([table], len(host.store(table)))
        yield rows
        if host.newest_ts is not None:
            yield _gauge(
                "livejoin_freshness_seconds",
                "Since the newest source time that is shown",
                max(0.0, time.time() - host.newest_ts / 1000),
            )
        shown = host.served
        if shown is not None and shown.generation.took_s is not None:
            yield _gauge(
                "livejoin_catch_up_seconds",
                "From the request to complete tables, of the generation that is shown",
                shown.generation.took_s,
            )

    def _source_metrics(self) -> Iterator[Metric]:
        host, shown = self._catalog, self._catalog.served
        if shown is None:
            return
        of = "of the generation that is shown"
        counts = host.counts()
        for name, column, what in _SOURCE_COUNTERS:
            family = CounterMetricFamily(name, f"{what}, {of}", labels=["source"])
            for source, count in counts.items():
                family.add_metric([source], count[column])
            yield family
        known = not host.lag.trouble
        yield _gauge("livejoin_lag_known", "1 while it is known where the topics end", known)
        records = GaugeMetricFamily(
            "livejoin_source_lag_records", f"Offsets that are unread, {of}", labels=["source"]
        )
        seconds = GaugeMetricFamily(
            "livejoin_source_lag_seconds",
            f"How long the oldest unread record has been there, {of}",
            labels=["source"],
        )
        for source, (left, since_s) in host.lag.by_source(shown).items():
            records.add_metric([source], left)
            seconds.add_metric([source], since_s)
        yield records
        yield seconds

    def _viewer_metrics(self) -> Iterator[Metric]:
        sent = self._live.stats
        yield _gauge("livejoin_viewers", "Open sockets that subscribed", len(self._live))
        yield CounterMetricFamily("livejoin_frames", "Frames sent to viewers", sent.frames)
        yield HistogramMetricFamily(
            "livejoin_frame_age_seconds",
            "From the first change that waited to its frame being sent, per viewer",
            buckets=sent.buckets(),
            sum_value=sent.total_wait_s,
        )


def _gauge(name: str, help_text: str, value: float | None) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help_text, value=float(value or 0))
