"""Ends of batches are rehearsed beside a running query, once, and make way at once."""

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
from livejoin.pipeline.pipeline import Pipeline
from livejoin.pipeline.queries import Queries
from livejoin.pipeline.spark_session import Session
from livejoin.pipeline.warm_up import Rehearsal
from rig.running import until

NAMES = Names("rehearsed")
CHOICE = spec.Choice("rehearsed.in.users", "rehearsed.in.accounts")


@pytest.fixture
def queries(kafka: Kafka, session: Session, tmp_path: Path) -> Queries:
    return Queries(session, kafka, NAMES, str(tmp_path), SparkSettings(batch_s=3600))


@pytest.fixture
def live(kafka: Kafka, queries: Queries) -> Iterator[Generation]:
    for topic in (CHOICE.users, CHOICE.accounts):
        kafka.make(topic)
    pipeline = Pipeline(kafka, NAMES, queries, {s.name: "earliest" for s in spec.SOURCES})
    generation = pipeline.prepared(Generation(1, CHOICE, time.time()))
    pipeline.start(generation)
    yield generation
    pipeline.stop(1)


def test_batches_end_in_a_query_that_reads_nothing(
    kafka: Kafka, queries: Queries, live: Generation
) -> None:
    assert queries.worth_rehearsing
    with queries.idle(live) as ends:
        until(lambda: ends() >= 2, "two ends of batches", 60)
    assert not queries.worth_rehearsing
    assert kafka.end_of(NAMES.changelog(1)) == 0  # nothing was written


def test_a_rehearsal_makes_way_and_leaves_nothing(
    session: Session, queries: Queries, live: Generation, tmp_path: Path
) -> None:
    def running() -> set[str | None]:
        return {query.name for query in session.spark().streams.active}

    rehearsal, stop = Rehearsal(queries, after_s=0), threading.Event()
    thread = threading.Thread(target=rehearsal.run, args=({1: live}, stop))
    thread.start()
    try:
        rehearsal.soon(live)
        until(lambda: "rehearsed-1/rehearsal" in running(), "a rehearsal", 60)
        rehearsal.end()
        assert running() == {"rehearsed-1"}
        assert not (tmp_path / "1" / "rehearsal").exists()
        rehearsal.soon(live)  # this JVM has had it
        assert not queries.worth_rehearsing
    finally:
        stop.set()
        thread.join(30)
    assert running() == {"rehearsed-1"}


def test_it_takes_no_slots_that_another_query_needs(
    kafka: Kafka, session: Session, live: Generation, tmp_path: Path
) -> None:
    """A query whose slots are taken when its batch ends dies of it."""
    few = SparkSettings(batch_s=3600, master="local[9]")  # it and the live one hold five each
    queries = Queries(session, kafka, NAMES, str(tmp_path), few)
    rehearsal, stop = Rehearsal(queries, after_s=0), threading.Event()
    rehearsal.soon(live)
    thread = threading.Thread(target=rehearsal.run, args=({1: live}, stop))
    thread.start()
    thread.join(2)
    stop.set()
    thread.join(30)
    assert queries.worth_rehearsing  # still
    enough = few.model_copy(update={"master": "local[10]"})
    assert Queries(session, kafka, NAMES, "", enough).has_room_beside([live])
    assert not Queries(session, kafka, NAMES, "", enough).has_room_beside([live, live])
