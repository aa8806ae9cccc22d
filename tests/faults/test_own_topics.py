"""livejoin's own topics are deleted: A18. With a broker that makes missing topics, and without."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livejoin import broker
from livejoin.core.names import Names
from livejoin.kafka import Kafka
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
    topics,
    world,
)

SEED = 20261116
ANEW_S = 120
NAME = "a18"
NAMES = Names(NAME)
AGAIN = Produce("a", 20), WaitState("live"), ExpectOracle("a"), ExpectLive("a"), ExpectNothingLeft()


@pytest.fixture(scope="module", params=["false", "true"], ids=["missing", "made by the broker"])
def own(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kafka]:
    """A broker of its own: what is named and not there is missing, or made by the broker."""
    more = {"auto.create.topics.enable": request.param}
    with broker.broker(tmp_path_factory.mktemp("own"), more=more) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def one(own: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One livejoin for all that is deleted; its first build is by batch, so it has a feed."""
    spark = {"batch_s": 5, "conf": COLD, "history_records": 50}
    with world(own, tmp_path_factory.mktemp("a18"), NAME, seed=SEED, spark=spark) as made:
        yield made


def _changelog(world: World) -> str:
    return NAMES.changelog(world.status()["generation"])


def _feed(world: World) -> str:
    return NAMES.feed(world.status()["generation"])


Named = Callable[[World], str]
OF_A_GENERATION: dict[str, Named] = {"changelog": _changelog, "feed": _feed}
OF_LIVEJOIN: dict[str, Named] = {"ledger": lambda _: NAMES.ledger, "leader": lambda _: NAMES.leader}


def _settled(one: World) -> int:
    """What is live, with all of its records."""
    one.watcher.replaying = True
    play(one, [WaitState("live"), ExpectOracle("a")])
    number: int = one.status()["generation"]
    return number


def _delete(one: World, topic: str) -> None:
    assert topic in one.kafka.topics()
    one.kafka.delete([topic])
    one.watcher.replaying = True


def _anew(one: World, number: int) -> Do:
    """A new generation is live, with a number that nothing had."""

    def built(world: World) -> None:
        until(lambda: (world.status()["generation"] or 0) > number, "it is built anew", ANEW_S)

    return Do(built)


@pytest.mark.parametrize("what", OF_A_GENERATION)
def test_a18_a_topic_of_what_is_live_is_deleted_while_running(what: str, one: World) -> None:
    number = _settled(one)
    _delete(one, OF_A_GENERATION[what](one))
    play(one, [_anew(one, number), *AGAIN])
    assert f"generation {number} cannot go on: its {what} was deleted" in one.live.log.read_text()


@pytest.mark.parametrize("said", ["was deleted", "was deleted and made again"])
@pytest.mark.parametrize("what", OF_A_GENERATION)
def test_a18_a_topic_of_what_is_live_is_deleted_while_down(
    what: str, said: str, one: World
) -> None:
    number = _settled(one)
    topic = OF_A_GENERATION[what](one)
    one.live.stop()
    _delete(one, topic)
    if "again" in said:  # by whoever asks for it first
        one.kafka.make(topic)
    one.live.start()
    play(one, [_anew(one, number), *AGAIN])
    assert f"generation {number} cannot go on: its {what} {said}" in one.live.log.read_text()


@pytest.mark.parametrize("what", OF_LIVEJOIN)
def test_a18_a_topic_of_livejoin_is_deleted_while_running(what: str, one: World) -> None:
    number = _settled(one)
    _delete(one, OF_LIVEJOIN[what](one))
    heartbeat = Send({"joinType": "left"})  # something to write
    if what == "ledger":
        play(one, [heartbeat, _anew(one, number), *AGAIN])
        assert f"{NAMES.ledger} was deleted" in one.live.log.read_text()
    else:
        until(lambda: NAMES.leader in one.kafka.topics(), "it is made again")
        play(one, [heartbeat, WaitOutcome("live"), *AGAIN])
    until(lambda: not one.status()["stale"], "somebody leads")


@pytest.mark.parametrize("what", OF_LIVEJOIN)
def test_a18_a_topic_of_livejoin_is_deleted_while_down(what: str, one: World) -> None:
    number = _settled(one)
    one.live.stop()
    _delete(one, OF_LIVEJOIN[what](one))
    one.live.start()
    play(one, [_anew(one, number), *AGAIN] if what == "ledger" else AGAIN)


def test_a18_another_choice_over_what_a_lost_ledger_left(own: Kafka, tmp_path: Path) -> None:
    """Topics and checkpoints of the same number are there, of other topics and another join."""
    name = "a18b"
    with world(own, tmp_path, name, seed=SEED, spark={"batch_s": 5, "conf": COLD}) as one:
        play(one, [ExpectOracle("a"), Produce("b", 40)])
        one.live.stop()
        own.delete([Names(name).ledger])
        settings = one.live.folder / "livejoin.yaml"
        text = settings.read_text()
        for source, topic in topics(name, "a").items():
            text = text.replace(topic, topics(name, "b")[source])
        settings.write_text(text)
        one.watcher.replaying = True
        one.live.start()
        play(one, [WaitState("live"), ExpectOracle("b"), ExpectLive("b"), ExpectNothingLeft()])
        assert one.status()["generation"] == 2, "a number that nothing had"


def test_a18_a_changelog_that_was_complete_when_it_was_empty(own: Kafka, tmp_path: Path) -> None:
    """Its length tells nothing: it was ready at 0."""
    with world(own, tmp_path, "a18c", seed=SEED, spark={"batch_s": 5, "conf": COLD}) as one:
        for source in ("users", "accounts"):
            own.make(f"a18c.{source}.empty")
        empty = {f"{source}Topic": f"a18c.{source}.empty" for source in ("users", "accounts")}
        play(one, [Send(empty), WaitOutcome("live")])
        one.live.stop()
        own.delete(["a18c.changelog.2"])
        own.make("a18c.changelog.2")
        one.watcher.replaying = True
        one.live.start()
        until(lambda: one.status()["generation"] == 3, "it is built anew", ANEW_S)
        said = "generation 2 cannot go on: its changelog was deleted and made again"
        assert said in one.live.log.read_text()
