"""A table server with a value in every metric, and its scrape as a dictionary."""

from prometheus_client.parser import text_string_to_metric_families

from livejoin.core.generation import Generation, Reading
from livejoin.core.spec import Choice
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
    7, Choice("users", "accounts"), 0.0, sources=READINGS, ready_at=0, live_at=1.0, took_s=2.5
)
TALLY = {"live": 3, "failed": 1, "rolled-back": 2, "restarted": 4}


def scraped(serving: RunningServer) -> dict[Sample, float]:
    """All samples of a scrape by name and labels."""
    answer = serving.request("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = [
        sample
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    ]
    found = {(one.name, tuple(sorted(one.labels.items()))): one.value for one in samples}
    assert len(found) == len(samples), "a sample comes twice"
    return found


def full() -> Catalog:
    """A host that has something to tell in every family."""
    host = Catalog(logs_kept=100, rejects_kept=100)
    host.apply_state(State(live=LIVE, tally=TALLY))
    host.set_status({"state": "live", "progress": 100, "message": "m"})
    host.liveness.record_leader(1_700_000_000_000)
    host.liveness.record_read()
    host.apply(chunk(7, 5, user(0), user(1), reject("users", 2), tombstone("accounts", 3)))
    host.apply(chunk(7, 6, final(0, "Ada")))
    shown = host.served
    assert shown is not None
    host.lag.record_ends(shown, {"users": {0: 13}, "accounts": {0: 4}})
    return host
