"""Liveness: a server tells by its own clock whether there is a leader."""

import json

import pytest

from livejoin.core.ledger_format import to_json
from livejoin.core.names import Names
from livejoin.core.state import HEARTBEAT_S, LEADER_KEY, LEADER_TIMEOUT_S, STATE_KEY, STATUS_KEY
from livejoin.kafka.cluster import Kafka
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.follower import LedgerFollower
from livejoin.tables.observe.liveness import Liveness
from tables.samples import live

AT_MS = 1_790_000_000_000
MISSING = "no orchestrator leads since 2026-09-21T14:13:20.000Z"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def liveness(clock: Clock) -> Liveness:
    return Liveness(clock)


def test_without_any_leader_so_far_none_is_missing(liveness: Liveness, clock: Clock) -> None:
    clock.now += 1000
    assert (liveness.leader_silence_s, liveness.leader_missing) == (None, "")


def test_a_leader_is_missing_after_three_heartbeats(liveness: Liveness, clock: Clock) -> None:
    liveness.record_leader(AT_MS)
    clock.now += LEADER_TIMEOUT_S - 0.1
    assert liveness.leader_missing == ""
    clock.now += 0.1
    assert liveness.leader_silence_s == pytest.approx(LEADER_TIMEOUT_S)
    assert liveness.leader_missing == MISSING
    assert LEADER_TIMEOUT_S > 3 * HEARTBEAT_S


def test_the_next_heartbeat_ends_the_silence(liveness: Liveness, clock: Clock) -> None:
    liveness.record_leader(AT_MS)
    clock.now += 60
    liveness.record_leader()
    assert liveness.leader_missing == ""
    clock.now += 60
    assert liveness.leader_missing == MISSING  # the time of the last heartbeat that carried one


def test_a_leader_without_a_reported_time_can_be_missing_too(
    liveness: Liveness, clock: Clock
) -> None:
    liveness.record_leader()
    clock.now += LEADER_TIMEOUT_S
    assert liveness.leader_missing == "no orchestrator leads"


def test_no_leader_is_missing_while_kafka_is_unreachable_and_just_afterwards(
    liveness: Liveness, clock: Clock
) -> None:
    liveness.record_leader(AT_MS)
    liveness.set_trouble("no broker")
    clock.now += 60
    assert liveness.leader_missing == ""
    liveness.set_trouble("")
    clock.now += LEADER_TIMEOUT_S - 1
    liveness.set_trouble("")  # a repeated report does not extend the time
    assert liveness.leader_missing == ""
    clock.now += 1
    assert liveness.leader_missing == MISSING


def test_one_of_several_clusters_that_stands_still_is_named_before_a_missing_leader(
    liveness: Liveness, clock: Clock
) -> None:
    liveness.record_leader(AT_MS)
    liveness.set_cluster("kafka_control", "gone")
    assert (liveness.own_trouble, liveness.leader_missing) == ("", "")
    liveness.set_cluster("kafka", "no answer")
    clock.now += 60
    assert (liveness.own_trouble, liveness.leader_missing) == ("no answer", "")
    liveness.set_trouble("no broker")  # the follower has noticed as well
    liveness.set_cluster("kafka", "")
    assert liveness.own_trouble == "no broker"
    liveness.set_trouble("")
    clock.now += LEADER_TIMEOUT_S - 1
    assert (liveness.own_trouble, liveness.leader_missing) == ("", "")
    clock.now += 1
    assert liveness.leader_missing == MISSING


def test_a_new_ledger_has_a_new_leader(liveness: Liveness, clock: Clock) -> None:
    liveness.record_leader(AT_MS)
    clock.now += 60
    liveness.reset()
    assert liveness.leader_missing == ""


def test_the_time_since_the_followers_last_read_is_known(liveness: Liveness, clock: Clock) -> None:
    assert liveness.since_read_s is None
    liveness.record_read()
    clock.now += 7
    assert liveness.since_read_s == 7


# --- records as the follower processes them


@pytest.fixture
def catalog(clock: Clock) -> Catalog:
    catalog = Catalog()
    catalog.liveness = Liveness(clock)
    return catalog


@pytest.fixture
def follower(catalog: Catalog) -> LedgerFollower:
    unreachable = Kafka({"bootstrap.servers": "127.0.0.1:1"})
    return LedgerFollower(unreachable, Names("x"), catalog, lambda work: work(), logs_kept=10)


def test_the_newest_heartbeat_counts(
    catalog: Catalog, follower: LedgerFollower, clock: Clock
) -> None:
    beats = [(LEADER_KEY, json.dumps({"at": at}).encode()) for at in (AT_MS - 3000, AT_MS)]
    follower._process_heartbeats([*beats, (b"other", b"{}")])
    clock.now += LEADER_TIMEOUT_S
    assert catalog.stale_reason == MISSING


def test_a_ledger_record_counts_as_a_heartbeat(
    catalog: Catalog, follower: LedgerFollower, clock: Clock
) -> None:
    clock.now += 50
    state = to_json(live(1))
    status = {"state": "restarting", "stale": "livejoin has just started"}
    follower._on_partition_end("x.ledger", 1)  # the records below end the ledger
    follower._process_ledger(
        [(STATE_KEY, json.dumps(state).encode()), (STATUS_KEY, json.dumps(status).encode())]
    )
    assert catalog.has_ledger
    assert catalog.stale_reason == "livejoin has just started"
    clock.now += LEADER_TIMEOUT_S
    assert catalog.stale_reason == "no orchestrator leads"


def test_a_missing_ledger_is_reported_once(catalog: Catalog, follower: LedgerFollower) -> None:
    follower._report_missing_ledger()
    assert catalog.status["state"] == "waiting"
    assert "there is no ledger x.ledger" in str(catalog.status["message"])
    catalog.set_status({"state": "waiting", "progress": 0, "message": "another reason"})
    follower._report_missing_ledger()
    assert catalog.status["message"] == "another reason"
