"""A control topic filled before the first start, and one with hundreds of invalid messages."""

import json
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from livejoin.kafka.cluster import Kafka
from rig import comparing
from rig.mutated import expect_rejected
from rig.oracle import Sent
from rig.produce import Producers
from rig.running import START_S, Running, running, until
from rig.watching import Watcher
from rig.world import ExpectLive, ExpectOracle, World, play, run_world

SEED = 20261116
HISTORY = 400
MUTATED = 1000
PAIRS = ("a", "b")
SOURCES = ("users", "accounts")
JOINS = ("left", "inner", "left_outer")
BASE_MS = 1_790_000_000_000
NOTHING: dict[str, str] = {}


@dataclass
class History:
    """A control history and its expected choice, by a second implementation of the rules."""

    topics: dict[str, dict[str, str]]
    raws: list[bytes] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    choice: dict[str, str] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)

    def add(self, raw: bytes, effect: dict[str, str] | None, identity: str = "") -> None:
        """Add a message with its effect; None if it is invalid."""
        self.raws.append(raw)
        if effect is None:
            self.outcomes.append("rejected")
        elif identity and identity in self.ids:
            self.outcomes.append("repeated")
        else:
            self.outcomes.append("history")
            self.choice |= effect
            self.ids |= {identity} - {""}

    def good(self, dice: random.Random, fields: tuple[str, ...]) -> None:
        """Add a message with some fields, with spaces and nulls as programs write them."""
        effect = {name: self._value(dice, name) for name in fields}
        message: dict[str, Any] = {name: f" {value} " for name, value in effect.items()}
        message |= dict.fromkeys(set(FIELDS) - set(fields), dice.choice((None, "", "  ")))
        identity = f"id {dice.randrange(60)}" if dice.random() < 0.3 else ""
        if identity:
            message["id"] = identity
        self.add(json.dumps(message).encode(), effect, identity)

    def _value(self, dice: random.Random, name: str) -> str:
        if name == "joinType":
            return dice.choice(JOINS)
        return dice.choice(list(self.topics[name].values()))


FIELDS = ("usersTopic", "accountsTopic", "joinType")
BAD = (
    *(b"{", b"", b"[]", b"null", b'"{}"', b"\xff", b'{"userTopic": "x"}', b'{"usersTopic": 1}'),
    *(b'{"joinType": "sideways"}', b'{"usersTopic": "a,b"}', b'{"usersTopic": "__offsets"}'),
    *(b'{"usersTopic": "x", "usersTopic": "y"}', b'{"joinType": "left", "start": "soon"}'),
    *(b'{"usersTopic": "filled.ledger"}', b'{"usersTopic": "' + b"x" * 20_000 + b'"}'),
)
IGNORED = (b'{"action": "rollback"}', b'{"action": "preview", "joinType": "inner"}')


def history(dice: random.Random, topics: dict[str, dict[str, str]], count: int) -> History:
    """Valid and invalid messages; early ones name missing topics, which are replaced later."""
    expected = History(topics)
    for number in range(count):
        kind = dice.random()
        if kind < 0.4:
            expected.add(dice.choice(BAD), None)
        elif kind < 0.5:
            expected.add(dice.choice(IGNORED), NOTHING)
        elif kind < 0.6 and number < count // 2:
            name = dice.choice(FIELDS[:2])
            expected.add(json.dumps({name: "no-such-topic"}).encode(), {name: "no-such-topic"})
        else:
            expected.good(dice, tuple(dice.sample(FIELDS, dice.randint(1, 3))))
    return expected


def test_the_same_seed_gives_the_same_history() -> None:
    topics = {name: {pair: pair for pair in PAIRS} for name in FIELDS[:2]}
    one, two = (history(random.Random(SEED), topics, HISTORY) for _ in range(2))
    assert one == two
    assert {"rejected", "repeated", "history"} == set(one.outcomes)


@dataclass
class Chosen:
    """The acknowledged records of the chosen topics."""

    acknowledged: dict[str, list[Sent]]


@dataclass
class Filled:
    """Data topics, and the history of a control topic over them."""

    kafka: Kafka
    name: str
    producers: dict[str, Producers] = field(default_factory=dict)

    @property
    def topics(self) -> dict[str, dict[str, str]]:
        """By field of a message and pair."""
        return {
            f"{source}Topic": {pair: f"{self.name}.{source}.{pair}" for pair in PAIRS}
            for source in SOURCES
        }

    def produce(self) -> History:
        """Fill the data topics; returns the history of the control topic."""
        dice = random.Random(SEED)
        for pair in PAIRS:
            names = {source: self.topics[f"{source}Topic"][pair] for source in SOURCES}
            for topic in names.values():
                self.kafka.create_topic(topic, partitions=2)
            # any pair may be joined with any other
            self.producers[pair] = Producers(self.kafka, names)
            for _ in range(60):
                self.producers[pair].send_random(dice, users=0.4)
            self.producers[pair].flush()
        expected = history(random.Random(SEED), self.topics, HISTORY)
        ledger = f"{self.name}.ledger".encode()
        expected.raws = [raw.replace(b"filled.ledger", ledger) for raw in expected.raws]
        assert set(expected.choice) == set(FIELDS)
        assert "no-such-topic" not in expected.choice.values()
        return expected

    def fill(self, expected: History, partitions: int) -> list[tuple[int, int]]:
        """Write the history, by ascending timestamps; returns partition and offset of each."""
        topic, dice = f"{self.name}.control", random.Random(SEED)
        self.kafka.create_topic(topic, {"retention.ms": "-1"}, partitions)
        producer = self.kafka.producer()
        positions, counts = [], dict.fromkeys(range(partitions), 0)
        for number, raw in enumerate(expected.raws):
            partition = dice.randrange(partitions)
            producer.produce(topic, raw, partition=partition, timestamp=BASE_MS + number)
            positions.append((partition, counts[partition]))
            counts[partition] += 1
        assert producer.flush(30) == 0
        return positions

    def other_topics(self, expected: History) -> dict[str, str]:
        """The topics that the history does not choose, for the settings."""
        return {
            source: next(
                topic
                for topic in self.topics[f"{source}Topic"].values()
                if topic != expected.choice[f"{source}Topic"]
            )
            for source in SOURCES
        }


