"""A storm: a seeded list of actions, faults included, on a livejoin with its own broker.

The same seed gives the same list. It begins with every kind of action once, in random order, and
continues by weight; every few actions the system must settle and is compared (`Validate`). The
actions are in `rig/storm_actions.py`, the comparison in `rig/storm_validate.py`.
"""

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from livejoin.kafka.cluster import Kafka
from livejoin.runtime import broker
from rig import figures
from rig.brokers import AUTO_CREATION, Broker
from rig.clock import Clock
from rig.running import until
from rig.sampling import Resources, Sampler, Staleness
from rig.slow_proxy import Proxy
from rig.watching import Watcher
from rig.world import PAIRS, World, run_world

NAME = "storm"
EVERY = 6  # actions between comparisons
PER_SECOND = 10  # records of each pair, besides those of the actions
PEOPLE = 5000  # the size of an inner join grows with the square of the records per user
SHOWN_S = 15  # limit for reporting a fault
SETTLED_S = 240  # four crashes of everything in a row, on a busy machine
Choice = tuple[str, str]  # pair, join


@dataclass
class Storm:
    """The parts that actions work on, and the expected state."""

    world: World
    broker: Broker
    to_broker: Proxy  # livejoin's connection
    to_server: Proxy  # the connection of one viewer
    sampler: Sampler
    staleness: Staleness
    clock: Clock  # of livejoin's Python process
    choice: Choice = ("a", "left")
    landed: Counter[str] = field(default_factory=Counter)
    viewers: list[Watcher] = field(default_factory=list)
    valid_offsets: list[int] = field(default_factory=list)  # offsets of valid control messages
    invalid_offsets: list[int] = field(default_factory=list)
    broken_generations: set[int] = field(default_factory=set)  # generations whose topic was deleted
    traffic_lock: threading.Lock = field(default_factory=threading.Lock)
    background_records: int = 0  # records sent besides those of the actions
    to_report: list[tuple[str, float]] = field(
        default_factory=list
    )  # faults to be reported, with times
    reported_s: list[float] = field(default_factory=list)  # seconds until they were reported
    resources_by_pid: dict[int, Resources] = field(
        default_factory=dict
    )  # by process, at its first comparison
    groups: int | None = None  # consumer groups at the first comparison

    @property
    def dice(self) -> random.Random:
        """The random numbers of the current action."""
        return self.world.dice

    @property
    def watchers(self) -> list[Watcher]:
        return [self.world.watcher, *self.viewers]

    def fault(self, kind: str, **counted: int) -> None:
        """Record a fault; the recovery time is measured from the last one."""
        self.landed[kind] += 1
        self.world.broken_at = None
        self.world.fault(**counted)
        for viewer in self.viewers:
            viewer.replaying = True

    def must_report(self, what: str, at: float) -> None:
        """Require that a viewer is told about stale rows soon after this moment (O6)."""
        self.to_report.append((what, at))

    def expect_reported(self) -> None:
        """Check that all required reports came in time."""
        for what, at in self.to_report:
            left_s = max(1.0, at + SHOWN_S - time.monotonic())
            until(partial(self._is_reported, at), f"{what} is reported", left_s)
            after = self.staleness.reported_after(at)
            assert after is not None
            assert after <= SHOWN_S, f"{what} was shown after {after:.1f} s"
            self.reported_s.append(after)
        self.to_report.clear()

    def _is_reported(self, at: float) -> bool:
        return self.staleness.reported_after(at) is not None

    def expect_background_records(self) -> None:
        """Check that background records still arrive, so their thread is alive."""
        before = self.background_records
        until(lambda: self.background_records > before, "records arrive", 30)

    @contextlib.contextmanager
    def paused_traffic(self) -> Iterator[None]:
        """Pause the background records; all records sent so far are acknowledged."""
        with self.traffic_lock:
            for pair in PAIRS:
                self.world.producers[pair].flush()
            yield

    def settled(self) -> bool:
        """Whether the last choice is live and nothing is pending."""
        status = self.world.status()
        if (
            status["state"] != "live"
            or status["stale"]
            or status["generation"] in self.broken_generations
        ):
            return False
        pair, join = self.choice
        names = self.world.topics(pair)
        found = (status["usersTopic"], status["accountsTopic"], status["joinType"])
        return found == (names["users"], names["accounts"], join)

    def settle(self) -> None:
        """Wait until `settled`."""
        try:
            until(self.settled, f"{self.choice} is live", SETTLED_S)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.world.status()}") from error

    def join(self, url: str) -> None:
        """Add a viewer."""
        ours = self.world.watcher
        one = Watcher(url, ours.min_rows, ours.pid, replaying=True)
        self.viewers.append(one.__enter__())

    def leave(self, one: Watcher) -> None:
        """Remove a viewer, which must have found no errors."""
        self.viewers.remove(one)
        one.__exit__()
        assert not one.wrong, one.wrong[:3]
        figures.now().viewers_dropped(one.dropped)
        assert not one.dropped, f"a viewer was dropped with {one.closed}"

    def close(self) -> None:
        """Stop all viewers."""
        for viewer in self.viewers:
            viewer.__exit__()


