"""A10 to A13 and A15: brokers, topics and checkpoints that change under a running livejoin."""

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions

from livejoin.kafka.cluster import Kafka
from livejoin.runtime import broker
from rig import brokers, figures
from rig.brokers import Broker
from rig.running import COLD, until
from rig.world import (
    ExpectLive,
    ExpectNothingLeft,
    ExpectOracle,
    KillDash9,
    Produce,
    StopTraffic,
    Traffic,
    WaitState,
    World,
    play,
    run_world,
)

SEED = 20261115
REPORTED_S = 15
BACK_S = 60


# --- A10


def test_a10_a_broker_that_is_killed_and_one_that_stands_still(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    port = broker.free_port()
    with contextlib.ExitStack() as stack:
        own_broker = Broker(tmp_path / "broker", port)
        stack.callback(own_broker.close)
        one = stack.enter_context(run_world(own_broker.start(), tmp_path / "run", "a10", seed=SEED))
        play(one, [Traffic(per_second=20)])
        one.watcher.replaying = True  # it loses the lead; the batch is read again
        for number in range(10):
            own_broker.kill()
            one.fault(kills=1)
            _wait_out_outage(one, dice.uniform(5, 60))
            own_broker.start()
            _wait_recovered(one, f"kill {number}")
        os.kill(own_broker.pid, signal.SIGSTOP)
        _wait_out_outage(one, 90)
        os.kill(own_broker.pid, signal.SIGCONT)
        _wait_recovered(one, "stopped for 90 s")
        figures.now().landed(freezes=1)
        play(one, [StopTraffic(), ExpectOracle("a"), ExpectLive("a")])
        assert one.status()["generation"] == 1


def _wait_out_outage(world: World, outage_s: float) -> None:
    deadline = time.monotonic() + outage_s
    until(lambda: world.status()["stale"], "the outage is reported", REPORTED_S)
    time.sleep(max(0.0, deadline - time.monotonic()))  # the length of the outage


def _wait_recovered(world: World, what: str) -> None:
    before = world.live.records_read()

    def has_recovered() -> bool:
        status = world.status()
        return (
            status["state"] == "live" and not status["stale"] and world.live.records_read() > before
        )

    began = time.monotonic()
    until(has_recovered, f"{what}: it has recovered", BACK_S)
    took, world.broken_at = (
        time.monotonic() - began,
        None,
    )  # without the outage itself
    figures.now().recovered(took)
    print(f"{what}: recovered after {took:.1f} s")


# --- A11


def test_a11_a_topic_that_is_deleted_and_made_again(kafka: Kafka, tmp_path: Path) -> None:
    with run_world(kafka, tmp_path, "a11", seed=SEED) as world:
        play(world, [Produce("a", 300), ExpectOracle("a")])
        for generation, count in ((2, 40), (3, 900)):
            _recreate_topic(world, "users")
            play(world, [Produce("a", count)])
            until(
                partial(_has_logged, world, "deleted and recreated"), "it is reported", REPORTED_S
            )
            until(partial(_serves, world, generation), "it is rebuilt", BACK_S)
            play(
                world, [WaitState("live"), ExpectOracle("a"), ExpectLive("a"), ExpectNothingLeft()]
            )
            world.live.log.write_text("")


@pytest.mark.skipif(brokers.AUTO_CREATE, reason="a broker that makes topics leaves none missing")
def test_a11_a_topic_that_is_gone_for_a_while(kafka: Kafka, tmp_path: Path) -> None:
    with run_world(kafka, tmp_path, "a11b", seed=SEED) as world:
        topic = world.topics("a")["users"]
        kafka.delete([topic])
        play(
            world, [WaitState("restarting", f'topic "{topic}" does not exist', limit_s=REPORTED_S)]
        )
        assert world.live.table("users_ui"), "the last rows stay"
        kafka.create_topic(topic, partitions=2)
        world.producers["a"].topic_recreated("users")
        world.fault(topics_made_again=1)
        play(world, [Produce("a", 50)])
        until(lambda: world.status()["generation"] == 2, "it is rebuilt", BACK_S)
        play(world, [WaitState("live"), ExpectOracle("a"), ExpectNothingLeft()])


def _serves(world: World, generation: int) -> bool:
    return bool(world.status()["generation"] == generation)


def _recreate_topic(world: World, source: str) -> None:
    brokers.recreate(world.kafka, world.topics("a")[source])
    world.producers["a"].topic_recreated(source)
    world.fault(topics_made_again=1)


# --- A12


def test_a12_more_partitions_under_load(kafka: Kafka, tmp_path: Path) -> None:
    with run_world(kafka, tmp_path, "a12", seed=SEED, spark={"master": "local[16]"}) as world:
        play(world, [Traffic(per_second=20)])
        users, accounts = world.topics("a").values()
        for count in (4, 8):
            _add_partitions(kafka, accounts, count)
            line = f"in {count} partitions"
            until(partial(_has_logged, world, line), line, REPORTED_S)
            world.watcher.replaying = True
            play(world, [WaitState("live")])
            until(partial(_has_partitions, world, count), "rows of new partitions arrive", BACK_S)
        play(world, [StopTraffic(), ExpectOracle("a"), ExpectLive("a")])
        assert world.status()["generation"] == 1
        _add_partitions(kafka, users, 20)
        play(world, [WaitState("failed", "31 task slots are needed and Spark has 16")])
        assert world.live.table("final_ui"), "the last rows stay"


@pytest.mark.parametrize("history", [0, 1], ids=["by stream", "by batch"])
def test_a12_more_partitions_while_livejoin_is_down(
    kafka: Kafka, tmp_path: Path, history: int
) -> None:
    """Also before the end of a batch, when no checkpoint has any partitions."""
    name = f"a12-down-{history}"
    with run_world(kafka, tmp_path, name, seed=SEED, spark={"history_records": history}) as world:
        play(world, [ExpectOracle("a")])
        world.watcher.replaying = True
        assert world.live.stop() == 0
        for topic in world.topics("a").values():
            _add_partitions(kafka, topic, 4)
        world.producers["a"].wait_for_partitions("accounts", 4)
        play(world, [Produce("a", 200)])
        world.live.start()
        play(world, [WaitState("live")])
        until(partial(_has_partitions, world, 4), "rows of new partitions arrive", BACK_S)
        play(world, [ExpectOracle("a"), ExpectLive("a")])
        assert world.status()["generation"] == 1


def _add_partitions(kafka: Kafka, topic: str, count: int) -> None:
    for done in kafka.admin.create_partitions([NewPartitions(topic, count)]).values():
        done.result(15)
    figures.now().landed(topics_grown=1)


def _has_logged(world: World, words: str) -> bool:
    return words in world.live.log.read_text()


def _has_partitions(world: World, count: int) -> bool:
    """Whether there are rows of accounts from this number of partitions."""
    return len({row_id.partition("-")[0] for row_id in world.live.table("accounts_ui")}) == count


# --- A13


def test_a13_retention_overtakes_while_livejoin_is_down(kafka: Kafka, tmp_path: Path) -> None:
    with run_world(kafka, tmp_path, "a13", seed=SEED) as world:
        play(world, [ExpectOracle("a")])
        world.watcher.replaying = True
        assert world.live.stop() == 0
        play(world, [Produce("a", 400)])
        _delete_oldest(world, "accounts", keep=20)
        world.live.start()
        until(
            lambda: _has_reported_loss(world) and world.status()["generation"] == 2,
            "the reason is reported",
            BACK_S,
        )
        play(world, [WaitState("live"), ExpectOracle("a"), ExpectNothingLeft()])
        assert world.status()["generation"] == 2, "it was rebuilt more than once"


def test_a13_retention_overtakes_a_reader_that_stands_still(kafka: Kafka, tmp_path: Path) -> None:
    with run_world(kafka, tmp_path, "a13b", seed=SEED) as world:
        play(world, [Produce("a", 100), ExpectOracle("a")])
        jvm = world.live.jvm()
        os.kill(jvm, signal.SIGSTOP)
        try:
            play(world, [Produce("a", 400)])
            _delete_oldest(world, "accounts", keep=20)
        finally:
            os.kill(jvm, signal.SIGCONT)
        world.watcher.replaying = True
        until(
            lambda: _has_reported_loss(world) and world.status()["generation"] == 2,
            "the reason is reported",
            BACK_S,
        )
        play(world, [WaitState("live"), ExpectOracle("a"), ExpectNothingLeft()])


def _has_reported_loss(world: World) -> bool:
    return "were deleted before they were read" in world.live.log.read_text()


def _delete_oldest(world: World, source: str, keep: int) -> None:
    """Delete the oldest records of a topic, as retention does."""
    sent = world.producers["a"].acknowledged[source]
    topic = world.topics("a")[source]
    for partition in (0, 1):
        offsets = sorted(record.offset for record in sent if record.partition == partition)
        to = TopicPartition(topic, partition, offsets[-keep])
        for done in world.kafka.admin.delete_records([to]).values():
            done.result(15)
        sent[:] = [r for r in sent if r.partition != partition or r.offset >= offsets[-keep]]
        figures.now().landed(records_deleted=len(offsets) - keep)


# --- A15


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _newest(folder: Path) -> Path:
    return max((f for f in folder.iterdir() if f.name.isdecimal()), key=lambda f: int(f.name))


def _finished_batches(checkpoint: Path) -> list[Path]:
    commits = checkpoint / "commits"
    return [f for f in commits.iterdir() if f.name.isdecimal()] if commits.exists() else []


def _each_state(checkpoint: Path, damage: Callable[[Path], object]) -> None:
    files = [f for f in (checkpoint / "state").rglob("*") if f.is_file() and f.suffix != ".crc"]
    assert files
    for file in files:
        damage(file)


def _not_a_folder(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "offsets")
    (checkpoint / "offsets").write_text("")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "the offsets of the last batch are cut": lambda c: _truncate(_newest(c / "offsets")),
    "the offsets of the last batch are empty": lambda c: _newest(c / "offsets").write_text(""),
    "the offsets are gone": lambda c: shutil.rmtree(c / "offsets"),
    "the commit of the last batch is empty": lambda c: _newest(c / "commits").write_text(""),
    "the metadata are cut": lambda c: _truncate(c / "metadata"),
    "the state is cut": lambda c: _each_state(c, _truncate),
    "the state is empty": lambda c: _each_state(c, lambda file: file.write_text("")),
    "the state is gone": lambda c: shutil.rmtree(c / "state"),
    "all is gone": shutil.rmtree,
    "the offsets are no folder": _not_a_folder,
}


