"""SIGKILL for Python, for the JVM and for both under traffic: the tables still equal the oracle."""

import collections
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from livejoin.core import changelog
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import read_to_end
from rig import oracle
from rig.produce import Producers
from rig.running import Running, alive, running, until

TOPICS = {"users": "crash.users", "accounts": "crash.accounts"}
SEED = 20261115


@pytest.mark.timeout(600)  # four starts of Spark next to two other test runs took 300 s
def test_kills_lose_and_duplicate_nothing(kafka: Kafka, tmp_path: Path) -> None:
    for topic in TOPICS.values():
        kafka.create_topic(topic, partitions=2)
    producers = Producers(kafka, TOPICS)
    # short batches, so that a run restores committed state and also replays uncommitted records
    with running(kafka, tmp_path, name="crash", topics=TOPICS, spark={"batch_s": 5}) as live:
        with producers.traffic(per_second=100, seed=SEED):
            live.wait_live()
            for who in ("python", "jvm", "both"):
                _let_some_pass(live)
                _kill(live, who)
        until(
            lambda: live.records_read() == producers.count,
            f"all records are read, seed {SEED}",
            120,
        )
        truth = oracle.expected(producers.acknowledged)
        wrong = oracle.differences({name: live.table(name) for name in truth.tables}, truth)
        assert not wrong, wrong[:3]
        assert live.request("api/v1/status")["generation"] == 1
    marks = _marks(kafka)
    assert marks.total() > len(marks) == producers.count, (
        "no record was written twice: the kills missed"
    )


def _let_some_pass(live: Running) -> None:
    before = live.records_read()
    until(lambda: live.records_read() > before + 400, "traffic flows")


def _kill(live: Running, who: str) -> None:
    python, jvm = live.pid, live.jvm()
    live.kill(*{"python": [python], "jvm": [jvm], "both": [python, jvm]}[who])
    until(lambda: not alive(jvm), f"no orphan JVM after killing {who}")
    if who != "jvm":
        live.start()
    until(lambda: _state(live) == "restarting", "the loss is reported")
    lost = "Spark's JVM is gone" if who == "jvm" else "livejoin has just started"
    assert live.request("api/v1/status")["stale"] == lost
    live.wait_live()  # the replay is complete


def _state(live: Running) -> str:
    try:
        return str(live.request("api/v1/status")["state"])
    except AssertionError:
        return ""  # livejoin is starting


def _marks(kafka: Kafka) -> collections.Counter[bytes]:
    consumer = kafka.reader("test")
    try:
        consumer.assign([TopicPartition("crash.changelog.1", 0, 0)])
        keys = (record.key for record in read_to_end(consumer, "crash.changelog.1"))
        return collections.Counter(key for key in keys if changelog.marked_position(key))
    finally:
        consumer.close()
