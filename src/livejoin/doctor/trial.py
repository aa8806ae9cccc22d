"""Creates two topics under livejoin's prefix, and deletes them again.

With the rights that livejoin has anyway, nothing else shows whether it can create topics, what the
brokers' policies allow, how large own topics get, and what time the brokers have. The topics are
those of generation 0, which never exists: what is left of them is removed by the next build.
"""

import time
from collections.abc import Iterator
from typing import NamedTuple

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message

from livejoin.core.names import Names
from livejoin.core.own_topics import SIZE_CONFIG, size_text
from livejoin.doctor.findings import Finding, bad, failed, ok, skipped, warning
from livejoin.errors import KafkaUnavailable, NotAuthorized, TopicError
from livejoin.kafka import own_topics
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.topic_cleanup import age_text
from livejoin.kafka.topic_errors import from_kafka_error

_WRITE_S = 10.0
_MAX_DIFFERENCE_S = 3.0
_BROKER_TIME = {"message.timestamp.type": "LogAppendTime"}
_now = time.time  # replaced in tests
_ADVICE = "`livejoin topics plan` prints the rights that livejoin needs."


def check_own_prefix(kafka: Kafka, names: Names) -> Iterator[Finding]:
    """Create, write and delete topics as livejoin does, and measure what they tell."""
    topics = (names.changelog(0), names.bootstrap(0))
    prefix = names.group("")
    try:
        own_topics.recreate(kafka, topics[0], "changelog")
    except TopicError as error:
        yield _refusal(error)
        yield skipped("limits", "not checked: no topic could be created")
        yield skipped("clock", "not checked: no topic could be created")
        return
    try:
        found = [_check_limits(kafka, topics[0]), *_check_clock(kafka, topics[1])]
    finally:
        undeleted = _delete(kafka, topics)
    if undeleted is not None:
        yield bad(
            "own prefix",
            f"topics under {prefix} can be created, but not deleted: {undeleted.message}",
            undeleted.hint or _ADVICE,
        )
    else:
        yield ok("own prefix", f"topics under {prefix} can be created and deleted")
    yield from found


def _refusal(error: TopicError) -> Finding:
    if isinstance(error, NotAuthorized):
        return bad("own prefix", error.message, _ADVICE)
    return failed("own prefix", error)


def _delete(kafka: Kafka, topics: tuple[str, ...]) -> TopicError | None:
    """Delete the topics; returns the error of the last one that cannot be deleted."""
    undeleted = None
    for topic in topics:
        try:
            kafka.delete([topic])
        except TopicError as error:
            undeleted = error
    return undeleted


def _check_limits(kafka: Kafka, topic: str) -> Finding:
    """Check how large records and inputs may be, and which requested configs the topic has not."""
    configs = kafka.topic_configs(topic)
    if configs is None:
        size = size_text(kafka.own_topics.max_message_bytes)
        return ok(
            "limits",
            f"size of topics not reported (no right DescribeConfigs): {size}, as"
            " in own_topics.max_message_bytes, is assumed",
        )
    requested = kafka.own_topics.config_of("changelog")
    other = [
        f"{name}={configs.get(name)}"
        for name, value in requested.items()
        if configs.get(name) != value
    ]
    try:
        limits = own_topics.record_limits(kafka, [topic])
    except TopicError as error:
        return failed("limits", error)
    text = (
        f"own topics take records of {int(configs.get(SIZE_CONFIG, 0)):,} bytes,"
        f" so inputs of up to {size_text(limits.value_bytes)}"
    )
    if other:
        return warning(
            "limits",
            f"{text}; instead of what was requested: {', '.join(other)}",
            "Larger inputs are rejects. Set own_topics.* to what the brokers allow.",
        )
    return ok("limits", text)


class ClockDifference(NamedTuple):
    """How far the clock of this machine is from that of a broker."""

    seconds: float  # positive: this machine is ahead
    uncertainty_s: float

    def __str__(self) -> str:
        if abs(self.seconds) <= self.uncertainty_s:
            return f"no difference beyond {self.uncertainty_s:.3f} s"
        side = "ahead of" if self.seconds > 0 else "behind"
        size = abs(self.seconds)
        text = f"{size:.3f} s" if size < 1 else age_text(size)
        return f"this machine is {text} {side} the broker (± {self.uncertainty_s:.3f} s)"


def _check_clock(kafka: Kafka, topic: str) -> Iterator[Finding]:
    try:
        kafka.recreate_topic(topic, _BROKER_TIME)
        difference = measure_clock(kafka, topic)
    except TopicError as error:
        yield skipped("clock", f"not checked: {error.message}")
        if isinstance(error, NotAuthorized):
            yield bad("own prefix", error.message, _ADVICE)
        return
    if difference is None:
        yield skipped("clock", "not checked: the brokers give records no time of their own")
    elif abs(difference.seconds) - difference.uncertainty_s > _MAX_DIFFERENCE_S:
        yield warning(
            "clock",
            str(difference),
            "Synchronize it (NTP): `start` times, the lifetime of tokens and the order of"
            " control messages depend on it.",
        )
    else:
        yield ok("clock", str(difference))


def measure_clock(kafka: Kafka, topic: str) -> ClockDifference | None:
    """Write a record that gets the broker's time; None if it did not."""
    producer = kafka.producer()
    delivered: list[tuple[KafkaError | None, Message]] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        delivered.append((error, message))

    for _ in range(2):  # the first one includes connecting
        before = _now()
        try:
            producer.produce(topic, b"clock", on_delivery=on_delivery)
        except KafkaException as error:  # what it learned from the first one
            raise from_kafka_error(error, topic, "write") from error
        producer.flush(_WRITE_S)
        after = _now()
    failure, message = delivered[-1] if len(delivered) > 1 else (None, None)
    if message is None:
        raise KafkaUnavailable(f'no acknowledgement of a record in topic "{topic}"')
    if failure is not None:
        raise from_kafka_error(KafkaException(failure), topic, "write")
    kind, at_ms = message.timestamp()
    if kind != TIMESTAMP_LOG_APPEND_TIME:
        return None
    return ClockDifference((before + after) / 2 - at_ms / 1000, (after - before) / 2 + 0.001)
