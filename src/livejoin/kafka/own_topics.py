"""Creates livejoin's own topics under the limits that brokers set, and tells how large they are.

What a broker refuses is tried once more with its own defaults (`core/own_topics.py` says for what).
"""

from collections.abc import Callable
from typing import TypeVar

import structlog
from confluent_kafka.admin import OffsetSpec

from livejoin.core import own_topics
from livejoin.core.own_topics import Kind, RecordLimits, TopicRequest
from livejoin.errors import NotAuthorized, TopicMisconfigured, TopicMissing, TopicRefused
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.kafka.topic_errors import topic_not_authorized

log = structlog.get_logger()

Created = TypeVar("Created")

_ONLY_WRITTEN: tuple[Kind, ...] = ("replies",)
_BY_OTHERS = (
    "own_topics.create is false, so an administrator creates it:"
    " `livejoin topics plan` prints the command."
)


def create(kafka: Kafka, name: str, kind: Kind) -> None:
    """Create a topic of one partition unless it exists; TopicMissing if that is not our task."""
    try:
        _create(kafka, name, kind)
    except NotAuthorized as error:
        if kind in _ONLY_WRITTEN and error.action == "read":  # the right to write is missing
            raise topic_not_authorized(name, "write") from error
        raise


def _create(kafka: Kafka, name: str, kind: Kind) -> None:
    if not _is_ours_to_create(kafka, kind):
        if name not in kafka.describe([name]):
            raise TopicMissing(f'topic "{name}" does not exist', hint=_BY_OTHERS)
        return
    try:
        _with_fallback(
            kafka,
            name,
            kind,
            lambda request: kafka.create_topic(
                name, request.config, replication=request.replication
            ),
        )
    except (NotAuthorized, TopicRefused):  # brokers check both before they look for the topic
        if name not in kafka.describe([name]):
            raise


def recreate(kafka: Kafka, name: str, kind: Kind) -> Topic:
    """Create a topic anew; an error if that is not our task."""
    if not _is_ours_to_create(kafka, kind):
        config = ", ".join(f"{k}={v}" for k, v in kafka.own_topics.config_of(kind).items())
        needed = f"one partition{' and ' if config else ''}{config}"
        raise TopicMisconfigured(f'topic "{name}" needs {needed}', hint=_BY_OTHERS)
    return _with_fallback(
        kafka,
        name,
        kind,
        lambda request: kafka.recreate_topic(name, request.config, replication=request.replication),
    )


def ensure(kafka: Kafka, name: str, kind: Kind) -> None:
    """Create a topic; one that a broker auto-created gets one partition, and its cleanup policy."""
    create(kafka, name, kind)
    topic = kafka.describe([name]).get(name)
    if topic is None:
        raise TopicMissing(f'topic "{name}" was deleted', hint="It is recreated.")
    if len(topic.partitions) > 1:
        if kafka.offsets([topic], OffsetSpec.latest()) != kafka.offsets(
            [topic], OffsetSpec.earliest()
        ):
            raise TopicMisconfigured(
                f"{name} has more than one partition, and only the first is read",
                hint="Stop livejoin and delete it, with the records in it: it is recreated.",
            )
        recreate(kafka, name, kind)
        return
    for config, value in kafka.own_topics.config_of(kind).items():
        if config in own_topics.NEEDED_CONFIGS and not kafka.ensure_topic_config(
            name, config, value
        ):
            log.warning("own topic is not as it should be: its records may expire", topic=name,
                        needed=f"{config}={value}")  # fmt: skip


def record_limits(kafka: Kafka, topics: list[str]) -> RecordLimits:
    """What fits all of these topics, which exist.

    Where livejoin has no right to read their size, it is taken to be the configured one, also for
    topics that were created before that setting was changed.
    """
    requested = kafka.own_topics.max_message_bytes
    found = {topic: kafka.topic_config(topic, own_topics.SIZE_CONFIG) for topic in topics}
    sizes = {topic: requested if size is None else int(size) for topic, size in found.items()}
    smallest = min(sizes, key=lambda topic: sizes[topic])
    if sizes[smallest] < own_topics.MIN_RECORD_BYTES:
        raise TopicMisconfigured(
            f'topic "{smallest}" has max.message.bytes={sizes[smallest]},'
            f" livejoin needs {own_topics.MIN_RECORD_BYTES}",
            hint="Raise it, or the brokers' message.max.bytes.",
        )
    return own_topics.record_limits(sizes[smallest])


def _is_ours_to_create(kafka: Kafka, kind: Kind) -> bool:
    return kafka.own_topics.create or kind in own_topics.PER_GENERATION


def _with_fallback(
    kafka: Kafka, name: str, kind: Kind, attempt: Callable[[TopicRequest], Created]
) -> Created:
    rules = kafka.own_topics
    request = TopicRequest(rules.config_of(kind), rules.replication)
    try:
        return attempt(request)
    except TopicRefused as error:
        retried = own_topics.with_defaults(request, error.reason) if error.is_about_config else None
        if retried is None:
            raise _refused(name, request, error) from error
        left_out = [config for config in request.config if config not in retried.config]
        left_out += ["the replication factor"] if retried.replication != request.replication else []
        log.warning("Kafka refused a topic's settings: trying its defaults", topic=name,
                    settings=", ".join(left_out), why=error.reason)  # fmt: skip
    try:
        created = attempt(retried)
    except TopicRefused as error:
        raise _refused(name, retried, error) from error
    if (
        own_topics.SIZE_CONFIG in left_out
        and kafka.topic_config(name, own_topics.SIZE_CONFIG) is None
    ):
        raise TopicRefused(
            f"Kafka refused own_topics.max_message_bytes={rules.max_message_bytes} for topic"
            f' "{name}", and livejoin is not authorized to read the size that it has instead',
            reason="",
            hint="Set own_topics.max_message_bytes to what the brokers allow, or grant livejoin's"
            " Kafka user DESCRIBE_CONFIGS on it.",
        )
    return created


def _refused(name: str, request: TopicRequest, error: TopicRefused) -> TopicRefused:
    replication, reason = request.replication, error.reason
    if not error.is_about_config and replication != -1:
        # never fewer replicas than were asked for: nobody would notice the lost durability
        message = f'Kafka refused own_topics.replication={replication} for topic "{name}": {reason}'
    else:
        needed = own_topics.needed_settings(request, reason)
        message = f'Kafka refused topic "{name}", which needs {needed}: {reason}'
    return TopicRefused(
        message,
        reason=reason,
        hint="Have the brokers' policy allow it, set own_topics.replication or own_topics.config,"
        " or have it created for you (own_topics.create: false, `livejoin topics plan`).",
    )
