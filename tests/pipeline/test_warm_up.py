"""The warm-up runs once beside a running query, and is cancelled at once."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from livejoin.config.sections import SparkSettings
from livejoin.core import spec
from livejoin.core.generation import Generation
from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.pipeline.pipeline import Pipeline
from livejoin.pipeline.queries import Queries
from livejoin.pipeline.spark_driver import SparkDriver
from livejoin.pipeline.warm_up import BatchWarmUp
from rig.running import until

NAMES = Names("rehearsed")
CHOICE = spec.DEFAULT.choice("rehearsed.in.users", "rehearsed.in.accounts")


@pytest.fixture
def queries(kafka: Kafka, session: SparkDriver, tmp_path: Path) -> Queries:
    return Queries(
        session, Clusters.single(kafka), NAMES, str(tmp_path), SparkSettings(batch_s=3600)
    )


@pytest.fixture
def live(kafka: Kafka, queries: Queries) -> Iterator[Generation]:
    for topic in CHOICE.topics.values():
        kafka.create_topic(topic)
    pipeline = Pipeline(
        Clusters.single(kafka), NAMES, queries, {s.name: "earliest" for s in spec.DEFAULT.sources}
    )
    generation = pipeline.prepare(Generation(1, CHOICE, time.time()))
    pipeline.start(generation)
    yield generation
    pipeline.stop(1)


def test_an_idle_query_completes_batches(kafka: Kafka, queries: Queries, live: Generation) -> None:
    assert queries.needs_warm_up
    with queries.idle_query(live) as ends:
        until(lambda: ends() >= 2, "two completed batches", 60)
    assert not queries.needs_warm_up
    assert kafka.end_offset(NAMES.changelog(1)) == 0  # nothing was written


def test_a_cancelled_warm_up_leaves_nothing(
    session: SparkDriver, queries: Queries, live: Generation, tmp_path: Path
) -> None:
    def running() -> set[str | None]:
        return {query.name for query in session.spark().streams.active}

    warm_up, stop = BatchWarmUp(queries, after_s=0), threading.Event()
    thread = threading.Thread(target=warm_up.run, args=({1: live}, stop))
    thread.start()
    try:
        warm_up.schedule(live)
        until(lambda: "rehearsed-1/rehearsal" in running(), "a warm-up", 60)
        warm_up.cancel()
        assert running() == {"rehearsed-1"}
        assert not (tmp_path / "1" / "rehearsal").exists()
        warm_up.schedule(live)  # this JVM is warmed up already
        assert not queries.needs_warm_up
    finally:
        stop.set()
        thread.join(30)
    assert running() == {"rehearsed-1"}


def test_a_warm_up_takes_only_free_slots(
    kafka: Kafka, session: SparkDriver, live: Generation, tmp_path: Path
) -> None:
    """A query whose slots are taken when its batch ends would die."""
    few = SparkSettings(
        batch_s=3600, master="local[9]"
    )  # the warm-up and the live query need five each
    queries = Queries(session, Clusters.single(kafka), NAMES, str(tmp_path), few)
    warm_up, stop = BatchWarmUp(queries, after_s=0), threading.Event()
    warm_up.schedule(live)
    thread = threading.Thread(target=warm_up.run, args=({1: live}, stop))
    thread.start()
    thread.join(2)
    stop.set()
    thread.join(30)
    assert queries.needs_warm_up  # still not enough
    enough = few.model_copy(update={"master": "local[10]"})
    assert Queries(session, Clusters.single(kafka), NAMES, "", enough).has_free_slots([live], live)
    assert not Queries(session, Clusters.single(kafka), NAMES, "", enough).has_free_slots(
        [live, live], live
    )
