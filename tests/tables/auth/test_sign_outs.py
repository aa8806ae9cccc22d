"""Publishing sign-outs to other servers, with and without a broker."""

import asyncio
import time

import pytest

from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.tables.auth import access_topics, sessions_and_codes
from livejoin.tables.auth.sessions_and_codes import SignOutPublisher


def _until() -> float:
    return time.time() + 3600


def test_a_published_sign_out_is_read_by_later_servers(kafka: Kafka) -> None:
    names = Names("told")
    access_topics.create_topics(kafka, names)
    publisher = SignOutPublisher(kafka, names)
    publisher.on_topic_ready()
    assert asyncio.run(publisher.publish("a", _until())) == ""
    assert list(access_topics.read_ended_sessions(kafka, names).sessions) == ["a"]
    publisher.close(10)


def test_a_sign_out_waits_for_the_topic_and_does_not_create_it(kafka: Kafka) -> None:
    names = Names("told-late")
    publisher = SignOutPublisher(kafka, names)
    assert "topic told-late.access does not exist yet" in asyncio.run(
        publisher.publish("a", _until())
    )
    assert access_topics.read_ended_sessions(kafka, names).sessions == {}
    assert names.access not in kafka.topics()
    access_topics.create_topics(kafka, names)
    publisher.on_topic_ready()
    publisher.close(10)
    assert list(access_topics.read_ended_sessions(kafka, names).sessions) == ["a"]


def test_an_unreachable_broker_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sessions_and_codes, "_PUBLISH_WAIT_S", 0.5)
    publisher = SignOutPublisher(Kafka({"bootstrap.servers": "127.0.0.1:1"}), Names("nobody"))
    publisher.on_topic_ready()
    assert asyncio.run(publisher.publish("a", _until())) == "Kafka does not answer"
    publisher.close(0.1)
    assert "was not published before shutdown" in capsys.readouterr().out
