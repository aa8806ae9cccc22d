"""Reads the control topic and turns each record into a fact. Nothing is decided here."""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from livejoin.control.control_history import HistoryReader
from livejoin.control.executor import Inbox
from livejoin.core import control_messages, facts
from livejoin.core.control_records import (
    BY_HEADER,
    SIGNATURE_HEADER,
    ControlHistory,
    ControlRecord,
    in_history_order,
    parse_record,
    sender_name,
)
from livejoin.core.generation import Offsets
from livejoin.core.names import Names
from livejoin.errors import KafkaUnavailable, LivejoinError
from livejoin.kafka import own_topics
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.kafka.clusters import Clusters
from livejoin.kafka.records import OffsetRange, poll_batch, read_to_end
from livejoin.kafka.signatures import SignatureVerifier, SignedRecord
from livejoin.runtime import failpoints

log = structlog.get_logger()

_MAX_RECORDS = 1000
_POLL_S = 0.1
_RETRY_S = 2.0
_CHECK_S = 5.0  # between checks that the topic is still the same


@dataclass
class ControlTopic:
    """Reads the control topic from a position, across failures of Kafka and of the topic.

    It may have any number of partitions. Messages count in the order in which they are read.
    """

    clusters: Clusters
    names: Names
    rules: control_messages.MessageRules
    inbox: Inbox
    topic_id: str  # of the topic that `position` belongs to; empty at the first start
    position: Offsets  # the next offset of each partition
    signers: SignatureVerifier = field(default_factory=SignatureVerifier)

    @property
    def _cluster(self) -> Kafka:
        """The cluster of the control topic."""
        return self.clusters.control

    def run(self, stop: threading.Event) -> None:
        """Read until stopped. Errors are reported as facts and retried."""
        while not stop.is_set():
            try:
                self._consume(stop)
            except (LivejoinError, KafkaException) as error:
                self.inbox.put(facts.ControlTopicLost(str(error)))
                stop.wait(_RETRY_S)

    def _consume(self, stop: threading.Event) -> None:
        """Read until stopped, or until the topic is another one or has more partitions."""
        topic, group = self._ensure_topic(), self.names.group("control")
        if self.clusters.has_separate_control:  # else the election has used a group
            self._cluster.check_group(group)
        consumer = self._cluster.reader(group, fetch_wait_ms=10)
        try:
            if topic.id != self.topic_id:
                self._replay_history(consumer, topic)
            first = self._offsets(topic, OffsetSpec.earliest())
            # partitions that were added since have no position and are read from their beginning
            start = {p: max(self.position.get(p, 0), offset) for p, offset in first.items()}
            consumer.assign([TopicPartition(topic.name, *one) for one in start.items()])
            opened = facts.ControlTopicOpened(topic.name, first)
            self.inbox.put(opened)
            check_at = time.monotonic() + _CHECK_S
            while not stop.is_set():
                records = poll_batch(consumer, _MAX_RECORDS, _POLL_S)
                self._forward(records, opened, stop)
                if records and failpoints.should_repeat("read-control"):
                    log.warning("all control messages are read again", first=first)
                    for one in first.items():
                        consumer.seek(TopicPartition(topic.name, *one))
                if time.monotonic() > check_at:
                    if not self._is_unchanged(topic):
                        return
                    check_at = time.monotonic() + _CHECK_S
        finally:
            consumer.close()

    def _ensure_topic(self) -> Topic:
        """The topic, created if missing, with one partition: so its messages have one order."""
        self._require_answer()
        name = self.rules.control
        found = self._cluster.describe([name]).get(name)
        if found is None:
            own_topics.create(self._cluster, name, "control")
            found = self._cluster.describe([name])[name]
        return found

    def _require_answer(self) -> None:
        """Report that the cluster is away sooner than a timed-out request would."""
        if self.clusters.has_separate_control:  # else others report it
            self._cluster.wait_until_reachable(_CHECK_S)

    def _is_unchanged(self, topic: Topic) -> bool:
        self._require_answer()
        found = self._cluster.describe([topic.name]).get(topic.name)
        return found is not None and (found.id, found.partitions) == (topic.id, topic.partitions)

    def _replay_history(self, consumer: Consumer, topic: Topic) -> None:
        """Read a new topic to its end and report its history as one fact."""
        first = self._offsets(topic, OffsetSpec.earliest())
        ends = self._offsets(topic, OffsetSpec.latest())
        reader = HistoryReader(consumer, topic.name, self._parse_history)
        history = ControlHistory()
        for record in in_history_order(
            reader.records(p, OffsetRange(first[p], ends[p])) for p in topic.partitions
        ):
            history.add(record)
            failpoints.visit("in-history")
        self.topic_id, self.position = topic.id, ends
        self.inbox.put(history.replayed(topic.id, ends))

    def _parse_history(self, records: Sequence[Message]) -> Iterator[ControlRecord]:
        self._load_signers(records)
        return map(self._parse, records)

    def _offsets(self, topic: Topic, where: OffsetSpec) -> Offsets:
        return self._cluster.offsets([topic], where)[topic.name]

    def _forward(
        self, records: Sequence[Message], opened: facts.ControlTopicOpened, stop: threading.Event
    ) -> None:
        self._load_signers(records)
        parsed = [self._parse(record) for record in records]
        named = {topic for one in parsed if one.request for topic in one.request.topics.values()}
        found = self._describe_named(named, opened, stop)  # at once for the whole batch
        for one in parsed:
            topics = {
                topic: _topic_info(found[topic])
                for topic in (one.request.topics.values() if one.request else ())
            }
            self.position = {**self.position, one.origin.partition: one.origin.offset + 1}
            self.inbox.put(facts.MessageReceived(one.origin, one.request, one.error, topics))

    def _describe_named(
        self, named: Iterable[str], opened: facts.ControlTopicOpened, stop: threading.Event
    ) -> dict[str, Topic | str]:
        """Describe the topics that messages name, once their cluster answers.

        They wait for it here: reading them again would tell each time that all is well.
        """
        waits = False
        while True:
            try:
                found = self.clusters.data.describe_readable(named)
            except KafkaUnavailable as error:
                if stop.is_set():
                    raise
                self.inbox.put(facts.ControlTopicLost(str(error)))
                waits = True
                stop.wait(_RETRY_S)
            else:
                if waits:
                    self.inbox.put(opened)
                return found

    def _load_signers(self, records: Sequence[Message]) -> None:
        """Load the keys of unknown signers; a key is written before it is used."""
        if all(self.signers.knows_signer(_header(one, SIGNATURE_HEADER)) for one in records):
            return
        topic = self.names.access
        own = self.clusters.own
        if topic not in own.describe([topic]):
            return
        consumer = own.reader(self.names.group("control"))
        try:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            for record in read_to_end(consumer, topic):
                self.signers.add_key(record.key, record.value)
        finally:
            consumer.close()

    def _parse(self, record: Message) -> ControlRecord:
        partition, offset = record.partition() or 0, record.offset() or 0
        at_ms, value = record.timestamp()[1], record.value() or b""
        claimed = _header(record, BY_HEADER)
        signed = SignedRecord(self.rules.control, partition, offset, at_ms, claimed, value)
        verified = self.signers.verify(signed, _header(record, SIGNATURE_HEADER))
        by = sender_name(claimed, verified=verified)
        return parse_record(partition, offset, at_ms / 1000, by, value, self.rules)


def _topic_info(topic: Topic | str) -> facts.TopicInfo | str:
    return topic if isinstance(topic, str) else facts.TopicInfo(len(topic.partitions))


def _header(record: Message, name: str) -> bytes:
    headers: Any = record.headers() or ()  # typed as a list or a dict
    return next((bytes(value) for key, value in headers if key == name and value), b"")
