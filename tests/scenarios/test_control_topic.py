"""A control topic filled before the first start, and one with hundreds of invalid messages."""

import json
import random
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
from rig.running import Running, running, until
from rig.watching import Watcher
from rig.world import ExpectLive, ExpectOracle, World, play, run_world

SEED = 20261116
HISTORY = 400
MUTATED = 1000
PAIRS = ("a", "b")
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
            return dice.choice(("left", "inner", "left_outer"))
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


def test_a_filled_control_topic_is_folded_into_one_choice(kafka: Kafka, tmp_path: Path) -> None:
    sources, dice = ("users", "accounts"), random.Random(SEED)
    producers = {}
    for pair in PAIRS:
        names = {source: f"filled.{source}.{pair}" for source in sources}
        for topic in names.values():
            kafka.create_topic(topic, partitions=2)
        producers[pair] = Producers(kafka, names)  # any pair may be joined with any other
        for _ in range(60):
            producers[pair].send_random(dice, users=0.4)
        producers[pair].flush()
    topics = {f"{source}Topic": {pair: f"filled.{source}.{pair}" for pair in PAIRS}
              for source in sources}  # fmt: skip
    expected = history(random.Random(SEED), topics, HISTORY)
    assert set(expected.choice) == set(FIELDS)
    assert "no-such-topic" not in expected.choice.values()
    _fill(kafka, expected)
    # the configured topics are the other ones
    other_topics = {source: next(topic for topic in topics[f"{source}Topic"].values()
             if topic != expected.choice[f"{source}Topic"]) for source in sources}  # fmt: skip
    with running(kafka, tmp_path, name="filled", topics=other_topics) as live:
        live.wait_live()
        status = live.request("api/v1/status")
        assert {name: status[name] for name in FIELDS} == expected.choice
        assert [row["generation"] for row in live.request("api/v1/generations")["generations"]] == [
            1
        ]
        _expect_rows(live, producers, topics, expected)
        rows = sorted(live.table("control_raw").values(), key=lambda row: int(row["offset"]))
        assert [row["outcome"] for row in rows] == expected.outcomes
        assert all(row["reason"] for row in rows if row["outcome"] == "rejected")
        # it continues after the history, which is not read again after a restart
        assert live.stop() == 0
        live.start()
        live.wait_live()
        status = live.request("api/v1/status")
        assert {name: status[name] for name in FIELDS} == expected.choice
        assert status["generation"] == 1


def _fill(kafka: Kafka, expected: History) -> None:
    kafka.create_topic("filled.control", {"retention.ms": "-1"})
    producer = kafka.producer()
    for raw in expected.raws:
        producer.produce("filled.control", raw)
    assert producer.flush(30) == 0


def _expect_rows(
    live: Running,
    producers: dict[str, Producers],
    topics: dict[str, dict[str, str]],
    expected: History,
) -> None:
    """Check that the rows are those of the chosen topics."""
    sent = {}
    for source in ("users", "accounts"):
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
