"""Topics with offset gaps become ready: compacted, transactional, by stream and by batch."""

import random
import time
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import poll_batch
from rig import oracle
from rig.running import running, until

SEED = 20261116
COMPACTED = {  # compaction as early and as thorough as a broker can
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.001",
}
PARTITIONS = 2
USERS, KEYS = 30, 60


def _value(source: str, number: int) -> bytes:
    cell = "age" if source == "users" else "balance"
    return f'{{"userId": "u{number % USERS}", "{cell}": {number}}}'.encode()


def _fill_compacted(kafka: Kafka, topic: str) -> None:
    """Replace most records by later ones of their key, and wait for the compaction."""
    kafka.create_topic(topic, COMPACTED, partitions=PARTITIONS)
    dice = random.Random(SEED)
    producer = kafka.producer()
    for turn in range(3):
        for number in range(300):
            key = dice.randrange(KEYS)
            value = _value("users", 1000 * turn + number)
            producer.produce(topic, value, f"k{key}", key % PARTITIONS)
        assert producer.flush(10) == 0
        time.sleep(
            1.1
        )  # a write after segment.ms starts a new segment, so older ones can be compacted
    for partition in range(PARTITIONS):
        producer.produce(topic, _value("users", 0), "end", partition)
    assert producer.flush(10) == 0
    least = KEYS + PARTITIONS  # one per key and partition
    until(lambda: len(_read(kafka, topic)) == least, f"compaction, seed {SEED}", 120)


def _fill_transactional(kafka: Kafka, topic: str) -> None:
    """Committed and aborted transactions in turn; each partition ends with a marker."""
    kafka.create_topic(topic, partitions=PARTITIONS)
    producer = kafka.producer(**{"transactional.id": f"{topic}.writer"})
    producer.init_transactions(10)
    for turn in range(6):
        producer.begin_transaction()
        for number in range(50):
            value = _value("accounts", 100 * turn + number)
            producer.produce(topic, value, partition=number % PARTITIONS)
        producer.flush(10)
        (producer.abort_transaction if turn % 2 else producer.commit_transaction)(10)


def _read(kafka: Kafka, topic: str) -> list[oracle.Sent]:
    """Return the records that a consumer gets."""
    consumer = kafka.reader(f"{topic}.reader")
    try:
        places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
        consumer.assign(places)
        found: dict[int, list[oracle.Sent]] = defaultdict(list)
        while batch := poll_batch(consumer, 10_000, 2):
            for one in batch:
                position = one.partition() or 0, one.offset() or 0
                found[position[0]].append(oracle.Sent(*position, one.timestamp()[1], one.value()))
        return [record for records in found.values() for record in records]
    finally:
        consumer.close()


@pytest.mark.parametrize("history_records", [0, 1], ids=["by stream", "by batch"])
def test_topics_with_holes_become_ready(history_records: int, kafka: Kafka, tmp_path: Path) -> None:
    name = f"holes-{history_records}"
    topics = {"users": f"{name}.users", "accounts": f"{name}.accounts"}
    _fill_compacted(kafka, topics["users"])
    _fill_transactional(kafka, topics["accounts"])
    settings = {"topics": topics, "spark": {"history_records": history_records}}
    with running(kafka, tmp_path, name=name, **settings) as live:
        live.wait_live()
        sent = {source: _read(kafka, topic) for source, topic in topics.items()}
        truth = oracle.expected(sent, "left")
        wrong = oracle.differences({table: live.table(table) for table in truth.tables}, truth)
        assert not wrong, wrong[:3]
        assert live.records_read() == sum(map(len, sent.values()))
        assert bool(kafka.describe([Names(name).bootstrap(1)])) is bool(history_records)
