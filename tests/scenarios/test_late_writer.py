"""A late older record: compaction would keep it, so the winner is written again after it."""

from collections.abc import Iterator

import pytest

from livejoin.core.changelog import ChangelogRecord
from livejoin.kafka.cluster import Kafka
from rig.records import last_of, write_late, write_late_record
from rig.running import COLD, until
from rig.world import ExpectOracle, Produce, Send, WaitOutcome, World, play, run_world

NAME = "late-writer"


@pytest.fixture(scope="module")
def world(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with run_world(kafka, tmp_path_factory.mktemp(NAME), NAME, spark={"conf": COLD}) as started:
        started.producers["a"].user_count = 10  # few users, so that many have an account
        play(started, [Produce("a", 60), ExpectOracle("a")])
        yield started


def test_an_older_account_is_followed_by_the_newer_one(world: World) -> None:
    write_late_record(world)
    play(world, [ExpectOracle("a")])


def test_a_row_without_an_account_is_followed_by_its_removal(world: World) -> None:
    play(
        world,
        [Send({"joinType": "left_outer"}), WaitOutcome("live"), ExpectOracle("a", "left_outer")],
    )
    pair = next(i for i in world.live.table("final_ui") if "+" in i)
    user = pair.partition("+")[0]
    removal = last_of(world, f"final_ui/{user}".encode())
    assert removal.row is None
    assert removal.version is not None
    before = removal.version  # the winner may be a newer removal
    write_late(world, ChangelogRecord("final_ui", user, {"userId": "a phantom"}, removal.ts))

    def removal_is_last() -> bool:
        last = last_of(world, removal.key())
        return last.row is None and last.version is not None and last.version >= before

    until(removal_is_last, "the removal is last again")
    play(world, [ExpectOracle("a", "left_outer")])
