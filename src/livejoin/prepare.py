"""Downloads the jars and records class archives, so that later starts are fast and offline.

`python -m livejoin.prepare` does this once per user; run again, it finds everything cached.
"""

import json
import sys
import tempfile
import threading
import time
from pathlib import Path

from livejoin.config.sections import SparkSettings
from livejoin.core.generation import Generation
from livejoin.core.names import Names
from livejoin.core.spec import DEFAULT
from livejoin.errors import LivejoinError
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.pipeline import spark_driver
from livejoin.pipeline.pipeline import Pipeline
from livejoin.pipeline.queries import Queries
from livejoin.runtime import broker, jars, processes

_TIMEOUT_S = 180
_POLL_S = 0.2
# Makes the JVM load the classes of all its work: a batch job over history, and a micro-batch that
# ends soon with a state snapshot, which is otherwise due only after thousands of changes.
_SETTINGS = SparkSettings(
    batch_s=5,
    history_records=1,
    conf={"spark.sql.streaming.stateStore.minDeltasForSnapshot": "1"},
)


def prepare() -> None:
    """Download the jars, and record class archives in a rehearsal with one record per topic."""
    java = processes.find_java()
    jars.jars("spark")
    if spark_driver.class_archive(java).exists() and broker.class_archive(java).exists():
        return
    processes.print_progress("Recording class archives once, so that later starts are fast …")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with (
            broker.embedded_broker(folder / "broker", archive_classes=True) as kafka,
            processes.file_lock(folder / "lock", "folder") as lock,
            spark_driver.SparkDriver(
                _SETTINGS, lock=lock, log=folder / "spark.log", archive_classes=True
            ) as spark,
        ):
            _rehearse(kafka, spark, folder)


def _rehearse(kafka: Kafka, spark: spark_driver.SparkDriver, folder: Path) -> None:
    names, choice = Names("rehearsal"), DEFAULT.choice("users", "accounts")
    producer = kafka.producer()
    for topic in choice.topics.values():
        kafka.create_topic(topic)
        producer.produce(topic, json.dumps({"userId": "a", "age": 1, "balance": 1}))
    producer.flush(_TIMEOUT_S)
    queries = Queries(spark, Clusters.single(kafka), names, str(folder / "checkpoints"), _SETTINGS)
    start = {source.name: "earliest" for source in DEFAULT.sources}
    pipeline = Pipeline(Clusters.single(kafka), names, queries, start)
    generation = pipeline.prepare(Generation(1, choice, time.time()))
    pipeline.start(generation)
    timed_out = threading.Event()
    timer = threading.Timer(_TIMEOUT_S, timed_out.set)
    timer.start()
    try:
        pipeline.catch_up(
            generation, progressed=lambda _done, _total: None, stopped=timed_out.is_set
        )
        while not queries.checkpoints.committed_offsets(generation.checkpoint):
            if timed_out.wait(_POLL_S):
                break
    finally:
        timer.cancel()
    pipeline.stop(generation.number)


if __name__ == "__main__":
    try:
        prepare()
    except LivejoinError as error:
        sys.exit(f"livejoin: {error}")
