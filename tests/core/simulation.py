"""A simulated world around the pure core: topics come and go, queries run and die, processes crash.

Everything follows from one seed. The state is written to a ledger in the same order as in a real
livejoin, and the invariants are checked after every fact.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from random import Random

from livejoin.core.control_messages import MessageRules
from livejoin.core.control_records import (
    ControlHistory,
    ControlRecord,
    in_history_order,
    parse_record,
)
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
    SourcesUnreachable,
    TopicInfo,
    TopicsCreated,
    Unrecoverable,
)
from livejoin.core.generation import Generation, Reading
from livejoin.core.ledger_format import from_json, to_json
from livejoin.core.names import Names
from livejoin.core.plan import CreateTopics, KeepOnly, ResolveSources, RunQueries, plan
from livejoin.core.spec import DEFAULT, Choice
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
        SourcesUnreachable,
        PartitionsAdded,
        RecordsCounted,
    )
)
Decide = Callable[[State, Fact], State]


def kind(state: State) -> str:
    """Name of the kind of a state."""
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


RULES = MessageRules(Names("livejoin"), "control")
CHOICE = DEFAULT.choice("users", "accounts")
USERS = ("users", "users_b", "users_c")
ACCOUNTS = ("accounts", "accounts_b")
ALL_TOPICS = (*USERS, *ACCOUNTS)
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


HISTORY_MESSAGES = (
    b'{"joinType":"inner"}',
    b'{"usersTopic":"users_b"}',
    b"[]",
    b'{"usersTopic":"accounts"}',
)


@cache
def parse(raw: bytes) -> ControlRecord:
    """Parse each message once; only its position differs."""
    return parse_record(0, 0, 0.0, "kafka", raw, RULES)


@dataclass
class SimulatedWorld:
    """Everything outside the core: topics, queries, records of the control topic, two clocks."""

    random: Random
    now: float = 1000.0  # the monotonic clock
    ahead_s: float = 1e9  # the wall clock relative to it
    topics: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ALL_TOPICS, 1))  # name: id
    topics_created: int = 1  # number of all topics created so far
    changelogs: dict[int, str] = field(default_factory=dict)  # ids by generation
    # the control topic: messages of each partition, and their times
    messages: dict[int, list[tuple[bytes, float]]] = field(default_factory=lambda: {0: []})
    control: int = 1  # incarnation of the control topic
    done: dict[int, int] = field(default_factory=dict)  # records read by generation
    failing: set[int] = field(default_factory=set)  # generations whose query always dies

    @property
    def wall(self) -> float:
        """Time of the wall clock."""
        return self.now + self.ahead_s

    def set_clock(self) -> None:
        """Step the wall clock by an hour or a day."""
        self.ahead_s += self.random.choice((-86400.0, -3600.0, 3600.0, 86400.0))

    def tick(self, ago_s: float = 0.0) -> ClockTicked:
        """A tick with the current or an earlier time."""
        return ClockTicked(self.wall - ago_s, self.now - ago_s)

    def message(self, partition: int) -> None:
        """Append a random control message."""
        random = self.random
        if random.random() < 0.3:
            raw = random.choice(GARBAGE)
        else:
            raw = json.dumps(self._fields()).encode()
        self.messages[partition].append((raw, self.wall))

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

    def message_received(self, partition: int, offset: int) -> MessageReceived:
        """Read a message of the control topic."""
        record = self._record(partition, offset)
        origin = record.origin
        names = record.request.topics.values() if record.request else ()
        return MessageReceived(
            origin, record.request, record.error, {name: self._topic_info(name) for name in names}
        )

    def _topic_info(self, topic: str) -> TopicInfo | str:
        if topic in self.topics:
            return TopicInfo(partitions=1 + len(topic) % 3)
        return f'topic "{topic}" does not exist'

    def recreate_control_topic(self) -> None:
        """Delete and recreate the control topic, with few messages."""
        self.control += 1
        self.messages = {}
        for _ in range(self.random.choice((1, 2, 3))):
            self.add_partition()

    def add_partition(self) -> None:
        """Add a partition to the control topic, with few messages."""
        random = self.random
        self.messages[len(self.messages)] = [
            (random.choice(HISTORY_MESSAGES), random.choice((1.0, 2.0)))
            for _ in range(random.randrange(3))
        ]

    def opened(self) -> ControlTopicOpened:
        """Open the control topic; sometimes its oldest messages have been deleted."""
        deleted = self.random.random() < 0.3
        return ControlTopicOpened(
            "control",
            {
                partition: self.random.randrange(len(messages) + 1) if deleted else 0
                for partition, messages in self.messages.items()
            },
        )

    def history_replayed(self) -> HistoryReplayed:
        """Read the control topic from its beginning."""
        history = ControlHistory()
        for record in in_history_order(map(self._records, self.messages)):
            history.add(record)
        ends = {partition: len(messages) for partition, messages in self.messages.items()}
        return history.replayed(self.topic_id, ends)

    def _records(self, partition: int) -> Iterator[ControlRecord]:
        for offset in range(len(self.messages[partition])):
            yield self._record(partition, offset)

    def _record(self, partition: int, offset: int) -> ControlRecord:
        raw, at = self.messages[partition][offset]
        record = parse(raw)
        origin = replace(record.origin, partition=partition, offset=offset, at=at)
        return replace(record, origin=origin)

    @property
    def topic_id(self) -> str:
        """Id of the control topic."""
        return f"control-{self.control}"

    def resolved(self, generation: Generation) -> SourcesResolved | ResolutionFailed:
        """Readings of a generation, or why they cannot be resolved."""
        number, choice = generation.number, generation.choice
        if self.random.random() < 0.15:
            return ResolutionFailed(number, "broker out of reach")
        missing = [name for name in choice.topics.values() if name not in self.topics]
        if missing:
            return ResolutionFailed(number, f"no topic {missing[0]}", missing=True)
        if self.random.random() < 0.08:
            self.failing.add(number)
        return SourcesResolved(
            number,
            {
                "users": self._reading(choice.topics["users"]),
                "accounts": self._reading(choice.topics["accounts"]),
            },
            "v1",
        )

    def make_topics(self, generation: Generation) -> TopicsCreated:
        """Create the changelog of a generation; it replaces one of the same name."""
        self.topics_created += 1
        self.changelogs[generation.number] = f"changelog-{self.topics_created}"
        return TopicsCreated(generation.number, self.changelogs[generation.number])

    def _reading(self, topic: str) -> Reading:
        partitions = range(1 + len(topic) % 3)
        pins = dict.fromkeys(partitions, self.random.randrange(10))
        return Reading(topic, str(self.topics[topic]), dict.fromkeys(partitions, 0), pins)

    def report(self, generation: Generation) -> Fact:
        """A report of a running query."""
        number, random = generation.number, self.random
        for reading in generation.sources.values():
            if str(self.topics.get(reading.topic)) != reading.topic_id:
                return Unrecoverable(number, f"topic {reading.topic} is another one")
        chance = random.random()
        if number in self.failing or chance < 0.08:
            return QueryDied(number, "boom", counts_as_failure=chance < 0.95)
        if chance < 0.09:
            return Unrecoverable(number, "its checkpoint cannot be used")
        if chance < 0.15:
            return SourcesChecked(number, random.choice(("", "no such topic")))
        if chance < 0.2:
            return PartitionsAdded(number, self._with_more_partitions(generation))
        if chance < 0.23:
            capped = ("final_ui",) if random.random() < 0.05 else ()
            return RecordsCounted(number, {"read": random.randrange(10)}, capped)
        if chance < 0.35:
            return QueryResumed(number)
        done = self.done.get(number, 0) + random.randrange(4)
        self.done[number] = done
        return BuildProgressed(number, done, 6) if done < 6 else CaughtUp(number, done)

    def _with_more_partitions(self, generation: Generation) -> dict[str, Reading]:
        """Add one partition to a source, or sometimes too many."""
        sources = dict(generation.sources)
        name = self.random.choice(list(sources))
        partitions = range(self.random.choice((1, 1, 1, 30)) + len(sources[name].start))
        sources[name] = replace(sources[name], start=dict.fromkeys(partitions, 0))
        return sources

    def change_topics(self) -> None:
        """Create, delete or recreate a topic."""
        name = self.random.choice(ALL_TOPICS)
        self.topics_created += 1
        if name in self.topics and self.random.random() < 0.5:
            del self.topics[name]
        else:
            self.topics[name] = self.topics_created


class Simulation:
    """Facts of one seed, with a check of the invariants after each."""

    def __init__(self, seed: int, decide: Decide = decide) -> None:
        self.random = Random(seed)
        self.world = SimulatedWorld(self.random)
        self.state = State()
        self.cells: Counter[tuple[str, str]] = Counter()
        self._decide = decide
        self._durable = self.state  # what the ledger holds
        self._lines = 0  # number of lines it has written
        self._steps = plan(self.state)
        self._numbers: dict[int, Choice] = {}
        self._ended: set[int] = set()
        # monotonic time of the last switch of the live generation in this process
        self._switched_at: float | None = None

    def run(self) -> Iterator[Fact]:
        """Run the simulation; yields each fact after the decision, before the write."""
        count = 0
        facts = self._facts()
        while count < FACTS:
            fact = next(facts)
            count += 1
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
        """Facts of one process from its start."""
        random, world = self.random, self.world
        if not self.state.topic_id and random.random() < 0.3:
            yield from self._early_message()
        limits = Limits(
            standby_s=random.choice((0.0, 60.0, 900.0, 900.0, inf)), slots=random.choice((23, 512))
        )
        yield LeaderStarted(world.wall, world.now, CHOICE, limits)
        while self.state.topic_id != world.topic_id:
            if random.random() < 0.25:
                yield world.history_replayed()
            else:
                yield self._random_fact()
        while True:
            yield self._random_fact() if random.random() < 0.26 else self._likely_fact()

    def _early_message(self) -> Iterator[Fact]:
        """A message before the start."""
        partition = self.random.choice(list(self.world.messages))
        self.world.message(partition)
        yield self.world.message_received(partition, len(self.world.messages[partition]) - 1)
        self.world.messages[partition].clear()

    def _likely_fact(self) -> Fact:
        """A fact of normal operation."""
        random, world = self.random, self.world
        running = [
            generation
            for step in self._steps
            if isinstance(step, RunQueries)
            for generation in step.generations
        ]
        to_resolve = [step.generation for step in self._steps if isinstance(step, ResolveSources)]
        (create,) = [step for step in self._steps if isinstance(step, CreateTopics)]
        chance = random.random()
        if to_resolve and chance < 0.6:
            return world.resolved(to_resolve[0])
        if create.generations and chance < 0.8:
            return world.make_topics(create.generations[0])
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
        if random.random() < 0.02 and len(world.messages) < 5:
            world.add_partition()
        partition = random.choice(list(world.messages))
        count = len(world.messages[partition])
        if count and random.random() < 0.15:  # redelivered, in any order
            return world.message_received(partition, random.randrange(count))
        offset = self.state.position.get(partition, 0)
        if offset >= count:
            world.message(partition)
        return world.message_received(partition, offset)

    def _random_fact(self) -> Fact:
        """A fact that can occur in any state."""
        random, world, state = self.random, self.world, self.state
        number = self._unknown_generation()
        live = state.live.number if state.live else number
        choices: tuple[Callable[[], Fact], ...] = (
            *[world.opened] * 2,  # these two occur nowhere else
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
            SourcesUnreachable,
            lambda: PartitionsAdded(number, {"users": Reading("users", "1", {0: 0, 1: 0}, {})}),
            lambda: RecordsCounted(number, {"read": 1}),
        )
        if random.random() < 0.1 and state.topic_id:
            world.recreate_control_topic()
            return world.history_replayed()
        return random.choice(choices)()

    def _unknown_generation(self) -> int:
        """Number of a generation that has ended or never existed."""
        number = self.random.randrange(self.state.last_number + 1)
        return self.state.last_number + 1 if self.state.find(number) else number

    def _write(self) -> None:
        """Write the state and its outbox."""
        state = self.state
        if state is self._durable:
            return
        for item in state.outbox:
            if isinstance(item, LogLine):
                _require(item.id == self._lines + 1, "a line is missing before", item)
                self._lines = item.id
            elif isinstance(item, EndedGeneration):
                self._ended.add(item.generation.number)
        _require(state.line_count == self._lines, "lines are missing after", self._lines)
        for generation in state.generations:
            number = generation.number
            _require(number not in self._ended, "an ended generation is back:", generation)
            choice = self._numbers.setdefault(number, generation.choice)
            _require(
                choice is generation.choice or choice == generation.choice,
                "a number is used twice:",
                generation,
            )
        self.state = self._durable = replace(state, outbox=()) if state.outbox else state

    def _crash(self, *, written: bool) -> None:
        """Kill the process before or after the state is written."""
        if written:
            self._write()
        data = to_json(self._durable)
        self.state = from_json(json.loads(json.dumps(data)))
        _require(to_json(self.state) == data, "the ledger differs from", data)
        self._durable, self._steps = self.state, plan(self.state)
        self.world.now += self.random.choice((1.0, 30.0))
        if self.random.random() < 0.2:
            self.world.set_clock()

    def _check(self, before: State, fact: Fact, after: State) -> None:
        if isinstance(fact, MessageReceived) and not _is_decided(before, fact):
            _require(after is not before, "a message was passed over:", fact)
        if after is before:
            return
        numbers = [generation.number for generation in after.generations]
        _require(len(set(numbers)) == len(numbers), "a number is used twice:", numbers)
        _require(max(numbers, default=0) <= after.last_number, "an unknown number:", numbers)
        _require(after.last_number >= before.last_number, "numbers go back:", after.last_number)
        _require(
            after.health.keys() <= set(numbers),
            "health of a generation that is gone:",
            after.health,
        )
        for generation in (after.live, after.standby):
            _require(
                generation is None or generation.ready_at is not None, "not complete:", generation
            )
        _require(before.live is None or after.live is not None, "nothing live after", before.live)
        if not isinstance(fact, HistoryReplayed):
            back = {p for p, at in before.position.items() if after.position.get(p, 0) < at}
            _require(not back, "a step back in partitions", back)
        _require(after.read_order >= before.read_order, "an order is reused:", after.read_order)
        ended = {
            item.generation.number for item in after.outbox if isinstance(item, EndedGeneration)
        }
        gone = {generation.number for generation in before.generations}.difference(numbers)
        _require(gone == ended, "gone without an EndedGeneration:", gone)
        self._check_plan(after, numbers)
        self._check_standby(before, fact, after)
        if isinstance(fact, MessageReceived):
            self._check_decision(before, fact, after)

    def _check_plan(self, state: State, numbers: list[int]) -> None:
        self._steps = plan(state)
        *_, run, keep = self._steps
        assert isinstance(run, RunQueries)
        assert isinstance(keep, KeepOnly)
        _require(keep.numbers == set(numbers), "the wrong generations are kept:", keep)
        for generation in run.generations:
            _require(generation.resolved, "it runs but is not resolved:", generation)
            _require(generation.number in keep.numbers, "it runs but is not kept:", generation)
            changelog_id = self.world.changelogs.get(generation.number)
            _require(
                generation.changelog_id == changelog_id,
                "it writes to another changelog:",
                generation,
            )

    def _check_standby(self, before: State, fact: Fact, after: State) -> None:
        """A standby lasts `standby_s`, whatever the wall clock does."""
        standby_s = after.limits.standby_s
        if isinstance(fact, LeaderStarted):  # only the wall clock covers the time before the start
            self._switched_at = None
            _require(
                0 <= after.monotonic - after.swapped_monotonic <= standby_s,
                "wrong standby time after a start:",
                after.swapped_monotonic,
            )
        elif after.live != before.live and _number(after.live) != _number(before.live):
            self._switched_at = after.monotonic
        elif isinstance(fact, ClockTicked) and before.standby and self._switched_at is not None:
            expired = max(fact.monotonic, before.monotonic) >= self._switched_at + standby_s
            _require(expired == (after.standby is None), "a standby ends early or late at", fact)

    def _check_decision(self, before: State, fact: MessageReceived, after: State) -> None:
        origin = fact.origin
        _require(not _is_decided(before, fact), "decided twice:", fact)
        position = {**before.position, origin.partition: origin.offset + 1}
        _require(after.position == position, "decided without advancing the position:", fact)
        replies = [reply for reply in after.outbox if isinstance(reply, Reply)]
        own = [reply for reply in replies if replace(reply.origin, read_order=None) == origin]
        _require(len(own) == 1, "not answered exactly once:", fact)
        _require(after.read_order > before.read_order, "an order is reused:", fact)
        _require(own[0].origin.read_order == after.read_order, "not in the order read:", fact)
        outcome, reason = own[0].outcome, own[0].reason
        _require(
            fact.request is not None or outcome == "rejected", "invalid and not rejected:", fact
        )
        if outcome in ("rejected", "repeated", "previewed"):
            _require(bool(reason), "no reason for", fact)
            _require(
                after.generations == before.generations,
                "without effect expected, but generations changed:",
                fact,
            )


def _is_decided(state: State, fact: MessageReceived) -> bool:
    return fact.origin.offset < state.position.get(fact.origin.partition, 0)


def _number(generation: Generation | None) -> int | None:
    return generation.number if generation else None


def _require(condition: bool, problem: str, subject: object) -> None:  # noqa: FBT001
    if not condition:
        raise InvariantViolated(f"{problem} {subject}")


def trace(seed: int) -> Iterator[str]:
    """Facts and states of a seed as text."""
    simulation = Simulation(seed)
    for fact in simulation.run():
        yield f"{fact} {simulation.state}"


def digest(seeds: int) -> str:
    """Hash of the traces of some seeds."""
    digest_of_lines = hashlib.sha256()
    for seed in range(seeds):
        for line in trace(seed):
            digest_of_lines.update(line.encode())
    return digest_of_lines.hexdigest()
