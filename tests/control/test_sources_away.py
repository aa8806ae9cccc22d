"""Control messages while the cluster of the sources is away: they wait for it, and none is lost."""

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from livejoin.control import control_topic
from livejoin.control.control_topic import ControlTopic
from livejoin.core import facts
from livejoin.core.control_messages import MessageRules
from livejoin.core.names import Names
from livejoin.kafka import cluster
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import ROLES, Clusters
from rig.brokers import Broker, lasting_port

LIMIT_S = 60
NAMES = Names("sources-away")
RULES = MessageRules(NAMES, f"{NAMES.prefix}-control")


@contextmanager
def reading(clusters: Clusters) -> Iterator["queue.Queue[facts.Fact]"]:
    """Read the control topic as a leader does."""
    inbox: queue.Queue[facts.Fact] = queue.Queue()
    topic = ControlTopic(clusters, NAMES, RULES, inbox, "", {})
    stop = threading.Event()
    thread = threading.Thread(target=topic.run, args=(stop,))
    thread.start()
    try:
        yield inbox
    finally:
        stop.set()
        thread.join()


def send(kafka: Kafka, **fields: str) -> None:
    producer = kafka.producer()
    producer.produce(RULES.control, json.dumps(fields))
    assert producer.flush(LIMIT_S) == 0


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Broker]:
    """A broker that has a topic, and is not running."""
    broker = Broker(tmp_path / "data", lasting_port())
    try:
        broker.start().create_topic("users_b", partitions=2)
        broker.kill()
        yield broker
    finally:
        broker.close()


def test_messages_wait_for_the_cluster_of_the_topics_that_they_name(
    kafka: Kafka, away: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "REQUEST_TIMEOUT_S", 1)
    monkeypatch.setattr(control_topic, "_RETRY_S", 0.1)
    kafka.create_topic(RULES.control)
    servers = {"bootstrap.servers": f"127.0.0.1:{away.port}"}
    data = Kafka(servers, section="kafka_data", role=ROLES["kafka_data"])
    with reading(Clusters(kafka, data, kafka)) as inbox:
        assert isinstance(inbox.get(timeout=LIMIT_S), facts.HistoryReplayed)
        assert isinstance(inbox.get(timeout=LIMIT_S), facts.ControlTopicOpened)
        send(kafka, joinType="inner")  # names none
        first = inbox.get(timeout=LIMIT_S)
        assert isinstance(first, facts.MessageReceived)
        send(kafka, usersTopic="users_b")
        for _ in range(3):  # and nothing that says that all is well
            lost = inbox.get(timeout=LIMIT_S)
            assert isinstance(lost, facts.ControlTopicLost)
            assert "(cluster of the sources) cannot be reached" in lost.why
            assert "(after" not in lost.why  # each other text would be another line of the log
        send(kafka, joinType="left")
        away.start()
        later = list(_until_received(inbox))
        third = inbox.get(timeout=LIMIT_S)
    *waiting, opened, second = later
    assert all(isinstance(one, facts.ControlTopicLost) for one in waiting)
    assert isinstance(opened, facts.ControlTopicOpened)
    assert isinstance(second, facts.MessageReceived)
    assert isinstance(third, facts.MessageReceived)
    assert [one.origin.offset for one in (first, second, third)] == [0, 1, 2]
    assert second.topics == {"users_b": facts.TopicInfo(2)}


def _until_received(inbox: "queue.Queue[facts.Fact]") -> Iterator[facts.Fact]:
    """The next facts up to the next message."""
    while True:
        fact = inbox.get(timeout=LIMIT_S)
        yield fact
        if isinstance(fact, facts.MessageReceived):
            return
