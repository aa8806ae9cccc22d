"""Reads the control topic and turns each record into a fact. Nothing is decided here."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from livejoin.control.executor import Inbox
from livejoin.core import control_messages, facts
from livejoin.core.control_records import (
    BY_HEADER,
    SIGNATURE_HEADER,
    ControlHistory,
    ControlRecord,
    parse_record,
    sender_name,
)
from livejoin.core.names import Names
from livejoin.errors import KafkaUnavailable, LivejoinError, TopicMisconfigured, TopicReplaced
from livejoin.kafka import own_topics
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.kafka.records import poll_batch, read_to_end
from livejoin.kafka.signatures import SignatureVerifier, SignedRecord
from livejoin.runtime import failpoints

log = structlog.get_logger()

_MAX_RECORDS = 1000
_POLL_S = 0.1
_RETRY_S = 2.0
_CHECK_S = 5.0  # between checks that the topic still exists


@dataclass
class ControlTopic:
    """Reads the control topic from a position, across failures of Kafka and of the topic."""

    kafka: Kafka
    names: Names
    rules: control_messages.TopicRules
    inbox: Inbox
    topic_id: str  # of the topic that `position` belongs to; empty at the first start
    position: int
    signers: SignatureVerifier = field(default_factory=SignatureVerifier)

    def run(self, stop: threading.Event) -> None:
        """Read until stopped. Errors are reported as facts and retried."""
        while not stop.is_set():
            try:
                self._consume(stop)
            except TopicReplaced:
                continue
            except (LivejoinError, KafkaException) as error:
                self.inbox.put(facts.ControlTopicLost(str(error)))
                stop.wait(_RETRY_S)

    def _consume(self, stop: threading.Event) -> None:
        topic = self._ensure_topic()
        consumer = self.kafka.reader(self.names.group("control"), fetch_wait_ms=10)
        try:
            if topic.id != self.topic_id:
                self._replay_history(consumer, topic)
            first = self._offset(topic, OffsetSpec.earliest())
            consumer.assign([TopicPartition(topic.name, 0, max(self.position, first))])
            self.inbox.put(facts.ControlTopicOpened(topic.name, first))
            quiet_s = 0.0
            while not stop.is_set():
                records = poll_batch(consumer, _MAX_RECORDS, _POLL_S)
                self._forward(records)
                if records and failpoints.should_repeat("read-control"):
                    log.warning("all control messages are read again", first=first)
                    consumer.seek(TopicPartition(topic.name, 0, first))
                quiet_s = 0.0 if records else quiet_s + _POLL_S
                if quiet_s > _CHECK_S:
                    quiet_s = 0.0
                    self._check_unchanged(topic)
        finally:
            consumer.close()

    def _ensure_topic(self) -> Topic:
        """The topic, created if missing. It must have one partition: messages are ordered."""
        name = self.rules.control
        found = self.kafka.describe([name]).get(name)
        if found is None:
            own_topics.create(self.kafka, name, "control")
            found = self.kafka.describe([name])[name]
        if len(found.partitions) > 1:
            raise TopicMisconfigured(
                f'control topic "{name}" has {len(found.partitions)} partitions',
                hint="It must have one, so that messages are ordered: recreate it.",
            )
        return found

    def _check_unchanged(self, topic: Topic) -> None:
        found = self.kafka.describe([topic.name]).get(topic.name)
        if found is None or found.id != topic.id:
            raise TopicReplaced(f"{topic.name} was deleted or recreated")

    def _replay_history(self, consumer: Consumer, topic: Topic) -> None:
        """Read a new topic to its end and report its history as one fact."""
        end = self._offset(topic, OffsetSpec.latest())
        at = self._offset(topic, OffsetSpec.earliest())
        history = ControlHistory()
        consumer.assign([TopicPartition(topic.name, 0, at)])
        silent_s = 0.0
        while at < end:
            records = poll_batch(consumer, _MAX_RECORDS, _POLL_S)
            self._load_signers(records)
            for parsed in map(self._parse, records):
                history.add(parsed)
                at = parsed.origin.offset + 1
            silent_s = 0.0 if records else silent_s + _POLL_S
            if silent_s > _CHECK_S:
                # the last offsets may be transaction markers, which consumers do not get
                last = consumer.position([TopicPartition(topic.name, 0)])[0].offset
                if last < end:
                    raise KafkaUnavailable(f'control topic "{topic.name}" does not respond')
                at = last
        self.topic_id, self.position = topic.id, end
        self.inbox.put(history.replayed(topic.id, end))

    def _offset(self, topic: Topic, where: OffsetSpec) -> int:
        return self.kafka.offsets([topic], where)[topic.name][0]

    def _forward(self, records: Sequence[Message]) -> None:
        self._load_signers(records)
        parsed = [self._parse(record) for record in records]
        named = {topic for one in parsed if one.request for topic in one.request.topics}
        found = self.kafka.describe_readable(named)  # one request for the whole batch
        for one in parsed:
            topics = {
                topic: _topic_info(found[topic])
                for topic in (one.request.topics if one.request else ())
            }
            self.position = one.origin.offset + 1
            self.inbox.put(facts.MessageReceived(one.origin, one.request, one.error, topics))

    def _load_signers(self, records: Sequence[Message]) -> None:
        """Load the keys of unknown signers; a key is written before it is used."""
        if all(self.signers.knows_signer(_header(one, SIGNATURE_HEADER)) for one in records):
            return
        topic = self.names.access
        if topic not in self.kafka.describe([topic]):
            return
        consumer = self.kafka.reader(self.names.group("control"))
        try:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            for record in read_to_end(consumer, topic):
                self.signers.add_key(record.key, record.value)
        finally:
            consumer.close()

    def _parse(self, record: Message) -> ControlRecord:
        offset, at_ms, value = record.offset() or 0, record.timestamp()[1], record.value() or b""
        claimed = _header(record, BY_HEADER)
        signed = SignedRecord(self.rules.control, offset, at_ms, claimed, value)
        verified = self.signers.verify(signed, _header(record, SIGNATURE_HEADER))
        by = sender_name(claimed, verified=verified)
        return parse_record(offset, at_ms / 1000, by, value, self.rules)


def _topic_info(topic: Topic | str) -> facts.TopicInfo | str:
    return topic if isinstance(topic, str) else facts.TopicInfo(len(topic.partitions))


def _header(record: Message, name: str) -> bytes:
    headers: Any = record.headers() or ()  # typed as a list or a dict
    return next((bytes(value) for key, value in headers if key == name and value), b"")
