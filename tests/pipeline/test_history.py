"""History by batch job, then the stream: all tables equal the oracle's.

The examples of the joins in two halves; one is in the topics before the generation is created.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from livejoin.config.sections import SparkSettings
from livejoin.core import changelog, spec
from livejoin.core.generation import Generation
from livejoin.core.names import Names
from livejoin.errors import GenerationUnrecoverable
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.kafka.records import Record, read_to_end
from livejoin.pipeline.pipeline import Pipeline
from livejoin.pipeline.queries import Queries
from livejoin.pipeline.spark_driver import SparkDriver
from rig.examples import SEED, Example, build_tables, check, examples, small_bundles
from rig.produce import Producers
from rig.running import until

NAMES = Names("history")
SOURCES = {source.name: f"history.in.{source.name}" for source in spec.DEFAULT.sources}
START_S = 120
pytestmark = pytest.mark.timeout(300)


class HistoryRun:
    """Topics with a history, and generations over them."""

    def __init__(self, kafka: Kafka, session: SparkDriver, folder: Path) -> None:
        for topic in SOURCES.values():
            kafka.create_topic(topic, {"retention.ms": "-1"}, partitions=2)  # records of 2023
        self.kafka = kafka
        self.sent = Producers(kafka, SOURCES)
        self.owner: dict[changelog.Position, Example] = {}
        self._offsets: Counter[tuple[str, int]] = Counter()
        self.queries = {
            seconds: Queries(
                session,
                Clusters.single(kafka),
                NAMES,
                str(folder),
                SparkSettings(batch_s=seconds, history_records=1),
            )
            for seconds in (3600, 5)
        }
        start = dict.fromkeys(SOURCES, "earliest")
        self.pipelines = {
            s: Pipeline(Clusters.single(kafka), NAMES, q, start) for s, q in self.queries.items()
        }
        self.running: set[int] = set()

    def send(self, *parts: int) -> set[changelog.Position]:
        """Send parts of every example, shuffled; returns the positions of the records."""
        inputs = [(e, record) for e in examples() for part in parts for record in e.parts[part]]
        # in another order than their keys, the same in every run
        random.Random(SEED).shuffle(inputs)
        new = set()
        for example, record in inputs:
            self.sent.send(
                record.source, record.value, partition=record.partition, timestamp=record.timestamp
            )
            at = changelog.Position(
                record.source, record.partition, self._offsets[record.source, record.partition]
            )
            self._offsets[record.source, record.partition] += 1
            self.owner[at] = example
            new.add(at)
        self.sent.flush()
        return new

    def made(self, number: int) -> Generation:
        choice = spec.DEFAULT.choice(SOURCES["users"], SOURCES["accounts"], join="left")
        return self.pipelines[5].prepare(Generation(number, choice, time.time()))

    def start(self, generation: Generation, seconds: int) -> int:
        """Start it and wait for its history; returns the changelog offset of its end."""
        self.running.add(generation.number)
        pipeline = self.pipelines[seconds]
        with small_bundles():
            pipeline.start(generation)
            ready_at = pipeline.catch_up(generation, lambda _done, _total: None, lambda: False)
        assert ready_at is not None
        return ready_at

    def stop(self, number: int) -> None:
        self.running.discard(number)
        for pipeline in self.pipelines.values():
            pipeline.stop(number)

    def written(self, number: int) -> list[Record]:
        consumer = self.kafka.reader("history.test")
        try:
            consumer.assign([TopicPartition(NAMES.changelog(number), 0, 0)])
            return list(read_to_end(consumer, NAMES.changelog(number)))
        finally:
            consumer.close()

    def until_marked(self, number: int, all_of: set[changelog.Position], since: int = 0) -> None:
        def marked() -> bool:
            return all_of <= {
                changelog.marked_position(record.key) for record in self.written(number)[since:]
            }

        until(marked, f"the marks of {len(all_of)} records, seed {SEED}", START_S)

    def check(self, number: int) -> None:
        held = build_tables(self.written(number))
        check(self.sent.acknowledged, self.owner, "left", held)
        counts = held.progress.counts()
        for source, sent in self.sent.acknowledged.items():
            assert counts[source]["read"] == len(sent)


@pytest.fixture(scope="module")
def play(
    kafka: Kafka, session: SparkDriver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HistoryRun]:
    made = HistoryRun(kafka, session, tmp_path_factory.mktemp("history"))
    made.send(0, 1)
    yield made
    for number in list(made.running):
        made.stop(number)


def test_history_job_then_stream(play: HistoryRun) -> None:
    by_batch, late = play.made(1), play.made(2)
    progress: list[tuple[int, int]] = []
    pipeline = play.pipelines[3600]
    play.running.update({1, 2})
    pipeline.start(by_batch)
    ready_at = pipeline.catch_up(by_batch, lambda *one: progress.append(one), lambda: False)
    assert ready_at is not None
    history = play.written(1)[:ready_at]
    check(play.sent.acknowledged, play.owner, "left", build_tables(history))
    # only the last version of each row was written: no row of the history changed in between
    keys = [record.key for record in history if not record.key.startswith(b"feed/")]
    assert len(set(keys)) == len(keys) > len(play.owner)
    done, totals = zip(*progress, strict=True)
    assert list(done) == sorted(done)
    assert set(totals) == {len(play.owner)}

    # a second query runs and has read later records before it gets the history
    play.queries[3600].start(late, 0)
    tail = play.send(2, 3)
    play.until_marked(1, tail)
    play.until_marked(2, tail)
    job = play.queries[3600].history_job(late, 0)
    job.start()
    assert job.wait(lambda _steps: None, lambda: False)
    ends = play.queries[3600].bootstrap_end_keys()
    producer = play.kafka.producer()
    for key in ends:
        producer.produce(NAMES.bootstrap(2), key=key)
    producer.flush()

    def fed() -> bool:
        marks = {changelog.marked_position(record.key) for record in play.written(2)}
        return sum(mark is not None and mark.source == changelog.BOOTSTRAP for mark in marks) > len(
            ends
        )

    until(fed, "the end of the feed", START_S)
    play.check(1)
    play.check(2)
    # keys occur in both halves: some rows changed, and the history was not emitted again
    emitted = Counter(record.key for record in play.written(2))
    pins_again = sum(count > 1 for key, count in emitted.items() if key.startswith(b"final_ui/"))
    assert 0 < pins_again < len(emitted) / 2


def test_a_stopped_generation_resumes_at_any_point(play: HistoryRun) -> None:
    generation = play.made(3)
    pipeline = play.pipelines[5]
    play.running.add(3)
    # stopped during its job: the job ends and writes nothing more
    pipeline.start(generation)
    pipeline.stop(3)
    assert pipeline.catch_up(generation, lambda _done, _total: None, lambda: True) is None
    left = len(play.written(3))
    # stopped before the first batch was committed: a new job reads everything again
    ready_at = play.start(generation, 3600)
    play.stop(3)
    again_at = play.start(generation, 5)
    assert ready_at >= left + len(play.owner)
    assert again_at >= ready_at + len(play.owner)
    feed = NAMES.bootstrap(3)

    def finished() -> bool:
        reached = play.queries[5].checkpoints.committed_offsets(generation.checkpoint) or {}
        return feed in reached

    until(finished, "a batch that is finished", START_S)
    play.stop(3)
    before = len(play.written(3))
    # stopped after that: it resumes from the checkpoint
    tail = play.send(3)
    play.start(generation, 3600)
    play.until_marked(3, tail, before)
    assert not [
        r
        for r in play.written(3)[before:]
        if r.key.startswith(b"users_ui/") and changelog.marked_position(r.key) not in tail
    ]
    play.stop(3)
    play.check(3)
    play.kafka.delete([feed])
    with pytest.raises(GenerationUnrecoverable, match="its feed was deleted"):
        play.pipelines[5].start(generation)
