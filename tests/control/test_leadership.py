"""Who leads: one at most, whatever the leader topic looks like."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions
from typer.testing import CliRunner

from livejoin.app import Leader
from livejoin.cli import main
from livejoin.config.settings import Settings
from livejoin.control.leadership import Leadership, Term
from livejoin.core.names import Names
from livejoin.core.own_topics import OwnTopicRules
from livejoin.errors import TopicMisconfigured
from livejoin.kafka.cluster import Kafka, Topic
from rig.running import until

LIMIT_S = 30


class Standing:
    """One that stands for election on a thread, until told to stop or refused."""

    def __init__(self, kafka: Kafka, names: Names) -> None:
        self.leads = threading.Event()
        self.refused: BaseException | None = None
        self._stop = threading.Event()
        self._leadership = Leadership(kafka, names, self._lead)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _lead(self, term: Term) -> None:
        self.leads.set()
        term.over.wait()
        self.leads.clear()

    def _run(self) -> None:
        try:
            self._leadership.run(self._stop)
        except TopicMisconfigured as error:
            self.refused = error

    def decided(self) -> bool:
        return self.refused is not None or self.leads.is_set()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture
def stand(kafka: Kafka) -> Iterator[Callable[[Names], Standing]]:
    standing: list[Standing] = []

    def one(names: Names) -> Standing:
        standing.append(Standing(kafka, names))
        return standing[-1]

    yield one
    for each in standing:
        each.close()


def test_a_leader_topic_of_two_partitions_is_refused_by_name(
    kafka: Kafka, stand: Callable[[Names], Standing]
) -> None:
    names = Names("two-partitions")
    kafka.create_topic(names.leader, partitions=2)
    both = [stand(names), stand(names)]
    for one in both:
        until(one.decided, "it leads or is refused", LIMIT_S)
        assert str(one.refused) == (
            "topic two-partitions.leader has 2 partitions, so several processes could lead."
            " It must have one: stop all livejoins of this name and delete it;"
            " the next start recreates it."
        )
    assert not any(one.leads.is_set() for one in both)


def test_run_waits_and_says_why_until_the_topic_is_as_it_must_be(kafka: Kafka) -> None:
    names, said = Names("run-two-partitions"), list[dict[str, Any]]()
    kafka.create_topic(names.leader, partitions=2)
    stop = threading.Event()
    leader = Leader(Settings(name=names.prefix), kafka, names, said.append, dict, lambda _: {})
    thread = threading.Thread(target=leader.run, args=(stop,))
    thread.start()
    try:
        until(lambda: said, "it says so", LIMIT_S)
    finally:
        stop.set()
        thread.join()
    assert said[0]["state"] == "waiting"
    assert "run-two-partitions.leader has 2 partitions" in said[0]["message"]


def test_doctor_names_it(kafka: Kafka, tmp_path: Path) -> None:
    kafka.create_topic(Names("ill").leader, partitions=3)
    kafka.create_topic(Names("well").leader)
    for name, found in (
        ("ill", "BAD  leader     topic ill.leader has 3 partitions, so several processes could"),
        ("well", "ok   leader     "),
        ("new", "ok   leader     "),
    ):
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump({"name": name, "kafka": dict(kafka.properties)}))
        lines = CliRunner().invoke(main.cli, ["doctor", "-c", str(file)]).stdout.splitlines()
        assert lines[-1].startswith(found), lines


def test_partitions_that_are_added_while_one_leads_make_no_second_leader(
    kafka: Kafka, stand: Callable[[Names], Standing]
) -> None:
    names = Names("more-partitions")
    first = stand(names)
    until(first.leads.is_set, "the first leads", LIMIT_S)
    kafka.admin.create_partitions([NewPartitions(names.leader, 2)])[names.leader].result(LIMIT_S)
    until(lambda: len(kafka.describe([names.leader])[names.leader].partitions) == 2, "it has two")
    second = stand(names)
    until(second.decided, "the second is refused", LIMIT_S)
    assert second.refused is not None
    assert first.leads.is_set()


class Group:
    """Stands for Kafka and for a member of its group: hands out partitions as it is told."""

    def __init__(self) -> None:
        self.given: list[tuple[str, int]] = []
        self._called: dict[str, Any] = {}

    own_topics = OwnTopicRules()

    def create_topic(self, *_: Any, **_options: Any) -> None:
        pass

    def describe(self, names: list[str]) -> dict[str, Topic]:
        return {name: Topic(name, "", (0,)) for name in names}

    def group_consumer(self, *_: Any) -> "Group":
        return self

    def subscribe(self, _topics: list[str], **called: Any) -> None:
        self._called = called

    def poll(self, _limit_s: float) -> None:
        if self.given:
            how, partition = self.given.pop(0)
            self._called[how](self, [TopicPartition("x.leader", partition)])

    def reachable(self, _limit_s: float) -> bool:
        return True

    def close(self) -> None:
        pass


@pytest.fixture
def group() -> Group:
    return Group()


def test_only_the_holder_of_the_first_partition_leads(group: Any) -> None:
    one = Standing(group, Names("x"))
    try:
        group.given += [("on_assign", 1), ("on_assign", 0)]
        until(one.leads.is_set, "it leads", LIMIT_S)
        group.given += [("on_revoke", 1), ("on_lost", 1)]
        until(lambda: not group.given, "they are gone", LIMIT_S)
        assert one.leads.is_set()
        group.given += [("on_lost", 0), ("on_assign", 1)]
        until(lambda: not group.given and not one.leads.is_set(), "it is over", LIMIT_S)
    finally:
        one.close()


@pytest.mark.parametrize("how", ["on_revoke", "on_lost"])
def test_a_lead_that_is_lost_is_told_before_anything_is_waited_for(group: Any, how: str) -> None:
    lost, leads, go_on = threading.Event(), threading.Event(), threading.Event()

    def lead(term: Term) -> None:
        term.on_loss = lost.set
        leads.set()
        assert go_on.wait(LIMIT_S)  # it is busy, and does not look whether it is over

    stop = threading.Event()
    leadership = Leadership(group, Names("x"), lead)
    thread = threading.Thread(target=leadership.run, args=(stop,))
    thread.start()
    try:
        group.given += [("on_assign", 0)]
        assert leads.wait(LIMIT_S)
        group.given += [(how, 0)]
        assert lost.wait(LIMIT_S)
    finally:
        go_on.set()
        stop.set()
        thread.join()


def test_who_stops_leading_by_itself_has_lost_nothing(group: Any) -> None:
    lost, leads = threading.Event(), threading.Event()

    def lead(term: Term) -> None:
        term.on_loss = lost.set
        leads.set()
        assert term.over.wait(LIMIT_S)

    stop = threading.Event()
    thread = threading.Thread(target=Leadership(group, Names("x"), lead).run, args=(stop,))
    thread.start()
    group.given += [("on_assign", 0)]
    assert leads.wait(LIMIT_S)
    stop.set()
    thread.join()
    assert not lost.is_set()
