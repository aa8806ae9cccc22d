"""A18: livejoin's own topics are deleted, with a broker that creates missing topics and without."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from rig import brokers, figures
from rig.running import COLD, until
from rig.world import (
    Do,
    ExpectLive,
    ExpectNothingLeft,
    ExpectOracle,
    Produce,
    Send,
    WaitOutcome,
    WaitState,
    World,
    play,
    run_world,
    topics,
)

SEED = 20261116
ANEW_S = 120
SAID_S = 15
MADE = "true"
DELETED, AGAIN_MADE = "was deleted", "was deleted and recreated"
NAME = "a18"
NAMES = Names(NAME)
AGAIN = Produce("a", 20), WaitState("live"), ExpectOracle("a"), ExpectLive("a"), ExpectNothingLeft()


@pytest.fixture(scope="module", params=["false", MADE], ids=["missing", "made by the broker"])
def auto(request: pytest.FixtureRequest) -> str:
    """Whether the broker creates missing topics automatically."""
    return str(request.param)


@pytest.fixture(scope="module")
def own(auto: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A separate broker."""
    more = {"auto.create.topics.enable": auto}
    with brokers.broker(tmp_path_factory.mktemp("own"), more=more) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def world(own: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One livejoin for all tests; its first build is by batch, so it has a bootstrap topic."""
    spark = {"batch_s": 5, "conf": COLD, "history_records": 50}
    with run_world(own, tmp_path_factory.mktemp("a18"), NAME, seed=SEED, spark=spark) as made:
        yield made


def _changelog(world: World) -> str:
    return NAMES.changelog(world.status()["generation"])


def _feed(world: World) -> str:
    return NAMES.bootstrap(world.status()["generation"])


Named = Callable[[World], str]
OF_A_GENERATION: dict[str, Named] = {"changelog": _changelog, "feed": _feed}
OF_LIVEJOIN: dict[str, Named] = {"ledger": lambda _: NAMES.ledger, "leader": lambda _: NAMES.leader}


def _settled(world: World) -> int:
    """Return the live generation, after all its records were read."""
    world.watcher.replaying = True
    play(world, [WaitState("live"), ExpectOracle("a")])
    number: int = world.status()["generation"]
    return number


def _delete(world: World, topic: str) -> None:
    assert topic in world.kafka.topics()
    world.kafka.delete([topic])
    world.fault(topics_deleted=1)


def _start(world: World) -> None:
    """Start livejoin, and wait until it leads and can report."""
    before = len(world.live.log.read_text())
    world.live.start()
    until(lambda: "] leading " in world.live.log.read_text()[before:], "it leads")


def _expect_said(world: World, words: str) -> str:
    """Wait for a match in the log that viewers see."""

    def said() -> re.Match[str] | None:
        try:
            lines = [row["msg"] for row in world.live.table("orchestrator_logs").values()]
        except AssertionError:
            return None  # livejoin is starting
        return next((found for line in lines if (found := re.search(words, line))), None)

    began = time.monotonic()
    found: re.Match[str] = until(said, words, SAID_S)
    _said_after(time.monotonic() - began)
    return found[0]


def _expect_status(world: World, words: str) -> str:
    """Wait for a match in the status."""
    began = time.monotonic()
    found: re.Match[str] = until(
        lambda: re.search(words, world.status()["message"] or ""), words, SAID_S
    )
    _said_after(time.monotonic() - began)
    return found[0]


def _said_after(seconds: float) -> None:
    figures.now().note(f"named after {seconds:.1f} s")


def _expect_why(world: World, number: int, what: str, said: set[str]) -> None:
    """Check that the generation is abandoned for its topic, for exactly one of these reasons."""
    line = _expect_said(world, f"generation {number} cannot continue: its {what} [^;]*;")
    why = line.partition(f"its {what} ")[2].rstrip(";")
    assert why in said, line
    figures.now().note(f"said: its {what} {why}")


def _anew(world: World, number: int) -> Do:
    """Wait for a new generation with an unused number."""

    def built(world: World) -> None:
        until(lambda: (world.status()["generation"] or 0) > number, "it is built anew", ANEW_S)

    return Do(built)


@pytest.mark.parametrize("what", OF_A_GENERATION)
def test_a18_a_topic_of_what_is_live_is_deleted_while_running(
    what: str, world: World, auto: str
) -> None:
    number = _settled(world)
    _delete(world, OF_A_GENERATION[what](world))
    # the query writes to its changelog, so the broker may recreate it at once
    _expect_why(world, number, what, {DELETED, AGAIN_MADE} if auto == MADE else {DELETED})
    play(world, [_anew(world, number), *AGAIN])


@pytest.mark.parametrize("said", [DELETED, AGAIN_MADE])
@pytest.mark.parametrize("what", OF_A_GENERATION)
def test_a18_a_topic_of_what_is_live_is_deleted_while_down(
    what: str, said: str, world: World, auto: str
) -> None:
    number = _settled(world)
    topic = OF_A_GENERATION[what](world)
    world.live.stop()
    _delete(world, topic)
    if said == AGAIN_MADE:  # by another client
        world.kafka.create_topic(topic)
    _start(world)
    _expect_why(world, number, what, {said, AGAIN_MADE} if auto == MADE else {said})
    play(world, [_anew(world, number), *AGAIN])


@pytest.mark.parametrize("what", OF_LIVEJOIN)
def test_a18_a_topic_of_livejoin_is_deleted_while_running(
    what: str, world: World, auto: str
) -> None:
    number = _settled(world)
    topic = OF_LIVEJOIN[what](world)
    _delete(world, topic)
    heartbeat = Send({"joinType": "left"})  # something to write
    heartbeat.do(world)
    found = _expect_status(world, f"{re.escape(topic)} {DELETED}( and recreated)?")
    assert auto == MADE or found == f"{topic} {DELETED}", found
    if what == "ledger":
        play(world, [_anew(world, number), *AGAIN])
    else:
        until(lambda: NAMES.leader in world.kafka.topics(), "it is made again")
        play(world, [WaitOutcome("live"), *AGAIN])
    until(lambda: not world.status()["stale"], "somebody leads")


def test_a18_the_ledger_is_deleted_while_down(world: World) -> None:
    number = _settled(world)
    world.live.stop()
    _delete(world, NAMES.ledger)
    _start(world)
    # nothing proves that there was a ledger, but leftover topics and checkpoints are reported
    _expect_said(world, f"generations up to {number} have left topics or checkpoints, .*: removed")
    play(world, [_anew(world, number), *AGAIN])


def test_a18_the_leader_topic_is_deleted_while_down(world: World) -> None:
    """No data is lost, so nothing is reported: the topic is created, as at the first start."""
    number = _settled(world)
    world.live.stop()
    _delete(world, NAMES.leader)
    _start(world)
    play(world, AGAIN)
    assert NAMES.leader in world.kafka.topics()
    assert world.status()["generation"] == number, "it was built anew"


def test_a18_another_choice_over_what_a_lost_ledger_left(own: Kafka, tmp_path: Path) -> None:
    """Topics and checkpoints with the same number exist, of other topics and another join."""
    name = "a18b"
    with run_world(own, tmp_path, name, seed=SEED, spark={"batch_s": 5, "conf": COLD}) as world:
        play(world, [ExpectOracle("a"), Produce("b", 40)])
        world.live.stop()
        own.delete([Names(name).ledger])
        world.fault(topics_deleted=1)
        settings = world.live.folder / "livejoin.yaml"
        text = settings.read_text()
        for source, topic in topics(name, "a").items():
            text = text.replace(topic, topics(name, "b")[source])
        settings.write_text(text)
        world.live.start()
        play(world, [WaitState("live"), ExpectOracle("b"), ExpectLive("b"), ExpectNothingLeft()])
        assert world.status()["generation"] == 2, "a number that nothing had"


def test_a18_a_changelog_that_was_complete_when_it_was_empty(own: Kafka, tmp_path: Path) -> None:
    """Its length is no evidence: it was ready at 0."""
    with run_world(own, tmp_path, "a18c", seed=SEED, spark={"batch_s": 5, "conf": COLD}) as world:
        for source in ("users", "accounts"):
            own.create_topic(f"a18c.{source}.empty")
        empty = {f"{source}Topic": f"a18c.{source}.empty" for source in ("users", "accounts")}
        play(world, [Send(empty), WaitOutcome("live")])
        world.live.stop()
        own.delete(["a18c.changelog.2"])
        own.create_topic("a18c.changelog.2")
        world.fault(topics_made_again=1)
        world.live.start()
        until(lambda: world.status()["generation"] == 3, "it is built anew", ANEW_S)
        _expect_why(world, 2, "changelog", {AGAIN_MADE})
