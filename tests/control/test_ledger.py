"""One suite for the fake ledger and the real one."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import pytest
from confluent_kafka import TopicPartition

from fakes import FakeLedger, FakeWorld
from livejoin.control import leadership
from livejoin.control import ledger as ledger_module
from livejoin.control.ledger import Ledger
from livejoin.core.generation import Generation, Origin
from livejoin.core.ledger_format import to_json
from livejoin.core.names import Names
from livejoin.core.spec import DEFAULT
from livejoin.core.state import HEARTBEAT_S, STATE_KEY, EndedGeneration, LogLine, Reply, State
from livejoin.errors import (
    LeadershipLost,
    LedgerUnreadable,
    NewerFormat,
    TopicMisconfigured,
    TopicReplaced,
)
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import Record, read_to_end
from rig.running import until

GENERATION = Generation(7, DEFAULT.choice("users", "accounts"), 1.0)
STATE = State(
    last_number=7,
    topic_id="t",
    position={0: 3, 1: 9},
    ids=("x",),
    building=GENERATION,
    line_count=1,
)
OUTBOX = (
    LogLine(1, 2.0, "INFO", "hello", "live", 7, "0-12"),
    Reply(
        Origin(2, 1.0, "kafka", "{}", id="x", partition=1, read_order=1_790_000_000_000),
        "accepted",
        2.0,
        generation=7,
    ),
    EndedGeneration(replace(GENERATION, number=6), "failed", 2.0, "boom"),
)


class AnyLedger(Protocol):
    def take_over(self) -> State: ...

    def write(self, state: State) -> State: ...


MakeLedger = Callable[[], AnyLedger]


@pytest.fixture(params=["fake", "real"])
def make_ledger(request: pytest.FixtureRequest) -> MakeLedger:
    """Makes ledgers over the same topics."""
    if request.param == "fake":
        world = FakeWorld({})
        return lambda: FakeLedger(world)
    kafka: Kafka = request.getfixturevalue("kafka")
    names = Names(f"ledger-{abs(hash(request.node.name)):x}")
    return lambda: Ledger(kafka, names)


def test_the_first_start_has_a_fresh_state(make_ledger: MakeLedger) -> None:
    assert make_ledger().take_over() == State()


def test_the_next_leader_reads_the_written_state(make_ledger: MakeLedger) -> None:
    first = make_ledger()
    first.take_over()
    first.write(STATE)
    first.write(replace(STATE, position={0: 4, 1: 9}))
    assert make_ledger().take_over() == replace(STATE, position={0: 4, 1: 9})


def test_a_write_clears_the_outbox(make_ledger: MakeLedger) -> None:
    ledger = make_ledger()
    ledger.take_over()
    assert ledger.write(replace(STATE, outbox=OUTBOX)) == STATE


def test_a_deposed_leader_cannot_write(make_ledger: MakeLedger) -> None:
    old = make_ledger()
    old.take_over()
    old.write(STATE)
    new = make_ledger()
    assert new.take_over() == STATE
    with pytest.raises(LeadershipLost):
        old.write(replace(STATE, position={0: 99, 1: 9}))
    new.write(replace(STATE, position={0: 4, 1: 9}))
    assert make_ledger().take_over().position == {0: 4, 1: 9}


def _read(kafka: Kafka, topic: str) -> list[Record]:
    consumer = kafka.reader("test")
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return list(read_to_end(consumer, topic))
    finally:
        consumer.close()


def _values(kafka: Kafka, topic: str) -> dict[str, Any]:
    return {r.key.decode(): json.loads(r.value) for r in _read(kafka, topic)}


def test_outbox_items_are_written_to_their_topics(kafka: Kafka) -> None:
    names = Names("told")
    ledger = Ledger(kafka, names)
    ledger.take_over()
    ledger.write(replace(STATE, outbox=OUTBOX))
    logs = _values(kafka, names.logs)
    assert logs["orchestrator_logs/000000000001"] == {
        "ts": 2000,
        "level": "INFO",
        "msg": "hello",
        "event": "live",
        "generation": 7,
        "control": "0-12",
    }
    message = logs["control_raw/1790000000000"]
    assert (message["partition"], message["offset"], message["outcome"]) == (1, 2, "accepted")
    assert _values(kafka, names.replies) == {
        "x": {
            "id": "x",
            "partition": 1,
            "offset": 2,
            "outcome": "accepted",
            "generation": 7,
            "at": 2000,
            "reason": None,
            "warnings": [],
        }
    }
    records = _values(kafka, names.ledger)
    assert (records["generation/6"]["state"], records["generation/7"]["state"]) == (
        "failed",
        "building",
    )
    assert records["status"]["state"] == "building"


def test_a_leader_sends_heartbeats(kafka: Kafka) -> None:
    names, now = Names("beats"), 0.0
    ledger = Ledger(kafka, names, lambda: now)
    ledger.take_over()
    for at, count in (
        (0.0, 1),
        (HEARTBEAT_S - 0.1, 1),
        (HEARTBEAT_S, 2),
        (HEARTBEAT_S + 0.1, 2),
        (9.0, 3),
    ):
        now = at
        ledger.write(STATE)
        until(lambda count=count: len(_read(kafka, names.leader)) == count, f"{count} beats")  # type: ignore[misc]
    (newest,) = _values(kafka, names.leader).values()
    assert newest["at"] > 1_700_000_000_000
    assert len(_read(kafka, names.ledger)) == 3  # state, status and a generation, once


def test_an_unchanged_state_is_not_written_again(kafka: Kafka) -> None:
    names = Names("same")
    ledger = Ledger(kafka, names)
    ledger.take_over()
    ledger.write(STATE)
    before = len(_read(kafka, names.ledger))
    ledger.write(replace(STATE, now=5.0))
    assert len(_read(kafka, names.ledger)) == before


def test_an_auto_created_ledger_is_recreated(kafka: Kafka) -> None:
    """With the broker's defaults it would lose records by age, and have no total order."""
    names = Names("made-by-a-broker")
    kafka.create_topic(names.ledger, {"cleanup.policy": "delete"}, partitions=2)
    assert Ledger(kafka, names).take_over() == State()
    assert kafka.topic_config(names.ledger, "cleanup.policy") == "compact"
    assert kafka.describe([names.ledger])[names.ledger].partitions == (0,)


