"""Loss of leadership over a real broker: the JVM is killed, the successor is unaffected."""

import json
import threading
from pathlib import Path
from typing import Any, Self

import pytest
from pyspark.sql import SparkSession

from livejoin import orchestrator
from livejoin.config.sections import HttpSettings, TopicSettings
from livejoin.config.settings import Settings
from livejoin.control.leadership import Term
from livejoin.control.ledger import Ledger
from livejoin.core.names import Names
from livejoin.core.state import State
from livejoin.errors import LeadershipLost, QueryFailed
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.orchestrator import Leader
from livejoin.pipeline.spark_driver import SparkDriver
from rig.running import until

LIMIT_S = 30


class FakeSession(SparkDriver):
    """A session without a JVM; records that it is killed."""

    created: "list[FakeSession]"
    entered = staticmethod(lambda: None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.killed = threading.Event()
        self.created.append(self)

    def __enter__(self) -> Self:
        self.entered()
        return self

    def spark(self) -> SparkSession:
        raise QueryFailed("no JVM for this test")

    def kill(self) -> None:
        self.killed.set()
        super().kill()


class LeaderThread:
    """A leader on a thread, just after its election."""

    def __init__(self, kafka: Kafka, names: Names, folder: Path) -> None:
        self.term = Term()
        self.failure: BaseException | None = None
        settings = Settings(
            name=names.prefix,
            checkpoints=str(folder),
            topics=TopicSettings(control=f"{names.prefix}-control"),
            http=HttpSettings(insecure=True),
        )
        self._leader = Leader(
            settings, Clusters.single(kafka), names, lambda _: None, dict, lambda _: {}
        )
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._leader.lead(self.term)
        except LeadershipLost as error:
            self.failure = error


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[FakeSession]:
    created: list[FakeSession] = []
    monkeypatch.setattr(FakeSession, "created", created, raising=False)
    monkeypatch.setattr(orchestrator, "SparkDriver", FakeSession)
    return created


def test_the_jvm_is_killed_as_soon_as_leadership_is_lost(
    kafka: Kafka, tmp_path: Path, sessions: list[FakeSession]
) -> None:
    names = Names("lost")
    leader = LeaderThread(kafka, names, tmp_path)
    until(lambda: kafka.describe([names.ledger]) and kafka.end_offset(names.ledger), "it leads")
    assert not sessions[0].killed.is_set()
    leader.term.on_loss()  # as the election does, before it blocks
    assert sessions[0].killed.is_set()
    leader.term.over.set()
    leader.thread.join(LIMIT_S)
    assert not leader.thread.is_alive()


def test_the_jvm_is_killed_when_another_leader_has_taken_over(
    kafka: Kafka, tmp_path: Path, sessions: list[FakeSession]
) -> None:
    names = Names("deposed")
    control = f"{names.prefix}-control"
    kafka.create_topic(control)
    leader = LeaderThread(kafka, names, tmp_path)
    until(lambda: kafka.describe([names.ledger]) and kafka.end_offset(names.ledger), "it leads")
    Ledger(kafka, names).take_over()
    producer = kafka.producer()
    producer.produce(
        control, json.dumps({"joinType": "inner"})
    )  # makes the leader write to the ledger
    assert producer.flush(LIMIT_S) == 0
    leader.thread.join(LIMIT_S)
    assert not leader.thread.is_alive()
    assert isinstance(leader.failure, LeadershipLost)
    assert sessions[0].killed.is_set()


def test_a_leader_deposed_before_it_starts_fences_nobody(
    kafka: Kafka, tmp_path: Path, sessions: list[FakeSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names("too-late")
    successor = Ledger(kafka, names)
    successor.take_over()
    term = Term()
    monkeypatch.setattr(FakeSession, "entered", staticmethod(term.over.set))
    settings = Settings(name=names.prefix, checkpoints=str(tmp_path))
    Leader(settings, Clusters.single(kafka), names, lambda _: None, dict, lambda _: {}).lead(term)
    assert len(sessions) == 1
    successor.write(State(last_number=1))
