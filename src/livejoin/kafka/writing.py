"""Writing records and waiting until the broker has them."""

import time
from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException, Message

from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import MAX_RECORD_BYTES, Kafka

KeyValue = tuple[bytes, bytes | None]  # key and value

_POLL_S = 0.1


def write(kafka: Kafka, topic: str, records: Iterable[KeyValue], limit_s: float) -> None:
    """Have all records acknowledged, in their order; an error if that takes too long."""
    until = time.monotonic() + limit_s
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            refused.append(error)

    limits = {"message.timeout.ms": limit_s * 1000, "message.max.bytes": MAX_RECORD_BYTES}
    producer = kafka.producer(**limits)
    try:
        for key, value in records:
            while True:
                try:
                    producer.produce(topic, value, key, on_delivery=delivered)
                    break
                except BufferError:  # the queue is full: wait until some of it was taken
                    if time.monotonic() > until:
                        raise
                    producer.poll(_POLL_S)
        unanswered = producer.flush(max(0.0, until - time.monotonic()) + 1)
    except (KafkaException, BufferError) as error:
        raise KafkaUnavailable(f'topic "{topic}" cannot be written: {error}') from error
    if refused or unanswered:
        why = refused[0].str() if refused else "no answer"
        raise KafkaUnavailable(f'topic "{topic}" cannot be written: {why}')