def test_a_newer_ledger_format_is_refused_before_fencing(kafka: Kafka) -> None:
    names = Names("newer")
    older = Ledger(kafka, names)
    older.take_over()
    older.write(STATE)
    producer = kafka.producer()
    producer.produce(names.ledger, b'{"format": 5}', STATE_KEY)
    assert producer.flush(20) == 0
    with pytest.raises(NewerFormat, match="the ledger has format 5"):
        Ledger(kafka, names).take_over()
    older.write(replace(STATE, position={0: 4, 1: 9}))


@pytest.mark.parametrize("partitions", [0, 1, 3], ids=["deleted", "again", "in-several"])
@pytest.mark.parametrize("which", ["ledger", "logs", "replies", "leader"])
def test_a_deleted_topic_is_noticed_and_recreated(
    which: str, partitions: int, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker with auto-creation recreates it, with any number of partitions."""
    monkeypatch.setattr(ledger_module, "_CHECK_S", 0.05)
    names = Names(f"noticed-{which}-{partitions}")
    topic = getattr(names, which)
    ledger = Ledger(kafka, names)
    ledger.take_over()
    ledger.write(replace(STATE, outbox=OUTBOX))
    config = kafka.topic_config(topic, "cleanup.policy"), kafka.topic_config(topic, "retention.ms")
    _delete(kafka, topic)
    if partitions:
        kafka.create_topic(topic, partitions=partitions)
        _produce(kafka, topic, *({"line": n} for n in range(9)))
    with pytest.raises(TopicReplaced, match=f"{topic} was deleted") as raised:
        ledger.watch(threading.Event())
    assert ("recreated." in str(raised.value).partition(" It is")[0]) == bool(partitions)
    assert kafka.describe([topic])[topic].partitions == (0,)
    if partitions != 1:
        now = kafka.topic_config(topic, "cleanup.policy"), kafka.topic_config(topic, "retention.ms")
        assert now == config
    leadership.check_leader_topic(kafka, names)  # the next process can be elected
    Ledger(kafka, names).take_over()


def _delete(kafka: Kafka, topic: str) -> None:
    kafka.delete([topic])
    until(lambda: topic not in kafka.describe([topic]), "it is deleted")


def _produce(kafka: Kafka, topic: str, *values: Any) -> None:
    """Produce without a key, to any partition."""
    producer = kafka.producer()
    for value in values:
        producer.produce(topic, json.dumps(value))
    assert producer.flush(20) == 0


@pytest.mark.parametrize("which", ["logs", "replies"])
def test_an_auto_created_log_is_recreated(which: str, kafka: Kafka) -> None:
    names = Names(f"{which}-made-by-a-broker")
    topic = getattr(names, which)
    kafka.create_topic(topic, partitions=3)
    ledger = Ledger(kafka, names)
    ledger.take_over()
    assert kafka.describe([topic])[topic].partitions == (0,)
    ledger.write(replace(STATE, outbox=OUTBOX))
    assert len(_read(kafka, topic)) == (2 if which == "logs" else 1)


@pytest.mark.parametrize("which", ["logs", "replies"])
def test_a_log_with_records_in_several_partitions_is_refused(which: str, kafka: Kafka) -> None:
    names = Names(f"{which}-in-several")
    topic = getattr(names, which)
    older = Ledger(kafka, names)
    older.take_over()
    older.write(STATE)
    _delete(kafka, topic)
    kafka.create_topic(topic, partitions=3)
    _produce(kafka, topic, "what somebody wrote")
    before = kafka.describe([topic])[topic].id
    with pytest.raises(TopicMisconfigured, match=f"{topic} has more than one partition"):
        Ledger(kafka, names).take_over()
    assert kafka.describe([topic])[topic].id == before
    older.write(replace(STATE, position={0: 4, 1: 9}))  # nobody was fenced


@pytest.mark.parametrize("junk", [b"not JSON", b"[]", b"{}", b"\xff"], ids=repr)
def test_a_state_that_cannot_be_parsed_is_refused(
    junk: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ledger, "_read", lambda _self: {STATE_KEY: junk})
    ledger = Ledger(Kafka({"bootstrap.servers": "nowhere"}), Names("x"))
    with pytest.raises(LedgerUnreadable, match=r"x\.ledger has a state that cannot be parsed"):
        ledger._read_state()


def test_a_tombstone_means_that_there_is_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "_read", lambda _self: {STATE_KEY: b""})
    assert Ledger(Kafka({"bootstrap.servers": "nowhere"}), Names("x"))._read_state() is None


def test_an_existing_ledger_is_kept_and_set_to_compaction(kafka: Kafka) -> None:
    names = Names("not-compacted")
    kafka.create_topic(names.ledger, {"cleanup.policy": "delete"})
    producer = kafka.producer()
    producer.produce(names.ledger, json.dumps(to_json(STATE)), STATE_KEY)
    assert producer.flush(20) == 0
    assert Ledger(kafka, names).take_over() == STATE
    assert kafka.topic_config(names.ledger, "cleanup.policy") == "compact"
