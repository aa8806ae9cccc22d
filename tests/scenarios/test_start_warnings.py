"""What only the brokers know, and a start does not need, is logged once when a leader starts."""

import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from livejoin import orchestrator
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.runtime.broker import free_port
from rig.older_broker import older_broker
from rig.running import Running, until

FORGETFUL = {"cleanup.policy": "compact,delete", "retention.ms": "60000"}
COMPACTED = 'control topic "{}.control" is compacted'
SHORT = 'control topic "{}.control" keeps messages for 1 min only'
SAME = "kafka and kafka_control are one cluster"


def test_a_start_warns_of_the_control_topic_and_of_two_logins(kafka: Kafka, tmp_path: Path) -> None:
    name = "warned"
    kafka.create_topic(f"{name}.control", FORGETFUL)
    topics = {"users": f"{name}.users", "accounts": f"{name}.accounts"}
    other = {**kafka.properties, "client.id": "other"}
    livejoin = Running(kafka, tmp_path, name=name, topics=topics, kafka_control=other)
    livejoin.start()
    texts = (COMPACTED.format(name), SHORT.format(name), SAME)
    try:
        until(lambda: all(text in livejoin.log.read_text() for text in texts), "it warns")
        assert livejoin.stop() == 0
    finally:
        livejoin.stop()
    assert [livejoin.log.read_text().count(text) for text in texts] == [1, 1, 1]


def test_it_waits_for_a_cluster_that_is_away(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orchestrator, "_ATTEMPT_S", 0.1)
    monkeypatch.setattr(orchestrator, "_WARNINGS_RETRY_S", 0.1)
    kafka.create_topic("away.control", FORGETFUL)
    port, inner = free_port(), int(kafka.address.rpartition(":")[2])
    away = Kafka({"bootstrap.servers": f"127.0.0.1:{port}"}, section="kafka_control")
    stop = threading.Event()
    with capture_logs() as logged:
        arguments = (Clusters(kafka, kafka, away), "away.control", stop)
        thread = threading.Thread(target=orchestrator._log_warnings, args=arguments)
        thread.start()
        try:
            until(lambda: away._last_error is not None, "it was tried", 30)
            assert thread.is_alive()
            assert logged == []
            with older_broker(port, inner, {}):
                until(lambda: not thread.is_alive(), "it has asked", 30)
        finally:
            stop.set()
            thread.join()
    texts = (SAME, COMPACTED.format("away"), SHORT.format("away"))
    assert len(logged) == len(texts)
    for one, text in zip(logged, texts, strict=True):
        assert one["what"].startswith(text)
