"""`GET /metrics`: the state of this server in Prometheus' text format, collected per scrape."""

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
    """Collects metrics from the catalog, on the event loop's thread.

    Counters from the ledger are omitted until it was read: a counter that jumps from zero to its
    value would look like a burst.
    """

    def __init__(self, catalog: Catalog, live: LiveSocket) -> None:
        self._catalog = catalog
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
        """All metric families of livejoin."""
        yield InfoMetricFamily(
            "livejoin_build", "The running version", value={"version": __version__}
        )
        yield from self._control_metrics()
        yield from self._table_metrics()
        yield from self._source_metrics()
        yield from self._viewer_metrics()

    def _control_metrics(self) -> Iterator[Metric]:
        catalog = self._catalog
        state = GaugeMetricFamily(
            "livejoin_state", "1 for the state of orchestrator_status", labels=["state"]
        )
        for name in STATES:
            state.add_metric([name], catalog.status["state"] == name)
        yield state
        yield _gauge("livejoin_generation", "The served generation, 0: none", catalog.generation)
        yield _gauge("livejoin_stale", "1 if the rows may be stale", bool(catalog.stale_reason))
        if (silence := catalog.liveness.leader_silence_s) is not None:
            yield _gauge(
                "livejoin_leader_silence_seconds", "Seconds since a leader was last heard", silence
            )
        if not catalog.has_ledger:
            return
        tally = catalog.state.tally
        swaps = CounterMetricFamily(
            "livejoin_swaps", "Swaps by outcome, since the ledger was created", labels=["outcome"]
        )
        for outcome in OUTCOMES:
            swaps.add_metric([outcome], tally.get(outcome, 0))
        yield swaps
        yield CounterMetricFamily(
            "livejoin_restarts",
            "Queries that died and were restarted, since the ledger was created",
            tally.get("restarted", 0),
        )

    def _table_metrics(self) -> Iterator[Metric]:
        catalog = self._catalog
        rows = GaugeMetricFamily("livejoin_table_rows", "Rows of a table", labels=["table"])
        for table in catalog.spec.tables:
            rows.add_metric([table], len(catalog.store(table)))
        yield rows
        if catalog.newest_ts is not None:
            yield _gauge(
                "livejoin_freshness_seconds",
                "Seconds since the newest source time in the served tables",
                max(0.0, time.time() - catalog.newest_ts / 1000),
            )
        served = catalog.served
        if served is not None and served.generation.took_s is not None:
            yield _gauge(
                "livejoin_catch_up_seconds",
                "Seconds from the request to complete tables, for the served generation",
                served.generation.took_s,
            )

    def _source_metrics(self) -> Iterator[Metric]:
        catalog, served = self._catalog, self._catalog.served
        if served is None:
            return
        scope = "of the served generation"
        counts = catalog.counts()
        for name, column, what in _SOURCE_COUNTERS:
            family = CounterMetricFamily(name, f"{what}, {scope}", labels=["source"])
            for source, count in counts.items():
                family.add_metric([source], count[column])
            yield family
        known = not catalog.lag.trouble
        yield _gauge("livejoin_lag_known", "1 while the end offsets of the topics are known", known)
        records = GaugeMetricFamily(
            "livejoin_source_lag_records", f"Unread offsets, {scope}", labels=["source"]
        )
        seconds = GaugeMetricFamily(
            "livejoin_source_lag_seconds",
            f"Age of the oldest unread record, {scope}",
            labels=["source"],
        )
        for source, (unread, age_s) in catalog.lag.by_source(served).items():
            records.add_metric([source], unread)
            seconds.add_metric([source], age_s)
        yield records
        yield seconds

    def _viewer_metrics(self) -> Iterator[Metric]:
        stats = self._live.stats
        yield _gauge("livejoin_viewers", "Open sockets with a subscription", len(self._live))
        yield CounterMetricFamily("livejoin_frames", "Frames sent to viewers", stats.frames)
        yield HistogramMetricFamily(
            "livejoin_frame_age_seconds",
            "Seconds from the first change in a frame until it was sent, per viewer",
            buckets=stats.buckets(),
            sum_value=stats.total_wait_s,
        )


def _gauge(name: str, help_text: str, value: float | None) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help_text, value=float(value or 0))
