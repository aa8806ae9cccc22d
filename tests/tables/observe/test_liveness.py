"""Whether somebody leads, as a server tells by its own clock."""

import json

import pytest

from livejoin.core.names import Names
from livejoin.core.state import BEAT_S, LEADER_KEY, SILENT_S, STATE_KEY, STATUS_KEY, to_json
from livejoin.kafka.cluster import Kafka
from livejoin.tables.ingest.catalog import Host
from livejoin.tables.ingest.follower import Follower
from livejoin.tables.observe.liveness import Signs
from tables.filled import live

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
def signs(clock: Clock) -> Signs:
    return Signs(clock)


def test_where_nobody_ever_led_nobody_is_missed(signs: Signs, clock: Clock) -> None:
    clock.now += 1000
    assert (signs.silence_s, signs.nobody_leads) == (None, "")


def test_a_leader_is_missed_after_three_beats(signs: Signs, clock: Clock) -> None:
    signs.led(AT_MS)
    clock.now += SILENT_S - 0.1
    assert signs.nobody_leads == ""
    clock.now += 0.1
    assert signs.silence_s == pytest.approx(SILENT_S)
    assert signs.nobody_leads == SAID
    assert SILENT_S > 3 * BEAT_S


def test_the_next_beat_ends_the_silence(signs: Signs, clock: Clock) -> None:
    signs.led(AT_MS)
    clock.now += 60
    signs.led()
    assert signs.nobody_leads == ""
    clock.now += 60
    assert signs.nobody_leads == SAID  # the time that was last said


def test_a_leader_that_never_said_a_time_is_missed_too(signs: Signs, clock: Clock) -> None:
    signs.led()
    clock.now += SILENT_S
    assert signs.nobody_leads == "no orchestrator leads"


def test_while_kafka_is_out_of_reach_and_just_afterwards_nobody_is_missed(
    signs: Signs, clock: Clock
) -> None:
    signs.led(AT_MS)
    signs.trouble_with("no broker")
    clock.now += 60
    assert signs.nobody_leads == ""
    signs.trouble_with("")
    clock.now += SILENT_S - 1
    signs.trouble_with("")  # said again, it gives no more time
    assert signs.nobody_leads == ""
    clock.now += 1
    assert signs.nobody_leads == SAID


def test_another_ledger_has_another_leader(signs: Signs, clock: Clock) -> None:
    signs.led(AT_MS)
    clock.now += 60
    signs.forget()
    assert signs.nobody_leads == ""


def test_the_follower_is_at_work_or_not(signs: Signs, clock: Clock) -> None:
    assert signs.unread_s is None
    signs.read()
    clock.now += 7
    assert signs.unread_s == 7


# --- what the follower makes of records


@pytest.fixture
def host(clock: Clock) -> Host:
    host = Host()
    host.signs = Signs(clock)
    return host


@pytest.fixture
def follower(host: Host) -> Follower:
    nowhere = Kafka({"bootstrap.servers": "127.0.0.1:1"})
    return Follower(nowhere, Names("x"), host, lambda work: work(), logs_kept=10)


def test_the_newest_beat_counts(host: Host, follower: Follower, clock: Clock) -> None:
    beats = [(LEADER_KEY, json.dumps({"at": at}).encode()) for at in (AT_MS - 3000, AT_MS)]
    follower._take_beats([*beats, (b"other", b"{}")])
    clock.now += SILENT_S
    assert host.stale == SAID


def test_whoever_writes_the_ledger_leads(host: Host, follower: Follower, clock: Clock) -> None:
    clock.now += 50
    state = to_json(live(1))
    status = {"state": "restarting", "stale": "livejoin has just started"}
    follower._reach_end("x.ledger")  # with these records
    follower._take_ledger(
        [(STATE_KEY, json.dumps(state).encode()), (STATUS_KEY, json.dumps(status).encode())]
    )
    assert host.followed
    assert host.stale == "livejoin has just started"
    clock.now += SILENT_S
    assert host.stale == "no orchestrator leads"


def test_no_ledger_is_said_once(host: Host, follower: Follower) -> None:
    follower._say_that_nobody_led()
    assert host.status["state"] == "waiting"
    assert "there is no ledger x.ledger" in str(host.status["message"])
    host.show_status({"state": "waiting", "progress": 0, "message": "another reason"})
    follower._say_that_nobody_led()
    assert host.status["message"] == "another reason"
