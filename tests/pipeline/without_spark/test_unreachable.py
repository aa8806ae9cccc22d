"""A build whose sources cannot be reached is attempted again soon."""

from pathlib import Path

import pytest

from livejoin.config.sections import SparkSettings
from livejoin.core import spec
from livejoin.core.generation import Generation
from livejoin.core.names import Names
from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import ROLES, Clusters
from livejoin.pipeline import pipeline
from livejoin.pipeline.queries import Queries
from livejoin.pipeline.spark_driver import SparkDriver
from livejoin.runtime.broker import free_port

NAMES = Names("x")


@pytest.mark.timeout(20)  # a request to a cluster that is away takes longer
def test_sources_that_cannot_be_reached_are_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_REACH_S", 0.5)
    address = f"127.0.0.1:{free_port()}"
    own = Kafka({"bootstrap.servers": "127.0.0.1:9"})
    data = Kafka({"bootstrap.servers": address}, section="kafka_data", role=ROLES["kafka_data"])
    clusters = Clusters(own, data, own)
    session = SparkDriver(SparkSettings(), lock=0, log=tmp_path / "log")
    session.close()  # any use of a JVM is an error
    queries = Queries(session, clusters, NAMES, str(tmp_path), SparkSettings())
    start = {source.name: "earliest" for source in spec.DEFAULT.sources}
    built = pipeline.Pipeline(clusters, NAMES, queries, start)
    with pytest.raises(KafkaUnavailable, match=r"cluster of the sources\) cannot be reached"):
        built.resolve(Generation(1, spec.DEFAULT.choice("a", "b"), 0.0))