@pytest.fixture(scope="module")
def damaged(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One livejoin for all kinds of damage, with short batches."""
    folder = tmp_path_factory.mktemp("a15")
    short_batches = {"batch_s": 5, "conf": COLD}
    with run_world(kafka, folder, "a15", seed=SEED, spark=short_batches) as world:
        yield world


@pytest.mark.parametrize("what", DAMAGE)
def test_a15_a_damaged_checkpoint(what: str, damaged: World) -> None:
    one = damaged
    number = one.status()["generation"]
    play(one, [Produce("a", 50), WaitState("live"), ExpectOracle("a")])
    (checkpoint,) = (one.live.folder / "checkpoints" / str(number)).iterdir()
    before = len(_finished_batches(checkpoint))
    until(lambda: len(_finished_batches(checkpoint)) > before, "a batch is finished")
    play(one, [KillDash9("both", restart=False)])
    DAMAGE[what](checkpoint)
    figures.now().landed(checkpoints_damaged=1)
    one.live.start()
    play(one, [Produce("a", 50)])
    until(lambda: one.status()["generation"] == number + 1, f"{what}: it is rebuilt", 120)
    play(one, [WaitState("live"), ExpectOracle("a"), ExpectLive("a"), ExpectNothingLeft()])
    assert "checkpoint" in one.live.log.read_text()


def test_a15_a_full_disk(kafka: Kafka, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.system(f"mount -t tmpfs -o size=24m tmpfs {disk}") != 0:
        pytest.skip("not permitted to mount a small disk")
    try:
        short_batches = {"batch_s": 5}
        run = tmp_path / "run"
        with run_world(
            kafka, run, "a15b", seed=SEED, checkpoints=str(disk), spark=short_batches
        ) as world:
            play(world, [Produce("a", 50), ExpectOracle("a")])
            filler = disk / "filler"
            with contextlib.suppress(OSError), filler.open("wb") as file:
                while True:
                    file.write(b"x" * 65536)
            world.fault(disks_full=1)
            play(world, [Produce("a", 50)])
            began = time.monotonic()
            until(lambda: world.status()["stale"], "it is reported", REPORTED_S)
            figures.now().note(f"a full disk was reported after {time.monotonic() - began:.1f} s")
            filler.unlink()
            until(lambda: world.status()["state"] == "live", "it is rebuilt", 120)
            play(world, [Produce("a", 50), ExpectOracle("a"), ExpectLive("a")])
    finally:
        os.system(f"umount -l {disk}")
