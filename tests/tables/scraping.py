"""A catalog with a value for every metric, and a parsed scrape of its server."""

from prometheus_client.parser import text_string_to_metric_families

from livejoin.core.generation import Generation, Reading
from livejoin.core.spec import DEFAULT
from livejoin.core.state import State
from livejoin.tables.ingest.catalog import Catalog
from tables.live_server import RunningServer
from tables.samples import chunk, final, reject, tombstone, user

Sample = tuple[str, tuple[tuple[str, str], ...]]
READINGS = {
    "users": Reading("users", "id-u", {0: 0}, {}),
    "accounts": Reading("accounts", "id-a", {0: 0}, {}),
}
LIVE = Generation(
    7,
    DEFAULT.choice("users", "accounts"),
    0.0,
    sources=READINGS,
    ready_at=0,
    live_at=1.0,
    took_s=2.5,
)
TALLY = {"live": 3, "failed": 1, "rolled-back": 2, "restarted": 4}


def scrape(server: RunningServer) -> dict[Sample, float]:
    """All samples of a scrape, by name and labels."""
    answer = server.request("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    parsed = [
        sample
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    ]
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in parsed
    }
    assert len(samples) == len(parsed), "duplicate sample"
    return samples


def full_catalog() -> Catalog:
    """Return a catalog with a value for every metric."""
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    catalog.apply_state(State(live=LIVE, tally=TALLY))
    catalog.set_status({"state": "live", "progress": 100, "message": "m"})
    catalog.liveness.record_leader(1_700_000_000_000)
    catalog.liveness.record_read()
    catalog.apply(chunk(7, 5, user(0), user(1), reject("users", 2), tombstone("accounts", 3)))
    catalog.apply(chunk(7, 6, final(0, "Ada")))
    served = catalog.served
    assert served is not None
    catalog.lag.record_ends(served, {"users": {0: 13}, "accounts": {0: 4}})
    return catalog
