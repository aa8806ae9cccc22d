"""Kafka's errors about a topic as livejoin's, with a hint what to do."""

from confluent_kafka import KafkaError, KafkaException

from livejoin.errors import (
    KafkaUnavailable,
    LeaderNotAvailable,
    LivejoinError,
    NotAuthorized,
    TopicExists,
    TopicMissing,
    TopicRefused,
)

# Names with an underscore are librdkafka's own errors, not private.
_CONFIG_REFUSALS = (
    KafkaError.POLICY_VIOLATION,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_REQUEST,
)
# What Kafka forbids whatever the right: a policy, a limit, or a request that it never accepts.
_REFUSALS = (
    *_CONFIG_REFUSALS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.TOPIC_DELETION_DISABLED,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError._UNSUPPORTED_FEATURE,  # noqa: SLF001
)


def from_kafka_error(error: KafkaException, topic: str, action: str = "read") -> LivejoinError:
    """The error of a request about a topic."""
    cause = error.args[0]
    message = f'Kafka failed on topic "{topic}": {cause.str()}'
    match cause.code():
        case KafkaError.UNKNOWN_TOPIC_OR_PART | KafkaError._UNKNOWN_TOPIC:  # noqa: SLF001
            return topic_not_found(topic)
        case KafkaError.TOPIC_ALREADY_EXISTS:
            return TopicExists(message)
        case KafkaError.TOPIC_AUTHORIZATION_FAILED | KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            return topic_not_authorized(topic, action)
        case KafkaError.GROUP_AUTHORIZATION_FAILED:
            return group_not_authorized()
        case (
            KafkaError.NOT_LEADER_FOR_PARTITION
            | KafkaError.LEADER_NOT_AVAILABLE
            | KafkaError.UNKNOWN_LEADER_EPOCH  # of a new topic that its broker does not know yet
        ):
            return LeaderNotAvailable(message)
        case code if code in _REFUSALS:
            return TopicRefused(
                f'Kafka refused to {action} topic "{topic}": {cause.str()}',
                reason=cause.str(),
                is_about_config=cause.code() in _CONFIG_REFUSALS,
                hint='The brokers\' policies and limits decide that; see "Own topics" in'
                " docs/settings.md.",
            )
        case _:
            return KafkaUnavailable(message)


def topic_not_authorized(topic: str, action: str = "read") -> NotAuthorized:
    """The error for a missing authorization to read, write, create, alter or delete a topic."""
    others = {"write": "WRITE", "create": "CREATE", "delete": "DELETE"}
    operations = others.get(action, "DESCRIBE and READ")
    return NotAuthorized(
        f'not authorized to {action} topic "{topic}"',
        hint=f"Grant livejoin's Kafka user {operations} on it.",
        action=action,
    )


def group_not_authorized(group: str = "") -> NotAuthorized:
    """The error for a missing authorization to use a consumer group, or one of livejoin's."""
    named = f"not authorized to use consumer group {group}"
    return NotAuthorized(
        named if group else "not authorized to use livejoin's consumer groups",
        hint="Grant livejoin's Kafka user READ on the groups with its name; livejoin retries.",
    )


def topic_not_found(topic: str) -> TopicMissing:
    """The error for a topic that does not exist."""
    return TopicMissing(
        f'topic "{topic}" does not exist',
        hint="Create it, or choose another one; livejoin retries.",
    )
