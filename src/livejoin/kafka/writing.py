"""Writes records and waits for their acknowledgement."""

import time
from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException, Message

from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import MAX_RECORD_BYTES, Kafka

KeyValue = tuple[bytes, bytes | None]  # key and value

_POLL_S = 0.1


def write(kafka: Kafka, topic: str, records: Iterable[KeyValue], limit_s: float) -> None:
    """Write records in order; KafkaUnavailable unless all are acknowledged in time."""
    until = time.monotonic() + limit_s
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            errors.append(error)

    limits = {"message.timeout.ms": limit_s * 1000, "message.max.bytes": MAX_RECORD_BYTES}
    producer = kafka.producer(**limits)
    try:
        for key, value in records:
            while True:
                try:
                    producer.produce(topic, value, key, on_delivery=delivered)
                    break
                except BufferError:  # the queue is full
                    if time.monotonic() > until:
                        raise
                    producer.poll(_POLL_S)
        unanswered = producer.flush(max(0.0, until - time.monotonic()) + 1)
    except (KafkaException, BufferError) as error:
        raise KafkaUnavailable(f'topic "{topic}" cannot be written: {error}') from error
    if errors or unanswered:
        why = errors[0].str() if errors else "no answer"
        raise KafkaUnavailable(f'topic "{topic}" cannot be written: {why}')
