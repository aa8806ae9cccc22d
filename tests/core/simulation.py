"""A small world around the pure core: topics come and go, queries run and die, processes crash.

Everything in it follows from one seed. It writes down what a real livejoin would write down, in the
order in which it would, and checks after every fact what must hold.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from random import Random

from livejoin.core.control_messages import TopicRules
from livejoin.core.control_records import ControlHistory, ControlRecord, parse_record
from livejoin.core.decide import decide
from livejoin.core.facts import (
    BuildProgressed,
    CaughtUp,
    ClockTicked,
    ControlTopicLost,
    ControlTopicOpened,
    Fact,
    HistoryReplayed,
    LeaderStarted,
    MessageReceived,
    PartitionsAdded,
    QueryDied,
    QueryResumed,
    RecordsCounted,
    ResolutionFailed,
    SourcesChecked,
    SourcesResolved,
    TopicInfo,
    TopicsCreated,
    Unrecoverable,
)
from livejoin.core.generation import Generation, Reading
from livejoin.core.ledger_format import from_json, to_json
from livejoin.core.names import Names
from livejoin.core.plan import CreateTopics, KeepOnly, ResolveSources, RunQueries, plan
from livejoin.core.spec import Choice
from livejoin.core.state import EndedGeneration, Limits, LogLine, Reply, State

FACTS = 200  # per seed

KINDS = (
    "nothing yet",
    "waiting",
    "first build",
    "live",
    "live with standby",
    "restarting",
    "building",
    "building with standby",
    "down",
    "down, building",
)
FACT_NAMES = tuple(
    one.__name__
    for one in (
        LeaderStarted,
        ClockTicked,
        HistoryReplayed,
        ControlTopicOpened,
        ControlTopicLost,
        MessageReceived,
        SourcesResolved,
        ResolutionFailed,
        TopicsCreated,
        QueryResumed,
        BuildProgressed,
        CaughtUp,
        QueryDied,
        Unrecoverable,
        SourcesChecked,
        PartitionsAdded,
        RecordsCounted,
    )
)
Decide = Callable[[State, Fact], State]


def kind(state: State) -> str:
    """What a state is, in a few words."""
    live, standby, building = state.live, state.standby, state.building
    if live is None:
        if building is None:
            return "waiting" if state.topic_id else "nothing yet"
        return "waiting" if state.health_of(building).error else "first build"
    health = state.health_of(live)
    if health.given_up:
        return "down, building" if building else "down"
    if building is not None:
        return "building with standby" if standby else "building"
    if health.error:
        return "restarting"
    return "live with standby" if standby else "live"


class InvariantViolated(AssertionError):
    """An invariant does not hold."""


RULES = TopicRules(Names("livejoin"), "control")
CHOICE = Choice("users", "accounts")
USERS = ("users", "users_b", "users_c")
ACCOUNTS = ("accounts", "accounts_b")
ALL = (*USERS, *ACCOUNTS)
JOINS = ("left", "inner", "left_outer")
GARBAGE: tuple[bytes, ...] = (
    b"",
    b"[]",
    b'"{}"',
    b"{}",
    b"\xff\xfe",
    b'{"usersTopic":"a,b"}',
    b'{"usersTopic":"livejoin.ledger"}',
    b'{"joinType":"sideways","usersTopic":"users_b"}',
    b'{"usersTopic":"users_b","usersTopic":"users_c"}',
    b'{"accountsTopic":"control"}',
    b'{"userstopic":"users_b"}',
    b'{"id":' + b"[" * 2000,
)


PAST = (b'{"joinType":"inner"}', b'{"usersTopic":"users_b"}', b"[]", b'{"usersTopic":"accounts"}')


@cache
def read(raw: bytes) -> ControlRecord:
    """A message is understood once; only where it stands differs."""
    return parse_record(0, 0.0, "kafka", raw, RULES)


@dataclass
class SimulatedWorld:
    """What is outside: topics, queries, the control topic's records, two clocks."""

    random: Random
    now: float = 1000.0  # of the clock that only goes on
    ahead_s: float = 1e9  # of it: the clock on the wall, which is set now and then
    topics: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ALL, 1))  # name: id
    made: int = 1  # how many topics were ever made anew
    changelogs: dict[int, str] = field(default_factory=dict)  # by generation: its id
    messages: list[bytes] = field(default_factory=list)
    control: int = 1  # which control topic this is
    done: dict[int, int] = field(default_factory=dict)  # by generation: records read
    cursed: set[int] = field(default_factory=set)  # generations that die whenever they run

    @property
    def wall(self) -> float:
        """What the clock on the wall shows."""
        return self.now + self.ahead_s

    def set_clock(self) -> None:
        """The clock on the wall is set, by an hour or a day."""
        self.ahead_s += self.random.choice((-86400.0, -3600.0, 3600.0, 86400.0))

    def tick(self, ago_s: float = 0.0) -> ClockTicked:
        """What the clocks show, or showed."""
        return ClockTicked(self.wall - ago_s, self.now - ago_s)

    def message(self) -> bytes:
        """Somebody writes a control message."""
        random = self.random
        if random.random() < 0.3:
            raw = random.choice(GARBAGE)
        else:
            raw = json.dumps(self._fields()).encode()
        self.messages.append(raw)
        return raw

    def _fields(self) -> dict[str, object]:
        random = self.random
        fields: dict[str, object] = {}
        if random.random() < 0.15:
            fields["action"] = "rollback"
        else:
            if random.random() < 0.4:
                fields["usersTopic"] = random.choice((*USERS, "nowhere", "accounts"))
            if random.random() < 0.3:
                fields["accountsTopic"] = random.choice(ACCOUNTS)
            if random.random() < 0.4:
                fields["joinType"] = random.choice(JOINS)
            if random.random() < 0.1:
                fields["start"] = random.choice(("1h", "latest"))
            if random.random() < 0.1:
                fields["action"] = "preview"
        if random.random() < 0.3:
            fields["id"] = f"id-{random.randrange(20)}"
        if random.random() < 0.1:
            fields["expectedGeneration"] = random.randrange(1, 8)
        return fields or {"joinType": None}

    def message_received(self, offset: int) -> MessageReceived:
        """A message of the control topic is read."""
        one = read(self.messages[offset])
        origin = replace(one.origin, offset=offset, at=self.wall)
        named = one.request.topics if one.request else ()
        return MessageReceived(
            origin, one.request, one.error, {name: self._found(name) for name in named}
        )

    def _found(self, topic: str) -> TopicInfo | str:
        if topic in self.topics:
            return TopicInfo(partitions=1 + len(topic) % 3)
        return f'topic "{topic}" does not exist'

    def remake(self) -> None:
        """The control topic is deleted and made again, and holds little."""
        self.control += 1
        self.messages = [self.random.choice(PAST) for _ in range(self.random.randrange(3))]

    def history_replayed(self) -> HistoryReplayed:
        """The control topic is read from its beginning."""
        history = ControlHistory()
        for offset, raw in enumerate(self.messages):
            one = read(raw)
            history.add(replace(one, origin=replace(one.origin, offset=offset)))
        return history.replayed(self.topic_id, len(self.messages))

    @property
    def topic_id(self) -> str:
        """Of the control topic."""
        return f"control-{self.control}"

    def resolved(self, generation: Generation) -> SourcesResolved | ResolutionFailed:
        """Where a generation reads, or why it cannot."""
        number, choice = generation.number, generation.choice
        if self.random.random() < 0.15:
            return ResolutionFailed(number, "broker out of reach")
        missing = [name for name in (choice.users, choice.accounts) if name not in self.topics]
        if missing:
            return ResolutionFailed(number, f"no topic {missing[0]}", missing=True)
        if self.random.random() < 0.08:
            self.cursed.add(number)
        return SourcesResolved(
            number,
            {
                "users": self._reading(choice.users),
                "accounts": self._reading(choice.accounts),
            },
            "v1",
        )

    def make_topics(self, generation: Generation) -> TopicsCreated:
        """A generation gets a new changelog, in the place of one that has its name."""
        self.made += 1
        self.changelogs[generation.number] = f"changelog-{self.made}"
        return TopicsCreated(generation.number, self.changelogs[generation.number])

    def _reading(self, topic: str) -> Reading:
        partitions = range(1 + len(topic) % 3)
        pins = dict.fromkeys(partitions, self.random.randrange(10))
        return Reading(topic, str(self.topics[topic]), dict.fromkeys(partitions, 0), pins)

    def report(self, generation: Generation) -> Fact:
        """What a running query reports."""
        number, random = generation.number, self.random
        for reading in generation.sources.values():
            if str(self.topics.get(reading.topic)) != reading.topic_id:
                return Unrecoverable(number, f"topic {reading.topic} is another one")
        chance = random.random()
        if number in self.cursed or chance < 0.08:
            return QueryDied(number, "boom", counts_as_failure=chance < 0.95)
        if chance < 0.09:
            return Unrecoverable(number, "its checkpoint cannot be used")
        if chance < 0.15:
            return SourcesChecked(number, random.choice(("", "no such topic")))
        if chance < 0.2:
            return PartitionsAdded(number, self._grown(generation))
        if chance < 0.23:
            capped = ("final_ui",) if random.random() < 0.05 else ()
            return RecordsCounted(number, {"read": random.randrange(10)}, capped)
        if chance < 0.35:
            return QueryResumed(number)
        done = self.done.get(number, 0) + random.randrange(4)
        self.done[number] = done
        return BuildProgressed(number, done, 6) if done < 6 else CaughtUp(number, done)

    def _grown(self, generation: Generation) -> dict[str, Reading]:
        """One more partition of one source, now and then too many."""
        sources = dict(generation.sources)
        name = self.random.choice(list(sources))
        more = range(self.random.choice((1, 1, 1, 30)) + len(sources[name].start))
        sources[name] = replace(sources[name], start=dict.fromkeys(more, 0))
        return sources

    def change_topics(self) -> None:
        """A topic is made, deleted, or deleted and made again."""
        name = self.random.choice(ALL)
        self.made += 1
        if name in self.topics and self.random.random() < 0.5:
            del self.topics[name]
        else:
            self.topics[name] = self.made


