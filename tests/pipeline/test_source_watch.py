"""Topics that change under a generation, and catching up, over a real broker."""

import threading
import time
import uuid
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions

from livejoin.core import changelog as rows
from livejoin.core import spec
from livejoin.core.generation import Generation, Reading
from livejoin.core.names import Names
from livejoin.errors import GenerationUnrecoverable, TopicMissing
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import ROLES, Clusters
from livejoin.pipeline import offsets as positions
from livejoin.pipeline import source_watch
from livejoin.pipeline.catch_up import CatchUp, ReplayRange
from rig import brokers
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
        choice = spec.DEFAULT.choice(self.users, self.accounts)
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
def sources(kafka: Kafka) -> SourcePair:
    return SourcePair(kafka)


def _replay(kafka: Kafka, generation: Generation) -> ReplayRange:
    readings = generation.sources
    return ReplayRange(
        source_watch.source_topics(kafka, generation),
        {source: reading.start for source, reading in readings.items()},
        {source: reading.pins for source, reading in readings.items()},
        changelog_start=0,
    )


def _follow(sources: SourcePair, replay: ReplayRange, limit_s: float) -> int | None:
    ends = time.monotonic() + limit_s
    stopped = lambda: time.monotonic() > ends  # noqa: E731 - a name says what it is
    return CatchUp(
        Clusters.single(sources.kafka),
        sources.names,
        1,
        replay,
        lambda _done, _total: None,
        stopped,
    ).follow()


def test_offsets_without_a_record_are_skipped(sources: SourcePair) -> None:
    sources.write(2)  # 0, 1
    sources.write(3, commit=True)  # 2 to 4, and a marker
    sources.write(5, commit=False)  # 6 to 10, and a marker
    sources.write(1)  # 12
    replay = _replay(sources.kafka, sources.generation)
    assert replay.pins["users"] == {0: 12}
    sources.mark([0, 1, 2, 3, 4, 12])
    assert _follow(sources, replay, 30) == 6


def test_a_record_without_a_mark_is_waited_for(sources: SourcePair) -> None:
    sources.write(3, commit=True)
    sources.write(1)
    replay = _replay(sources.kafka, sources.generation)
    sources.mark([0, 2, 4])
    assert _follow(sources, replay, 4) is None
    sources.mark([1])
    assert _follow(sources, replay, 30) == 4


def test_a_replay_may_start_in_the_middle(sources: SourcePair) -> None:
    sources.write(4)
    sources.mark([0, 1, 2, 3])
    replay = replace(
        _replay(sources.kafka, sources.generation),
        starts={"users": {0: 2, 1: 0}, "accounts": {}},
        changelog_start=4,
    )
    sources.mark([3, 2])
    assert _follow(sources, replay, 30) == 6


def test_a_deleted_topic_is_missing(sources: SourcePair) -> None:
    generation = sources.generation
    sources.kafka.delete([sources.accounts])
    until(lambda: not sources.kafka.describe([sources.accounts]), "the topic is deleted")
    with pytest.raises(TopicMissing, match="does not exist"):
        source_watch.source_topics(sources.kafka, generation)


def test_a_recreated_topic_is_unrecoverable(sources: SourcePair) -> None:
    generation = sources.generation
    sources.kafka.delete([sources.users])
    until(lambda: not sources.kafka.describe([sources.users]), "the topic is deleted")
    sources.kafka.create_topic(sources.users, partitions=2)
    with pytest.raises(GenerationUnrecoverable, match="deleted and recreated"):
        source_watch.source_topics(sources.kafka, generation)


def test_a_run_resumes_after_the_last_committed_batch(sources: SourcePair) -> None:
    sources.write(3)
    generation = sources.generation
    topics = source_watch.source_topics(sources.kafka, generation)
    reached = {sources.users: {0: 2, 1: 0}}
    found = positions.resume_offsets(sources.kafka, generation, topics, reached)
    assert found == {"users": {0: 2, 1: 0}, "accounts": {0: 0, 1: 0}}


def test_a_live_generation_needs_its_checkpoint(sources: SourcePair) -> None:
    generation = sources.generation
    topics = source_watch.source_topics(sources.kafka, generation)
    with pytest.raises(GenerationUnrecoverable, match="its checkpoint is missing"):
        positions.resume_offsets(sources.kafka, generation, topics, None)
    building = replace(generation, ready_at=None)
    assert positions.resume_offsets(sources.kafka, building, topics, None)["users"] == {0: 0, 1: 0}


def test_records_deleted_before_they_were_read_are_reported(sources: SourcePair) -> None:
    sources.write(10)
    generation = sources.generation
    position = TopicPartition(sources.users, 0, 7)
    sources.kafka.admin.delete_records([position])[position].result(15)
    topics = source_watch.source_topics(sources.kafka, generation)
    with pytest.raises(
        GenerationUnrecoverable, match=r"records 3 to 6 of partition 0 of topic .* were deleted"
    ):
        positions.resume_offsets(sources.kafka, generation, topics, {sources.users: {0: 3, 1: 0}})
    assert (
        positions.resume_offsets(sources.kafka, generation, topics, {sources.users: {0: 7}})[
            "users"
        ][0]
        == 7
    )


