"""The topics that the leader writes: created with their configuration, tracked by their ids.

A broker with `auto.create.topics.enable` recreates a deleted topic at the next write, perhaps with
several partitions. Records in several partitions have no order, and only the first one is read.
"""

from collections.abc import Mapping

from confluent_kafka.admin import OffsetSpec

from livejoin.control import leader_heartbeat
from livejoin.core.names import Names
from livejoin.errors import TopicUnusable
from livejoin.kafka.cluster import Kafka, Topic

COMPACTED = "cleanup.policy", "compact"
_RECREATED_HINT = "It is recreated; without a ledger, the choice comes from the control topic."


class OwnTopics:
    """The ledger, logs, replies and leader topics."""

    def __init__(self, kafka: Kafka, names: Names) -> None:
        self._kafka = kafka
        self._names = names
        self._configs: Mapping[str, Mapping[str, str]] = {
            names.ledger: dict([COMPACTED]),
            names.logs: {"retention.bytes": str(64 << 20), "retention.ms": "-1"},
            names.replies: {},
            names.leader: leader_heartbeat.TOPIC_CONFIG,
        }
        self._ids: dict[str, str] = {}

    def create_missing(self) -> None:
        """Create the missing topics."""
        for topic, config in self._configs.items():
            self._kafka.create_topic(topic, config)

    def check(self) -> None:
        """Raise if logs or replies have several partitions with records, which would be lost."""
        for topic in self._logs_and_replies():
            if len(topic.partitions) > 1 and self._has_records(topic):
                raise TopicUnusable(
                    f"{topic.name} has more than one partition",
                    hint="Stop livejoin and delete it, with the lines or replies in it:"
                    " it is recreated.",
                )

    def ensure_single_partition(self) -> None:
        """Recreate logs and replies with one partition, if they are empty."""
        self.check()
        for topic in self._logs_and_replies():
            if len(topic.partitions) > 1:
                self._kafka.recreate_topic(topic.name, self._configs[topic.name])

    def record_ids(self) -> None:
        """Remember the topic ids, to notice topics that are replaced."""
        self._ids = {topic.name: topic.id for topic in self._kafka.describe(self._configs).values()}

    def check_unchanged(self) -> None:
        """Raise if a topic was deleted or replaced; it is recreated first.

        One with several partitions holds only what was written since, and would block the next
        leader.
        """
        found = self._kafka.describe(self._configs)
        # the consumer of the election may take minutes to notice a deleted topic
        changed = [t for t in self._configs if t not in found or found[t].id != self._ids[t]]
        for topic in changed:
            self._kafka.create_topic(topic, self._configs[topic])  # before the broker does
            if len(self._kafka.describe([topic])[topic].partitions) > 1:
                self._kafka.recreate_topic(topic, self._configs[topic])
        if changed:
            recreated = " and recreated" if changed[0] in found else ""
            raise TopicUnusable(f"{changed[0]} was deleted{recreated}", hint=_RECREATED_HINT)

    def _logs_and_replies(self) -> list[Topic]:
        found = self._kafka.describe([self._names.logs, self._names.replies])
        return list(found.values())

    def _has_records(self, topic: Topic) -> bool:
        ends = self._kafka.offsets([topic], OffsetSpec.latest())
        return ends != self._kafka.offsets([topic], OffsetSpec.earliest())
