"""A control topic of several partitions: each message counts once, however it is interrupted."""

import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions, OffsetSpec

from livejoin.control import control_topic
from livejoin.control.control_history import HistoryReader
from livejoin.control.control_topic import ControlTopic
from livejoin.core import facts
from livejoin.core.control_messages import MessageRules
from livejoin.core.control_records import parse_record
from livejoin.core.ledger_format import read_state
from livejoin.core.names import Names
from livejoin.core.state import STATE_KEY, Reply, State
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.kafka.records import OffsetRange, read_to_end
from livejoin.runtime import failpoints
from rig import brokers
from rig.running import until

TESTS = Path(__file__).parents[1]
BASE_MS = 1_790_000_000_000
JOINS = ("left", "inner", "left_outer")
LIMIT_S = 60
SEED = 20
Message = tuple[int, int, bytes]  # partition, timestamp in ms, value


@dataclass
class ControlTopicRig:
    """A control topic of this test, and who writes to it."""

    kafka: Kafka
    name: str
    sources: dict[str, list[str]] = field(default_factory=dict)

    @property
    def rules(self) -> MessageRules:
        return MessageRules(Names(self.name), f"{self.name}.control")

    def create(self, partitions: int) -> None:
        self.kafka.create_topic(self.rules.control, {"retention.ms": "-1"}, partitions)

    def write(self, *messages: Message, **config: Any) -> None:
        producer = self.kafka.producer(**config)
        if "transactional.id" in config:
            producer.init_transactions(LIMIT_S)
            producer.begin_transaction()
        for partition, at_ms, raw in messages:
            producer.produce(self.rules.control, raw, partition=partition, timestamp=at_ms)
        if "transactional.id" in config:
            producer.commit_transaction(LIMIT_S)
        assert producer.flush(LIMIT_S) == 0

    def ends(self) -> Mapping[int, int]:
        topic = self.kafka.describe([self.rules.control])[self.rules.control]
        return self.kafka.offsets([topic], OffsetSpec.latest())[topic.name]

    @contextmanager
    def reader(
        self,
        topic_id: str = "",
        position: Mapping[int, int] | None = None,
        *,
        may_be_lost: bool = False,
    ) -> Iterator[Callable[[type[Any]], Any]]:
        """Read the topic as a leader does; yields a function that returns the next such fact."""
        inbox: queue.Queue[facts.Fact] = queue.Queue()
        topic = ControlTopic(
            Clusters.single(self.kafka),
            self.rules.names,
            self.rules,
            inbox,
            topic_id,
            position or {},
        )
        stop = threading.Event()
        thread = threading.Thread(target=topic.run, args=(stop,))
        thread.start()

        def following(kind: type[Any]) -> Any:
            while True:
                fact = inbox.get(timeout=LIMIT_S)
                assert may_be_lost or not isinstance(fact, facts.ControlTopicLost), fact
                if isinstance(fact, kind):
                    return fact

        try:
            yield following
        finally:
            stop.set()
            thread.join()


@pytest.fixture
def rig(kafka: Kafka, request: pytest.FixtureRequest) -> ControlTopicRig:
    return ControlTopicRig(kafka, f"partitions-{abs(hash(request.node.name)):x}")


def _position(reply: Reply) -> tuple[int, int]:
    return reply.origin.partition, reply.origin.offset


def _join(number: int) -> bytes:
    return json.dumps({"joinType": JOINS[number % 3]}).encode()


