"""A storm: a seeded list of actions, faults among them, over one livejoin with its own broker.

The same seed gives the same list. It begins with every kind of action once, in any order, and goes
on by weight; every few actions everything has to become quiet and is compared (`Validate`).
What an action does is in `rig/storm_actions.py`, what is compared in `rig/storm_validate.py`.
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
from rig.brokers import MAKES_TOPICS, Broker
from rig.clock import Clock
from rig.running import until
from rig.sampling import Resources, Sampler, Staleness
from rig.slow_proxy import Proxy
from rig.watching import Watcher
from rig.world import PAIRS, World, world

NAME = "storm"
EVERY = 6  # actions, then everything is compared
PER_SECOND = 10  # records of each pair beside the actions
PEOPLE = 5000  # an inner join has pairs by the square of how often each is named
SHOWN_S = 15  # a fault is shown by then
SETTLED_S = 240  # four deaths of everything in a row, on a busy machine
Choice = tuple[str, str]  # pair, join


@dataclass
class Storm:
    """What the actions act upon, and what must be true in the end."""

    world: World
    broker: Broker
    to_broker: Proxy  # livejoin's way
    to_server: Proxy  # the way of one viewer
    sampler: Sampler
    staleness: Staleness
    clock: Clock  # of livejoin's Python
    wanted: Choice = ("a", "left")
    landed: Counter[str] = field(default_factory=Counter)
    viewers: list[Watcher] = field(default_factory=list)
    good: list[int] = field(default_factory=list)  # offsets of control messages that are valid
    bad: list[int] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)  # generations whose topic was deleted
    feeding: threading.Lock = field(default_factory=threading.Lock)
    fed: int = 0  # records that came beside the actions
    to_show: list[tuple[str, float]] = field(default_factory=list)  # faults, and when they came
    shown_s: list[float] = field(default_factory=list)  # how long it took until they were shown
    held: dict[int, Resources] = field(default_factory=dict)  # by process, when first compared
    groups: int | None = None  # consumer groups, likewise

    @property
    def dice(self) -> random.Random:
        """Of the action that runs."""
        return self.world.dice

    @property
    def watchers(self) -> list[Watcher]:
        return [self.world.watcher, *self.viewers]

    def fault(self, kind: str, **counted: int) -> None:
        """A fault has landed; how long it takes to recover is counted from the last one on."""
        self.landed[kind] += 1
        self.world.broken_at = None
        self.world.fault(**counted)
        for one in self.viewers:
            one.replaying = True

    def must_show(self, what: str, at: float) -> None:
        """From this moment on a viewer has to be told soon that rows may be old (O6)."""
        self.to_show.append((what, at))

    def expect_shown(self) -> None:
        """All that must have been shown was, in time."""
        for what, at in self.to_show:
            left_s = max(1.0, at + SHOWN_S - time.monotonic())
            until(partial(self._shown, at), f"{what} is shown", left_s)
            after = self.staleness.told_after(at)
            assert after is not None
            assert after <= SHOWN_S, f"{what} was shown after {after:.1f} s"
            self.shown_s.append(after)
        self.to_show.clear()

    def _shown(self, at: float) -> bool:
        return self.staleness.told_after(at) is not None

    def expect_fed(self) -> None:
        """Records still come beside the actions: nobody would notice if their thread had died."""
        before = self.fed
        until(lambda: self.fed > before, "records come", 30)

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """No records come meanwhile, and all that were sent are acknowledged."""
        with self.feeding:
            for pair in PAIRS:
                self.world.producers[pair].flush()
            yield

    def settled(self) -> bool:
        """Whether what was asked for last is live, and nothing is under way."""
        status = self.world.status()
        if status["state"] != "live" or status["stale"] or status["generation"] in self.broken:
            return False
        pair, join = self.wanted
        names = self.world.topics(pair)
        found = (status["usersTopic"], status["accountsTopic"], status["joinType"])
        return found == (names["users"], names["accounts"], join)

    def settle(self) -> None:
        """Wait for that."""
        try:
            until(self.settled, f"{self.wanted} is live", SETTLED_S)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.world.status()}") from error

    def join(self, url: str) -> None:
        """Another viewer."""
        ours = self.world.watcher
        one = Watcher(url, ours.least, ours.pid, replaying=True)
        self.viewers.append(one.__enter__())

    def leave(self, one: Watcher) -> None:
        """One goes, and has seen nothing wrong."""
        self.viewers.remove(one)
        one.__exit__()
        assert not one.wrong, one.wrong[:3]
        figures.now().viewers_dropped(one.dropped)
        assert not one.dropped, f"a viewer was dropped with {one.closed}"

    def close(self) -> None:
        """All viewers go."""
        for one in self.viewers:
            one.__exit__()


class StormAction(Protocol):
    """One action."""

    def do(self, storm: Storm) -> None: ...


@dataclass(frozen=True)
class Kind:
    """A kind of action: how often it comes, and how one is made."""

    weight: int
    make: Callable[[random.Random], StormAction]


def plan(
    seed: int, kinds: dict[str, Kind], validate: StormAction
) -> Iterator[tuple[str, StormAction]]:
    """The list of a seed, without an end."""
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
    """A broker, a livejoin behind a proxy, steady traffic, three viewers, and who counts topics."""
    port, inner, outer = broker.free_port(), broker.free_port(), broker.free_port()
    more = {
        **MAKES_TOPICS,  # as brokers do unless told otherwise
        "listeners": f"PROXIED://127.0.0.1:{inner}",
        "advertised.listeners": f"PROXIED://127.0.0.1:{outer}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT"
        ),
    }
    here = Broker(folder / "broker", port, more)
    with contextlib.ExitStack() as stack:
        stack.callback(here.close)
        kafka = here.start()
        to_broker = stack.enter_context(Proxy(outer, inner))
        behind = Kafka({"bootstrap.servers": f"127.0.0.1:{outer}"})
        # a build may meet several deaths of everything: that is no build without progress
        clock = Clock(folder / "clock")
        way = broker.free_port()  # of one viewer
        named = {"hosts": [f"127.0.0.1:{way}"]}
        chosen = {"build_stall_s": SETTLED_S, "env": clock.env, "http": named, **settings}
        made = world(kafka, folder / "run", NAME, seed=seed, through=behind, **chosen)
        one = stack.enter_context(made)
        to_server = stack.enter_context(Proxy(way, one.live.port))
        sampler = stack.enter_context(Sampler(kafka, NAME))
        staleness = stack.enter_context(Staleness(one.status))
        storm = Storm(one, here, to_broker, to_server, sampler, staleness, clock)
        stack.callback(storm.close)
        for pair in PAIRS:
            one.producers[pair].people = PEOPLE
        storm.join(one.live.url)
        storm.join(f"http://127.0.0.1:{to_server.port}/")
        stack.enter_context(_traffic(storm, seed))
        yield storm


@contextlib.contextmanager
def _traffic(storm: Storm, seed: int) -> Iterator[None]:
    """A few records all the time, but while it is quiet."""
    over, dice = threading.Event(), random.Random(seed)

    def work() -> None:
        while not over.wait(1 / PER_SECOND):
            with storm.feeding:
                for pair in PAIRS:
                    storm.world.producers[pair].one(dice)
                    storm.fed += 1

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
    """Do what the seed's list says for so long, and at least each kind once; how many were done."""
    done: list[str] = []
    ends = time.monotonic() + 60 * minutes
    for name, action in plan(seed, kinds, validate):
        once = len(done) - done.count("validate") >= len(kinds)
        if once and time.monotonic() > ends:
            break
        began = time.monotonic()
        try:
            # dice of its own: what one does must not depend on how long another took
            storm.world.dice = random.Random(f"{seed}/{len(done)}")
            action.do(storm)
            wrong = [said for one in storm.watchers for said in one.wrong]
            assert not wrong, wrong[:3]
            storm.expect_fed()
        except AssertionError as error:
            log = storm.world.live.log.read_text()[-6000:]
            said = f"seed {seed}, action {len(done)}, {action}: {error}"
            raise AssertionError(f"{said}\nbefore: {done}\n{log}") from error
        print(f"{len(done)} {action} {time.monotonic() - began:.1f} s", flush=True)
        done.append(name)
    validate.do(storm)
    never = [name for name in kinds if not storm.landed[name]]
    assert not never, f"seed {seed}: these never landed: {never}, of {storm.landed}"
    return len(done)
