"""A2 over fakes: the real loop and executor, killed before and after every effect."""

import queue
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from fakes import Crash, FakeLedger, FakePipeline, FakeWorld, shape, topics
from livejoin.control import loop
from livejoin.control.executor import Executor, Inbox
from livejoin.core import control_messages, facts
from livejoin.core.control_messages import Request
from livejoin.core.control_records import parse_record
from livejoin.core.decide import decide
from livejoin.core.names import Names
from livejoin.core.spec import DEFAULT
from livejoin.core.state import State
from rig.running import until

RULES = control_messages.MessageRules(Names("livejoin"), "control")
SETTINGS = DEFAULT.choice("users_a", "accounts_a")
TOPICS = topics("users_a", "accounts_a", "users_b", "accounts_b")
MESSAGES = [
    b'{"usersTopic": "users_b", "accountsTopic": "accounts_b", "id": "1"}',
    b'{"joinType": "inner", "id": "2"}',
    b'{"joinType": "sideways", "id": "3"}',
    b'{"action": "rollback", "id": "4"}',
    b'{"joinType": "inner", "id": "2"}',
    b'{"usersTopic": "users_a", "accountsTopic": "accounts_a", "joinType": "left_outer"}',
    b'{"joinType": "inner"}',
    b'{"joinType": "left"}',
]
EFFECTS = [
    *(
        f"{when} {what}"
        for what in ("ledger", "topics", "start", "stop", "delete")
        for when in ("before", "after")
    ),
    "resolve",
    "catch up",
]
# Where each message is, in the order of reading; partition 2 is added later.
POSITIONS = [(0, 4), (1, 0), (2, 0), (1, 1), (1, 3), (2, 1), (0, 5), (2, 7)]
END = {0: 6, 1: 4, 2: 8}
LAST = {"live": "users_a left accounts_a", "building": None, "position": END}


class Process:
    """One run of the control plane over a world, until it is idle or crashes."""

    def __init__(self, world: FakeWorld) -> None:
        self.world = world
        self.seen = State()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def run(self) -> None:
        self._thread.start()
        try:
            until(lambda: self.world.crashed.is_set() or self._settled(), "settled or dead", 20)
        finally:
            self._stop.set()
            self._thread.join()

    def _run(self) -> None:
        world = self.world
        inbox: Inbox = queue.Queue()
        ledger = FakeLedger(world)
        state = ledger.take_over()
        executor = Executor(inbox, FakePipeline(world))
        if not state.topic_id:
            inbox.put(facts.HistoryReplayed("t", {0: 4, 1: 0}, Request()))
        feeding = threading.Thread(target=self._feed, args=(inbox, state))
        feeding.start()
        watched = _ObservedLedger(ledger, self)
        try:
            state = decide(state, facts.LeaderStarted(time.time(), time.monotonic(), SETTINGS))
            loop.run(state, inbox, watched, executor, self._stop)
        finally:
            self._stop.set()
            feeding.join()
            executor.close()

    def _feed(self, inbox: Inbox, state: State) -> None:
        """Send each message once the previous one has been handled."""
        for (partition, offset), raw in zip(POSITIONS, MESSAGES, strict=True):
            if offset < state.position.get(partition, 0):
                continue
            while not self._idle():
                if self._stop.wait(0.001) or self.world.crashed.is_set():
                    return
            record = parse_record(partition, offset, 1.0, "kafka", raw, RULES)
            infos = {
                t: facts.TopicInfo(1)
                for t in (record.request.topics.values() if record.request else ())
            }
            inbox.put(facts.MessageReceived(record.origin, record.request, record.error, infos))
            while self.seen.position.get(partition, 0) <= offset:
                if self._stop.wait(0.001) or self.world.crashed.is_set():
                    return

    def _idle(self) -> bool:
        return self.seen.live is not None and self.seen.building is None

    def _settled(self) -> bool:
        expected = {generation.number for generation in self.seen.generations}
        world = self.world
        return (
            self._idle()
            and self.seen.position == END
            and world.running == world.changelogs == world.checkpoints == expected
        )


class _ObservedLedger:
    """A ledger that exposes its last state to the process."""

    def __init__(self, ledger: FakeLedger, process: Process) -> None:
        self._ledger = ledger
        self._process = process

    def write(self, state: State) -> State:
        try:
            state = self._ledger.write(state)
        except Crash:
            self._process._stop.set()
            raise
        self._process.seen = state
        return state


def finish(world: FakeWorld) -> State:
    process = Process(world)
    process.run()
    return process.seen


def outcomes(world: FakeWorld) -> Counter[tuple[str, str]]:
    return Counter((reply.origin.position, reply.outcome) for reply in world.replies)


@pytest.fixture(scope="module", autouse=True)
def short_ticks() -> Iterator[None]:
    """Shorten the ticks, since many runs wait for ticks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "_TICK_S", 0.01)
        yield


@pytest.fixture(scope="module")
def reference_run() -> tuple[FakeWorld, State]:
    world = FakeWorld(dict(TOPICS))
    return world, finish(world)


def test_a_run_without_a_crash_ends_in_the_expected_state(
    reference_run: tuple[FakeWorld, State],
) -> None:
    world, state = reference_run
    assert {name: shape(state)[name] for name in LAST} == LAST
    assert world.max_running <= 3
    assert set(world.effects) == set(EFFECTS)


# `Crash` ends the threads of the process
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("visit", [1, 2, 3])
@pytest.mark.parametrize("effect", EFFECTS)
def test_a_crash_at_any_effect_ends_in_the_same_state(
    effect: str, visit: int, reference_run: tuple[FakeWorld, State]
) -> None:
    reference, expected = reference_run
    world = FakeWorld(dict(TOPICS), crash_at=(effect, visit))
    finish(world)
    assert world.crashed.is_set(), "the effect was never reached"
    world.revive()
    assert shape(finish(world)) == shape(expected)
    assert world.max_running <= 3
    _assert_written_once(world, reference)


def _assert_written_once(world: FakeWorld, reference: FakeWorld) -> None:
    ids = [line.id for line in world.lines]
    assert ids == list(range(1, len(ids) + 1))
    actual: Any = outcomes(world)
    assert actual == outcomes(reference)
    rows = {reply.row_id: reply.origin.position for reply in world.replies}
    in_order = [position for _, position in sorted(rows.items())]
    assert in_order == [f"{partition}-{offset}" for partition, offset in POSITIONS]
    ended = [end.generation.number for end in world.ended]
    assert len(ended) == len(set(ended))