def test_a_past_of_three_partitions_is_folded_by_time(rig: ControlTopicRig) -> None:
    """More of it than is read at once, and most of it in one partition."""
    rig.create(3)
    dice = random.Random(SEED)
    # in every order of time and partition, some at the same time
    messages = [
        (dice.choice((0, 0, 0, 1, 2)), BASE_MS + number // 2, _join(dice.randrange(3)))
        for number in range(4000)
    ]
    rig.write(*messages)
    rig.write((1, BASE_MS + 9000, _join(2)), **{"transactional.id": f"{rig.name}.writer"})
    places: list[tuple[int, int, tuple[int, int]]] = []
    counts = {0: 0, 1: 0, 2: 0}
    for partition, at_ms, _ in [*messages, (1, BASE_MS + 9000, b"")]:
        places.append((at_ms, partition, (partition, counts[partition])))
        counts[partition] += 1
    counts[1] += 1  # the transaction's marker, which is written after the commit has returned
    until(lambda: rig.ends() == counts, "the transaction is readable", LIMIT_S)
    with rig.reader() as following:
        past = following(facts.HistoryReplayed)
        opened = following(facts.ControlTopicOpened)
    assert [_position(reply) for reply in past.replies] == [place for *_, place in sorted(places)]
    assert {reply.outcome for reply in past.replies} == {"history"}
    assert past.request.join == "left_outer"
    assert past.message_count == 4001
    assert past.position == counts
    assert opened.first_offsets == {0: 0, 1: 0, 2: 0}


def test_what_is_written_while_the_past_is_read_is_a_new_message(rig: ControlTopicRig) -> None:
    rig.create(2)
    rig.write(*[(0, BASE_MS + n, _join(n)) for n in range(10)])
    consumer = rig.kafka.reader("partitions.test")
    try:
        reader = HistoryReader(
            consumer,
            rig.rules.control,
            lambda portion: (
                parse_record(0, one.offset() or 0, 1.0, "kafka", one.value() or b"", rig.rules)
                for one in portion
            ),
        )
        within = [one.origin.offset for one in reader.records(0, OffsetRange(2, 7))]
        nothing = list(reader.records(1, OffsetRange(0, 0)))
    finally:
        consumer.close()
    assert within == [2, 3, 4, 5, 6]
    assert nothing == []


def test_each_message_of_each_partition_comes_once_after_the_position(rig: ControlTopicRig) -> None:
    rig.create(3)
    rig.write(*[(n % 3, BASE_MS + n, _join(n)) for n in range(9)])
    topic_id = rig.kafka.describe([rig.rules.control])[rig.rules.control].id
    with rig.reader(topic_id, {0: 3, 1: 1, 2: 2}) as following:
        received = [following(facts.MessageReceived).origin.position for _ in range(3)]
        rig.write((0, BASE_MS, _join(0)))
        assert following(facts.MessageReceived).origin.position == "0-3"
    assert sorted(received) == ["1-1", "1-2", "2-2"]


def test_partitions_that_are_added_are_read_from_their_beginning(
    rig: ControlTopicRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_topic, "_CHECK_S", 0.5)
    rig.create(1)
    rig.write((0, BASE_MS, _join(0)))
    with rig.reader() as following:
        assert following(facts.HistoryReplayed).position == {0: 1}
        following(facts.ControlTopicOpened)
        more = rig.kafka.admin.create_partitions([NewPartitions(rig.rules.control, 3)])
        for done in more.values():
            done.result(LIMIT_S)
        until(lambda: len(rig.ends()) == 3, "the partitions are there", LIMIT_S)
        rig.write((2, BASE_MS, _join(1)), (1, BASE_MS, _join(2)))
        positions = {following(facts.MessageReceived).origin.position for _ in range(2)}
        assert positions == {"1-0", "2-0"}


def test_a_topic_that_is_made_again_is_folded_anew(
    rig: ControlTopicRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_topic, "_CHECK_S", 0.5)
    rig.create(3)
    rig.write(*[(n % 3, BASE_MS + n, _join(n)) for n in range(9)])
    # between the two topics, or where it asks the second one for an offset of the first, it is lost
    with rig.reader(may_be_lost=True) as following:
        first = following(facts.HistoryReplayed)
        brokers.recreate(rig.kafka, rig.rules.control, 2)
        rig.write((1, BASE_MS, _join(1)), (1, BASE_MS + 1, _join(2)))
        second = following(facts.HistoryReplayed)
        later = 2 - second.message_count  # it may be read before, or while, it is filled
        for _ in range(later):
            following(facts.MessageReceived)
    assert second.topic_id != first.topic_id
    assert set(second.position) == {0, 1}
    assert sum(second.position.values()) + later == 2


def test_what_was_deleted_of_one_partition_is_skipped(rig: ControlTopicRig) -> None:
    rig.create(2)
    rig.write(*[(n % 2, BASE_MS + n, _join(n)) for n in range(10)])
    deleted = rig.kafka.admin.delete_records([TopicPartition(rig.rules.control, 1, 3)])
    for done in deleted.values():
        done.result(LIMIT_S)
    with rig.reader() as following:
        past = following(facts.HistoryReplayed)
        assert following(facts.ControlTopicOpened).first_offsets == {0: 0, 1: 3}
    assert past.message_count == 7
    assert past.position == {0: 5, 1: 5}


# --- a process that is killed


@dataclass
class Leading:
    """`control.leading` as a process."""

    rig: ControlTopicRig
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self, fail_at: str = "") -> subprocess.Popen[bytes]:
        settings = {
            "kafka": dict(self.rig.kafka.properties),
            "name": self.rig.name,
            "control": self.rig.rules.control,
            "choice": [f"{self.rig.name}.users", f"{self.rig.name}.accounts"],
        }
        path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
        env = {**os.environ, "PYTHONPATH": path, failpoints.VARIABLE: fail_at}
        command = [sys.executable, "-m", "control.leading", json.dumps(settings)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
        return self.process

    def expect_killed(self, fail_at: str) -> None:
        """Run until it dies at the fail point."""
        process = self.start(fail_at)
        assert process.wait(LIMIT_S) == -signal.SIGKILL, self.log.read_text()[-3000:]

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            assert self.process.wait(LIMIT_S) == 0, self.log.read_text()[-3000:]


@pytest.fixture
def leading(rig: ControlTopicRig, tmp_path: Path) -> Iterator[Leading]:
    one = Leading(rig, tmp_path / "leading.log")
    try:
        yield one
    finally:
        if one.process is not None:
            one.process.kill()
            one.process.wait(LIMIT_S)


def _records(kafka: Kafka, topic: str) -> list[tuple[str, Any]]:
    if topic not in kafka.describe([topic]):
        return []
    consumer = kafka.reader("partitions.test")
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = read_to_end(consumer, topic)
        return [(one.key.decode(), json.loads(one.value)) for one in found if one.value]
    finally:
        consumer.close()


def _state(rig: ControlTopicRig) -> State:
    values = dict(_records(rig.kafka, rig.rules.names.ledger))
    if STATE_KEY.decode() not in values:
        return State()
    state = read_state(json.dumps(values[STATE_KEY.decode()]).encode())
    assert isinstance(state, State)
    return state


def _settled(rig: ControlTopicRig, position: Mapping[int, int]) -> State | None:
    state = _state(rig)
    settled = state.live is not None and state.building is None and state.position == position
    return state if settled else None


def _control_rows(rig: ControlTopicRig) -> dict[str, tuple[int, int]]:
    """The rows of `control_raw`: `_id`, and partition and offset."""
    rows = [
        (key.partition("/")[2], (row["partition"], row["offset"]))
        for key, row in _records(rig.kafka, rig.rules.names.logs)
        if key.startswith("control_raw/")
    ]
    assert len(set(rows)) == len(dict(rows)), "one _id for two messages"
    return dict(rows)


@dataclass
class Past:
    """What a filled control topic holds, and what it comes to."""

    messages: list[Message] = field(default_factory=list)
    order: list[tuple[int, int]] = field(default_factory=list)  # partition and offset, by time
    choice: dict[str, str] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(3), 0))

    def add(self, partition: int, fields: dict[str, str], *, valid: bool) -> None:
        raw = json.dumps(fields).encode()
        self.messages.append((partition, BASE_MS + len(self.messages), raw))
        self.order.append((partition, self.counts[partition]))
        self.counts[partition] += 1
        self.choice |= fields if valid else {}


