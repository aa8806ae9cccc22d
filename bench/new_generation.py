"""Seconds from a choice to a complete generation, next to a live one with light traffic.

Builds follow one another, each with other topics and another join. Reports the time of each phase
per build, and of stopping the query.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from livejoin.config.sections import SparkSettings
from livejoin.core import spec
from livejoin.core.generation import Generation
from livejoin.core.names import Names
from livejoin.core.own_topics import RecordLimits
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.pipeline.pipeline import Pipeline
from livejoin.pipeline.queries import Queries
from livejoin.pipeline.spark_driver import SparkDriver
from livejoin.runtime import broker, processes

PAIRS = (("one.users", "one.accounts"), ("two.users", "two.accounts"))
JOINS: tuple[spec.Join, ...] = ("left", "inner")
LIVE = spec.DEFAULT.choice("live.users", "live.accounts")
START = {source.name: "earliest" for source in spec.DEFAULT.sources}
RECORDS = 100  # per topic
PHASES = ("resolve", "changelog", "plan", "start", "first row", "catch up", "total", "stop")
OUT = Path(__file__).parent / "out" / "new_generation.json"


class Timed(Queries):
    """Queries that measure the parts of a start."""

    took: ClassVar[defaultdict[str, list[float]]] = defaultdict(list)

    def _changelog_stream(
        self,
        spark: SparkSession,
        generation: Generation,
        bootstrap_start: int | None,
        limits: RecordLimits,
    ) -> DataFrame:
        began = time.perf_counter()
        try:
            return super()._changelog_stream(spark, generation, bootstrap_start, limits)
        finally:
            self.took["plan"].append(time.perf_counter() - began)

    def _start_query(
        self,
        changes: DataFrame,
        options: Mapping[str, str],
        name: str,
        checkpoint: str,
        batch_s: int,
    ) -> StreamingQuery:
        began = time.perf_counter()
        try:
            return super()._start_query(changes, options, name, checkpoint, batch_s)
        finally:
            self.took["start"].append(time.perf_counter() - began)


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--builds", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=4, help="builds before they count")
    parser.add_argument("--rate", type=int, default=20, help="records/s for the live generation")
    options = parser.parse_args()
    _report(measure(options.builds, options.warm_up, options.rate))


def measure(builds: int, warm_up: int, rate: int) -> dict[str, list[float]]:
    """Seconds of each phase, by phase in order."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        with (
            broker.embedded_broker(folder / "broker") as kafka,
            processes.file_lock(folder / "lock", "folder") as lock,
            SparkDriver(SparkSettings(), lock=lock, log=folder / "spark.log") as session,
        ):
            _fill(kafka)
            names = Names("bench")
            queries = Timed(
                session, Clusters.single(kafka), names, str(folder / "checkpoints"), SparkSettings()
            )
            pipeline = Pipeline(Clusters.single(kafka), names, queries, START)
            _build(pipeline, queries, 1, LIVE)
            done = threading.Event()
            traffic = threading.Thread(target=_produce, args=(kafka, rate, done))
            traffic.start()
            try:
                for number in range(builds + warm_up):
                    choice = spec.DEFAULT.choice(*PAIRS[number // 2 % 2], JOINS[number % 2])
                    _build(pipeline, queries, number + 2, choice)
                    began = time.perf_counter()
                    pipeline.stop(number + 2)
                    queries.took["stop"].append(time.perf_counter() - began)
            finally:
                done.set()
                traffic.join()
    return {phase: Timed.took[phase][-builds:] for phase in PHASES}


def _fill(kafka: Kafka) -> None:
    producer = kafka.producer()
    for users, accounts in (*PAIRS, tuple(LIVE.topics.values())):
        for topic in (users, accounts):
            kafka.create_topic(topic, partitions=2)
        for number in range(RECORDS):
            record = {"userId": f"u{number}", "name": "n", "age": number}
            producer.produce(users, json.dumps(record), partition=number % 2)
            record = {"userId": f"u{number}", "accountType": "a", "balance": number}
            producer.produce(accounts, json.dumps(record), partition=number % 2)
    producer.flush(60)


def _build(pipeline: Pipeline, queries: Timed, number: int, choice: spec.Choice) -> None:
    began = time.perf_counter()
    options = Generation(number, choice, time.time())
    sources, fingerprint = pipeline.resolve(options)
    resolved = time.perf_counter()
    generation = replace(options, sources=sources, fingerprint=fingerprint)
    changelog_id, feed_id = pipeline.make_topics(generation)
    generation = replace(generation, changelog_id=changelog_id, feed_id=feed_id)
    pipeline.start(generation)
    started = time.perf_counter()
    rows_at: list[float] = []

    def progressed(done: int, _total: int) -> None:
        if done:
            rows_at.append(time.perf_counter())

    pipeline.catch_up(generation, progressed, stopped=lambda: False)
    complete = time.perf_counter()
    took = queries.took
    took["resolve"].append(resolved - began)
    took["changelog"].append(started - resolved - took["plan"][-1] - took["start"][-1])
    # from the end of the plan step; all rows may arrive at once
    took["first row"].append(min([*rows_at, complete]) - started + took["start"][-1])
    took["catch up"].append(complete - started)
    took["total"].append(complete - began)


def _produce(kafka: Kafka, rate: int, done: threading.Event) -> None:
    producer = kafka.producer()
    number = 0
    while not done.wait(1 / rate):
        number += 1
        record = {"userId": f"u{number % RECORDS}", "balance": number}
        producer.produce(LIVE.topics["accounts"], json.dumps(record))
        producer.poll(0)
    producer.flush(60)


def _report(took: dict[str, list[float]]) -> None:
    print(f"\n{len(took['total'])} builds, ms {'median':>10}{'worst':>8}")
    figures = {}
    for phase in PHASES:
        samples = [seconds * 1000 for seconds in took[phase]]
        figures[phase] = {"median": statistics.median(samples), "worst": max(samples)}
        print(f"{phase:14}{figures[phase]['median']:10.0f}{figures[phase]['worst']:8.0f}")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"builds": len(took["total"]), "ms": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
