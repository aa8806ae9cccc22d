"""Brokers that answer differently: older ones, without rights, at addresses that lead nowhere."""

from collections.abc import Iterator

import pytest

from livejoin.control.ledger import Ledger
from livejoin.core.names import Names
from livejoin.core.state import State
from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import Kafka
from livejoin.tables.auth import access_topics
from rig import brokers
from rig.older_broker import METADATA, Ports, older_broker

NO_OPERATIONS = 7  # newest version of Metadata without the authorized operations
NO_IDS = 9  # and without topic ids


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    ports = Ports()
    with brokers.broker(tmp_path_factory.mktemp("broker"), more=ports.settings()):
        yield ports


@pytest.fixture(params=[NO_OPERATIONS, NO_IDS], ids=["no operations, no ids", "no ids"])
def older(ports: Ports, request: pytest.FixtureRequest) -> Iterator[Kafka]:
    with older_broker(ports.outer, ports.inner, {METADATA: request.param}):
        yield Kafka({"bootstrap.servers": f"127.0.0.1:{ports.outer}"})


def test_topics_of_an_older_broker_can_be_used(
    older: Kafka, request: pytest.FixtureRequest
) -> None:
    topic = f"older-{len(request.node.name)}"
    older.create_topic(topic, partitions=2)
    found = older.describe([topic, "missing"])
    assert list(found) == [topic]
    assert (found[topic].partitions, found[topic].has_id) == ((0, 1), False)
    assert (found[topic].readable, found[topic].writable) == (True, True)
    assert older.describe_readable([topic])[topic] == found[topic]


def test_a_topic_is_created_anew_on_a_broker_without_ids(
    older: Kafka, request: pytest.FixtureRequest
) -> None:
    topic = f"again-{len(request.node.name)}"
    older.create_topic(topic, partitions=3)
    assert older.recreate_topic(topic).partitions == (0,)
    assert older.recreate_topic(topic).partitions == (0,)


def test_the_ledger_is_taken_over_on_an_older_broker(
    older: Kafka, request: pytest.FixtureRequest
) -> None:
    names = Names(f"older{len(request.node.name)}")
    assert Ledger(older, names).take_over() == State()
    ledger = Ledger(older, names)
    assert ledger.take_over() == State()
    ledger._topics.check_unchanged()
    access_topics.create_topics(older, names)
    assert access_topics.create_first_tokens(older, names)
    assert len(access_topics.read_tokens(older, names)) == 2


def test_an_advertised_address_that_leads_nowhere_is_named(ports: Ports) -> None:
    lost = Kafka({"bootstrap.servers": f"127.0.0.1:{ports.bootstrap}"})
    with pytest.raises(KafkaUnavailable) as error:
        lost.create_topic("lost")
    said = str(error.value)
    assert f"127.0.0.1:{ports.bootstrap} answers" in said
    assert f"broker 1 advertises 127.0.0.1:{ports.nowhere}, which cannot be reached" in said
    assert "advertised.listeners" in said
    with pytest.raises(KafkaUnavailable, match="advertises"):
        lost.check_advertised()
    with older_broker(ports.outer, ports.inner, {METADATA: NO_IDS}):
        Kafka({"bootstrap.servers": f"127.0.0.1:{ports.inner}"}).check_advertised()
