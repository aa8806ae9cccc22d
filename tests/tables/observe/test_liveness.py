"""Whether somebody leads, as a server tells by its own clock."""

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
SAID = "no orchestrator leads since 2026-09-21T14:13:20Z"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def signs(clock: Clock) -> Liveness:
    return Liveness(clock)


def test_where_nobody_ever_led_nobody_is_missed(signs: Liveness, clock: Clock) -> None:
    clock.now += 1000
    assert (signs.leader_silence_s, signs.leader_missing) == (None, "")


def test_a_leader_is_missed_after_three_beats(signs: Liveness, clock: Clock) -> None:
    signs.record_leader(AT_MS)
    clock.now += LEADER_TIMEOUT_S - 0.1
    assert signs.leader_missing == ""
    clock.now += 0.1
    assert signs.leader_silence_s == pytest.approx(LEADER_TIMEOUT_S)
    assert signs.leader_missing == SAID
    assert LEADER_TIMEOUT_S > 3 * HEARTBEAT_S


def test_the_next_beat_ends_the_silence(signs: Liveness, clock: Clock) -> None:
    signs.record_leader(AT_MS)
    clock.now += 60
    signs.record_leader()
    assert signs.leader_missing == ""
    clock.now += 60
    assert signs.leader_missing == SAID  # the time that was last said


def test_a_leader_that_never_said_a_time_is_missed_too(signs: Liveness, clock: Clock) -> None:
    signs.record_leader()
    clock.now += LEADER_TIMEOUT_S
    assert signs.leader_missing == "no orchestrator leads"


def test_while_kafka_is_out_of_reach_and_just_afterwards_nobody_is_missed(
    signs: Liveness, clock: Clock
) -> None:
    signs.record_leader(AT_MS)
    signs.set_trouble("no broker")
    clock.now += 60
    assert signs.leader_missing == ""
    signs.set_trouble("")
    clock.now += LEADER_TIMEOUT_S - 1
    signs.set_trouble("")  # said again, it gives no more time
    assert signs.leader_missing == ""
    clock.now += 1
    assert signs.leader_missing == SAID


def test_another_ledger_has_another_leader(signs: Liveness, clock: Clock) -> None:
    signs.record_leader(AT_MS)
    clock.now += 60
    signs.reset()
    assert signs.leader_missing == ""


def test_the_follower_is_at_work_or_not(signs: Liveness, clock: Clock) -> None:
    assert signs.since_read_s is None
    signs.record_read()
    clock.now += 7
    assert signs.since_read_s == 7


# --- what the follower makes of records


@pytest.fixture
def host(clock: Clock) -> Catalog:
    host = Catalog()
    host.liveness = Liveness(clock)
    return host


@pytest.fixture
def follower(host: Catalog) -> LedgerFollower:
    nowhere = Kafka({"bootstrap.servers": "127.0.0.1:1"})
    return LedgerFollower(nowhere, Names("x"), host, lambda work: work(), logs_kept=10)


def test_the_newest_beat_counts(host: Catalog, follower: LedgerFollower, clock: Clock) -> None:
    beats = [(LEADER_KEY, json.dumps({"at": at}).encode()) for at in (AT_MS - 3000, AT_MS)]
    follower._process_heartbeats([*beats, (b"other", b"{}")])
    clock.now += LEADER_TIMEOUT_S
    assert host.stale_reason == SAID


def test_whoever_writes_the_ledger_leads(
    host: Catalog, follower: LedgerFollower, clock: Clock
) -> None:
    clock.now += 50
    state = to_json(live(1))
    status = {"state": "restarting", "stale": "livejoin has just started"}
    follower._on_partition_end("x.ledger")  # with these records
    follower._process_ledger(
        [(STATE_KEY, json.dumps(state).encode()), (STATUS_KEY, json.dumps(status).encode())]
    )
    assert host.has_ledger
    assert host.stale_reason == "livejoin has just started"
    clock.now += LEADER_TIMEOUT_S
    assert host.stale_reason == "no orchestrator leads"


def test_no_ledger_is_said_once(host: Catalog, follower: LedgerFollower) -> None:
    follower._report_missing_ledger()
    assert host.status["state"] == "waiting"
    assert "there is no ledger x.ledger" in str(host.status["message"])
    host.set_status({"state": "waiting", "progress": 0, "message": "another reason"})
    follower._report_missing_ledger()
    assert host.status["message"] == "another reason"
