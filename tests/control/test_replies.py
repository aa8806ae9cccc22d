"""Replies that go to another cluster than the ledger: in order, at least once, whatever dies.

The cluster of the ledger is that of all tests; that of the control topic is one for this file.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from livejoin.control import replies as replies_module
from livejoin.control.ledger import Ledger
from livejoin.control.replies import ReplySender
from livejoin.core.generation import Generation, Origin
from livejoin.core.names import Names
from livejoin.core.spec import DEFAULT
from livejoin.core.state import OutboxItem, Reply, State
from livejoin.errors import LeadershipLost
from livejoin.kafka.cluster import Kafka
from rig.brokers import Broker, lasting_port
from rig.replies import ReceivedReply, kept_in_ledger, received
from rig.running import until

LIMIT_S = 60
STATE = State(topic_id="t", building=Generation(7, DEFAULT.choice("users", "accounts"), 1.0))


class ControlCluster:
    """The cluster of the control topic, which can go away and come back."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.kafka = broker.start()

    def kill(self) -> None:
        self._broker.kill()

    def restart(self) -> None:
        self._broker.start()


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlCluster]:
    broker = Broker(tmp_path_factory.mktemp("control"), lasting_port())
    try:
        yield ControlCluster(broker)
    finally:
        broker.close()


@pytest.fixture
def names(request: pytest.FixtureRequest) -> Names:
    return Names(f"replies-{abs(hash(request.node.name)):x}")


@contextlib.contextmanager
def sending(sender: ReplySender) -> Iterator[ReplySender]:
    """Run a sender until the end of the block."""
    stop = threading.Event()
    thread = threading.Thread(target=sender.run, args=(stop,))
    thread.start()
    try:
        yield sender
    finally:
        stop.set()
        thread.join()


def replies(*lines: int) -> tuple[OutboxItem, ...]:
    """The outcome of a message for each of these lines. The ids of messages are any text."""
    return tuple(Reply(_origin(line), "accepted", 2.0, generation=7, line=line) for line in lines)


def _origin(line: int) -> Origin:
    return Origin(
        100 + line, 1.0, "kafka", "{}", id=f"ü-{line}", partition=line % 3, read_order=line
    )


def write(ledger: Ledger, *lines: int) -> None:
    ledger.write(replace(STATE, reply_line=max(lines, default=0), outbox=replies(*lines)))


def lines(kafka: Kafka, names: Names) -> list[int]:
    return [one.line for one in received(kafka, names.replies)]


def settles(ledger: Ledger, kafka: Kafka, names: Names) -> Callable[[], bool]:
    """Whether the ledger holds no reply any more; writes it as each turn of the loop does."""

    def is_settled() -> bool:
        ledger.write(STATE)
        return not kept_in_ledger(kafka, names)

    return is_settled


def test_they_arrive_in_order_with_their_headers_and_leave_the_ledger(
    kafka: Kafka, control: ControlCluster, names: Names
) -> None:
    sender = ReplySender(control.kafka, names)
    ledger = Ledger(kafka, names, replies=sender)
    ledger.take_over()
    write(ledger, 1, 2, 3)
    assert kept_in_ledger(kafka, names) == [1, 2, 3]  # before anything is sent
    with sending(sender):
        write(ledger, *range(4, 3000))  # more than one attempt sends
        until(settles(ledger, kafka, names), "all are acknowledged", LIMIT_S)
    found = received(control.kafka, names.replies)
    assert [one.line for one in found] == list(range(1, 3000))
    assert found[4] == ReceivedReply(5, partition=2, offset=105, key="ü-5", outcome="accepted")
    assert names.replies not in kafka.topics()


def test_while_their_cluster_is_away_they_stay_in_the_ledger(
    kafka: Kafka, control: ControlCluster, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies_module, "_SEND_S", 3)
    sender = ReplySender(control.kafka, names)
    ledger = Ledger(kafka, names, replies=sender)
    ledger.take_over()
    with sending(sender):
        write(ledger, 1)
        until(settles(ledger, kafka, names), "the first is acknowledged", LIMIT_S)
        control.kill()
        try:
            write(ledger, 2, 3)
            began = time.monotonic()
            while time.monotonic() < began + 8:  # longer than one attempt
                write(ledger, 4)
                assert kept_in_ledger(kafka, names) == [2, 3, 4]
                assert not sender.acknowledged()
                time.sleep(0.5)  # the turn of the loop
        finally:
            control.restart()
        until(settles(ledger, kafka, names), "all are acknowledged", LIMIT_S)
    found = lines(control.kafka, names)
    assert list(dict.fromkeys(found)) == [1, 2, 3, 4]
    assert found[:3] == [1, 2, 3]


