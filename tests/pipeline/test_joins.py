"""Random histories through every join, with crashes: all tables equal what the oracle computes.

Many small examples, each with its own keys, go through one query per join. The queries are stopped
twice in the middle of a batch, without and with a committed batch, and read uncommitted records
again; the crash is at a different point of the history of each example.
"""

import functools
import json
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from livejoin.config.sections import SparkSettings
from livejoin.core import changelog, spec
from livejoin.core.generation import Generation
from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.kafka.records import Record, poll_batch, to_record
from livejoin.pipeline.pipeline import Pipeline
from livejoin.pipeline.queries import Queries
from livejoin.pipeline.spark_driver import SparkDriver
from livejoin.tables.ingest.catalog import GenerationTables
from livejoin.tables.ingest.store import Delta
from rig import oracle
from rig.examples import (
    MAX_BUNDLE,
    NOW,
    SEED,
    Example,
    Input,
    build_tables,
    check,
    examples,
    short,
    small_bundles,
    tables,
)
from rig.produce import Producers
from rig.running import until
from rig.watching import join_errors

TURNS = 12
JOINS: dict[int, spec.Join] = {1: "left", 2: "inner", 3: "left_outer"}  # by generation
pytestmark = pytest.mark.timeout(600)  # twelve query starts take long on a busy machine
START_S = 120  # the first query of a JVM takes ten seconds on a quiet machine, later ones two
NAMES = Names("joins")
PREFIX = changelog.BUNDLE_PREFIX.encode()
SOURCES = {source.name: f"joins.{source.name}" for source in spec.DEFAULT.sources}

# One partition of users begins with these, so that a replay reads its users last.
LATE = 1000
FILLER = Example(-1, ()), Input("users", None, 1, NOW)

Marks = list[changelog.Position]


@dataclass
class Log:
    """A join's changelog as read, and its length at every start and stop."""

    written: list[Record] = field(default_factory=list)
    marks: list[tuple[int, changelog.Position]] = field(default_factory=list)  # with their offsets
    ends: dict[str, int] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        self.written.append(record)
        mark = changelog.marked_position(record.key)
        if mark is not None:
            self.marks.append((len(self.written), mark))

    def between(self, begin: str, end: str) -> Marks:
        """The marks between two of the ends."""
        return [mark for at, mark in self.marks if self.ends[begin] < at <= self.ends[end]]


