"""Leader election: at most one leader, whatever the state of the leader topic."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions
from typer.testing import CliRunner

from livejoin.cli import main
from livejoin.config.settings import Settings
from livejoin.control.leadership import Leadership, Term
from livejoin.core.names import Names
from livejoin.core.own_topics import OwnTopicRules
from livejoin.errors import TopicMisconfigured
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.kafka.clusters import Clusters
from livejoin.orchestrator import Leader
from rig.running import until

LIMIT_S = 30


class Candidate:
    """A candidate on a thread, until it is stopped or refused."""

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
def start_candidate(kafka: Kafka) -> Iterator[Callable[[Names], Candidate]]:
    candidates: list[Candidate] = []

    def start(names: Names) -> Candidate:
        candidates.append(Candidate(kafka, names))
        return candidates[-1]

    yield start
    for candidate in candidates:
        candidate.close()


def test_a_leader_topic_with_two_partitions_is_refused(
    kafka: Kafka, start_candidate: Callable[[Names], Candidate]
) -> None:
    names = Names("two-partitions")
    kafka.create_topic(names.leader, partitions=2)
    candidates = [start_candidate(names), start_candidate(names)]
    for candidate in candidates:
        until(candidate.decided, "it leads or is refused", LIMIT_S)
        assert str(candidate.refused) == (
            "topic two-partitions.leader has 2 partitions, so several processes could lead."
            " It must have one: stop all livejoins of this name and delete it;"
            " the next start recreates it."
        )
    assert not any(candidate.leads.is_set() for candidate in candidates)


def test_run_waits_with_a_reason_while_the_leader_topic_is_wrong(kafka: Kafka) -> None:
    names, states = Names("run-two-partitions"), list[dict[str, Any]]()
    kafka.create_topic(names.leader, partitions=2)
    stop = threading.Event()
    leader = Leader(
        Settings(name=names.prefix),
        Clusters.single(kafka),
        names,
        states.append,
        dict,
        lambda _: {},
    )
    thread = threading.Thread(target=leader.run, args=(stop,))
    thread.start()
    try:
        until(lambda: states, "it reports the reason", LIMIT_S)
    finally:
        stop.set()
        thread.join()
    assert states[0]["state"] == "waiting"
    assert "run-two-partitions.leader has 2 partitions" in states[0]["message"]


def test_doctor_reports_a_wrong_leader_topic(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kafka.create_topic(Names("ill").leader, partitions=3)
    kafka.create_topic(Names("well").leader)
    for name, expected in (
        (
            "ill",
            "BAD      own topics     ill.leader has 3 partitions, needs one: several processes",
        ),
        ("well", "; well.leader has 1 partition; "),
        ("new", "; new.leader is created at the first start; "),
    ):
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump({"name": name, "kafka": dict(kafka.properties)}))
        lines = CliRunner().invoke(main.cli, ["doctor", "-c", str(file)]).stdout.splitlines()
        (line,) = [line for line in lines if f"{name}.leader " in line and "own topics" in line
                   and expected in line]  # fmt: skip
        assert line.startswith("BAD" if name == "ill" else "ok"), lines


def test_partitions_added_to_the_leader_topic_make_no_second_leader(
    kafka: Kafka, start_candidate: Callable[[Names], Candidate]
) -> None:
    names = Names("more-partitions")
    first = start_candidate(names)
    until(first.leads.is_set, "the first leads", LIMIT_S)
    kafka.admin.create_partitions([NewPartitions(names.leader, 2)])[names.leader].result(LIMIT_S)
    until(lambda: len(kafka.describe([names.leader])[names.leader].partitions) == 2, "it has two")
    second = start_candidate(names)
    until(second.decided, "the second is refused", LIMIT_S)
    assert second.refused is not None
    assert first.leads.is_set()


class FakeGroup:
    """Fake of Kafka and of a group member: assigns and revokes partitions by `events`."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []
        self._callbacks: dict[str, Any] = {}

    own_topics = OwnTopicRules()

    def create_topic(self, *_: Any, **_options: Any) -> None:
        pass

    def describe(self, names: list[str]) -> dict[str, Topic]:
        return {name: Topic(name, "", (0,)) for name in names}

    def group_consumer(self, *_: Any) -> "FakeGroup":
        return self

    def subscribe(self, _topics: list[str], **callbacks: Any) -> None:
        self._callbacks = callbacks

    def poll(self, _limit_s: float) -> None:
        if self.events:
            callback, partition = self.events.pop(0)
            self._callbacks[callback](self, [TopicPartition("x.leader", partition)])

    def reachable(self, _limit_s: float) -> bool:
        return True

    def close(self) -> None:
        pass


@pytest.fixture
def group() -> FakeGroup:
    return FakeGroup()


def test_only_the_owner_of_partition_0_leads(group: Any) -> None:
    candidate = Candidate(group, Names("x"))
    try:
        group.events += [("on_assign", 1), ("on_assign", 0)]
        until(candidate.leads.is_set, "it leads", LIMIT_S)
        group.events += [("on_revoke", 1), ("on_lost", 1)]
        until(lambda: not group.events, "the events are handled", LIMIT_S)
        assert candidate.leads.is_set()
        group.events += [("on_lost", 0), ("on_assign", 1)]
        until(
            lambda: not group.events and not candidate.leads.is_set(),
            "its leadership has ended",
            LIMIT_S,
        )
    finally:
        candidate.close()


@pytest.mark.parametrize("callback", ["on_revoke", "on_lost"])
def test_a_loss_is_reported_before_anything_blocks(group: Any, callback: str) -> None:
    lost, leads, proceed = threading.Event(), threading.Event(), threading.Event()

    def lead(term: Term) -> None:
        term.on_loss = lost.set
        leads.set()
        assert proceed.wait(LIMIT_S)  # busy: it does not check `term.over`

    stop = threading.Event()
    leadership = Leadership(group, Names("x"), lead)
    thread = threading.Thread(target=leadership.run, args=(stop,))
    thread.start()
    try:
        group.events += [("on_assign", 0)]
        assert leads.wait(LIMIT_S)
        group.events += [(callback, 0)]
        assert lost.wait(LIMIT_S)
    finally:
        proceed.set()
        stop.set()
        thread.join()


def test_a_stop_is_not_reported_as_a_loss(group: Any) -> None:
    lost, leads = threading.Event(), threading.Event()

    def lead(term: Term) -> None:
        term.on_loss = lost.set
        leads.set()
        assert term.over.wait(LIMIT_S)

    stop = threading.Event()
    thread = threading.Thread(target=Leadership(group, Names("x"), lead).run, args=(stop,))
    thread.start()
    group.events += [("on_assign", 0)]
    assert leads.wait(LIMIT_S)
    stop.set()
    thread.join()
    assert not lost.is_set()
