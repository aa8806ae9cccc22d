"""Reads the control topic, and turns each record into a fact. Nothing here decides."""

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
from livejoin.errors import KafkaUnavailable, LivejoinError, TopicUnusable
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.kafka.reading import poll_batch, read_to_end
from livejoin.kafka.signatures import SignatureVerifier, SignedRecord
from livejoin.runtime import failpoints

log = structlog.get_logger()

_MAX_RECORDS = 1000
_POLL_S = 0.1
_RETRY_S = 2.0
_CHECK_S = 5.0  # how often the topic itself is looked at


class ControlTopicReplaced(LivejoinError):
    """The control topic is not the one that was read."""


@dataclass
class ControlTopic:
    """The control topic from a position on, whatever happens to it or to the cluster."""

    kafka: Kafka
    names: Names
    rules: control_messages.TopicRules
    inbox: Inbox
    topic_id: str  # of the topic that the position belongs to; empty at the first start
    position: int
    signers: SignatureVerifier = field(default_factory=SignatureVerifier)

    def run(self, stop: threading.Event) -> None:
        """Read until told to stop. Trouble becomes a fact and is tried again."""
        while not stop.is_set():
            try:
                self._consume(stop)
            except ControlTopicReplaced:
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
        """The topic, made if need be. It has one partition, so that messages have one order."""
        name = self.rules.control
        found = self.kafka.describe([name]).get(name)
        if found is None:
            self.kafka.create_topic(name, {"retention.ms": "-1"})
            found = self.kafka.describe([name])[name]
        if len(found.partitions) > 1:
            raise TopicUnusable(
                f'control topic "{name}" has {len(found.partitions)} partitions',
                hint="It must have one, so that messages have one order: make it anew.",
            )
        return found

    def _check_unchanged(self, topic: Topic) -> None:
        found = self.kafka.describe([topic.name]).get(topic.name)
        if found is None or found.id != topic.id:
            raise ControlTopicReplaced(f"{topic.name} was made anew")

    def _replay_history(self, consumer: Consumer, topic: Topic) -> None:
        """A topic that is new to us: its whole past comes down to one fact."""
        end = self._offset(topic, OffsetSpec.latest())
        at = self._offset(topic, OffsetSpec.earliest())
        history = ControlHistory()
        consumer.assign([TopicPartition(topic.name, 0, at)])
        silent_s = 0.0
        while at < end:
            records = poll_batch(consumer, _MAX_RECORDS, _POLL_S)
            self._load_signers(records)
            for one in map(self._parse, records):
                history.add(one)
                at = one.origin.offset + 1
            silent_s = 0.0 if records else silent_s + _POLL_S
            if silent_s > _CHECK_S:
                # below the end may stand what no reader gets: markers of transactions
                last = consumer.position([TopicPartition(topic.name, 0)])[0].offset
                if last < end:
                    raise KafkaUnavailable(f'control topic "{topic.name}" gives no answer')
                at = last
        self.topic_id, self.position = topic.id, end
        self.inbox.put(history.replayed(topic.id, end))

    def _offset(self, topic: Topic, where: OffsetSpec) -> int:
        return self.kafka.offsets([topic], where)[topic.name][0]

    def _forward(self, records: Sequence[Message]) -> None:
        self._load_signers(records)
        inbound = [self._parse(record) for record in records]
        named = {topic for one in inbound if one.request for topic in one.request.topics}
        found = self.kafka.describe_readable(named)  # all of a burst at once
        for one in inbound:
            topics = {
                topic: _topic_info(found[topic])
                for topic in (one.request.topics if one.request else ())
            }
            self.position = one.origin.offset + 1
            self.inbox.put(facts.MessageReceived(one.origin, one.request, one.error, topics))

    def _load_signers(self, records: Sequence[Message]) -> None:
        """Learn of a process that has signed and is not known: its key stands there already."""
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
        said = _header(record, BY_HEADER)
        signed = SignedRecord(self.rules.control, offset, at_ms, said, value)
        vouched = self.signers.verify(signed, _header(record, SIGNATURE_HEADER))
        return parse_record(
            offset, at_ms / 1000, sender_name(said, vouched=vouched), value, self.rules
        )


def _topic_info(topic: Topic | str) -> facts.TopicInfo | str:
    return topic if isinstance(topic, str) else facts.TopicInfo(len(topic.partitions))


def _header(record: Message, wanted: str) -> bytes:
    headers: Any = record.headers() or ()  # typed as two kinds of pairs
    return next((bytes(value) for name, value in headers if name == wanted and value), b"")
