"""Translates Kafka's errors about topics into livejoin's, with a hint what to do."""

from confluent_kafka import KafkaError, KafkaException

from livejoin.errors import KafkaUnavailable, LivejoinError, TopicUnusable


class TopicUnknown(TopicUnusable):
    """The topic does not exist."""


class TopicExists(TopicUnusable):
    """The topic exists already."""


class LeaderNotAvailable(KafkaUnavailable):
    """A partition has no leader for a moment, after its creation or the death of a broker."""


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
        case (
            KafkaError.NOT_LEADER_FOR_PARTITION
            | KafkaError.LEADER_NOT_AVAILABLE
            | KafkaError.UNKNOWN_LEADER_EPOCH  # of a new topic that its broker does not know yet
        ):
            return LeaderNotAvailable(message)
        case _:
            return KafkaUnavailable(message)


def topic_not_authorized(topic: str, action: str = "read") -> TopicUnusable:
    """The error for a missing authorization to read, create, alter or delete a topic."""
    operations = {"create": "CREATE", "delete": "DELETE"}.get(action, "DESCRIBE and READ")
    return TopicUnusable(
        f'not authorized to {action} topic "{topic}"',
        hint=f"Grant livejoin's Kafka user {operations} on it.",
    )


def topic_not_found(topic: str) -> TopicUnknown:
    """The error for a topic that does not exist."""
    return TopicUnknown(
        f'topic "{topic}" does not exist',
        hint="Create it, or choose another one; livejoin retries.",
    )
