"""What makes later starts quick and free of the network: the jars, and archives of their classes.

`python -m livejoin.prepare` does it once per user; a second time it finds everything there.
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
from livejoin.core.spec import SOURCES, Choice
from livejoin.errors import LivejoinError
from livejoin.kafka.cluster import Kafka
from livejoin.pipeline import spark_driver
from livejoin.pipeline.pipeline import Pipeline
from livejoin.pipeline.queries import Queries
from livejoin.runtime import broker, jars, processes

_TIMEOUT_S = 180
_POLL_S = 0.2
# All kinds of work that a JVM will have to do: a history by batch, and soon the end of a batch with
# a snapshot of the state, which is otherwise due only after thousands of changes.
_SETTINGS = SparkSettings(
    batch_s=5,
    history_records=1,
    conf={"spark.sql.streaming.stateStore.minDeltasForSnapshot": "1"},
)


def prepare() -> None:
    """Have jars and archives; the archives come from a rehearsal of everything, with one record."""
    java = processes.find_java()
    jars.jars("spark")
    if spark_driver.class_archive(java).exists() and broker.class_archive(java).exists():
        return
    processes.print_progress("Rehearsing once, so that later starts are quick …")
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        with (
            broker.embedded_broker(folder / "broker", archive_classes=True) as kafka,
            processes.file_lock(folder / "lock", "folder") as lock,
            spark_driver.SparkDriver(
                _SETTINGS, lock=lock, log=folder / "spark.log", archive_classes=True
            ) as spark,
        ):
            _rehearse(kafka, spark, folder)


def _rehearse(kafka: Kafka, spark: spark_driver.SparkDriver, folder: Path) -> None:
    names, choice = Names("rehearsal"), Choice("users", "accounts")
    producer = kafka.producer()
    for topic in (choice.users, choice.accounts):
        kafka.create_topic(topic)
        producer.produce(topic, json.dumps({"userId": "a", "age": 1, "balance": 1}))
    producer.flush(_TIMEOUT_S)
    queries = Queries(spark, kafka, names, str(folder / "checkpoints"), _SETTINGS)
    start = {source.name: "earliest" for source in SOURCES}
    pipeline = Pipeline(kafka, names, queries, start)
    generation = pipeline.prepare(Generation(1, choice, time.time()))
    pipeline.start(generation)
    late = threading.Event()
    timer = threading.Timer(_TIMEOUT_S, late.set)
    timer.start()
    try:
        pipeline.catch_up(generation, progressed=lambda _done, _total: None, stopped=late.is_set)
        while not queries.checkpoints.committed_offsets(generation.checkpoint) and not late.wait(
            _POLL_S
        ):
            pass
    finally:
        timer.cancel()
    pipeline.stop(generation.number)


if __name__ == "__main__":
    try:
        prepare()
    except LivejoinError as error:
        sys.exit(f"livejoin: {error}")
