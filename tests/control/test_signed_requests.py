"""Senders of control messages: verified if a livejoin server signed them, else only claimed."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition

from livejoin.control.control_topic import ControlTopic
from livejoin.core import facts
from livejoin.core.control_messages import MessageRules
from livejoin.core.names import Names
from livejoin.core.state import Limits
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.kafka.records import poll_batch
from livejoin.tables.auth import access_topics
from livejoin.tables.http.control_requests import ControlProducer, RequestSigner
from livejoin.tables.ingest.catalog import Catalog
from rig.running import until

RAW = b'{"joinType": "inner"}'
LIMIT_S = 60

NextSender = Callable[[], str]


class SignedTopic:
    """A control topic with a signing server and another producer."""

    def __init__(self, kafka: Kafka, name: str) -> None:
        self.kafka = kafka
        self.rules = MessageRules(Names(name), f"{name}.control")
        kafka.create_topic(self.rules.control)
        access_topics.create_topics(kafka, self.rules.names)

    def server(self, *, knows_topic: bool = True) -> ControlProducer:
        signer = RequestSigner(self.kafka, self.rules.names)
        if knows_topic:
            signer.on_topic_ready()
        return ControlProducer(Clusters.single(self.kafka), self.rules, Limits(), Catalog(), signer)

    def write(self, raw: bytes, headers: Any) -> None:
        producer = self.kafka.producer()
        producer.produce(self.rules.control, raw, headers=headers)
        assert producer.flush(10) == 0

    def newest_record(self) -> Message:
        """The newest record of the control topic."""
        consumer = self.kafka.reader("signed.test")
        try:
            at = self.kafka.end_offset(self.rules.control) - 1
            consumer.assign([TopicPartition(self.rules.control, 0, at)])
            records: list[Message] = until(
                lambda: poll_batch(consumer, 1, 0.2), "the record", LIMIT_S
            )
            return records[0]
        finally:
            consumer.close()

    @contextmanager
    def leader(self) -> Iterator[NextSender]:
        """Reads the control topic as a leader does; gives the sender of each message."""
        inbox: queue.Queue[facts.Fact] = queue.Queue()
        topic = ControlTopic(
            Clusters.single(self.kafka), self.rules.names, self.rules, inbox, "", {}
        )
        stop = threading.Event()
        thread = threading.Thread(target=topic.run, args=(stop,))
        thread.start()

        def next_sender() -> str:
            while True:
                fact = inbox.get(timeout=LIMIT_S)
                assert not isinstance(fact, facts.ControlTopicLost), fact
                if isinstance(fact, facts.MessageReceived):
                    return fact.origin.by

        try:
            while not isinstance(inbox.get(timeout=LIMIT_S), facts.ControlTopicOpened):
                pass
            yield next_sender
        finally:
            stop.set()
            thread.join()


@pytest.fixture
def signing(kafka: Kafka, request: pytest.FixtureRequest) -> SignedTopic:
    return SignedTopic(kafka, f"signed-{abs(hash(request.node.name)):x}")


def test_a_server_signs_the_sender_of_its_messages(signing: SignedTopic) -> None:
    with signing.leader() as next_sender:
        for sender in ("cli alice 127.0.0.1", "page bob 127.0.0.1"):
            signing.server()._write(RAW, sender)  # each is a new process, unknown before
            assert next_sender() == sender


def test_an_unsigned_sender_is_shown_as_a_claim(signing: SignedTopic) -> None:
    with signing.leader() as next_sender:
        signing.write(RAW, [("livejoin-by", b"cli alice 127.0.0.1")])
        assert next_sender() == "kafka (says: cli alice 127.0.0.1)"
        signing.write(RAW, None)
        assert next_sender() == "kafka"


def test_headers_copied_from_another_record_are_not_valid(signing: SignedTopic) -> None:
    with signing.leader() as next_sender:
        signing.server()._write(RAW, "cli alice")
        assert next_sender() == "cli alice"
        copied = signing.newest_record().headers()
        for raw in (b'{"joinType": "left"}', RAW):
            signing.write(raw, copied)
            assert next_sender() == "kafka (says: cli alice)"


def test_a_later_leader_knows_the_signers(signing: SignedTopic) -> None:
    server = signing.server()
    server._write(RAW, "cli alice")
    with ExitStack() as stack:
        next_sender = stack.enter_context(signing.leader())
        server._write(RAW, "cli alice")
        assert next_sender() == "cli alice"


def test_a_server_that_cannot_publish_its_key_still_writes(signing: SignedTopic) -> None:
    with signing.leader() as next_sender:
        signing.server(knows_topic=False)._write(RAW, "cli alice")
        assert next_sender() == "kafka (says: cli alice)"
