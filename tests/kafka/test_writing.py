"""Records that must be acknowledged, over a real broker."""

import pytest
from confluent_kafka import TopicPartition

from livejoin.core.own_topics import MAX_RECORD_BYTES
from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import read_to_end, write


def _values(kafka: Kafka, topic: str) -> list[bytes]:
    consumer = kafka.reader("writing")
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [record.value for record in read_to_end(consumer, topic)]
    finally:
        consumer.close()


def test_a_record_of_maximum_row_size_is_written(kafka: Kafka) -> None:
    kafka.create_topic("writing-large", config={"max.message.bytes": str(MAX_RECORD_BYTES)})
    values = [b"x" * 5_000_000, b"small"]
    write(kafka, "writing-large", [(b"key", value) for value in values], 15)
    assert _values(kafka, "writing-large") == values


def test_a_record_refused_by_the_broker_is_an_error_that_names_the_topic(kafka: Kafka) -> None:
    kafka.create_topic("writing-small", config={"max.message.bytes": "1000"})
    with pytest.raises(KafkaUnavailable, match=r'"writing-small" cannot be written: .*too large'):
        write(kafka, "writing-small", [(b"a", b"fits"), (b"b", b"x" * 2000)], 15)


def test_a_record_larger_than_any_row_is_refused_before_it_is_sent(kafka: Kafka) -> None:
    kafka.create_topic("writing-huge")
    with pytest.raises(KafkaUnavailable, match='"writing-huge" cannot be written'):
        write(kafka, "writing-huge", [(b"a", b"x" * (MAX_RECORD_BYTES + 1))], 15)
