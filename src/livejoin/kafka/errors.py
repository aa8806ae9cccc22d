"""What Kafka says went wrong with a topic, as errors that have a name and say what to do."""

from confluent_kafka import KafkaError, KafkaException

from livejoin.errors import KafkaUnavailable, LivejoinError, TopicUnusable


class TopicUnknown(TopicUnusable):
    """There is no such topic."""


class TopicExists(TopicUnusable):
    """There is such a topic already."""


class LeaderNotAvailable(KafkaUnavailable):
    """A partition has no leader for a moment after its topic was made, or its broker died."""


def from_kafka_error(error: KafkaException, topic: str, doing: str = "read") -> LivejoinError:
    """Kafka's error as one of ours, so that callers and people see a name."""
    it = error.args[0]
    said = f'Kafka failed on topic "{topic}": {it.str()}'
    match it.code():
        case KafkaError.UNKNOWN_TOPIC_OR_PART | KafkaError._UNKNOWN_TOPIC:  # noqa: SLF001
            return topic_not_found(topic)
        case KafkaError.TOPIC_ALREADY_EXISTS:
            return TopicExists(said)
        case KafkaError.TOPIC_AUTHORIZATION_FAILED | KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            return topic_not_authorized(topic, doing)
        case (
            KafkaError.NOT_LEADER_FOR_PARTITION
            | KafkaError.LEADER_NOT_AVAILABLE
            | KafkaError.UNKNOWN_LEADER_EPOCH  # of a topic just made: its broker learns of it last
        ):
            return LeaderNotAvailable(said)
        case _:
            return KafkaUnavailable(said)


def topic_not_authorized(topic: str, doing: str = "read") -> TopicUnusable:
    """The error for a topic that may not be read, made or deleted."""
    rights = {"made": "create it", "deleted": "delete it"}.get(doing, "describe and read it")
    return TopicUnusable(
        f'topic "{topic}" may not be {doing}', hint=f"Ask for the right to {rights}."
    )


def topic_not_found(topic: str) -> TopicUnknown:
    """The error for a topic that is not there."""
    return TopicUnknown(
        f'topic "{topic}" does not exist',
        hint="Create it, or choose another one; it is tried again.",
    )
