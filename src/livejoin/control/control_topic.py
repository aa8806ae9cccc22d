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
    History,
    Inbound,
    asked_by,
    understood,
)
from livejoin.core.names import Names
from livejoin.errors import KafkaUnavailable, LivejoinError, TopicUnusable
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.kafka.reading import arrived, read_to_end
from livejoin.kafka.signatures import Signed, Signers
from livejoin.runtime import failpoints

log = structlog.get_logger()

_MOST = 1000
_WAIT_S = 0.1
_AGAIN_S = 2.0
_LOOK_S = 5.0  # how often the topic itself is looked at


class Remade(LivejoinError):
    """The control topic is not the one that was read."""


@dataclass
class ControlTopic:
    """The control topic from a position on, whatever happens to it or to the cluster."""

    kafka: Kafka
    names: Names
    rules: control_messages.Rules
    inbox: Inbox
    topic_id: str  # of the topic that the position belongs to; empty at the first start
    position: int
    signers: Signers = field(default_factory=Signers)

    def run(self, stop: threading.Event) -> None:
        """Read until told to stop. Trouble becomes a fact and is tried again."""
        while not stop.is_set():
            try:
                self._read(stop)
            except Remade:
                continue
            except (LivejoinError, KafkaException) as error:
                self.inbox.put(facts.Deafened(str(error)))
                stop.wait(_AGAIN_S)

    def _read(self, stop: threading.Event) -> None:
        topic = self._topic()
        consumer = self.kafka.reader(self.names.group("control"), fetch_wait_ms=10)
        try:
            if topic.id != self.topic_id:
                self._fold(consumer, topic)
            first = self._offset(topic, OffsetSpec.earliest())
            consumer.assign([TopicPartition(topic.name, 0, max(self.position, first))])
            self.inbox.put(facts.Listened(topic.name, first))
            quiet_s = 0.0
            while not stop.is_set():
                records = arrived(consumer, _MOST, _WAIT_S)
                self._pass_on(records)
                if records and failpoints.again("read-control"):
                    log.warning("all control messages are read again", first=first)
                    consumer.seek(TopicPartition(topic.name, 0, first))
                quiet_s = 0.0 if records else quiet_s + _WAIT_S
                if quiet_s > _LOOK_S:
                    quiet_s = 0.0
                    self._check_same(topic)
        finally:
            consumer.close()

    def _topic(self) -> Topic:
        """The topic, made if need be. It has one partition, so that messages have one order."""
        name = self.rules.control
        found = self.kafka.describe([name]).get(name)
        if found is None:
            self.kafka.make(name, {"retention.ms": "-1"})
            found = self.kafka.describe([name])[name]
        if len(found.partitions) > 1:
            raise TopicUnusable(
                f'control topic "{name}" has {len(found.partitions)} partitions',
                hint="It must have one, so that messages have one order: make it anew.",
            )
        return found

    def _check_same(self, topic: Topic) -> None:
        found = self.kafka.describe([topic.name]).get(topic.name)
        if found is None or found.id != topic.id:
            raise Remade(f"{topic.name} was made anew")

    def _fold(self, consumer: Consumer, topic: Topic) -> None:
        """A topic that is new to us: its whole past comes down to one fact."""
        end = self._offset(topic, OffsetSpec.latest())
        at = self._offset(topic, OffsetSpec.earliest())
        history = History()
        consumer.assign([TopicPartition(topic.name, 0, at)])
        silent_s = 0.0
        while at < end:
            records = arrived(consumer, _MOST, _WAIT_S)
            self._know_signers(records)
            for one in map(self._understood, records):
                history.add(one)
                at = one.origin.offset + 1
            silent_s = 0.0 if records else silent_s + _WAIT_S
            if silent_s > _LOOK_S:
                # below the end may stand what no reader gets: markers of transactions
                last = consumer.position([TopicPartition(topic.name, 0)])[0].offset
                if last < end:
                    raise KafkaUnavailable(f'control topic "{topic.name}" gives no answer')
                at = last
        self.topic_id, self.position = topic.id, end
        self.inbox.put(history.folded(topic.id, end))

    def _offset(self, topic: Topic, where: OffsetSpec) -> int:
        return self.kafka.offsets([topic], where)[topic.name][0]

    def _pass_on(self, records: Sequence[Message]) -> None:
        self._know_signers(records)
        inbound = [self._understood(record) for record in records]
        named = {topic for one in inbound if one.request for topic in one.request.topics}
        found = self.kafka.find(named)  # all of a burst at once
        for one in inbound:
            topics = {
                topic: _found(found[topic]) for topic in (one.request.topics if one.request else ())
            }
            self.position = one.origin.offset + 1
            self.inbox.put(facts.Asked(one.origin, one.request, one.wrong, topics))

    def _know_signers(self, records: Sequence[Message]) -> None:
        """Learn of a process that has signed and is not known: its key stands there already."""
        if all(self.signers.knows(_header(one, SIGNATURE_HEADER)) for one in records):
            return
        topic = self.names.access
        if topic not in self.kafka.describe([topic]):
            return
        consumer = self.kafka.reader(self.names.group("control"))
        try:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            for record in read_to_end(consumer, topic):
                self.signers.take(record.key, record.value)
        finally:
            consumer.close()

    def _understood(self, record: Message) -> Inbound:
        offset, at_ms, value = record.offset() or 0, record.timestamp()[1], record.value() or b""
        said = _header(record, BY_HEADER)
        signed = Signed(self.rules.control, offset, at_ms, said, value)
        vouched = self.signers.check(signed, _header(record, SIGNATURE_HEADER))
        return understood(offset, at_ms / 1000, asked_by(said, vouched=vouched), value, self.rules)


def _found(topic: Topic | str) -> facts.Found | str:
    return topic if isinstance(topic, str) else facts.Found(len(topic.partitions))


def _header(record: Message, wanted: str) -> bytes:
    headers: Any = record.headers() or ()  # typed as two kinds of pairs
    return next((bytes(value) for name, value in headers if name == wanted and value), b"")
