"""Topics that change under a generation, and catching up, over a real broker."""

import threading
import time
import uuid
from collections.abc import Iterable
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions

from livejoin.core import changelog as rows
from livejoin.core import spec
from livejoin.core.generation import Generation, Reading
from livejoin.core.names import Names
from livejoin.errors import GenerationUnrecoverable, TopicMissing
from livejoin.kafka.cluster import Kafka
from livejoin.pipeline import offsets as positions
from livejoin.pipeline import source_watch
from livejoin.pipeline.catch_up import CatchUp, ReplayRange
from rig.running import until

EARLIEST = {"users": "earliest", "accounts": "earliest"}


class SourcePair:
    """A generation with two source topics."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.names = Names(uuid.uuid4().hex)
        prefix = self.names.prefix
        self.users, self.accounts = f"{prefix}-users", f"{prefix}-accounts"
        for topic in (self.users, self.accounts):
            kafka.create_topic(topic, partitions=2)

    def write(self, count: int, **transaction: bool) -> None:
        """Users records in partition 0; in a transaction that is committed, or not."""
        more = {"transactional.id": uuid.uuid4().hex} if transaction else {}
        producer = self.kafka.producer(**more)
        if transaction:
            producer.init_transactions(10)
            producer.begin_transaction()
        for _ in range(count):
            producer.produce(self.users, b"{}", partition=0)
        assert producer.flush(10) == 0
        if transaction:
            end = (
                producer.commit_transaction if transaction["commit"] else producer.abort_transaction
            )
            end(10)

    @property
    def generation(self) -> Generation:
        choice = spec.Choice(self.users, self.accounts)
        found = positions.resolve(self.kafka, self.names, choice, EARLIEST)
        return Generation(1, choice, 0.0, sources=found, ready_at=0)

    def with_topics(self) -> Generation:
        """The same with a changelog and a feed of its own."""
        changelog, feed = self.names.changelog(1), self.names.bootstrap(1)
        return replace(
            self.generation,
            changelog_id=self.kafka.recreate_topic(changelog).id,
            feed_id=self.kafka.recreate_topic(feed).id,
        )

    def mark(self, offsets: Iterable[int]) -> None:
        """What a query would write for users records."""
        changelog = self.names.changelog(1)
        self.kafka.create_topic(changelog)
        producer = self.kafka.producer()
        for offset in offsets:
            at = rows.Position("users", 0, offset)
            change = rows.ChangelogRecord("users_ui", str(at), {"userId": "a"}, 0)
            producer.produce(changelog, change.value(), change.key())
        assert producer.flush(10) == 0


@pytest.fixture
def one(kafka: Kafka) -> SourcePair:
    return SourcePair(kafka)


def _replay(kafka: Kafka, generation: Generation) -> ReplayRange:
    readings = generation.sources
    return ReplayRange(
        source_watch.source_topics(kafka, generation),
        {source: reading.start for source, reading in readings.items()},
        {source: reading.pins for source, reading in readings.items()},
        changelog_start=0,
    )


def _follow(one: SourcePair, way: ReplayRange, limit_s: float) -> int | None:
    ends = time.monotonic() + limit_s
    stopped = lambda: time.monotonic() > ends  # noqa: E731 - a name says what it is
    return CatchUp(one.kafka, one.names, 1, way, lambda _done, _total: None, stopped).follow()


def test_offsets_without_a_record_are_skipped(one: SourcePair) -> None:
    one.write(2)  # 0, 1
    one.write(3, commit=True)  # 2 to 4, and a marker
    one.write(5, commit=False)  # 6 to 10, and a marker
    one.write(1)  # 12
    way = _replay(one.kafka, one.generation)
    assert way.pins["users"] == {0: 12}
    one.mark([0, 1, 2, 3, 4, 12])
    assert _follow(one, way, 30) == 6


def test_a_record_without_a_mark_is_waited_for(one: SourcePair) -> None:
    one.write(3, commit=True)
    one.write(1)
    way = _replay(one.kafka, one.generation)
    one.mark([0, 2, 4])
    assert _follow(one, way, 4) is None
    one.mark([1])
    assert _follow(one, way, 30) == 4


def test_a_replay_may_start_in_the_middle(one: SourcePair) -> None:
    one.write(4)
    one.mark([0, 1, 2, 3])
    way = replace(
        _replay(one.kafka, one.generation),
        starts={"users": {0: 2, 1: 0}, "accounts": {}},
        changelog_start=4,
    )
    one.mark([3, 2])
    assert _follow(one, way, 30) == 6


def test_a_deleted_topic_is_missing(one: SourcePair) -> None:
    generation = one.generation
    one.kafka.delete([one.accounts])
    until(lambda: not one.kafka.describe([one.accounts]), "it is gone")
    with pytest.raises(TopicMissing, match="does not exist"):
        source_watch.source_topics(one.kafka, generation)


def test_a_recreated_topic_is_unrecoverable(one: SourcePair) -> None:
    generation = one.generation
    one.kafka.delete([one.users])
    until(lambda: not one.kafka.describe([one.users]), "it is gone")
    one.kafka.create_topic(one.users, partitions=2)
    with pytest.raises(GenerationUnrecoverable, match="deleted and recreated"):
        source_watch.source_topics(one.kafka, generation)


def test_a_run_resumes_after_the_last_committed_batch(one: SourcePair) -> None:
    one.write(3)
    generation = one.generation
    topics = source_watch.source_topics(one.kafka, generation)
    reached = {one.users: {0: 2, 1: 0}}
    found = positions.resume_offsets(one.kafka, generation, topics, reached)
    assert found == {"users": {0: 2, 1: 0}, "accounts": {0: 0, 1: 0}}


def test_a_live_generation_needs_its_checkpoint(one: SourcePair) -> None:
    generation = one.generation
    topics = source_watch.source_topics(one.kafka, generation)
    with pytest.raises(GenerationUnrecoverable, match="its checkpoint is missing"):
        positions.resume_offsets(one.kafka, generation, topics, None)
    building = replace(generation, ready_at=None)
    assert positions.resume_offsets(one.kafka, building, topics, None)["users"] == {0: 0, 1: 0}


def test_records_deleted_before_they_were_read_are_reported(one: SourcePair) -> None:
    one.write(10)
    generation = one.generation
    to = TopicPartition(one.users, 0, 7)
    one.kafka.admin.delete_records([to])[to].result(15)
    topics = source_watch.source_topics(one.kafka, generation)
    with pytest.raises(
        GenerationUnrecoverable, match=r"records 3 to 6 of partition 0 of topic .* were deleted"
    ):
        positions.resume_offsets(one.kafka, generation, topics, {one.users: {0: 3, 1: 0}})
    assert (
        positions.resume_offsets(one.kafka, generation, topics, {one.users: {0: 7}})["users"][0]
        == 7
    )


class RecordingListener:
    """Records what is reported."""

    def __init__(self) -> None:
        self.why: str | None = None
        self.readings: dict[str, Reading] = {}
        self.spoilt_by = ""
        self.again = ""

    def sources_checked(self, _generation: int, why: str) -> None:
        self.why = why

    def restart_required(self, _generation: int, why: str) -> None:
        self.again = why

    def partitions_added(self, _generation: int, readings: dict[str, Reading]) -> None:
        self.readings = dict(readings)

    def unrecoverable(self, _generation: int, why: str) -> None:
        self.spoilt_by = why


def test_topics_are_watched(one: SourcePair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_watch, "_CHECK_S", 0.05)
    generation, told, stop = one.with_topics(), RecordingListener(), threading.Event()
    watching = threading.Thread(
        target=source_watch.watch,
        args=(one.kafka, one.names, lambda: [generation], told, stop),
    )
    watching.start()
    try:
        until(lambda: told.why == "", "all is well")
        assert not told.readings
        one.kafka.admin.create_partitions([NewPartitions(one.users, 3)])[one.users].result(15)
        until(lambda: told.readings, "the new partition is told")
        assert told.readings["users"].start == {0: 0, 1: 0, 2: 0}
        assert told.readings["accounts"] == generation.sources["accounts"]
        one.kafka.delete([one.names.changelog(1)])
        until(lambda: told.spoilt_by == "its changelog was deleted", "that loss is told")
        one.kafka.create_topic(one.names.changelog(1))
        until(lambda: "changelog was deleted and recreated" in told.spoilt_by, "so is this")
        one.kafka.delete([one.accounts])
        until(lambda: "does not exist" in (told.why or ""), "the loss is told")
        one.kafka.create_topic(one.accounts)
        again = f'topic "{one.accounts}" was deleted and recreated'
        until(lambda: told.spoilt_by == again, "that it is another one is told")
        assert not told.again, "nothing was refused"
    finally:
        stop.set()
        watching.join()


def test_another_topic_of_the_same_name_is_refused(one: SourcePair) -> None:
    generation = one.with_topics()
    source_watch.check_own_topics(one.kafka, one.names, generation)
    again = one.kafka.recreate_topic(one.names.changelog(1))
    with pytest.raises(GenerationUnrecoverable, match="its changelog was deleted and recreated"):
        source_watch.check_own_topics(one.kafka, one.names, generation)
    generation = replace(generation, changelog_id=again.id)
    source_watch.check_own_topics(one.kafka, one.names, generation)
    one.kafka.recreate_topic(one.names.bootstrap(1))
    with pytest.raises(GenerationUnrecoverable, match="its feed was deleted and recreated"):
        source_watch.check_own_topics(one.kafka, one.names, generation)
    one.kafka.delete([one.names.bootstrap(1)])
    until(lambda: not one.kafka.describe([one.names.bootstrap(1)]), "it is gone")
    with pytest.raises(GenerationUnrecoverable, match="its feed was deleted"):
        source_watch.check_own_topics(one.kafka, one.names, generation)
    with pytest.raises(GenerationUnrecoverable, match="did not record its topic ids"):
        source_watch.check_own_topics(one.kafka, one.names, one.generation)


def test_a_recreated_topic_has_another_id(kafka: Kafka) -> None:
    name = uuid.uuid4().hex
    kafka.create_topic(name, {"cleanup.policy": "delete"}, partitions=3)
    old = kafka.describe([name])[name]
    new = kafka.recreate_topic(name, {"cleanup.policy": "compact"})
    assert new.id != old.id
    assert new.partitions == (0,)
    assert kafka.topic_config(name, "cleanup.policy") == "compact"
