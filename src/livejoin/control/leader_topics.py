"""The topics that the leader writes: created with their configuration, tracked by their ids."""

from collections.abc import Iterable

import structlog
from confluent_kafka.admin import OffsetSpec

from livejoin.core.names import Names
from livejoin.core.own_topics import Kind
from livejoin.errors import TopicMisconfigured, TopicReplaced
from livejoin.kafka import own_topics
from livejoin.kafka.cluster import Kafka, Topic

log = structlog.get_logger()

_RECREATED_HINT = "It is recreated; without a ledger, the choice comes from the control topic."


class OwnTopics:
    """The topics that the leader writes: created with their configuration, tracked by their ids.

    A broker with `auto.create.topics.enable` recreates a deleted topic at the next write, perhaps
    with several partitions. Records in several partitions have no order, and only the first one is
    read.
    """

    def __init__(self, kafka: Kafka, names: Names, *, with_replies: bool) -> None:
        self._kafka = kafka
        self._kinds: dict[str, Kind] = {
            names.ledger: "ledger",
            names.logs: "logs",
            **({names.replies: "replies"} if with_replies else {}),
            names.leader: "leader",
        }
        self._ids: dict[str, str] = {}

    def create_missing(self) -> None:
        """Create the missing topics."""
        for topic, kind in self._kinds.items():
            own_topics.create(self._kafka, topic, kind)

    def check(self) -> None:
        """Raise if logs or replies have several partitions with records, which would be lost."""
        for topic in self._logs_and_replies():
            if len(topic.partitions) > 1 and self._has_records(topic):
                raise TopicMisconfigured(
                    f"{topic.name} has more than one partition",
                    hint="Stop livejoin and delete it, with the lines or replies in it:"
                    " it is recreated.",
                )

    def ensure_single_partition(self) -> None:
        """Recreate logs and replies with one partition, if they are empty."""
        self.check()
        for topic in self._logs_and_replies():
            if len(topic.partitions) > 1:
                own_topics.recreate(self._kafka, topic.name, self._kinds[topic.name])

    def record_ids(self) -> None:
        """Remember the topic ids, to notice topics that are replaced."""
        found = self._kafka.describe(self._kinds)
        self._ids = {topic.name: topic.id for topic in found.values()}
        if not all(topic.has_id for topic in found.values()):
            log.warning(
                "the brokers report no topic ids: a topic that is deleted and recreated is only"
                " noticed where its offsets differ",
                address=self._kafka.address,
            )

    def check_unchanged(self) -> None:
        """Raise if a topic was deleted or replaced; it is recreated first.

        One with several partitions holds only what was written since, and would block the next
        leader.
        """
        found = self._kafka.describe(self._kinds)
        # the consumer of the election may take minutes to notice a deleted topic
        changed = [t for t in self._kinds if t not in found or found[t].id != self._ids[t]]
        for topic in changed:
            own_topics.create(self._kafka, topic, self._kinds[topic])  # before the broker does
            if len(self._kafka.describe([topic])[topic].partitions) > 1:
                own_topics.recreate(self._kafka, topic, self._kinds[topic])
        if changed:
            recreated = " and recreated" if changed[0] in found else ""
            raise TopicReplaced(f"{changed[0]} was deleted{recreated}", hint=_RECREATED_HINT)

    def _logs_and_replies(self) -> list[Topic]:
        kinds: Iterable[Kind] = ("logs", "replies")
        found = self._kafka.describe(t for t, kind in self._kinds.items() if kind in kinds)
        return list(found.values())

    def _has_records(self, topic: Topic) -> bool:
        ends = self._kafka.offsets([topic], OffsetSpec.latest())
        return ends != self._kafka.offsets([topic], OffsetSpec.earliest())