class RecordingListener:
    """Records all reports."""

    def __init__(self) -> None:
        self.why: str | None = None
        self.readings: dict[str, Reading] = {}
        self.unrecoverable_reason = ""
        self.again = ""
        self.unreachable = 0  # how often the cluster of the sources did not answer

    def sources_checked(self, _generation: int, why: str) -> None:
        self.why = why

    def sources_unreachable(self) -> None:
        self.unreachable += 1

    def restart_required(self, _generation: int, why: str) -> None:
        self.again = why

    def partitions_added(self, _generation: int, readings: dict[str, Reading]) -> None:
        self.readings = dict(readings)

    def unrecoverable(self, _generation: int, why: str) -> None:
        self.unrecoverable_reason = why


def test_topics_are_watched(sources: SourcePair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_watch, "_CHECK_S", 0.05)
    generation, reported, stop = sources.with_topics(), RecordingListener(), threading.Event()
    watching = threading.Thread(
        target=source_watch.watch,
        args=(Clusters.single(sources.kafka), sources.names, lambda: [generation], reported, stop),
    )
    watching.start()
    try:
        until(lambda: reported.why == "", "all sources are readable")
        assert not reported.readings
        sources.kafka.admin.create_partitions([NewPartitions(sources.users, 3)])[
            sources.users
        ].result(15)
        until(lambda: reported.readings, "the new partition is reported")
        assert reported.readings["users"].start == {0: 0, 1: 0, 2: 0}
        assert reported.readings["accounts"] == generation.sources["accounts"]
        sources.kafka.delete([sources.names.changelog(1)])
        until(
            lambda: reported.unrecoverable_reason == "its changelog was deleted",
            "the deleted changelog is reported",
        )
        sources.kafka.create_topic(sources.names.changelog(1))
        until(
            lambda: "changelog was deleted and recreated" in reported.unrecoverable_reason,
            "the recreated changelog is reported",
        )
        sources.kafka.delete([sources.accounts])
        until(lambda: "does not exist" in (reported.why or ""), "the deleted topic is reported")
        sources.kafka.create_topic(sources.accounts)
        replaced = f'topic "{sources.accounts}" was deleted and recreated'
        until(lambda: reported.unrecoverable_reason == replaced, "the recreated topic is reported")
        assert not reported.again, "nothing was refused"
        assert not reported.unreachable
    finally:
        stop.set()
        watching.join()


def test_a_cluster_of_the_sources_that_is_away_is_named_until_it_is_back(
    sources: SourcePair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_watch, "_CHECK_S", 0.5)
    generation, reported, stop = sources.with_topics(), RecordingListener(), threading.Event()
    port = brokers.lasting_port()
    data = Kafka(
        {"bootstrap.servers": f"127.0.0.1:{port}"}, section="kafka_data", role=ROLES["kafka_data"]
    )
    clusters = Clusters(sources.kafka, data, sources.kafka)
    watching = threading.Thread(
        target=source_watch.watch,
        args=(clusters, sources.names, lambda: [generation], reported, stop),
    )
    watching.start()
    try:
        place = f"127.0.0.1:{port} (cluster of the sources) cannot be reached"
        until(lambda: place in (reported.why or ""), "it is named", 15)
        until(lambda: reported.unreachable > 2, "it is reported at each check", 15)
        with brokers.broker(tmp_path / "data", port):
            missing = f'topic "{sources.users}" does not exist'
            until(lambda: reported.why == missing, "its topics are looked for again", 30)
            reports = reported.unreachable
        until(lambda: reported.unreachable > reports, "it is away again", 15)
    finally:
        stop.set()
        watching.join()


def test_another_topic_of_the_same_name_is_refused(sources: SourcePair) -> None:
    generation = sources.with_topics()
    source_watch.check_own_topics(sources.kafka, sources.names, generation)
    recreated = sources.kafka.recreate_topic(sources.names.changelog(1))
    with pytest.raises(GenerationUnrecoverable, match="its changelog was deleted and recreated"):
        source_watch.check_own_topics(sources.kafka, sources.names, generation)
    generation = replace(generation, changelog_id=recreated.id)
    source_watch.check_own_topics(sources.kafka, sources.names, generation)
    sources.kafka.recreate_topic(sources.names.bootstrap(1))
    with pytest.raises(GenerationUnrecoverable, match="its feed was deleted and recreated"):
        source_watch.check_own_topics(sources.kafka, sources.names, generation)
    sources.kafka.delete([sources.names.bootstrap(1)])
    until(lambda: not sources.kafka.describe([sources.names.bootstrap(1)]), "the topic is deleted")
    with pytest.raises(GenerationUnrecoverable, match="its feed was deleted"):
        source_watch.check_own_topics(sources.kafka, sources.names, generation)
    with pytest.raises(GenerationUnrecoverable, match="did not record its topic ids"):
        source_watch.check_own_topics(sources.kafka, sources.names, sources.generation)


def test_a_recreated_topic_has_another_id(kafka: Kafka) -> None:
    name = uuid.uuid4().hex
    kafka.create_topic(name, {"cleanup.policy": "delete"}, partitions=3)
    old = kafka.describe([name])[name]
    new = kafka.recreate_topic(name, {"cleanup.policy": "compact"})
    assert new.id != old.id
    assert new.partitions == (0,)
    assert kafka.topic_config(name, "cleanup.policy") == "compact"
