"""Sign-outs on their way to other servers: over a real broker, and where none answers."""

import asyncio
import time

import pytest

from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.tables.auth import access_topics, sign_outs
from livejoin.tables.auth.sign_outs import SignOutPublisher


def _until() -> float:
    return time.time() + 3600


def test_one_that_is_told_is_known_to_whoever_reads_later(kafka: Kafka) -> None:
    names = Names("told")
    access_topics.create_topics(kafka, names)
    telling = SignOutPublisher(kafka, names)
    telling.on_topic_ready()
    assert asyncio.run(telling.publish("a", _until())) == ""
    assert list(access_topics.read_ended_sessions(kafka, names).sessions) == ["a"]
    telling.close(10)


def test_one_waits_for_the_topic_and_makes_none(kafka: Kafka) -> None:
    names = Names("told-late")
    telling = SignOutPublisher(kafka, names)
    assert "no topic told-late.access yet" in asyncio.run(telling.publish("a", _until()))
    assert access_topics.read_ended_sessions(kafka, names).sessions == {}
    assert names.access not in kafka.topics()
    access_topics.create_topics(kafka, names)
    telling.on_topic_ready()
    telling.close(10)
    assert list(access_topics.read_ended_sessions(kafka, names).sessions) == ["a"]


def test_where_nobody_answers_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sign_outs, "_WAIT_S", 0.5)
    telling = SignOutPublisher(Kafka({"bootstrap.servers": "127.0.0.1:1"}), Names("nobody"))
    telling.on_topic_ready()
    assert asyncio.run(telling.publish("a", _until())) == "Kafka does not answer"
    telling.close(0.1)
    assert "known to nobody any more" in capsys.readouterr().out
