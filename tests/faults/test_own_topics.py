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
REBUILT_S = 120
REPORTED_S = 15
AUTO = "true"
DELETED, RECREATED = "was deleted", "was deleted and recreated"
NAME = "a18"
NAMES = Names(NAME)
RECOVERED = (
    Produce("a", 20),
    WaitState("live"),
    ExpectOracle("a"),
    ExpectLive("a"),
    ExpectNothingLeft(),
)


@pytest.fixture(scope="module", params=["false", AUTO], ids=["missing", "made by the broker"])
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
    with run_world(own, tmp_path_factory.mktemp("a18"), NAME, seed=SEED, spark=spark) as started:
        yield started


def _changelog(world: World) -> str:
    return NAMES.changelog(world.status()["generation"])


def _feed(world: World) -> str:
    return NAMES.bootstrap(world.status()["generation"])


TopicOf = Callable[[World], str]
OF_A_GENERATION: dict[str, TopicOf] = {"changelog": _changelog, "feed": _feed}
OF_LIVEJOIN: dict[str, TopicOf] = {
    "ledger": lambda _: NAMES.ledger,
    "leader": lambda _: NAMES.leader,
}


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


def _expect_logged(world: World, words: str) -> str:
    """Wait for a match in the log that viewers see."""

    def find_line() -> re.Match[str] | None:
        try:
            lines = [row["msg"] for row in world.live.table("orchestrator_logs").values()]
        except AssertionError:
            return None  # livejoin is starting
        return next((found for line in lines if (found := re.search(words, line))), None)

    began = time.monotonic()
    found: re.Match[str] = until(find_line, words, REPORTED_S)
    _note_delay(time.monotonic() - began)
    return found[0]


def _expect_status(world: World, words: str) -> str:
    """Wait for a match in the status."""
    began = time.monotonic()
    found: re.Match[str] = until(
        lambda: re.search(words, world.status()["message"] or ""), words, REPORTED_S
    )
    _note_delay(time.monotonic() - began)
    return found[0]


def _note_delay(seconds: float) -> None:
    figures.now().note(f"named after {seconds:.1f} s")


def _expect_abandoned(world: World, number: int, what: str, reasons: set[str]) -> None:
    """Check that the generation is abandoned for its topic, for exactly one of these reasons."""
    line = _expect_logged(world, f"generation {number} cannot continue: its {what} [^;]*;")
    reason = line.partition(f"its {what} ")[2].rstrip(";")
    assert reason in reasons, line
    figures.now().note(f"abandoned: its {what} {reason}")


def _rebuilt(world: World, number: int) -> Do:
    """Wait for a new generation with an unused number."""

    def built(world: World) -> None:
        until(lambda: (world.status()["generation"] or 0) > number, "it is rebuilt", REBUILT_S)

    return Do(built)


@pytest.mark.parametrize("what", OF_A_GENERATION)
def test_a18_a_topic_of_what_is_live_is_deleted_while_running(
    what: str, world: World, auto: str
) -> None:
    number = _settled(world)
    _delete(world, OF_A_GENERATION[what](world))
    # the query writes to its changelog, so the broker may recreate it at once
    _expect_abandoned(world, number, what, {DELETED, RECREATED} if auto == AUTO else {DELETED})
    play(world, [_rebuilt(world, number), *RECOVERED])


@pytest.mark.parametrize("state_at_restart", [DELETED, RECREATED])
@pytest.mark.parametrize("what", OF_A_GENERATION)
def test_a18_a_topic_of_what_is_live_is_deleted_while_down(
    what: str, state_at_restart: str, world: World, auto: str
) -> None:
    number = _settled(world)
    topic = OF_A_GENERATION[what](world)
    world.live.stop()
    _delete(world, topic)
    if state_at_restart == RECREATED:  # by another client
        world.kafka.create_topic(topic)
    _start(world)
    _expect_abandoned(
        world, number, what, {state_at_restart, RECREATED} if auto == AUTO else {state_at_restart}
    )
    play(world, [_rebuilt(world, number), *RECOVERED])


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
    assert auto == AUTO or found == f"{topic} {DELETED}", found
    if what == "ledger":
        play(world, [_rebuilt(world, number), *RECOVERED])
    else:
        until(lambda: NAMES.leader in world.kafka.topics(), "the topic is recreated")
        play(world, [WaitOutcome("live"), *RECOVERED])
    until(lambda: not world.status()["stale"], "there is a leader")


def test_a18_the_ledger_is_deleted_while_down(world: World) -> None:
    number = _settled(world)
    world.live.stop()
    _delete(world, NAMES.ledger)
    _start(world)
    # nothing proves that there was a ledger, but leftover topics and checkpoints are reported
    _expect_logged(
        world, f"generations up to {number} have left topics or checkpoints, .*: removed"
    )
    play(world, [_rebuilt(world, number), *RECOVERED])


def test_a18_the_leader_topic_is_deleted_while_down(world: World) -> None:
    """No data is lost, so nothing is reported: the topic is created, as at the first start."""
    number = _settled(world)
    world.live.stop()
    _delete(world, NAMES.leader)
    _start(world)
    play(world, RECOVERED)
    assert NAMES.leader in world.kafka.topics()
    assert world.status()["generation"] == number, "it was rebuilt"


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
        until(lambda: world.status()["generation"] == 3, "it is rebuilt", REBUILT_S)
        _expect_abandoned(world, 2, "changelog", {RECREATED})
