"""Raw records of livejoin's own topics: what stands there, and what a late writer adds."""

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
    """All committed records of a topic with one partition, from its first to its end."""
    consumer = kafka.reader(f"{topic}.test")
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return list(read_to_end(consumer, topic))
    finally:
        consumer.close()


def expect_one_writer(kafka: Kafka, name: str) -> int:
    """Each line of the log was written once, and in the order of its number; how many there are.

    A leader numbers its lines on from the ledger: a second one would write numbers again.
    """
    prefix = f"{spec.LOGS}/".encode()
    written = [r.key for r in records(kafka, Names(name).logs) if r.key.startswith(prefix)]
    numbers = [int(key.removeprefix(prefix)) for key in written]
    expect_one_order(numbers)
    return len(numbers)


def expect_one_order(numbers: list[int]) -> None:
    """Numbers of lines, as they stand in the log, are those of one writer at a time."""
    twice = [number for number, count in Counter(numbers).items() if count > 1]
    assert not twice, f"lines {twice[:5]} were written more than once"
    assert numbers == sorted(numbers), "two wrote in turns"
    assert numbers, "nobody wrote a line"


def changelog(one: World) -> str:
    """Of the generation that is live."""
    return Names(one.name).changelog(one.status()["generation"])


def last_of(one: World, key: bytes) -> ChangelogRecord:
    """The last record of a key in the live generation's changelog: what compaction keeps."""
    found = [record for record in records(one.kafka, changelog(one)) if record.key == key]
    return read_record(found[-1].key, found[-1].value)


def write_late(one: World, change: ChangelogRecord) -> None:
    """Write what a leader that stood still would write now."""
    one.control.produce(changelog(one), change.value(), change.key())
    assert one.control.flush(10) == 0


def overtake(one: World) -> ChangelogRecord:
    """Have an older record follow a row's newest one, until that is written again behind it."""
    table = one.live.table("final_ui")
    row_id = next(i for i, row in table.items() if row["balance"] is not None)
    winner = last_of(one, f"final_ui/{row_id}".encode())
    assert winner.version is not None
    before = len(records(one.kafka, changelog(one)))
    older = ChangelogRecord(
        "final_ui", row_id, {"userId": "of another time"}, winner.ts - 1, (0, 0, 0)
    )
    write_late(one, older)
    until(lambda: last_of(one, winner.key()) == winner, "the winner stands last again")
    added = [r.value for r in records(one.kafka, changelog(one))[before:] if r.key == winner.key()]
    assert added[0] == older.value(), "the late record is not there"
    return winner