def _past(rig: ControlTopicRig) -> Past:
    dice, past = random.Random(SEED), Past()
    values = {
        "usersTopic": [f"{rig.name}.users", f"{rig.name}.users.b"],
        "accountsTopic": [f"{rig.name}.accounts", f"{rig.name}.accounts.b"],
        "joinType": list(JOINS),
    }
    for topic in (*values["usersTopic"], *values["accountsTopic"]):
        rig.kafka.create_topic(topic)
    for number in range(300):
        name = dice.choice(list(values))
        invalid = number % 10 == 9
        value = "side ways" if invalid else dice.choice(values[name])
        past.add(dice.randrange(3), {name: value}, valid=not invalid)
    return past


def test_killed_while_it_folds_three_partitions_it_arrives_where_it_would_have(
    rig: ControlTopicRig, leading: Leading
) -> None:
    past = _past(rig)
    rig.create(3)
    # the last partition first: what counts is when they were written by their timestamps
    rig.write(*sorted(past.messages, key=lambda one: (-one[0], one[1])))
    # at the second transaction the fold is decided and its state is being written
    for fail_at in ("in-history:1", "in-history:150", "in-history:300", "in-ledger:2"):
        leading.expect_killed(fail_at)
        assert _state(rig).topic_id == "", "nothing of it counts before all of it does"
        assert _control_rows(rig) == {}
    leading.expect_killed("after-ledger:2")
    assert _state(rig).position == past.counts
    leading.start()
    state = until(lambda: _settled(rig, past.counts), "it is live", LIMIT_S)
    assert state.last_number == 1, "the past is built once"
    choice = state.live.choice
    assert past.choice == {
        "usersTopic": choice.topics["users"],
        "accountsTopic": choice.topics["accounts"],
        "joinType": choice.join,
    }
    rows = _control_rows(rig)
    assert [rows[one] for one in sorted(rows)] == past.order, "each once, in the order of reading"