def test_a_filled_control_topic_is_folded_into_one_choice(kafka: Kafka, tmp_path: Path) -> None:
    filled = Filled(kafka, "filled")
    expected = filled.produce()
    positions = filled.fill(expected, 1)
    topics = filled.other_topics(expected)
    with running(kafka, tmp_path, name="filled", topics=topics) as live:
        live.wait_live()
        _expect_folded(live, filled, expected, positions)
        # it continues after the history, which is not read again after a restart
        assert live.stop() == 0
        live.start()
        live.wait_live()
        _expect_choice(live, expected)


def test_killed_while_it_folds_three_partitions_it_arrives_where_it_would_have(
    kafka: Kafka, tmp_path: Path
) -> None:
    filled = Filled(kafka, "filled3")
    expected = filled.produce()
    positions = filled.fill(expected, 3)
    live = Running(kafka, tmp_path, name="filled3", topics=filled.other_topics(expected))
    try:
        for fail_at in ("in-history:1", f"in-history:{HISTORY // 2}", f"in-history:{HISTORY}"):
            live.start(fail_at)
            until(lambda: live.exit_code is not None, f"{fail_at} is reached", START_S)
            assert live.exit_code == -signal.SIGKILL, live.log.read_text()[-3000:]
        live.start()
        live.wait_live()
        _expect_folded(live, filled, expected, positions)
        # later messages count once, in whatever partition they are
        join = next(one for one in JOINS if one != expected.choice["joinType"])
        producer = kafka.producer()
        raw = json.dumps({"joinType": join}).encode()
        for partition in range(3):
            producer.produce("filled3.control", raw, partition=partition)
        assert producer.flush(30) == 0
        until(lambda: live.request("api/v1/status")["joinType"] == join, "a swap")
        live.kill(live.pid)
        live.start()
        live.wait_live()
        until(lambda: len(live.table("control_raw")) == HISTORY + 3, "all rows are there")
        assert live.request("api/v1/status")["generation"] == 2
        rows = [row for _, row in sorted(live.table("control_raw").items())][HISTORY:]
        assert sorted(row["partition"] for row in rows) == [0, 1, 2]
    finally:
        live.stop(signal.SIGKILL)


def _expect_folded(
    live: Running, filled: Filled, expected: History, positions: list[tuple[int, int]]
) -> None:
    """Check the choice, that it was built once, its rows, and the outcomes in order."""
    _expect_choice(live, expected)
    _expect_rows(live, filled.producers, filled.topics, expected)
    rows = [row for _, row in sorted(live.table("control_raw").items())]
    assert [(row["partition"], row["offset"]) for row in rows] == positions
    assert [row["outcome"] for row in rows] == expected.outcomes
    assert all(row["reason"] for row in rows if row["outcome"] == "rejected")


def _expect_choice(live: Running, expected: History) -> None:
    status = live.request("api/v1/status")
    assert {name: status[name] for name in FIELDS} == expected.choice
    rows = live.request("api/v1/generations")["generations"]
    assert [row["generation"] for row in rows] == [1]


def _expect_rows(
    live: Running,
    producers: dict[str, Producers],
    topics: dict[str, dict[str, str]],
    expected: History,
) -> None:
    """Check that the rows are those of the chosen topics."""
    sent = {}
    for source in SOURCES:
        pairs_by_topic = {topic: pair for pair, topic in topics[f"{source}Topic"].items()}
        pair = pairs_by_topic[expected.choice[f"{source}Topic"]]
        sent[source] = producers[pair].acknowledged[source]
    with Watcher(live.url, lambda *_: 0, lambda: live.pid) as watcher:
        until(lambda: watcher.generation == 1, "the viewer is connected")
        comparing.expect_equal(live, watcher, Chosen(sent), expected.choice["joinType"])
        assert not watcher.wrong, watcher.wrong[:3]


@pytest.fixture
def world(kafka: Kafka, tmp_path: Path) -> Iterator[World]:
    with run_world(kafka, tmp_path, "mutated", seed=SEED) as started:
        yield started


def test_hundreds_of_invalid_messages_change_nothing(world: World) -> None:
    expect_rejected(world, MUTATED, SEED)
    play(world, [ExpectLive("a"), ExpectOracle("a")])
