"""An older record that comes late: compaction would keep it, so the winner is written behind it."""

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition

from livejoin.core import rows
from livejoin.core.names import Names
from livejoin.core.rows import Change
from livejoin.kafka import Kafka
from livejoin.reading import read_to_end
from rig.running import COLD, until
from rig.world import ExpectOracle, Produce, Send, WaitOutcome, World, play, world

NAME = "late-writer"


@pytest.fixture(scope="module")
def one(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(kafka, tmp_path_factory.mktemp(NAME), NAME, spark={"conf": COLD}) as made:
        made.producers["a"].people = 10  # so that many have an account
        play(made, [Produce("a", 60), ExpectOracle("a")])
        yield made


def _last(one: World, key: bytes) -> Change:
    """The last record of a key in the live generation's changelog: what compaction keeps."""
    changelog = Names(NAME).changelog(one.status()["generation"])
    consumer = one.kafka.reader(Names(NAME).group("test"))
    try:
        consumer.assign([TopicPartition(changelog, 0, 0)])
        found = [r for r in read_to_end(consumer, changelog) if r.key == key]
    finally:
        consumer.close()
    return rows.read(found[-1].key, found[-1].value)


def _write_late(one: World, change: Change) -> None:
    changelog = Names(NAME).changelog(one.status()["generation"])
    one.control.produce(changelog, change.value(), change.key())
    assert one.control.flush(10) == 0


def test_an_older_account_is_followed_by_the_newer_one(one: World) -> None:
    table = one.live.table("final_ui")
    row_id = next(i for i, row in table.items() if row["balance"] is not None)
    winner = _last(one, f"final_ui/{row_id}".encode())
    assert winner.version is not None
    older = Change("final_ui", row_id, {"userId": "of another time"}, winner.ts - 1, (0, 0, 0))
    _write_late(one, older)
    until(lambda: _last(one, winner.key()) == winner, "the winner stands last again")
    play(one, [ExpectOracle("a")])


def test_a_row_without_an_account_is_followed_by_its_removal(one: World) -> None:
    play(
        one,
        [Send({"joinType": "left_outer"}), WaitOutcome("live"), ExpectOracle("a", "left_outer")],
    )
    pair = next(i for i in one.live.table("final_ui") if "+" in i)
    user = pair.partition("+")[0]
    removal = _last(one, f"final_ui/{user}".encode())
    assert removal.row is None
    _write_late(one, Change("final_ui", user, {"userId": "a phantom"}, removal.ts))

    def gone() -> bool:
        last = _last(one, removal.key())
        return last.row is None and last.version == removal.version

    until(gone, "the removal stands last again")
    play(one, [ExpectOracle("a", "left_outer")])
