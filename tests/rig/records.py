"""Raw records of livejoin's own topics: reading them, and adding those of a late writer."""

from collections import Counter

from confluent_kafka import TopicPartition

from livejoin.core import spec
from livejoin.core.changelog import ChangelogRecord
from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import Record, read_to_end
from rig.reference_changelog import read_record
from rig.running import until
from rig.world import World


def records(kafka: Kafka, topic: str) -> list[Record]:
    """Return all committed records of a single-partition topic."""
    consumer = kafka.reader(f"{topic}.test")
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return list(read_to_end(consumer, topic))
    finally:
        consumer.close()


def expect_one_writer(kafka: Kafka, name: str) -> int:
    """Check that each log line was written once and in order; returns the number of lines.

    A leader continues the numbers of the ledger, so a second leader would repeat numbers.
    """
    prefix = f"{spec.LOGS}/".encode()
    written = [r.key for r in records(kafka, Names(name).logs) if r.key.startswith(prefix)]
    numbers = [int(key.removeprefix(prefix)) for key in written]
    expect_one_order(numbers)
    return len(numbers)


def expect_one_order(numbers: list[int]) -> None:
    """Check that the line numbers, in log order, are those of one writer at a time."""
    twice = [number for number, count in Counter(numbers).items() if count > 1]
    assert not twice, f"lines {twice[:5]} were written more than once"
    assert numbers == sorted(numbers), "two writers in turns"
    assert numbers, "no line was written"


def changelog(world: World) -> str:
    """The changelog topic of the live generation."""
    return Names(world.name).changelog(world.status()["generation"])


def last_of(world: World, key: bytes) -> ChangelogRecord:
    """The last record of a key in the live changelog, which is what compaction keeps."""
    found = [record for record in records(world.kafka, changelog(world)) if record.key == key]
    return read_record(found[-1].key, found[-1].value)


def write_late(world: World, change: ChangelogRecord) -> None:
    """Write a record as a leader would that was frozen and resumes."""
    world.control.produce(changelog(world), change.value(), change.key())
    assert world.control.flush(10) == 0


def write_late_record(world: World) -> ChangelogRecord:
    """Write an older record after a row's winner, and wait until the winner is written again."""
    table = world.live.table("final_ui")
    row_id = next(i for i, row in table.items() if row["balance"] is not None)
    winner = last_of(world, f"final_ui/{row_id}".encode())
    assert winner.version is not None
    before = len(records(world.kafka, changelog(world)))
    older = ChangelogRecord(
        "final_ui", row_id, {"userId": "of another time"}, winner.ts - 1, (0, 0, 0)
    )
    write_late(world, older)
    until(lambda: last_of(world, winner.key()) == winner, "the winner is last again")
    added = [
        r.value for r in records(world.kafka, changelog(world))[before:] if r.key == winner.key()
    ]
    assert added[0] == older.value(), "the late record is not there"
    return winner
