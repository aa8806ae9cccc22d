"""Who asked: what livejoin's own servers write counts, and what anybody else claims is a claim."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition

from livejoin.control.control_topic import ControlTopic
from livejoin.core import facts
from livejoin.core.control_messages import TopicRules
from livejoin.core.names import Names
from livejoin.core.state import Limits
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import poll_batch
from livejoin.tables.auth import access_topics
from livejoin.tables.http.control_requests import ControlProducer, RequestSigner
from livejoin.tables.ingest.catalog import Catalog
from rig.running import until

RAW = b'{"joinType": "inner"}'
LIMIT_S = 60

Next = Callable[[], str]


class Signing:
    """A control topic, a server that writes to it, and somebody who writes there as well."""

    def __init__(self, kafka: Kafka, name: str) -> None:
        self.kafka = kafka
        self.rules = TopicRules(Names(name), f"{name}.control")
        kafka.create_topic(self.rules.control)
        access_topics.create_topics(kafka, self.rules.names)

    def server(self, *, knows_topic: bool = True) -> ControlProducer:
        vouching = RequestSigner(self.kafka, self.rules.names)
        if knows_topic:
            vouching.on_topic_ready()
        return ControlProducer(self.kafka, self.rules, Limits(), Catalog(), vouching)

    def write(self, raw: bytes, headers: Any) -> None:
        producer = self.kafka.producer()
        producer.produce(self.rules.control, raw, headers=headers)
        assert producer.flush(10) == 0

    def last(self) -> Message:
        """The newest record of the control topic."""
        consumer = self.kafka.reader("signed.test")
        try:
            at = self.kafka.end_offset(self.rules.control) - 1
            consumer.assign([TopicPartition(self.rules.control, 0, at)])
            found: list[Message] = until(
                lambda: poll_batch(consumer, 1, 0.2), "the record", LIMIT_S
            )
            return found[0]
        finally:
            consumer.close()

    @contextmanager
    def leader(self) -> Iterator[Next]:
        """Reads the control topic as a leader does; who asked, one by one."""
        inbox: queue.Queue[facts.Fact] = queue.Queue()
        topic = ControlTopic(self.kafka, self.rules.names, self.rules, inbox, "", 0)
        stop = threading.Event()
        thread = threading.Thread(target=topic.run, args=(stop,))
        thread.start()

        def nearest() -> str:
            while True:
                fact = inbox.get(timeout=LIMIT_S)
                assert not isinstance(fact, facts.ControlTopicLost), fact
                if isinstance(fact, facts.MessageReceived):
                    return fact.origin.by

        try:
            while not isinstance(inbox.get(timeout=LIMIT_S), facts.ControlTopicOpened):
                pass
            yield nearest
        finally:
            stop.set()
            thread.join()


@pytest.fixture
def signing(kafka: Kafka, request: pytest.FixtureRequest) -> Signing:
    return Signing(kafka, f"signed-{abs(hash(request.node.name)):x}")


def test_what_a_server_writes_is_from_whom_it_says(signing: Signing) -> None:
    with signing.leader() as by:
        for who in ("cli alice 127.0.0.1", "page bob 127.0.0.1"):
            signing.server()._write(RAW, who)  # each another process, unknown until then
            assert by() == who


def test_a_name_that_a_producer_claims_is_shown_as_a_claim(signing: Signing) -> None:
    with signing.leader() as by:
        signing.write(RAW, [("livejoin-by", b"cli alice 127.0.0.1")])
        assert by() == "kafka (says: cli alice 127.0.0.1)"
        signing.write(RAW, None)
        assert by() == "kafka"


def test_headers_of_another_record_count_for_nothing(signing: Signing) -> None:
    with signing.leader() as by:
        signing.server()._write(RAW, "cli alice")
        assert by() == "cli alice"
        copied = signing.last().headers()
        for raw in (b'{"joinType": "left"}', RAW):
            signing.write(raw, copied)
            assert by() == "kafka (says: cli alice)"


def test_a_leader_that_comes_later_knows_who_signed(signing: Signing) -> None:
    server = signing.server()
    server._write(RAW, "cli alice")
    with ExitStack() as stack:
        by = stack.enter_context(signing.leader())
        server._write(RAW, "cli alice")
        assert by() == "cli alice"


def test_where_nobody_could_check_it_a_server_writes_all_the_same(signing: Signing) -> None:
    with signing.leader() as by:
        signing.server(knows_topic=False)._write(RAW, "cli alice")
        assert by() == "kafka (says: cli alice)"
