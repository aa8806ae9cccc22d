"""`/livez` and `/readyz`: whether there is something to serve, check by check."""

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


def _checks(serving: RunningServer, status: int) -> dict[str, dict[str, Any]]:
    answer = serving.request("/readyz?verbose")
    assert answer.status == status
    body = answer.json()
    kind = "application/json" if status == 200 else "application/problem+json"
    assert answer.headers["content-type"] == kind
    assert [check["name"] for check in body["checks"]] == NAMES
    assert all(check["ok"] == (not check["why"]) for check in body["checks"])
    return {check["name"]: check for check in body["checks"]}


def test_a_server_whose_loop_answers_is_alive() -> None:
    with run_server() as serving:
        answer = serving.request("/livez")
    assert (answer.status, answer.json()) == (200, {"status": "alive", "version": __version__})


def test_before_there_is_a_ledger_each_check_says_why_not() -> None:
    with run_server() as serving:
        serving.run_on_loop(
            lambda host: host.set_status(
                {"state": "waiting", "progress": 0, "message": "there is no ledger x.ledger"}
            )
        )
        problem = serving.request("/readyz")
        checks = _checks(serving, 503)
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


def test_a_ledger_that_was_read_is_ok_though_nothing_is_live() -> None:
    with run_server() as serving:
        serving.follow(live(1, ready_at=5))
        checks = _checks(serving, 503)
    assert checks["ledger"]["ok"]
    assert checks["live generation"]["why"] == "generation 1 is still being read"


def test_a_server_with_rows_is_ready_and_says_what_is_wrong_with_them() -> None:
    clock, host = Clock(), Catalog()
    host.liveness = Liveness(clock)
    with run_server(host) as serving:
        serving.follow(live(3))
        serving.run_on_loop(lambda host: host.liveness.record_leader(1_790_000_000_000))
        serving.run_on_loop(lambda host: host.liveness.record_read())
        checks = _checks(serving, 200)
        assert [name for name, check in checks.items() if not check["ok"]] == ["lag"]
        clock.now = LEADER_TIMEOUT_S
        checks = _checks(serving, 200)
        leads = "no orchestrator leads since 2026-09-21T14:13:20Z"
        assert checks["leader"]["why"] == checks["staleness"]["why"] == leads
        assert checks["follower"]["why"] == "has not read for 10 s"
        serving.run_on_loop(lambda host: host.set_trouble("no broker"))
        checks = _checks(serving, 200)
        assert checks["kafka"]["why"] == checks["staleness"]["why"] == "no broker"
        ready = serving.request("/readyz")
    assert (ready.status, ready.json()) == (200, {"status": "ready", "generation": 3})


def test_kafka_out_of_reach_is_the_reason_where_nothing_can_be_shown() -> None:
    with run_server() as serving:
        serving.run_on_loop(lambda host: host.set_trouble("no broker"))
        assert serving.request("/readyz").json()["detail"] == "no broker"
        assert _checks(serving, 503)["ledger"]["why"] == "no broker"


def test_a_ledger_of_a_newer_livejoin_is_named_and_what_there_is_is_served() -> None:
    why = "the ledger has format 3, this livejoin knows up to 2"
    with run_server() as serving:
        serving.run_on_loop(lambda host: host.set_newer_format(why))
        assert serving.request("/readyz").json()["detail"] == why
        assert serving.request("/api/v1/status").json()["message"] == why
        serving.run_on_loop(lambda host: host.set_newer_format(""))
        serving.follow(live(3))
        serving.run_on_loop(lambda host: host.set_newer_format(why))
        checks = _checks(serving, 200)
        assert checks["format"]["why"] == checks["staleness"]["why"] == why
        assert serving.request("/api/v1/status").json()["stale"] == why
