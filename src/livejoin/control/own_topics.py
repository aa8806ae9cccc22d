"""The topics that a leader writes: made as they should be, and known by their ids.

A broker with `auto.create.topics.enable` makes one that was deleted again as soon as somebody
writes to it, with as many partitions as it likes. What stands in several has no order, and is read
from the first alone.
"""

from collections.abc import Mapping

from confluent_kafka.admin import OffsetSpec

from livejoin.control import leader_heartbeat
from livejoin.core.names import Names
from livejoin.errors import TopicUnusable
from livejoin.kafka.cluster import Kafka, Topic

COMPACTED = "cleanup.policy", "compact"
_RECREATED_HINT = "It is made again; without a ledger the choice comes from the control topic."


class OwnTopics:
    """The ledger, the log, the replies and the topic of the election."""

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
        """Make those that are not there."""
        for topic, config in self._configs.items():
            self._kafka.create_topic(topic, config)

    def check(self) -> None:
        """Refuse a log or replies in several partitions that hold something: it would be lost."""
        for topic in self._logs_and_replies():
            if len(topic.partitions) > 1 and self._has_records(topic):
                raise TopicUnusable(
                    f"{topic.name} has more than one partition",
                    hint="Delete it while nothing runs, with the lines or replies that it holds:"
                    " it is made again.",
                )

    def ensure_single_partition(self) -> None:
        """Have log and replies in one partition each."""
        self.check()
        for topic in self._logs_and_replies():
            if len(topic.partitions) > 1:
                self._kafka.recreate_topic(topic.name, self._configs[topic.name])

    def record_ids(self) -> None:
        """From now on these are ours, and no others of their names."""
        self._ids = {topic.name: topic.id for topic in self._kafka.describe(self._configs).values()}

    def check_unchanged(self) -> None:
        """Raise when one was deleted, or is another one.

        Another one in several partitions is made as it should be first: all that it holds was
        written since, and whoever stands for election next would be refused because of it.
        """
        found = self._kafka.describe(self._configs)
        # the consumer of the election does not notice for minutes that its topic is gone
        others = [t for t in self._configs if t not in found or found[t].id != self._ids[t]]
        for topic in others:
            self._kafka.create_topic(topic, self._configs[topic])  # before a broker does
            if len(self._kafka.describe([topic])[topic].partitions) > 1:
                self._kafka.recreate_topic(topic, self._configs[topic])
        if others:
            again = " and made again" if others[0] in found else ""
            raise TopicUnusable(f"{others[0]} was deleted{again}", hint=_RECREATED_HINT)

    def _logs_and_replies(self) -> list[Topic]:
        found = self._kafka.describe([self._names.logs, self._names.replies])
        return list(found.values())

    def _has_records(self, topic: Topic) -> bool:
        ends = self._kafka.offsets([topic], OffsetSpec.latest())
        return ends != self._kafka.offsets([topic], OffsetSpec.earliest())