class JoinRun:
    """Runs all examples through one query per join."""

    def __init__(self, kafka: Kafka, session: SparkDriver, folder: Path) -> None:
        self.examples = examples()
        for topic in SOURCES.values():
            kafka.create_topic(topic, {"retention.ms": "-1"}, partitions=2)  # records of 2023
        self.sent = Producers(kafka, SOURCES)
        self.owner: dict[changelog.Position, Example] = {}
        self.logs = {number: Log() for number in JOINS}
        self._offsets: Counter[tuple[str, int]] = Counter()
        self._consumer = kafka.reader("joins")
        start = dict.fromkeys(SOURCES, "earliest")
        # never, and as soon as Spark can
        self._committing = {
            seconds: Queries(
                session, Clusters.single(kafka), NAMES, str(folder), SparkSettings(batch_s=seconds)
            )
            for seconds in (3600, 5)
        }
        self._pipelines = {
            seconds: Pipeline(Clusters.single(kafka), NAMES, queries, start)
            for seconds, queries in self._committing.items()
        }
        requested = [
            Generation(
                number,
                spec.DEFAULT.choice(SOURCES["users"], SOURCES["accounts"], join=join),
                time.time(),
            )
            for number, join in JOINS.items()
        ]
        self._generations = [self._pipelines[5].prepare(generation) for generation in requested]

    @functools.lru_cache  # noqa: B019 - it lives as long as the tests of this file
    def held(self, number: int) -> GenerationTables:
        """The tables built from a join's changelog."""
        return build_tables(self.logs[number].written)

    def run(self) -> None:
        try:
            self._run()
        finally:
            for seconds in self._pipelines:
                self._stop(seconds)
            self._consumer.close()

    def _run(self) -> None:
        self._start(3600)
        changelogs = [TopicPartition(NAMES.changelog(number), 0, 0) for number in JOINS]
        self._consumer.assign(changelogs)
        self._until_marked("", [self._send_record(*FILLER) for _ in range(LATE)])
        # one at a time, so that most events meet the state of the previous ones
        for turn in range(TURNS):
            new = self._send(0, turn)
            self._until_marked("", new if turn < TURNS - 1 else new[:1])
        self._stop(3600, "crash")
        self._send(1)
        self._start(5, "again")
        self._until_committed()
        self._stop(5, "committed")
        self._start(3600, "on")
        new = self._send(2)
        self._until_marked("on", new[: len(new) // 2])
        self._stop(3600, "second crash")
        new += self._send(3)
        self._start(3600, "on again")
        self._until_marked("on again", new)
        self._stop(3600, "end")

    def _start(self, seconds: int, name: str = "") -> None:
        self._name(name)
        for generation in self._generations:
            self._pipelines[seconds].start(generation)

    def _stop(self, seconds: int, name: str = "") -> None:
        for number in JOINS:
            self._pipelines[seconds].stop(number)
        if name:
            until(self._read_all, "all that the queries wrote")
            self._name(name)

    def _name(self, name: str) -> None:
        for log in self.logs.values():
            log.ends[name] = len(log.written)

    def _send(self, part: int, turn: int | None = None) -> Marks:
        """Send a part of every example, or one turn of it; returns the positions of the records."""
        new = []
        parts = [(example, example.parts[part]) for example in self.examples]
        for number in range(max(len(inputs) for _, inputs in parts)):
            for example, inputs in parts:
                its_turn = number * TURNS // max(len(inputs), TURNS)
                if number < len(inputs) and turn in (None, its_turn):
                    new.append(self._send_record(example, inputs[number]))
        self.sent.flush()
        return new

    def _send_record(self, example: Example, record: Input) -> changelog.Position:
        self.sent.send(
            record.source, record.value, partition=record.partition, timestamp=record.timestamp
        )
        at = changelog.Position(
            record.source, record.partition, self._offsets[record.source, record.partition]
        )
        self._offsets[record.source, record.partition] += 1
        self.owner[at] = example
        return at

    def _read(self) -> int:
        new = poll_batch(self._consumer, 10_000, 0.2)
        for record in map(to_record, new):
            number = NAMES.generation_of(record.topic)
            assert number is not None
            self.logs[number].take(record)
        return len(new)

    def _read_all(self) -> bool:
        self._read()
        ends = {
            number: self._consumer.get_watermark_offsets(
                TopicPartition(NAMES.changelog(number), 0), timeout=15
            )
            for number in JOINS
        }
        return all(len(self.logs[number].written) == end for number, (_, end) in ends.items())

    def _until_marked(self, since: str, all_of: Marks) -> None:
        left = {number: set(all_of) for number in JOINS}
        taken = {number: self.logs[number].ends[since] for number in JOINS}

        def marked() -> bool:
            self._read()
            for number, log in self.logs.items():
                while taken[number] < len(log.written):
                    mark = changelog.marked_position(log.written[taken[number]].key)
                    taken[number] += 1
                    if mark is not None:
                        left[number].discard(mark)
            return not any(left.values())

        until(marked, f"the marks of {len(all_of)} records, seed {SEED}", START_S)

    def _until_committed(self) -> None:
        ends: dict[str, dict[int, int]] = defaultdict(dict)
        for (source, partition), offset in self._offsets.items():
            ends[SOURCES[source]][partition] = offset

        def committed() -> bool:
            self._read()
            reached = self._committing[5].checkpoints.committed_offsets
            return all(reached(generation.checkpoint) == ends for generation in self._generations)

        until(committed, f"a batch that is committed, seed {SEED}", START_S)


@pytest.fixture(scope="module")
def play(kafka: Kafka, session: SparkDriver, tmp_path_factory: pytest.TempPathFactory) -> JoinRun:
    made = JoinRun(kafka, session, tmp_path_factory.mktemp("joins"))
    with small_bundles():
        made.run()
    assert made.owner.keys() == {
        changelog.Position(source, record.partition, record.offset)
        for source, sent in made.sent.acknowledged.items()
        for record in sent
    }
    return made


every_join = pytest.mark.parametrize("number", JOINS, ids=list(JOINS.values()))


# --- the crashes landed


@every_join
def test_uncommitted_records_were_read_again_in_another_order(play: JoinRun, number: int) -> None:
    log = play.logs[number]
    for before, crash, after, end in (
        ("", "crash", "again", "committed"),
        ("on", "second crash", "on again", "end"),
    ):
        first, second = log.between(before, crash), log.between(after, end)
        twice = set(first) & set(second)
        assert twice, "no record was read twice: the crash missed"
        assert [m for m in first if m in twice] != [m for m in second if m in twice]


@every_join
def test_some_rows_were_bundled(play: JoinRun, number: int) -> None:
    log = play.logs[number]
    # not between "again" and "committed": a replay may read accounts before their users
    for begin, end in (("", "crash"), ("on again", "end")):
        bundles = [
            r for r in log.written[log.ends[begin] : log.ends[end]] if r.key.startswith(PREFIX)
        ]
        assert any(
            len(json.loads(record.value)["ids"]) == MAX_BUNDLE for record in bundles
        )  # and a remainder


@every_join
def test_committed_records_were_not_read_again(play: JoinRun, number: int) -> None:
    log = play.logs[number]
    committed = set(log.between("again", "committed"))
    assert committed
    assert not committed & set(log.between("on", "end"))


# --- the tables


@every_join
def test_all_tables_equal_the_oracle(play: JoinRun, number: int) -> None:
    check(play.sent.acknowledged, play.owner, JOINS[number], play.held(number))


@every_join
def test_a_follower_of_the_compacted_changelog_gets_the_same_tables(
    play: JoinRun, number: int
) -> None:
    newest: dict[bytes, Record] = {}
    for record in play.logs[number].written:
        newest.pop(record.key, None)
        newest[record.key] = record
    check(play.sent.acknowledged, play.owner, JOINS[number], build_tables(list(newest.values())))


@every_join
def test_every_record_is_a_row_a_reject_or_a_tombstone(play: JoinRun, number: int) -> None:
    truth = oracle.expected(play.sent.acknowledged, JOINS[number])
    counts = play.held(number).progress.counts()
    for source, sent in play.sent.acknowledged.items():
        rejected = sum(row["source"] == source for row in truth.tables["rejects_ui"].values())
        assert counts[source] == {
            "read": len(sent),
            "rows": len(truth.tables[f"{source}_ui"]),
            "rejected": rejected,
            "tombstones": truth.tombstones[source],
        }
        assert min(rejected, truth.tombstones[source]) > 0


@every_join
def test_a_row_has_the_time_of_its_newest_input(play: JoinRun, number: int) -> None:
    found = tables(play.held(number))
    times = {
        f"{source} {record.partition}-{record.offset}": record.timestamp
        for source, sent in play.sent.acknowledged.items()
        for record in sent
    }
    newest: dict[str, int] = defaultdict(int)
    for row_id, row in found["accounts_ui"].items():
        newest[row["userId"]] = max(newest[row["userId"]], times[f"accounts {row_id}"])
    for row_id, row in found["final_ui"].items():
        user, _, account = row_id.partition("+")
        shaped = [times[f"users {user}"]]
        if account:
            shaped.append(times[f"accounts {account}"])
        elif JOINS[number] == "left" and row["userId"] is not None:
            shaped.append(newest[row["userId"]])
        assert _ms(row) == max(shaped), row
    for source in SOURCES:
        for row_id, row in found[f"{source}_ui"].items():
            assert _ms(row) == times[f"{source} {row_id}"], row


def _ms(row: dict[str, Any]) -> int:
    return int(row["_ts"].timestamp() * 1000 + 0.5)


# --- on the way


class Viewer:
    """Tracks the account that each row shows, and records violations."""

    def __init__(self, play: JoinRun) -> None:
        self.wrong: list[str] = []
        self._versions: dict[tuple[Any, Any], tuple[int, ...]] = {}
        self._bare: set[str] = set()  # rows whose account has no cells, as if there were none
        for generation in play.sent.acknowledged["accounts"]:
            row = _row(generation)
            if row is not None:
                cells = row["accountType"], row["balance"]
                self._versions[cells] = (
                    generation.timestamp,
                    generation.partition,
                    generation.offset,
                )
                if cells == (None, None):
                    self._bare.add(row["userId"])
        self._shown: dict[str, tuple[int, ...]] = {}
        self._gone: set[str] = set()

    def look(self, table: str, delta: Delta, join: spec.Join) -> None:
        for row in delta.upserts.to_pylist():
            row_id = f"{table} {row['_id']}"
            again = row_id in self._shown
            version: tuple[int, ...] = ()
            if table == spec.FINAL and join == "left":
                version = self._version(row, self._shown.get(row_id, ()))
                again = version < self._shown.get(row_id, ())
            if again or row_id in self._gone:
                self.wrong.append(f"{row_id} came again as {short(row)}")
            self._shown[row_id] = version
        for removed in delta.removed:
            if table != spec.FINAL or join != "left_outer" or "+" in removed:
                self.wrong.append(f"{table} {removed} was removed")
            self._gone.add(f"{table} {removed}")

    def _version(self, row: dict[str, Any], before: tuple[int, ...]) -> tuple[int, ...]:
        cells = row["accountType"], row["balance"]
        if cells != (None, None):
            return self._versions[cells]
        return before if row["userId"] in self._bare else ()


def _row(record: oracle.Sent) -> oracle.Row | None:
    try:
        return oracle.parse("accounts", record.value) if record.value is not None else None
    except oracle.Rejected:
        return None


@every_join
def test_a_row_never_goes_back_in_time(play: JoinRun, number: int) -> None:
    viewer = Viewer(play)

    def look(_held: GenerationTables, deltas: list[tuple[str, Delta]]) -> None:
        for table, delta in deltas:
            viewer.look(table, delta, JOINS[number])

    build_tables(play.logs[number].written, look)
    assert not viewer.wrong, f"seed {SEED}: {viewer.wrong[:3]}"


@every_join
def test_rows_before_a_crash_are_always_a_valid_join(play: JoinRun, number: int) -> None:
    """A record's own row is written last, so a follower that has it has all its effects."""
    log = play.logs[number]
    wrong: list[str] = []

    def look(held: GenerationTables, _deltas: object) -> None:
        found = tables(held)
        wrong.extend(
            join_errors(found["users_ui"], found["accounts_ui"], found["final_ui"], JOINS[number])
        )

    build_tables(log.written[: log.ends["crash"]], look)
    assert log.ends["crash"] > 0
    assert not wrong, f"seed {SEED}: {wrong[:3]}"
