"""A query that is restarted while others are checked is not reported as dead."""

import threading
from pathlib import Path
from typing import Any

import pytest

from livejoin.config.sections import SparkSettings
from livejoin.core.names import Names
from livejoin.errors import QueryFailed
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.pipeline import queries
from livejoin.pipeline.queries import Queries
from livejoin.pipeline.spark_driver import SparkDriver


def test_a_query_restarted_meanwhile_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(queries, "_WATCH_S", 0)
    # every check finds an end: one query has died, the other was stopped
    monkeypatch.setattr(Queries, "_find_end", lambda *_: QueryFailed("it stopped"))
    kafka = Kafka({"bootstrap.servers": "127.0.0.1:9"})
    session = SparkDriver(SparkSettings(), lock=0, log=tmp_path / "log")
    watched = Queries(session, Clusters.single(kafka), Names("x"), str(tmp_path), SparkSettings())
    dead, old, new = (object() for _ in range(3))
    stop = threading.Event()
    told = []

    class Restarting:
        def query_died(self, generation: int, _why: str) -> None:
            told.append(generation)
            running[7] = new
            stop.set()

        def unrecoverable(self, generation: int, why: str) -> None:
            raise AssertionError(generation, why)

    running: dict[int, Any] = watched._running
    running.update({5: dead, 7: old})
    watched.watch(Restarting(), stop)
    assert told == [5]
    assert running == {7: new}
