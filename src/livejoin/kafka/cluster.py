"""The Kafka cluster: its clients, and requests about its topics, their configs and offsets."""

import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from livejoin.core.names import nearest
from livejoin.errors import (
    LeaderNotAvailable,
    LivejoinError,
    NotAuthorized,
    TopicError,
    TopicExists,
    TopicMissing,
)
from livejoin.kafka.clients import REQUEST_TIMEOUT_S, KafkaClients
from livejoin.kafka.topic_errors import group_not_authorized, topic_not_authorized, topic_not_found

__all__ = ["REQUEST_TIMEOUT_S", "Kafka", "Topic"]

_POLL_S = 0.02  # until all brokers know a new topic
_ELECTION_POLL_S = 0.05
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # zero: the broker reports no topic ids


@dataclass(frozen=True)
class Topic:
    """A topic as the cluster describes it. A recreated topic has another id.

    Brokers before 2.8, and some that only speak Kafka's protocol, report no ids: all are the same
    then, and a recreated topic is noticed by its offsets only.
    """

    name: str
    id: str
    partitions: tuple[int, ...]
    # also where the broker does not report operations: using the topic shows whether they are
    readable: bool = True
    writable: bool = True
    reports_rights: bool = True

    @property
    def has_id(self) -> bool:
        """Whether the broker reports topic ids."""
        return self.id != _NO_ID


