"""`/livez` and `/readyz`: whether the server has rows to serve, check by check."""

from typing import Any

from livejoin import __version__
from livejoin.core.state import LEADER_TIMEOUT_S
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.observe.liveness import Liveness
from tables.live_server import RunningServer, run_server
from tables.samples import live

NAMES = ["kafka", "ledger", "follower", "format", "leader", "live generation", "staleness", "lag"]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _checks(server: RunningServer, status: int) -> dict[str, dict[str, Any]]:
    answer = server.request("/readyz?verbose")
    assert answer.status == status
    body = answer.json()
    kind = "application/json" if status == 200 else "application/problem+json"
    assert answer.headers["content-type"] == kind
    assert [check["name"] for check in body["checks"]] == NAMES
    assert all(check["ok"] == (not check["why"]) for check in body["checks"])
    return {check["name"]: check for check in body["checks"]}


def test_a_server_with_a_responsive_event_loop_is_alive() -> None:
    with run_server() as server:
        answer = server.request("/livez")
    assert (answer.status, answer.json()) == (200, {"status": "alive", "version": __version__})


def test_before_there_is_a_ledger_each_check_gives_its_reason() -> None:
    with run_server() as server:
        server.run_on_loop(
            lambda catalog: catalog.set_status(
                {"state": "waiting", "progress": 0, "message": "there is no ledger x.ledger"}
            )
        )
        problem = server.request("/readyz")
        checks = _checks(server, 503)
    assert problem.status == 503
    assert (problem.json()["title"], problem.json()["detail"]) == (
        "waiting",
        "there is no ledger x.ledger",
    )
    assert "checks" not in problem.json()
    assert checks["ledger"]["why"] == "there is no ledger x.ledger"
    assert checks["follower"]["why"] == "has not read yet"
    assert checks["kafka"]["ok"]
    assert [name for name, check in checks.items() if check["required"]] == [
        "ledger",
        "live generation",
    ]


def test_of_several_clusters_each_has_a_check() -> None:
    with run_server() as server:
        server.follow(live(1))
        server.run_on_loop(lambda catalog: catalog.liveness.set_cluster("kafka_data", "gone"))
        server.run_on_loop(lambda catalog: catalog.liveness.set_cluster("kafka_control", ""))
        server.run_on_loop(lambda catalog: catalog.liveness.set_cluster("kafka", "no answer"))
        found = server.request("/readyz?verbose").json()["checks"]
        clusters = {one["name"]: one["why"] for one in found if one["name"].startswith("kafka")}
        assert clusters == {"kafka": "no answer", "kafka_control": "", "kafka_data": "gone"}
        assert server.request("/readyz").status == 200  # rows are served all the same
        assert server.request("/api/v1/status").json()["stale"] == "no answer"
        server.run_on_loop(lambda catalog: catalog.liveness.set_cluster("kafka", ""))
        assert server.request("/api/v1/status").json()["stale"] == "gone"


def test_a_ledger_that_was_read_is_ok_even_if_nothing_is_live() -> None:
    with run_server() as server:
        server.follow(live(1, ready_at=5))
        checks = _checks(server, 503)
    assert checks["ledger"]["ok"]
    assert checks["live generation"]["why"] == "generation 1 is still being read"


def test_a_server_with_rows_is_ready_and_reports_what_is_wrong() -> None:
    clock, catalog = Clock(), Catalog()
    catalog.liveness = Liveness(clock)
    with run_server(catalog) as server:
        server.follow(live(3))
        server.run_on_loop(lambda catalog: catalog.liveness.record_leader(1_790_000_000_000))
        server.run_on_loop(lambda catalog: catalog.liveness.record_read())
        checks = _checks(server, 200)
        assert [name for name, check in checks.items() if not check["ok"]] == ["lag"]
        clock.now = LEADER_TIMEOUT_S
        checks = _checks(server, 200)
        leads = "no orchestrator leads since 2026-09-21T14:13:20.000Z"
        assert checks["leader"]["why"] == checks["staleness"]["why"] == leads
        assert checks["follower"]["why"] == "has not read for 10 s"
        server.run_on_loop(lambda catalog: catalog.set_trouble("no broker"))
        checks = _checks(server, 200)
        assert checks["kafka"]["why"] == checks["staleness"]["why"] == "no broker"
        ready = server.request("/readyz")
    assert (ready.status, ready.json()) == (200, {"status": "ready", "generation": 3})


def test_unreachable_kafka_is_the_reason_if_nothing_can_be_served() -> None:
    with run_server() as server:
        server.run_on_loop(lambda catalog: catalog.set_trouble("no broker"))
        assert server.request("/readyz").json()["detail"] == "no broker"
        assert _checks(server, 503)["ledger"]["why"] == "no broker"


def test_a_newer_ledger_format_is_reported_and_the_rows_are_served() -> None:
    why = "the ledger has format 5, this livejoin knows up to 4"
    with run_server() as server:
        server.run_on_loop(lambda catalog: catalog.set_newer_format(why))
        assert server.request("/readyz").json()["detail"] == why
        assert server.request("/api/v1/status").json()["message"] == why
        server.run_on_loop(lambda catalog: catalog.set_newer_format(""))
        server.follow(live(3))
        server.run_on_loop(lambda catalog: catalog.set_newer_format(why))
        checks = _checks(server, 200)
        assert checks["format"]["why"] == checks["staleness"]["why"] == why
        assert server.request("/api/v1/status").json()["stale"] == why