def test_stopping_does_not_wait_for_a_cluster_that_is_away(
    kafka: Kafka, control: ControlCluster, names: Names
) -> None:
    sender = ReplySender(control.kafka, names)
    ledger = Ledger(kafka, names, replies=sender)
    ledger.take_over()
    with sending(sender):
        write(ledger, 1)
        until(settles(ledger, kafka, names), "the first is acknowledged", LIMIT_S)
        control.kill()
        try:
            write(ledger, 2)
            until(lambda: not sender._wake.is_set(), "it sends")
            began = time.monotonic()
        except BaseException:
            control.restart()
            raise
    took_s = time.monotonic() - began
    control.restart()
    assert took_s < 5
    assert kept_in_ledger(kafka, names) == [2]


def test_the_next_leader_sends_what_is_not_acknowledged(
    kafka: Kafka, control: ControlCluster, names: Names
) -> None:
    first = Ledger(kafka, names, replies=ReplySender(control.kafka, names))
    first.take_over()
    write(first, 1, 2)  # and dies before it sends
    sender = ReplySender(control.kafka, names)
    second = Ledger(kafka, names, replies=sender)
    assert second.take_over().reply_line == 2
    with pytest.raises(LeadershipLost):
        write(first, 3)
    with sending(sender):
        write(second, 3)
        until(settles(second, kafka, names), "all are acknowledged", LIMIT_S)
    assert lines(control.kafka, names) == [1, 2, 3]


def test_what_was_sent_but_not_recorded_as_such_is_sent_again(
    kafka: Kafka, control: ControlCluster, names: Names
) -> None:
    dying = ReplySender(control.kafka, names)
    first = Ledger(kafka, names, replies=dying)
    first.take_over()
    with sending(dying):
        write(first, 1, 2)
        until(lambda: len(dying.acknowledged()) == 2, "both are sent", LIMIT_S)
    sender = ReplySender(control.kafka, names)
    second = Ledger(kafka, names, replies=sender)
    second.take_over()
    with sending(sender):
        until(settles(second, kafka, names), "all are acknowledged", LIMIT_S)
    found = received(control.kafka, names.replies)
    assert [one.line for one in found] == [1, 2, 1, 2]
    assert found[2:] == found[:2]  # a sender knows them by their headers


def test_those_left_for_another_cluster_are_written_where_there_is_one_again(
    kafka: Kafka, control: ControlCluster, names: Names
) -> None:
    before = Ledger(kafka, names, replies=ReplySender(control.kafka, names))
    before.take_over()
    write(before, 1, 2)
    ledger = Ledger(kafka, names)
    state = ledger.take_over()
    assert kept_in_ledger(kafka, names) == [1, 2]
    ledger.write(replace(state, reply_line=3, outbox=replies(3)))
    assert kept_in_ledger(kafka, names) == []
    assert lines(kafka, names) == [1, 2, 3]
    assert not received(control.kafka, names.replies)
    again = Ledger(kafka, names)
    again.write(again.take_over())
    assert lines(kafka, names) == [1, 2, 3]


def test_a_replies_topic_of_several_partitions_is_used_as_it_is(
    kafka: Kafka, control: ControlCluster, names: Names
) -> None:
    control.kafka.create_topic(names.replies, partitions=3)
    before = control.kafka.describe([names.replies])[names.replies]
    sender = ReplySender(control.kafka, names)
    ledger = Ledger(kafka, names, replies=sender)
    ledger.take_over()
    with sending(sender):
        write(ledger, *range(1, 50))
        until(settles(ledger, kafka, names), "all are acknowledged", LIMIT_S)
    assert sorted(lines(control.kafka, names)) == list(range(1, 50))
    assert control.kafka.describe([names.replies])[names.replies] == before