class Kafka(KafkaClients):
    """One cluster."""

    def topics(self) -> list[str]:
        """Names of all topics that are visible to this user."""
        return sorted(self.wait_until_reachable(REQUEST_TIMEOUT_S).topics)

    def describe(self, names: Iterable[str]) -> dict[str, Topic]:
        """Describe those of the topics that exist."""
        futures = self.admin.describe_topics(
            TopicCollection(sorted(set(names))),
            include_authorized_operations=True,
            request_timeout=REQUEST_TIMEOUT_S,
        )
        found = {}
        for name, future in futures.items():
            try:
                description = self._result(future, name)
            except TopicMissing:
                continue
            operations = description.authorized_operations  # None: not reported
            found[name] = Topic(
                name,
                str(description.topic_id or _NO_ID),
                tuple(sorted(p.id for p in description.partitions)),
                operations is None or AclOperation.READ in operations,
                operations is None or AclOperation.WRITE in operations,
                operations is not None,
            )
        return found

    def describe_readable(self, names: Iterable[str]) -> dict[str, Topic | str]:
        """Describe topics for reading; a text in place of each that cannot be read says why."""
        requested = list(names)
        found = self._describe_each(requested)
        unknown = [name for name in requested if name not in found]
        known = self.topics() if unknown else []
        return found | {name: _unknown_topic(name, known) for name in unknown}

    def _describe_each(self, names: Iterable[str]) -> dict[str, Topic | str]:
        found: dict[str, Topic | str] = {}
        for name in names:  # one by one: authorization may fail for each
            try:
                for topic in self.describe([name]).values():
                    found[name] = topic if topic.readable else topic_not_authorized(name).message
            except TopicError as error:
                found[name] = error.message
        return found

    def create_topic(
        self,
        name: str,
        config: Mapping[str, str] | None = None,
        partitions: int = 1,
        *,
        replication: int = -1,
    ) -> None:
        """Create a topic unless it exists, and wait until it can be described and read."""
        topic = NewTopic(name, partitions, replication, config=dict(config or {}))
        with contextlib.suppress(TopicExists):
            self._create(topic)
        until = time.monotonic() + REQUEST_TIMEOUT_S
        while name not in self.describe([name]):  # brokers learn of it one after the other
            if time.monotonic() > until:
                raise topic_not_found(name)
            time.sleep(_POLL_S)

    def recreate_topic(
        self, name: str, config: Mapping[str, str] | None = None, *, replication: int = -1
    ) -> Topic:
        """Create a topic of one partition; an existing topic of this name is deleted first."""
        topic = NewTopic(name, 1, replication, config=dict(config or {}))
        until, old_ids = time.monotonic() + REQUEST_TIMEOUT_S, set[str]()
        while True:  # a broker may auto-create it between deletion and creation
            old_ids |= {found.id for found in self.describe([name]).values() if found.has_id}
            try:
                self._create(topic)
                break
            except TopicExists:
                if time.monotonic() > until:
                    raise
                self.delete([name])
                # its id tells the new one from the old, which some brokers know for a moment
                if not old_ids:
                    self._wait_deleted(name, until)
        while True:  # brokers learn of it one after the other
            created = self.describe([name]).get(name)
            if created is not None and created.id not in old_ids:
                return created
            if time.monotonic() > until:
                raise topic_not_found(name)
            time.sleep(_POLL_S)

    def _wait_deleted(self, name: str, until: float) -> None:
        """Wait until no broker that is asked knows a topic, or it was auto-created again."""
        while name in self.describe([name]) and time.monotonic() < until:
            time.sleep(_POLL_S)

    def _create(self, topic: NewTopic) -> None:
        futures = self.admin.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)
        self._result(futures[topic.topic], topic.topic, "create")

    def check_group(self, group: str) -> None:
        """Raise if this user is not authorized to use a consumer group.

        A reader that is assigned its partitions may notice it or not, depending on the time.
        """
        (future,) = self.admin.describe_consumer_groups(
            [group], request_timeout=REQUEST_TIMEOUT_S
        ).values()
        try:
            self._result(future, group)
        except NotAuthorized as error:
            raise group_not_authorized(group) from error
        except LivejoinError:
            return  # some brokers report a group without members as unknown; reading shows the rest

    def delete(self, names: Iterable[str]) -> None:
        """Delete those of the topics that exist."""
        futures = self.admin.delete_topics(list(names), request_timeout=REQUEST_TIMEOUT_S)
        for name, future in futures.items():
            with contextlib.suppress(TopicMissing):
                self._result(future, name, "delete")

    def topic_config(self, topic: str, name: str) -> str | None:
        """A config value of a topic; None where the broker does not tell it, or not this user."""
        return (self.topic_configs(topic) or {}).get(name)

    def topic_configs(self, topic: str) -> dict[str, str] | None:
        """The config of a topic, as far as it is told; None if not to this user."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        futures = self.admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
        (future,) = futures.values()
        try:
            entries = self._result(future, topic)  # not every broker has every config
        except TopicError:
            return None
        return {name: str(one.value) for name, one in entries.items() if one.value is not None}

    def ensure_topic_config(self, topic: str, name: str, value: str) -> bool:
        """Set a config value of a topic unless it is set; False where that is refused."""
        if self.topic_config(topic, name) in (None, value):
            return True
        change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
        futures = self.admin.incremental_alter_configs(
            [resource], request_timeout=REQUEST_TIMEOUT_S
        )
        try:
            (future,) = futures.values()
            self._result(future, topic, "alter")
        except TopicError:
            return False
        return True

    def end_offset(self, topic: str) -> int:
        """The end offset of a topic with one partition."""
        single = Topic(topic, "", partitions=(0,))
        return self.offsets([single], OffsetSpec.latest())[topic][0]

    def offsets(self, topics: Iterable[Topic], spec: OffsetSpec) -> dict[str, dict[int, int]]:
        """Offsets by topic and partition. End offsets are those of read-committed consumers."""
        requests = {
            TopicPartition(topic.name, p): spec for topic in topics for p in topic.partitions
        }
        until = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            futures = self.admin.list_offsets(
                requests,
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=REQUEST_TIMEOUT_S,
            )
            found: dict[str, dict[int, int]] = {}
            try:
                for partition, future in futures.items():
                    offset = self._result(future, partition.topic).offset
                    found.setdefault(partition.topic, {})[partition.partition] = offset
            except LeaderNotAvailable:
                if time.monotonic() > until:
                    raise
                time.sleep(_ELECTION_POLL_S)
            else:
                return found


def _unknown_topic(topic: str, known: Iterable[str]) -> str:
    close = nearest(topic, known)
    return f'topic "{topic}" does not exist' + (f", did you mean {close}?" if close else "")