def _messages_after_kill(leading: Leading, visit: int) -> int:
    """Messages that count after a process was killed inside this transaction of it."""
    leading.expect_killed(f"in-ledger:{visit}")
    return sum(_state(leading.rig).position.values())


def test_killed_at_a_later_message_of_any_partition_it_counts_each_once(
    rig: ControlTopicRig, leading: Leading
) -> None:
    past = _past(rig)
    rig.create(3)
    rig.write(*past.messages)
    leading.start()
    state = until(lambda: _settled(rig, past.counts), "it is live", LIMIT_S)
    leading.stop()
    other = next(join for join in JOINS if join != state.live.choice.join)
    swap = json.dumps({"joinType": other}).encode()
    rig.write((1, BASE_MS, b"[]"), (0, BASE_MS, swap), (2, BASE_MS, swap))
    # a start has two or three transactions, and each message one
    done = [_messages_after_kill(leading, visit) - len(past.messages) for visit in (3, 4, 5)]
    assert done == sorted(done), "no position goes back"
    assert any(0 < count < 3 for count in done), f"never killed between two messages: {done}"
    leading.start()
    after = {partition: count + 1 for partition, count in past.counts.items()}
    state = until(lambda: _settled(rig, after), "no message is missed", LIMIT_S)
    assert (state.last_number, state.live.choice.join) == (2, other), "no message is repeated"
    leading.stop()
    rows = _control_rows(rig)
    read = [rows[one] for one in sorted(rows)]
    assert read[: len(past.order)] == past.order
    assert sorted(read[len(past.order) :]) == sorted(past.counts.items())
