"""Fakes with behaviour: durable storage that survives crashes, a ledger and a pipeline over it.

A crash can be injected before or after any effect: `Crash` is raised there, and nothing becomes
durable afterwards.
"""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from livejoin.core.generation import Generation, Reading
from livejoin.core.ledger_format import from_json, to_json
from livejoin.core.state import EndedGeneration, LogLine, OutboxItem, Reply, State
from livejoin.errors import GenerationUnrecoverable, LeadershipLost, TopicMissing

FINGERPRINT = "fake"


class Crash(SystemExit):
    """The process dies here; as SystemExit it ends threads silently."""


@dataclass
class FakeWorld:
    """What survives a crash: topics, the ledger, changelogs and checkpoints."""

    topics: dict[str, str]  # ids by name
    state: str | None = None
    outbox: list[OutboxItem] = field(default_factory=list)
    changelogs: set[int] = field(default_factory=set)
    ids: dict[int, str] = field(default_factory=dict)  # of changelogs
    topics_created: int = 0  # in total
    checkpoints: set[int] = field(default_factory=set)
    running: set[int] = field(default_factory=set)
    max_running: int = 0
    leader: int = 0
    effects: list[str] = field(default_factory=list)
    crash_at: tuple[str, int] = ("", 0)  # an effect and the number of its visit
    crashed: threading.Event = field(default_factory=threading.Event)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def visit(self, effect: str) -> None:
        """Record an effect; crash if it is the chosen one."""
        with self.lock:
            if self.crashed.is_set():
                raise Crash(effect)
            self.effects.append(effect)
            if (effect, self.effects.count(effect)) == self.crash_at:
                self.crashed.set()
                raise Crash(effect)

    def revive(self) -> None:
        """Start the next process: queries are gone, durable things are kept."""
        self.crashed = threading.Event()
        self.crash_at = ("", 0)
        self.running.clear()

    @property
    def lines(self) -> list[LogLine]:
        return [item for item in self.outbox if isinstance(item, LogLine)]

    @property
    def replies(self) -> list[Reply]:
        return [item for item in self.outbox if isinstance(item, Reply)]

    @property
    def ended(self) -> list[EndedGeneration]:
        return [item for item in self.outbox if isinstance(item, EndedGeneration)]


class FakeLedger:
    """Writes atomically, and only while this process leads."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world
        self._term = 0

    def take_over(self) -> State:
        with self._world.lock:
            self._world.leader += 1
            self._term = self._world.leader
            text = self._world.state
        return from_json(json.loads(text)) if text else State()

    def write(self, state: State) -> State:
        world = self._world
        text = json.dumps(to_json(state))
        if text != world.state or state.outbox:
            world.visit("before ledger")
            with world.lock:
                if self._term != world.leader:
                    raise LeadershipLost("another one leads")
                world.state = text
                world.outbox += state.outbox
            world.visit("after ledger")
        return replace(state, outbox=())


class FakePipeline:
    """Queries that catch up at once."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world

    def resolve(self, generation: Generation) -> tuple[Mapping[str, Reading], str]:
        self._world.visit("resolve")
        readings = {}
        for source in ("users", "accounts"):
            topic = generation.choice.topics[source]
            if topic not in self._world.topics:
                raise TopicMissing(f'topic "{topic}" does not exist')
            readings[source] = Reading(topic, self._world.topics[topic], {0: 0}, {0: 9})
        return readings, FINGERPRINT

    def make_topics(self, generation: Generation) -> tuple[str, str]:
        world, number = self._world, generation.number
        world.visit("before topics")
        with world.lock:
            world.topics_created += 1
            world.changelogs.add(number)
            world.ids[number] = f"made {world.topics_created}"
        world.visit("after topics")
        return world.ids[number], ""

    def start(self, generation: Generation) -> Mapping[str, Reading] | None:
        world, number = self._world, generation.number
        world.visit("before start")
        with world.lock:
            if world.ids.get(number, "") != generation.changelog_id:
                raise GenerationUnrecoverable("its changelog was deleted and recreated")
            world.checkpoints.add(number)
            world.running.add(number)
            world.max_running = max(world.max_running, len(world.running))
        world.visit("after start")
        return None

    def stop(self, generation: int) -> None:
        self._world.visit("before stop")
        self._world.running.discard(generation)
        self._world.visit("after stop")

    def catch_up(
        self,
        generation: Generation,
        progressed: Callable[[int, int], None],
        stopped: Callable[[], bool],
    ) -> int | None:
        self._world.visit("catch up")
        progressed(10, 20)
        return None if stopped() else 20 + generation.number

    def keep(self, numbers: frozenset[int], last: int) -> None:
        for left in (self._world.changelogs, self._world.checkpoints):
            for number in sorted(left - numbers):
                if number <= last:
                    self._world.visit("before delete")
                    left.discard(number)
                    if left is self._world.changelogs:
                        self._world.ids.pop(number, None)
                    self._world.visit("after delete")

    def made_progress(self, generation: int) -> bool:
        return generation not in self._world.running

    def reachable(self) -> bool:
        return True


def topics(*names: str) -> dict[str, str]:
    """Topics that exist, each with an id."""
    return {name: f"id of {name}" for name in names}


def shape(state: State) -> dict[str, Any]:
    """What must be equal after any crash; times and numbers may differ."""

    def choice(generation: Generation | None) -> str | None:
        return str(generation.choice) if generation else None

    return {
        "live": choice(state.live),
        "standby": choice(state.standby),
        "building": choice(state.building),
        "position": state.position,
        "ids": state.ids,
    }
