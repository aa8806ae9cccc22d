"""A generation's pins are the last readable records, whatever follows them."""

import time
import uuid

import pytest
from confluent_kafka import Producer

from livejoin.core import spec
from livejoin.core.generation import Reading
from livejoin.core.names import Names
from livejoin.errors import TopicMissing
from livejoin.kafka.cluster import Kafka
from livejoin.pipeline import offsets
from rig.running import until

EARLIEST = {"users": "earliest", "accounts": "earliest"}
NAMES = Names("positions")


class SourceTopics:
    """Two topics of two partitions each, with writes to the users topic."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        prefix = uuid.uuid4().hex
        self.choice = spec.DEFAULT.choice(f"{prefix}.users", f"{prefix}.accounts")
        for topic in self.choice.topics.values():
            kafka.create_topic(topic, partitions=2)

    def write(self, count: int, partition: int, producer: Producer | None = None) -> None:
        by = producer or self.kafka.producer()
        for _ in range(count):
            by.produce(self.choice.topics["users"], b"{}", partition=partition)
        assert by.flush(10) == 0

    def in_transaction(self, count: int, partition: int, *, commit: bool) -> None:
        producer = self.kafka.producer(**{"transactional.id": uuid.uuid4().hex})
        producer.init_transactions(10)
        producer.begin_transaction()
        self.write(count, partition, producer)
        if commit:
            producer.commit_transaction(10)
        else:
            producer.abort_transaction(10)

    def users(self, start: str = "earliest") -> Reading:
        starts = {"users": start, "accounts": "earliest"}
        return offsets.resolve(self.kafka, NAMES, self.choice, starts)["users"]


@pytest.fixture
def topics(kafka: Kafka) -> SourceTopics:
    return SourceTopics(kafka)


def test_an_empty_topic_has_starts_and_no_pins(topics: SourceTopics) -> None:
    found = topics.users()
    assert (found.start, found.pins) == ({0: 0, 1: 0}, {})


def test_the_pin_is_the_last_record_of_each_partition(topics: SourceTopics) -> None:
    topics.write(3, 0)
    topics.write(1, 1)
    found = topics.users()
    assert (found.start, found.pins) == ({0: 0, 1: 0}, {0: 2, 1: 0})


def test_transaction_markers_and_aborted_records_are_not_pins(topics: SourceTopics) -> None:
    topics.write(2, 0)
    topics.in_transaction(40, 0, commit=False)  # 2 to 41, and a marker
    topics.in_transaction(3, 1, commit=True)  # 0 to 2, and a marker
    # markers are written after the commit was answered
    until(lambda: topics.users().pins == {0: 1, 1: 2}, "the pins")


def test_a_partition_of_aborted_records_only_has_no_pin(topics: SourceTopics) -> None:
    topics.in_transaction(20, 0, commit=False)
    assert topics.users().pins == {}


def test_an_open_transaction_hides_what_follows_it(topics: SourceTopics) -> None:
    topics.write(2, 0)
    producer = topics.kafka.producer(**{"transactional.id": uuid.uuid4().hex})
    producer.init_transactions(10)
    producer.begin_transaction()
    topics.write(1, 0, producer)
    topics.write(1, 0)
    assert topics.users().pins == {0: 1}
    producer.abort_transaction(10)
    until(lambda: topics.users().pins == {0: 3}, "the pin after the transaction")


def test_the_latest_start_has_nothing_to_catch_up_with(topics: SourceTopics) -> None:
    topics.write(3, 0)
    found = topics.users("latest")
    assert (found.start, found.pins) == ({0: 3, 1: 0}, {})


def test_a_start_time_selects_the_first_record_from_then_on(topics: SourceTopics) -> None:
    producer = topics.kafka.producer()
    for age_s in (300, 200, 100):
        at = int((time.time() - age_s) * 1000)
        producer.produce(topics.choice.topics["users"], "{}", partition=0, timestamp=at)
    assert producer.flush(10) == 0
    found = topics.users("250s")
    assert (found.start, found.pins) == ({0: 1, 1: 0}, {0: 2})


def test_a_start_time_in_the_future_starts_at_the_end(topics: SourceTopics) -> None:
    topics.write(3, 0)
    found = topics.users("2099-01-01T00:00:00Z")
    assert (found.start, found.pins) == ({0: 3, 1: 0}, {})


def test_a_missing_topic_is_named(kafka: Kafka, topics: SourceTopics) -> None:
    choice = spec.DEFAULT.choice(topics.choice.topics["users"], "nowhere")
    with pytest.raises(TopicMissing, match="nowhere"):
        offsets.resolve(kafka, NAMES, choice, EARLIEST)
