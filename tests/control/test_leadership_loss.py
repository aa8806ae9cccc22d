"""A lead that is lost, over a real broker: its JVM is killed, and its successor left alone."""

import json
import threading
from pathlib import Path
from typing import Any, Self

import pytest
from pyspark.sql import SparkSession

from livejoin import app
from livejoin.app import Leader
from livejoin.config.sections import HttpSettings, TopicSettings
from livejoin.config.settings import Settings
from livejoin.control.leadership import Term
from livejoin.control.ledger import Ledger
from livejoin.core.names import Names
from livejoin.core.state import State
from livejoin.errors import LeadershipLost, QueryFailed
from livejoin.kafka.cluster import Kafka
from livejoin.pipeline.spark_driver import SparkDriver
from rig.running import until

LIMIT_S = 30


class Unstarted(SparkDriver):
    """A session whose JVM does not start; notes that it is killed."""

    made: "list[Unstarted]"
    entered = staticmethod(lambda: None)

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.killed = threading.Event()
        self.made.append(self)

    def __enter__(self) -> Self:
        self.entered()
        return self

    def spark(self) -> SparkSession:
        raise QueryFailed("no JVM for this test")

    def kill(self) -> None:
        self.killed.set()
        super().kill()


class Leading:
    """A leader on a thread, as one that has just been elected."""

    def __init__(self, kafka: Kafka, names: Names, folder: Path) -> None:
        self.term = Term()
        self.failure: BaseException | None = None
        settings = Settings(
            name=names.prefix,
            checkpoints=str(folder),
            topics=TopicSettings(control=f"{names.prefix}-control"),
            http=HttpSettings(insecure=True),
        )
        self._leader = Leader(settings, kafka, names, lambda _: None, dict, lambda _: {})
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._leader.lead(self.term)
        except LeadershipLost as error:
            self.failure = error


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Unstarted]:
    made: list[Unstarted] = []
    monkeypatch.setattr(Unstarted, "made", made, raising=False)
    monkeypatch.setattr(app, "SparkDriver", Unstarted)
    return made


def test_the_jvm_is_killed_as_soon_as_the_lead_is_lost(
    kafka: Kafka, tmp_path: Path, sessions: list[Unstarted]
) -> None:
    names = Names("lost")
    one = Leading(kafka, names, tmp_path)
    until(lambda: kafka.describe([names.ledger]) and kafka.end_offset(names.ledger), "it leads")
    assert not sessions[0].killed.is_set()
    one.term.on_loss()  # as the election does, before it waits for anything
    assert sessions[0].killed.is_set()
    one.term.over.set()
    one.thread.join(LIMIT_S)
    assert not one.thread.is_alive()


def test_the_jvm_is_killed_when_another_one_leads_already(
    kafka: Kafka, tmp_path: Path, sessions: list[Unstarted]
) -> None:
    names = Names("deposed")
    control = f"{names.prefix}-control"
    kafka.create_topic(control)
    one = Leading(kafka, names, tmp_path)
    until(lambda: kafka.describe([names.ledger]) and kafka.end_offset(names.ledger), "it leads")
    Ledger(kafka, names).take_over()
    producer = kafka.producer()
    producer.produce(control, json.dumps({"joinType": "inner"}))  # something to write down
    assert producer.flush(LIMIT_S) == 0
    one.thread.join(LIMIT_S)
    assert not one.thread.is_alive()
    assert isinstance(one.failure, LeadershipLost)
    assert sessions[0].killed.is_set()


def test_one_whose_lead_was_lost_before_it_began_fences_nobody(
    kafka: Kafka, tmp_path: Path, sessions: list[Unstarted], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names("too-late")
    successor = Ledger(kafka, names)
    successor.take_over()
    term = Term()
    monkeypatch.setattr(Unstarted, "entered", staticmethod(term.over.set))
    settings = Settings(name=names.prefix, checkpoints=str(tmp_path))
    Leader(settings, kafka, names, lambda _: None, dict, lambda _: {}).lead(term)
    assert len(sessions) == 1
    successor.write(State(last_number=1))
