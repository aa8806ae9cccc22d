"""Queries of random specs over a real broker, with crashes: all tables equal the general oracle's.

Each query is stopped twice before its batch is committed, and reads all records again, in another
interleaving.
"""

import json
import random
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from livejoin.config.sections import SparkSettings
from livejoin.core import changelog, spec
from livejoin.core.changelog import Position
from livejoin.core.generation import Generation
from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.kafka.records import Record, poll_batch, to_record
from livejoin.pipeline.pipeline import Pipeline
from livejoin.pipeline.queries import Queries
from livejoin.pipeline.spark_driver import SparkDriver
from livejoin.tables.ingest import decode
from livejoin.tables.ingest.catalog import GenerationTables
from rig import general_oracle
from rig.examples import NOW, small_bundles
from rig.produce import Producers
from rig.reference_changelog import ReferenceFollower, read_records
from rig.running import until
from rig.specs import random_spec, random_value

SEED = 2211
RUNS = 3
RECORDS = 70  # of the driver per run; of each lookup fewer
NAMES = Names("any")
START_S = 120
JOINS: dict[int, tuple[int, spec.Join]] = {  # number of sources and join, by generation
    1: (2, "left"),
    2: (2, "left_outer"),
    3: (3, "left"),
    4: (5, "left"),
}
pytestmark = pytest.mark.timeout(300)