class StormAction(Protocol):
    """An action."""

    def do(self, storm: Storm) -> None: ...


@dataclass(frozen=True)
class Kind:
    """A kind of action: its weight, and how to make one."""

    weight: int
    make: Callable[[random.Random], StormAction]


def plan(
    seed: int, kinds: dict[str, Kind], validate: StormAction
) -> Iterator[tuple[str, StormAction]]:
    """Yield the endless list of actions of a seed."""
    dice = random.Random(seed)
    names = list(kinds)
    first = dice.sample(names, len(names))
    weights = [kinds[name].weight for name in names]
    done = 0
    while True:
        name = first.pop() if first else dice.choices(names, weights)[0]
        yield name, kinds[name].make(dice)
        done += 1
        if done % EVERY == 0:
            yield "validate", validate


@contextlib.contextmanager
def storm_world(folder: Path, seed: int, **settings: Any) -> Iterator[Storm]:
    """Run a broker, a livejoin behind a proxy, steady traffic, three viewers and the samplers."""
    port, inner, outer = broker.free_port(), broker.free_port(), broker.free_port()
    more = {
        **AUTO_CREATION,  # the default of brokers
        "listeners": f"PROXIED://127.0.0.1:{inner}",
        "advertised.listeners": f"PROXIED://127.0.0.1:{outer}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT"
        ),
    }
    own_broker = Broker(folder / "broker", port, more)
    with contextlib.ExitStack() as stack:
        stack.callback(own_broker.close)
        kafka = own_broker.start()
        to_broker = stack.enter_context(Proxy(outer, inner))
        proxied = Kafka({"bootstrap.servers": f"127.0.0.1:{outer}"})
        # a build may survive several crashes of everything, which is no stalled build
        clock = Clock(folder / "clock")
        viewer_port = broker.free_port()  # the port of one viewer
        http = {"hosts": [f"127.0.0.1:{viewer_port}"]}
        chosen = {"build_stall_s": SETTLED_S, "env": clock.env, "http": http, **settings}
        scenario_world = run_world(
            kafka, folder / "run", NAME, seed=seed, through=proxied, **chosen
        )
        one = stack.enter_context(scenario_world)
        to_server = stack.enter_context(Proxy(viewer_port, one.live.port))
        sampler = stack.enter_context(Sampler(kafka, NAME))
        staleness = stack.enter_context(Staleness(one.status))
        storm = Storm(one, own_broker, to_broker, to_server, sampler, staleness, clock)
        stack.callback(storm.close)
        for pair in PAIRS:
            one.producers[pair].user_count = PEOPLE
        storm.join(one.live.url)
        storm.join(f"http://127.0.0.1:{to_server.port}/")
        stack.enter_context(_traffic(storm, seed))
        yield storm


@contextlib.contextmanager
def _traffic(storm: Storm, seed: int) -> Iterator[None]:
    """Send a few records all the time, except in `quiet` blocks."""
    over, dice = threading.Event(), random.Random(seed)

    def work() -> None:
        while not over.wait(1 / PER_SECOND):
            with storm.traffic_lock:
                for pair in PAIRS:
                    storm.world.producers[pair].send_random(dice)
                    storm.background_records += 1

    thread = threading.Thread(target=work, name="traffic")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def run(
    storm: Storm, seed: int, minutes: float, kinds: dict[str, Kind], validate: StormAction
) -> int:
    """Run the seed's list for `minutes`, and each kind at least once; returns the count."""
    done: list[str] = []
    deadline = time.monotonic() + 60 * minutes
    for name, action in plan(seed, kinds, validate):
        once = len(done) - done.count("validate") >= len(kinds)
        if once and time.monotonic() > deadline:
            break
        began = time.monotonic()
        try:
            # own random numbers, so that an action does not depend on the duration of others
            storm.world.dice = random.Random(f"{seed}/{len(done)}")
            action.do(storm)
            wrong = [message for watcher in storm.watchers for message in watcher.wrong]
            assert not wrong, wrong[:3]
            storm.expect_background_records()
        except AssertionError as error:
            log = storm.world.live.log.read_text()[-6000:]
            message = f"seed {seed}, action {len(done)}, {action}: {error}"
            raise AssertionError(f"{message}\nbefore: {done}\n{log}") from error
        print(f"{len(done)} {action} {time.monotonic() - began:.1f} s", flush=True)
        done.append(name)
    validate.do(storm)
    never = [name for name in kinds if not storm.landed[name]]
    assert not never, f"seed {seed}: these never landed: {never}, of {storm.landed}"
    return len(done)
