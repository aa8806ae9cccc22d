"""Scenarios: lists of actions over a real broker, real livejoins, producers and a watcher.

    play(world, [Produce("a", users=100), Send(joinType="inner"), WaitLive(), ExpectOracle()])

Two pairs of topics, `a` and `b`, share no userId.
"""

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from livejoin.core.names import Names
from livejoin.core.state import row_id
from livejoin.kafka.cluster import Kafka
from rig import comparing, figures
from rig.produce import Producers
from rig.running import SAME_S, Running, alive, until
from rig.watching import Watcher

PAIRS = ("a", "b")
# when a message was sent, and how many records of each pair and source were acknowledged by then
Floors = list[tuple[datetime, dict[tuple[str, str], int]]]
_STAGES = ("accepted", "building", "caught-up", "live")


@dataclass
class World:
    """What a scenario acts upon."""

    kafka: Kafka
    name: str
    live: Running
    producers: dict[str, Producers]
    watcher: Watcher
    dice: random.Random
    stack: contextlib.ExitStack
    control: Any
    floors: Floors
    offset: int = -1  # of the control message that was sent last
    notes: dict[str, Any] = field(default_factory=dict)
    broken_at: float | None = None  # when the fault came that is not over yet
    ahead_s: float = 0.0  # livejoin's wall clock, of ours

    def fault(self, **kinds: int) -> None:
        """A fault has landed: what was read since the last batch is read again."""
        figures.now().landed(**kinds)
        self.watcher.replaying = True
        self.broken_at = self.broken_at or time.monotonic()

    def over(self) -> None:
        """All is as it was before the fault."""
        if self.broken_at is not None:
            figures.now().recovered(time.monotonic() - self.broken_at)
            self.broken_at = None

    @contextlib.contextmanager
    def viewer(self) -> Iterator[Watcher]:
        """One who watches the livejoin that is acted upon: ours, or one for now."""
        if self.watcher.url == self.live.url and self.watcher.connects:
            yield self.watcher
            return
        with watched(Watcher(self.live.url, lambda *_: 0, lambda: self.live.pid)) as for_now:
            yield for_now
        assert not for_now.wrong, for_now.wrong[:3]

    def topics(self, pair: str) -> dict[str, str]:
        return topics(self.name, pair)

    def status(self) -> dict[str, Any]:
        """What livejoin says of itself; nothing while it cannot be asked."""
        try:
            return dict(self.live.ask("api/v1/status"))
        except AssertionError:
            return {"state": "", "message": "", "generation": None, "stale": None}

    def generations(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.live.ask("api/v1/generations")["generations"]
        return found

    def outcome(self, offset: int) -> dict[str, Any] | None:
        return self.live.table("control_raw").get(row_id(offset))


class Action(Protocol):
    """One line of a scenario."""

    def do(self, world: World) -> None: ...


def play(world: World, actions: Sequence[Action]) -> None:
    """Do one thing after the other, and fail with the action that failed."""
    for number, action in enumerate(actions):
        try:
            action.do(world)
        except AssertionError as error:
            log = world.live.log.read_text()[-4000:]
            raise AssertionError(f"action {number}, {action}: {error}\n{log}") from error
        assert not world.watcher.wrong, (
            f"after action {number}, {action}: {world.watcher.wrong[:3]}"
        )


def topics(name: str, pair: str) -> dict[str, str]:
    return {source: f"{name}.{source}.{pair}" for source in ("users", "accounts")}


@contextlib.contextmanager
def world(
    kafka: Kafka,
    folder: Path,
    name: str,
    *,
    seed: int = 1,
    start: bool = True,
    through: Kafka | None = None,
    **settings: Any,
) -> Iterator[World]:
    """Topics with a few records, a livejoin over pair `a`, and a watcher.

    livejoin may reach the broker `through` another address.
    """
    producers = {}
    for pair in PAIRS:
        for topic in topics(name, pair).values():
            kafka.create_topic(topic, partitions=2)
        producers[pair] = Producers(kafka, topics(name, pair), tag=pair)
    chosen = {
        "name": name,
        "topics": {**topics(name, "a"), "control": f"{name}.control"},
        "viewer_rows": 2_000_000,  # all: an inner join under traffic has many on a slow machine
        **settings,
        # the first generation finds too few records for a batch job, and most later ones enough
        "spark": {"history_records": 100, **settings.get("spark", {})},
    }
    live = Running(through or kafka, folder, **chosen)
    figures.now().seeded(seed)
    floors: Floors = []

    def least(tag: str, source: str, asked: datetime) -> int:
        """What was acknowledged before a generation was asked for is there at its cutover."""
        before = [counts for at, counts in floors if at <= asked]
        return before[-1].get((tag, source), 0) if before else 0

    watcher = Watcher(live.url, least, lambda: live.pid)
    with contextlib.ExitStack() as stack:
        dice = random.Random(seed)
        one = World(kafka, name, live, producers, watcher, dice, stack, kafka.producer(), floors)
        play(one, [Produce(pair, 60) for pair in PAIRS])
        stack.callback(live.stop, signal.SIGKILL)
        if start:
            live.start()
            stack.enter_context(watched(watcher))
            live.wait_live()
        yield one


@contextlib.contextmanager
def watched(watcher: Watcher) -> Iterator[Watcher]:
    """Somebody watches, and is never let go of by a server that lives."""
    try:
        with watcher:
            yield watcher
    finally:  # the first generation that it is shown is no swap
        swaps = max(0, len(watcher.cutovers) - 1)
        figures.now().landed(swaps=swaps).viewers_dropped(watcher.dropped)
    assert not watcher.dropped, f"a server that lived let go of its viewer: {watcher.closed}"


def beside(one: World, folder: Path, command: str = "run") -> Running:
    """Another livejoin with the same settings but for its port."""
    other = Running(one.kafka, folder)
    other.command = command
    settings = (one.live.folder / "livejoin.yaml").read_text()
    ports = f"port: {one.live.port}", f"port: {other.port}"
    (folder / "livejoin.yaml").write_text(settings.replace(*ports))
    other.start()
    return other


# --- what is done


@dataclass(frozen=True)
class Produce:
    """Records of a pair, users and accounts mixed, all acknowledged."""

    pair: str
    count: int

    def do(self, world: World) -> None:
        to = world.producers[self.pair]
        for _ in range(self.count):
            to.one(world.dice, users=0.4)
        to.flush()


@dataclass(frozen=True)
class Traffic:
    """Records of both pairs at a steady rate, until the world ends or StopTraffic."""

    per_second: float
    people: int = 50  # an inner join has pairs by the square of how often each is named

    def do(self, world: World) -> None:
        flows = world.notes["flows"] = contextlib.ExitStack()
        for pair in PAIRS:
            seed = world.dice.randrange(10**6)
            world.producers[pair].people = self.people
            flows.enter_context(world.producers[pair].traffic(self.per_second, seed))
        world.stack.push(flows)


@dataclass(frozen=True)
class StopTraffic:
    def do(self, world: World) -> None:
        world.notes["flows"].close()


@dataclass(frozen=True)
class Send:
    """A control message, written by a plain producer."""

    message: Any

    def do(self, world: World) -> None:
        counts = {
            (pair, source): count
            for pair in PAIRS
            for source, count in list(world.producers[pair].rows.items())
        }
        world.floors.append((datetime.now(UTC) + timedelta(seconds=world.ahead_s), counts))
        raw = _raw(self.message)
        done: list[tuple[Any, Any]] = []
        world.control.produce(
            f"{world.name}.control", raw, on_delivery=lambda error, m: done.append((error, m))
        )
        assert world.control.flush(20) == 0
        error, message = done[0]
        assert error is None, error
        world.offset = message.offset()


def _raw(message: Any) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode()


def to_pair(world_name: str, pair: str, **more: Any) -> Send:
    """Ask for a pair."""
    names = topics(world_name, pair)
    return Send({"usersTopic": names["users"], "accountsTopic": names["accounts"], **more})


def moved(world: World, request: Send, limit_s: float = SAME_S) -> float:
    """How many seconds it takes from writing a message to the frame in which the names moved."""
    before, began = len(world.watcher.cutovers), time.monotonic()
    request.do(world)
    until(lambda: len(world.watcher.cutovers) > before, "the cutover", limit_s)
    return world.watcher.cutovers[before].at - began


@dataclass(frozen=True)
class Do:
    """Anything else."""

    what: Callable[[World], Any]

    def do(self, world: World) -> None:
        self.what(world)


@dataclass(frozen=True)
class KillDash9:
    """Of Python, the JVM or both; livejoin is started again unless told otherwise."""

    who: str = "python"
    restart: bool = True

    def do(self, world: World) -> None:
        live = world.live
        jvm = live.jvm()
        pids = {"python": [live.pid], "jvm": [jvm], "both": [live.pid, jvm]}[self.who]
        world.fault(kills=1)
        live.kill(*pids)
        until(lambda: not alive(jvm), "no orphan JVM")
        if self.restart and self.who != "jvm":
            live.start()


@dataclass(frozen=True)
class Pause:
    """Stop the JVM in its tracks until something is true, then let it go on."""

    until: Callable[[World], Any]
    what: str
    limit_s: float = SAME_S

    def do(self, world: World) -> None:
        jvm = world.live.jvm()
        os.kill(jvm, signal.SIGSTOP)
        try:
            until(lambda: self.until(world), self.what, self.limit_s)
        finally:
            os.kill(jvm, signal.SIGCONT)


# --- what is waited for, and expected


@dataclass(frozen=True)
class WaitOutcome:
    """Wait until the last message came to this, or further; its reason holds these words."""

    outcome: str
    words: str = ""
    limit_s: float = SAME_S
    offset: int | None = None

    def do(self, world: World) -> None:
        at = world.offset if self.offset is None else self.offset

        def reached() -> bool:
            try:
                row = world.outcome(at)
            except AssertionError:
                return False  # livejoin is being started
            return row is not None and row["outcome"] in self._enough()

        until(reached, f"message {at} is {self.outcome}", self.limit_s)
        row = world.outcome(at)
        assert row is not None
        assert self.words in (row["reason"] or ""), row

    def _enough(self) -> tuple[str, ...]:
        if self.outcome not in _STAGES:
            return (self.outcome,)
        return _STAGES[_STAGES.index(self.outcome) :]


@dataclass(frozen=True)
class WaitState:
    state: str
    words: str = ""
    limit_s: float = SAME_S

    def do(self, world: World) -> None:
        def reached() -> bool:
            status = world.status()
            return status["state"] == self.state and self.words in status["message"]

        until(reached, f"state {self.state} {self.words}", self.limit_s)
        if self.state == "live":
            world.over()


@dataclass(frozen=True)
class ExpectOracle:
    """All tables equal what the records of a pair give, cell by cell, once they are read."""

    pair: str
    join: str = "left"

    def do(self, world: World) -> None:
        with world.viewer() as watcher:
            comparing.expect_equal(world.live, watcher, world.producers[self.pair], self.join)
        world.watcher.replaying = False
        world.over()


@dataclass(frozen=True)
class ExpectLive:
    """What is live, by status and by every cell at the viewer; records may come meanwhile."""

    pair: str
    join: str = "left"

    def do(self, world: World) -> None:
        status = world.status()
        names = world.topics(self.pair)
        found = (status["usersTopic"], status["accountsTopic"], status["joinType"])
        assert found == (names["users"], names["accounts"], self.join), status
        with world.viewer() as watcher:
            sent, number = world.producers[self.pair], status["generation"]
            comparing.expect_consistent(watcher, sent, self.join, number)
        world.over()


@dataclass(frozen=True)
class ExpectNothingLeft:
    """Changelogs and checkpoints exist of the generations that exist, and of no other (O7)."""

    def do(self, world: World) -> None:
        try:
            until(lambda: not self._left(world), "what is retired is removed", 60)
        except AssertionError as error:
            raise AssertionError(f"{error}: {sorted(self._left(world))}") from error

    def _left(self, world: World) -> set[int]:
        states = ("live", "standby", "building")
        wanted = {row["generation"] for row in world.generations() if row["state"] in states}
        names = Names(world.name)
        changelogs = {names.generation_of(topic) for topic in world.kafka.topics()} - {None}
        folder = world.live.folder / "checkpoints"
        checkpoints = {int(one.name) for one in folder.iterdir() if one.name.isdecimal()}
        return {number for number in changelogs | checkpoints if number is not None} ^ wanted


@dataclass(frozen=True)
class ExpectAtMost:
    """No more generations than this exist now."""

    count: int

    def do(self, world: World) -> None:
        running = [r for r in world.generations() if r["state"] in ("live", "standby", "building")]
        assert len(running) <= self.count, running
