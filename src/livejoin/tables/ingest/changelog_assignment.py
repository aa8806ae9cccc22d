"""Which changelogs the follower's consumer reads, and where they ended when it first saw them."""

from collections.abc import Iterable

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from livejoin.core.names import Names
from livejoin.core.state import State
from livejoin.kafka.cluster import Kafka, Topic


class ChangelogAssignment:
    """Assigns the changelogs that the ledger names, each from its start, once it exists."""

    def __init__(self, kafka: Kafka, names: Names) -> None:
        self._kafka = kafka
        self._names = names
        self.generations: dict[str, int] = {}  # by changelog, including those that do not exist yet
        self._topic_ids: dict[str, str] = {}  # of the topics created for their generations
        self._measured: set[str] = set()  # changelogs whose end offset was asked for
        self._assigned: set[str] = set()
        self._unreadable: set[str] = set()

    def start(self, *, keep: bool) -> None:
        """Begin with a new consumer; `keep` the changelogs if the ledger is not parsed again."""
        if not keep:
            self.generations = {}
        self._measured, self._assigned, self._unreadable = set(), set(), set()

    def follow(self, state: State) -> dict[int, int]:
        """Follow the ledger's state; returns the end offsets of new changelogs by generation."""
        changelog = self._names.changelog
        self.generations = {changelog(number): number for number in _with_changelog(state)}
        self._topic_ids = {changelog(g.number): g.changelog_id for g in state.generations}
        self._measured &= self.generations.keys()
        new = self._existing(self.generations.keys() - self._measured).values()
        ends = self._kafka.offsets(new, OffsetSpec.latest()) if new else {}
        self._measured |= ends.keys()
        return {self.generations[topic]: offsets[0] for topic, offsets in ends.items()}

    def on_unreadable(self, topic: str) -> bool:
        """Note that a topic cannot be read any more; returns whether that is harmless.

        A changelog may be deleted before the ledger's record of it was read.
        """
        self._unreadable.add(topic)
        return topic in self._assigned

    def unassign_unreadable(self, consumer: Consumer) -> None:
        """Stop reading changelogs that cannot be read any more."""
        if self._unreadable:
            consumer.incremental_unassign([TopicPartition(t, 0) for t in self._unreadable])
            self._assigned -= self._unreadable
            self._unreadable = set()

    def assign(self, consumer: Consumer) -> str:
        """Update the assignment; returns a changelog that is not authorized, or empty."""
        wanted = self.generations.keys()
        if unwanted := self._assigned - wanted:
            consumer.incremental_unassign([TopicPartition(topic, 0) for topic in unwanted])
        existing = self._existing(wanted - self._assigned)
        if new := {name for name, topic in existing.items() if topic.readable}:
            consumer.incremental_assign([TopicPartition(topic, 0, 0) for topic in new])
        self._assigned = (self._assigned - unwanted) | new
        return min(existing.keys() - new, default="")

    def _existing(self, changelogs: Iterable[str]) -> dict[str, Topic]:
        """Those of the changelogs that exist and were created for their generations."""
        topics = self._kafka.describe(changelogs) if changelogs else {}
        # ledgers before format 2 have no topic IDs
        return {
            name: topic for name, topic in topics.items() if self._topic_ids[name] in ("", topic.id)
        }


def _with_changelog(state: State) -> list[int]:
    """The numbers of the generations that have a changelog."""
    created = (g for g in state.generations if g.has_topics or g.ready_at is not None)
    return [generation.number for generation in created if generation.resolved]
