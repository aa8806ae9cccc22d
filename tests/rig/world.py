"""Scenarios: lists of actions on a real broker, with real livejoins, producers and a watcher.

    play(world, [Produce("a", users=100), Send(joinType="inner"), WaitLive(), ExpectOracle()])

The two pairs of topics, `a` and `b`, share no userId.
"""

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from rig import comparing, figures
from rig.clock import ClockStep, real_time, started_right
from rig.produce import Producers
from rig.running import SAME_S, Running, alive, until
from rig.watching import Watcher

PAIRS = ("a", "b")
# when a message was sent, and the number of records acknowledged by then, by pair and source
Floors = list[tuple[datetime, dict[tuple[str, str], int]]]
_STAGES = ("accepted", "building", "caught-up", "live")


@dataclass
class World:
    """The parts that a scenario works on."""

    clusters: Clusters
    name: str
    live: Running
    producers: dict[str, Producers]
    watcher: Watcher
    dice: random.Random
    stack: contextlib.ExitStack
    control: Any
    floors: Floors
    offset: int = -1  # of the last control message
    notes: dict[str, Any] = field(default_factory=dict)
    broken_at: float | None = None  # time of the first fault not recovered yet
    # of livejoin's wall clock
    clock_steps: list[ClockStep] = field(default_factory=started_right)

    @property
    def kafka(self) -> Kafka:
        """The cluster of livejoin's own topics; unless a test says otherwise, that of all."""
        return self.clusters.own

    def fault(self, **kinds: int) -> None:
        """Record a fault: the records since the last batch will be read again."""
        figures.now().landed(**kinds)
        self.watcher.replaying = True
        self.broken_at = self.broken_at or time.monotonic()

    def mark_recovered(self) -> None:
        """Record the recovery: everything is as before the fault."""
        if self.broken_at is not None:
            figures.now().recovered(time.monotonic() - self.broken_at)
            self.broken_at = None

    @contextlib.contextmanager
    def viewer(self) -> Iterator[Watcher]:
        """Yield a viewer of the current livejoin: the usual watcher, or a temporary one."""
        if self.watcher.url == self.live.url and self.watcher.connects:
            yield self.watcher
            return
        with run_watcher(Watcher(self.live.url, lambda *_: 0, lambda: self.live.pid)) as temporary:
            yield temporary
        assert not temporary.wrong, temporary.wrong[:3]

    def topics(self, pair: str) -> dict[str, str]:
        return topics(self.name, pair)

    def status(self) -> dict[str, Any]:
        """Return the status; empty while the server is unreachable."""
        try:
            return dict(self.live.request("api/v1/status"))
        except AssertionError:
            return {"state": "", "message": "", "generation": None, "stale": None}

    def generations(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.live.request("api/v1/generations")["generations"]
        return found

    def outcome(self, offset: int) -> dict[str, Any] | None:
        rows = self.live.table("control_raw").values()
        return next((row for row in rows if row["offset"] == offset), None)


class Action(Protocol):
    """One line of a scenario."""

    def do(self, world: World) -> None: ...


def play(world: World, actions: Sequence[Action]) -> None:
    """Run actions in order; a failure names its action."""
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
def run_world(
    kafka: Kafka | Clusters,
    folder: Path,
    name: str,
    *,
    seed: int = 1,
    start: bool = True,
    through: Kafka | None = None,
    **settings: Any,
) -> Iterator[World]:
    """Create topics with a few records, a livejoin on pair `a`, and a watcher.

    livejoin may connect to the broker `through` another address.
    """
    clusters = kafka if isinstance(kafka, Clusters) else Clusters.single(kafka)
    producers = {}
    for pair in PAIRS:
        for topic in topics(name, pair).values():
            clusters.data.create_topic(topic, partitions=2)
        producers[pair] = Producers(clusters.data, topics(name, pair), tag=pair)
    chosen = {
        "name": name,
        "topics": {**topics(name, "a"), "control": f"{name}.control"},
        "viewer_rows": 2_000_000,  # all rows; an inner join under traffic may have many
        **_other_blocks(clusters),
        **settings,
        # the first generation has too few records for a batch job, and most later ones enough
        "spark": {"history_records": 100, **settings.get("spark", {})},
    }
    live = Running(through or clusters.own, folder, **chosen)
    figures.now().seeded(seed)
    floors: Floors = []
    clock_steps = started_right()

    def min_rows(tag: str, source: str, requested_at: datetime) -> int:
        """Rows that a cutover must have: those acknowledged before the request."""
        # by its own clock, which was not the same at every request
        requested = real_time(requested_at, clock_steps, datetime.now(UTC))
        before = [counts for at, counts in floors if at <= requested]
        return before[-1].get((tag, source), 0) if before else 0

    watcher = Watcher(live.url, min_rows, lambda: live.pid)
    with contextlib.ExitStack() as stack:
        dice = random.Random(seed)
        control = clusters.control.producer()
        one = World(clusters, name, live, producers, watcher, dice, stack, control, floors)
        one.clock_steps = clock_steps
        play(one, [Produce(pair, 60) for pair in PAIRS])
        stack.callback(live.stop, signal.SIGKILL)
        if start:
            live.start()
            stack.enter_context(run_watcher(watcher))
            live.wait_live()
        yield one


def _other_blocks(clusters: Clusters) -> dict[str, dict[str, Any]]:
    """The settings of the clusters that are apart."""
    blocks = {"kafka_data": clusters.data, "kafka_control": clusters.control}
    return {
        section: dict(cluster.properties)
        for section, cluster in blocks.items()
        if cluster is not clusters.own
    }


@contextlib.contextmanager
def run_watcher(watcher: Watcher) -> Iterator[Watcher]:
    """Run a watcher, which must not be disconnected by a running server."""
    try:
        with watcher:
            yield watcher
    finally:  # the first generation is no swap
        swaps = max(0, len(watcher.cutovers) - 1)
        figures.now().landed(swaps=swaps).viewers_dropped(watcher.dropped)
    assert not watcher.dropped, f"a running server disconnected its viewer: {watcher.closed}"


def start_second(world: World, folder: Path, command: str = "run") -> Running:
    """Start another livejoin with the same settings except its port."""
    other = Running(world.kafka, folder)
    other.command = command
    settings = (world.live.folder / "livejoin.yaml").read_text()
    ports = f"port: {world.live.port}", f"port: {other.port}"
    (folder / "livejoin.yaml").write_text(settings.replace(*ports))
    other.start()
    return other


# --- actions


@dataclass(frozen=True)
class Produce:
    """Produces records of a pair, users and accounts mixed, and waits for the acknowledgements."""

    pair: str
    count: int

    def do(self, world: World) -> None:
        to = world.producers[self.pair]
        for _ in range(self.count):
            to.send_random(world.dice, users=0.4)
        to.flush()


@dataclass(frozen=True)
class Traffic:
    """Produces records of both pairs at a steady rate, until the world ends or StopTraffic."""

    per_second: float
    user_count: int = 50  # the size of an inner join grows with the square of the records per user

    def do(self, world: World) -> None:
        flows = world.notes["flows"] = contextlib.ExitStack()
        for pair in PAIRS:
            seed = world.dice.randrange(10**6)
            world.producers[pair].user_count = self.user_count
            flows.enter_context(world.producers[pair].traffic(self.per_second, seed))
        world.stack.push(flows)


@dataclass(frozen=True)
class StopTraffic:
    def do(self, world: World) -> None:
        world.notes["flows"].close()


@dataclass(frozen=True)
class Send:
    """Sends a control message by a plain producer."""

    message: Any

    def do(self, world: World) -> None:
        counts = {
            (pair, source): count
            for pair in PAIRS
            for source, count in list(world.producers[pair].rows.items())
        }
        world.floors.append((datetime.now(UTC), counts))
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


def request_pair(world_name: str, pair: str, **more: Any) -> Send:
    """Return a request for a pair."""
    names = topics(world_name, pair)
    return Send({"usersTopic": names["users"], "accountsTopic": names["accounts"], **more})


def cutover_seconds(world: World, request: Send, limit_s: float = SAME_S) -> float:
    """Return the seconds from writing a message to the frame with the cutover."""
    before, started = len(world.watcher.cutovers), time.monotonic()
    request.do(world)
    until(lambda: len(world.watcher.cutovers) > before, "the cutover", limit_s)
    return world.watcher.cutovers[before].at - started


@dataclass(frozen=True)
class Do:
    """Any other function."""

    what: Callable[[World], Any]

    def do(self, world: World) -> None:
        self.what(world)


@dataclass(frozen=True)
class KillDash9:
    """Kills Python, the JVM or both with SIGKILL, and restarts livejoin by default."""

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
    """Stops the JVM (SIGSTOP) until a condition holds."""

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


# --- conditions and checks


@dataclass(frozen=True)
class WaitOutcome:
    """Waits until the last message has this outcome or a later one, with `words` in its reason."""

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
                return False  # livejoin is starting
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
            world.mark_recovered()


@dataclass(frozen=True)
class ExpectOracle:
    """All tables equal the records of a pair, cell by cell, once they are read."""

    pair: str
    join: str = "left"

    def do(self, world: World) -> None:
        with world.viewer() as watcher:
            comparing.expect_equal(world.live, watcher, world.producers[self.pair], self.join)
        world.watcher.replaying = False
        world.mark_recovered()


@dataclass(frozen=True)
class ExpectLive:
    """The live choice by status and by every cell of the viewer, also under traffic."""

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
        world.mark_recovered()


@dataclass(frozen=True)
class ExpectNothingLeft:
    """Changelogs and checkpoints exist for exactly the existing generations (O7)."""

    def do(self, world: World) -> None:
        try:
            until(lambda: not self._left(world), "retired generations are removed", 60)
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
    """At most this number of generations exists now."""

    count: int

    def do(self, world: World) -> None:
        running = [r for r in world.generations() if r["state"] in ("live", "standby", "building")]
        assert len(running) <= self.count, running