class Simulation:
    """One seed: facts, one after another, and what must hold after each."""

    def __init__(self, seed: int, decide: Decide = decide) -> None:
        self.random = Random(seed)
        self.world = SimulatedWorld(self.random)
        self.state = State()
        self.cells: Counter[tuple[str, str]] = Counter()
        self._decide = decide
        self._durable = self.state  # what the ledger holds
        self._lines = 0  # how many it has told
        self._steps = plan(self.state)
        self._numbers: dict[int, Choice] = {}
        self._gone: set[int] = set()
        # when the names last moved in this process, by the clock that only goes on
        self._moved: float | None = None

    def run(self) -> Iterator[Fact]:
        """Let it all happen; gives every fact after it was decided and written down."""
        told = 0
        facts = self._facts()
        while told < FACTS:
            fact = next(facts)
            told += 1
            self.cells[type(fact).__name__, kind(self.state)] += 1
            before, after = self.state, self._decide(self.state, fact)
            self._check(before, fact, after)
            self.state = after
            yield fact
            if self.random.random() < 0.02:
                self._crash(written=self.random.random() < 0.5)
                facts = self._facts()
            else:
                self._write()

    def _facts(self) -> Iterator[Fact]:
        """What happens to a process from its start on."""
        random, world = self.random, self.world
        if not self.state.topic_id and random.random() < 0.3:
            yield from self._early()
        limits = Limits(
            standby_s=random.choice((0.0, 60.0, 900.0, 900.0, inf)), slots=random.choice((23, 512))
        )
        yield LeaderStarted(world.wall, world.now, CHOICE, limits)
        while self.state.topic_id != world.topic_id:
            if random.random() < 0.25:
                yield world.history_replayed()
            else:
                yield self._any()
        while True:
            yield self._any() if random.random() < 0.26 else self._next()

    def _early(self) -> Iterator[Fact]:
        """A message that comes before anything else."""
        self.world.message()
        yield self.world.message_received(len(self.world.messages) - 1)
        self.world.messages.clear()

    def _next(self) -> Fact:
        """What happens in the ordinary course of things."""
        random, world = self.random, self.world
        running = [
            one for step in self._steps if isinstance(step, RunQueries) for one in step.generations
        ]
        asks = [step.generation for step in self._steps if isinstance(step, ResolveSources)]
        (make,) = [step for step in self._steps if isinstance(step, CreateTopics)]
        chance = random.random()
        if asks and chance < 0.6:
            return world.resolved(asks[0])
        if make.generations and chance < 0.8:
            return world.make_topics(make.generations[0])
        if running and chance < 0.65:
            return world.report(random.choice(running))
        if chance < 0.80:
            return self._control()
        if chance < 0.84:
            world.change_topics()
        pause = random.choice((0.5, 1.0, 2.0, 4.0, 4.0))
        world.now += pause if random.random() < 0.95 else random.choice((30.0, 1000.0))
        if random.random() < 0.05:
            world.set_clock()
        return world.tick()

    def _control(self) -> Fact:
        random, world = self.random, self.world
        if world.messages and random.random() < 0.15:  # delivered again, in any order
            return world.message_received(random.randrange(len(world.messages)))
        if self.state.position >= len(world.messages):
            world.message()
        return world.message_received(self.state.position)

    def _any(self) -> Fact:
        """What may happen at any time, whatever the state is."""
        random, world, state = self.random, self.world, self.state
        number = self._unwanted()
        live = state.live.number if state.live else number
        choices: tuple[Callable[[], Fact], ...] = (
            *[lambda: ControlTopicOpened("control")] * 2,  # no other way leads to these two
            *[lambda: ControlTopicLost(random.choice(("no such topic", "two partitions")))] * 2,
            lambda: world.tick(random.choice((0.0, 5.0))),
            lambda: LeaderStarted(world.wall, world.now, CHOICE),
            lambda: SourcesResolved(number, {"users": Reading("users", "1", {0: 0}, {})}),
            lambda: ResolutionFailed(number, "late", missing=True),
            lambda: TopicsCreated(random.choice((number, live)), "late"),
            lambda: QueryResumed(number),
            lambda: BuildProgressed(random.choice((number, live)), 1, 2),
            lambda: CaughtUp(random.choice((number, live)), 7),
            lambda: QueryDied(number, "late", counts_as_failure=True),
            lambda: Unrecoverable(number, "late"),
            lambda: SourcesChecked(number, "late"),
            lambda: PartitionsAdded(number, {"users": Reading("users", "1", {0: 0, 1: 0}, {})}),
            lambda: RecordsCounted(number, {"read": 1}),
        )
        if random.random() < 0.1 and state.topic_id:
            world.remake()
            return world.history_replayed()
        return random.choice(choices)()

    def _unwanted(self) -> int:
        """A generation that is gone, or never was."""
        number = self.random.randrange(self.state.last_number + 1)
        return self.state.last_number + 1 if self.state.find(number) else number

    def _write(self) -> None:
        """The state is written down, with all that is to be told."""
        state = self.state
        if state is self._durable:
            return
        for one in state.outbox:
            if isinstance(one, LogLine):
                _hold(one.id == self._lines + 1, "a line is missing before", one)
                self._lines = one.id
            elif isinstance(one, EndedGeneration):
                self._gone.add(one.generation.number)
        _hold(state.line_count == self._lines, "lines are missing after", self._lines)
        for generation in state.generations:
            number = generation.number
            _hold(number not in self._gone, "what was gone is back:", generation)
            same = self._numbers.setdefault(number, generation.choice)
            _hold(same is generation.choice or same == generation.choice, "twice:", generation)
        self.state = self._durable = replace(state, outbox=()) if state.outbox else state

    def _crash(self, *, written: bool) -> None:
        """The process is killed, before or after its state was written down."""
        if written:
            self._write()
        data = to_json(self._durable)
        self.state = from_json(json.loads(json.dumps(data)))
        _hold(to_json(self.state) == data, "the ledger says something else than", data)
        self._durable, self._steps = self.state, plan(self.state)
        self.world.now += self.random.choice((1.0, 30.0))
        if self.random.random() < 0.2:
            self.world.set_clock()

    def _check(self, before: State, fact: Fact, after: State) -> None:
        if after is before:
            return
        numbers = [generation.number for generation in after.generations]
        _hold(len(set(numbers)) == len(numbers), "one number twice:", numbers)
        _hold(max(numbers, default=0) <= after.last_number, "an unknown number:", numbers)
        _hold(after.last_number >= before.last_number, "numbers go back:", after.last_number)
        _hold(after.health.keys() <= set(numbers), "health of what is gone:", after.health)
        for shown in (after.live, after.standby):
            _hold(shown is None or shown.ready_at is not None, "not complete:", shown)
        _hold(before.live is None or after.live is not None, "nothing live after", before.live)
        if not isinstance(fact, HistoryReplayed):
            _hold(after.position >= before.position, "a step back to", after.position)
        told = {one.generation.number for one in after.outbox if isinstance(one, EndedGeneration)}
        left = {generation.number for generation in before.generations}.difference(numbers)
        _hold(left == told, "gone, and nobody was told:", left)
        self._check_plan(after, numbers)
        self._check_standby(before, fact, after)
        if isinstance(fact, MessageReceived):
            self._check_asked(before, fact, after)

    def _check_plan(self, state: State, numbers: list[int]) -> None:
        self._steps = plan(state)
        *_, run, keep = self._steps
        assert isinstance(run, RunQueries)
        assert isinstance(keep, KeepOnly)
        _hold(keep.numbers == set(numbers), "kept, and not what is wanted:", keep)
        for generation in run.generations:
            _hold(generation.resolved, "it runs without being resolved:", generation)
            _hold(generation.number in keep.numbers, "it runs without being kept:", generation)
            mine = self.world.changelogs.get(generation.number)
            _hold(generation.changelog_id == mine, "it writes to what is not its own:", generation)

    def _check_standby(self, before: State, fact: Fact, after: State) -> None:
        """It stands by for its time, whatever the clock on the wall shows."""
        most = after.limits.standby_s
        if isinstance(
            fact, LeaderStarted
        ):  # what was before is known by the clock on the wall only
            self._moved = None
            _hold(
                0 <= after.monotonic - after.swapped_monotonic <= most,
                "stood by for",
                after.swapped_monotonic,
            )
        elif after.live != before.live and _number(after.live) != _number(before.live):
            self._moved = after.monotonic
        elif isinstance(fact, ClockTicked) and before.standby and self._moved is not None:
            over = max(fact.monotonic, before.monotonic) >= self._moved + most
            _hold(over == (after.standby is None), "a standby ends early or late at", fact)

    def _check_asked(self, before: State, fact: MessageReceived, after: State) -> None:
        offset = fact.origin.offset
        _hold(offset >= before.position, "decided twice:", fact)
        _hold(after.position == offset + 1, "decided, and the position is not after", fact)
        told = [one for one in after.outbox if isinstance(one, Reply)]
        mine = [one for one in told if one.origin == fact.origin]
        _hold(len(mine) == 1, "not answered once:", fact)
        outcome, reason = mine[0].outcome, mine[0].reason
        _hold(fact.request is not None or outcome == "rejected", "invalid and not rejected:", fact)
        if outcome in ("rejected", "repeated", "previewed"):
            _hold(bool(reason), "no reason for", fact)
            _hold(
                after.generations == before.generations, "without effect, and yet it had one:", fact
            )


def _number(generation: Generation | None) -> int | None:
    return generation.number if generation else None


def _hold(holds: bool, why: str, what: object) -> None:  # noqa: FBT001
    if not holds:
        raise InvariantViolated(f"{why} {what}")


def trace(seed: int) -> Iterator[str]:
    """All that happens under a seed, in words."""
    simulation = Simulation(seed)
    for fact in simulation.run():
        yield f"{fact} {simulation.state}"


def digest(seeds: int) -> str:
    """A hash of all that happens under some seeds."""
    found = hashlib.sha256()
    for seed in range(seeds):
        for line in trace(seed):
            found.update(line.encode())
    return found.hexdigest()