class Play:
    """A generation of a random spec."""

    def __init__(self, kafka: Kafka, pipeline: Pipeline, number: int) -> None:
        sources, self.join = JOINS[number]
        self.dice = random.Random(SEED + number)
        self.spec = random_spec(self.dice, sources)
        self.topics = {name: f"any.in.{number}.{name}" for name in self.spec.source_names}
        for topic in self.topics.values():
            kafka.create_topic(topic, {"retention.ms": "-1"}, partitions=2)  # records of 2023
        self.sent = Producers(kafka, self.topics)
        self._kafka = kafka
        self._pipeline = pipeline
        self.generation = pipeline.prepare(
            Generation(
                number,
                self.spec.choice(*self.topics.values(), join=self.join),
                time.time(),
                start=dict.fromkeys(self.topics, "earliest"),
                changelog_format=changelog.format_number(self.spec),
                spec=self.spec,
            )
        )
        self.written: list[Record] = []
        self._held: GenerationTables | None = None
        self._consumer = kafka.reader("any")
        self._consumer.assign([TopicPartition(NAMES.changelog(number), 0, 0)])

    def send(self) -> None:
        for source in self.spec.to_json()["sources"]:
            is_driver = source["name"] == self.spec.driver.name
            for _ in range(RECORDS if is_driver else RECORDS // 2):
                self.sent.send(
                    source["name"],
                    random_value(self.dice, source),
                    partition=self.dice.randrange(2),
                    timestamp=NOW + self.dice.randrange(6),
                )
        self.sent.flush()

    def start(self) -> None:
        with small_bundles():
            self._pipeline.start(self.generation)

    def until_all_read(self) -> None:
        since = len(self.written)
        expected = {
            Position(source, record.partition, record.offset)
            for source, records in self.sent.acknowledged.items()
            for record in records
        }

        def marked() -> bool:
            self.written += map(to_record, poll_batch(self._consumer, 10_000, 0.1))
            new = self.written[since:]
            return expected <= {changelog.marked_position(record.key) for record in new}

        until(marked, f"the marks of {len(expected)} records, seed {SEED}", START_S)

    def stop(self) -> None:
        self._pipeline.stop(self.generation.number)

    def close(self) -> None:
        self.stop()
        self._consumer.close()

    def _served(self, table: str) -> dict[str, dict[str, str]]:
        """A table as the table servers build it from the same changelog."""
        if self._held is None:
            self._held = GenerationTables(self.generation, rejects_kept=10**6)
            records = [(record.key, record.value) for record in self.written]
            decoder = decode.decoder(self.spec)
            self._held.apply(decoder.decode_chunk(self.generation.number, len(records), records))
        names: Mapping[str, str] = self.spec.joined_names.get(
            self.spec.source_of_table.get(table, ""), {}
        )
        return {
            row["_id"]: _comparable(table, _as_written(row, names))
            for row in self._held.stores[table].snapshot().to_pylist()
        }

    def check(self) -> None:
        self._held = None
        data = self.spec.to_json()
        names = general_oracle.column_names(data["sources"])
        several = len(self.spec.lookups) > 1
        columns = {
            source.name: [names[source.name, c.name] for c in source.fields if c.name != source.key]
            for source in self.spec.lookups
        }
        follower = ReferenceFollower(columns if several else None)
        for record in self.written[several:]:
            for change in read_records(record.key, record.value):
                follower.apply(change)
        truth = general_oracle.expected(data, self.sent.acknowledged, dict(self.topics), self.join)
        for table, rows in truth.rows.items():
            found = follower.table(table)
            what = f"seed {SEED}, {table} of {data}"
            assert found.keys() == rows.keys(), what
            for row_id, row in rows.items():
                assert _comparable(table, found[row_id]) == _comparable(table, row), (
                    f"{row_id}, {what}"
                )
            assert follower.times(table) == truth.times[table], what
            assert self._served(table) == {
                row_id: _comparable(table, row) for row_id, row in rows.items()
            }, what
        tombstones = {
            record.key.decode().removeprefix("tombstones/")
            for record in self.written
            if record.key.startswith(b"tombstones/")
        }
        assert tombstones == truth.tombstones


def _as_written(row: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A row of a table as the changelog has it, with its names there."""
    cells: dict[str, Any] = {}
    for name, value in row.items():
        cell = value
        if name in ("_id", "_ts") or cell is None:
            continue
        if isinstance(cell, datetime):
            cell = round(cell.timestamp() * 1000)
        elif isinstance(cell, Decimal):
            cell = f"{cell:f}"
        cells[names.get(name, name)] = cell
    return cells


def _comparable(table: str, row: Mapping[str, Any]) -> dict[str, str]:
    """Cells as texts, so that 1 is not true; of a reject's reason the fields that it names."""
    cells = {name: repr(cell) for name, cell in row.items()}
    cells = {name: "0.0" if cell == "-0.0" else cell for name, cell in cells.items()}
    if table == spec.REJECTS:
        parts = [part.partition(", got ")[0] for part in row["reason"].split("; ")]
        whole = row["reason"].startswith("value: ")
        named = parts[:1] if whole else [part for part in parts if ": expected " in part]
        cells = {name: cell for name, cell in cells.items() if name != "raw"}
        cells["reason"] = repr(named)
    return cells


@pytest.fixture(scope="module")
def plays(
    kafka: Kafka, session: SparkDriver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[int, Play]]:
    folder = tmp_path_factory.mktemp("any")
    clusters = Clusters.single(kafka)
    queries = Queries(session, clusters, NAMES, str(folder), SparkSettings(batch_s=3600))
    pipeline = Pipeline(clusters, NAMES, queries, {})
    made = {number: Play(kafka, pipeline, number) for number in JOINS}
    yield made
    for play in made.values():
        play.close()


@pytest.mark.parametrize("run", range(RUNS))
def test_all_tables_equal_the_oracle_after_every_crash(plays: dict[int, Play], run: int) -> None:
    assert run < RUNS
    for play in plays.values():
        play.send()
        play.start()
    for play in plays.values():
        play.until_all_read()
    for play in plays.values():
        play.stop()
    for play in plays.values():
        play.check()


def test_a_topic_of_several_lookups_begins_with_its_format(plays: dict[int, Play]) -> None:
    for play in plays.values():
        first = play.written[0]
        several = len(play.spec.lookups) > 1
        assert (first.key == b"format") is several
        assert play.generation.changelog_format == 1 + several
        if several:
            value = json.loads(first.value)
            assert (value["format"], value["join"]) == (2, "left")
            assert spec.JoinSpec.from_json(value) == play.spec
            names = play.spec.joined_names
            assert value["columns"] == {s: list(names[s].values()) for s in play.topics}


def test_some_rows_of_several_lookups_were_bundled(plays: dict[int, Play]) -> None:
    prefix = changelog.BUNDLE_PREFIX.encode()
    bundles = [json.loads(r.value) for r in plays[3].written if r.key.startswith(prefix)]
    assert any(len(bundle["versions"]) == 2 for bundle in bundles)
