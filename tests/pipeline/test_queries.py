"""Queries over a real broker write exactly the changelog of the test vectors."""

import json
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from livejoin.config.sections import SparkSettings
from livejoin.core import changelog as rows
from livejoin.core import spec
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
from rig.reference_changelog import ReferenceFollower, read_bundle, read_record
from rig.running import until

DOCS = Path(__file__).parents[2] / "docs"
OF_FORMAT_1, OF_FORMAT_2 = (
    json.loads((DOCS / name).read_text())["cases"]
    for name in ("changelog-vectors.json", "changelog-vectors-2.json")
)
CASES: list[dict[str, Any]] = OF_FORMAT_1 + OF_FORMAT_2
PARTITIONS = 2
START_S = 60  # the first query of a JVM takes ten seconds, later ones two


class Case:
    """One vector: its topics, its query, and the records that it has written."""

    def __init__(
        self, case: dict[str, Any], kafka: Kafka, session: SparkDriver, folder: Path
    ) -> None:
        self.case = case
        prefix = "vector-" + re.sub(r"[^a-z0-9]+", "-", case["name"].lower())
        self.names = Names(prefix[:100])
        self.spec = spec.JoinSpec.from_json(case["spec"]) if "spec" in case else spec.DEFAULT
        self.inputs = case.get("inputs") or {s: case[s] for s in self.spec.source_names}
        topics = (f"{prefix[:200]}.{name}" for name in self.spec.source_names)
        self.choice = self.spec.choice(*topics, join=case["join"])
        self.kafka = kafka
        for topic in self.choice.topics.values():
            kafka.create_topic(
                topic, {"retention.ms": "-1"}, partitions=PARTITIONS
            )  # records of 2023
        self.queries = Queries(
            session, Clusters.single(kafka), self.names, str(folder / prefix), SparkSettings()
        )
        self.pipeline = Pipeline(
            Clusters.single(kafka),
            self.names,
            self.queries,
            dict.fromkeys(self.spec.source_names, "earliest"),
        )
        self.producer = kafka.producer()
        self.written: list[Record] = []
        self.consumer = kafka.reader("vectors")
        self.session = session
        self.plan = ""

    def run(self) -> None:
        """One input at a time: the vectors' records stand in the order of the events."""
        number = rows.format_number(self.spec)
        generation = Generation(
            1, self.choice, time.time(), changelog_format=number, spec=self.spec
        )
        generation = self.pipeline.prepare(generation)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                rows,
                "BUNDLE_MIN_ROWS",
                self.case.get("many", rows.BUNDLE_MIN_ROWS),
            )
            self.pipeline.start(generation)
        self.consumer.assign([TopicPartition(self.names.changelog(1), 0, 0)])
        try:
            self._feed()
            (query,) = self.session.spark().streams.active
            self.plan = str(query._jsq.explainInternal(False))  # noqa: FBT003 - Java's
        finally:
            self.pipeline.stop(1)
            self.consumer.close()

    def _feed(self) -> None:
        inputs = {
            (s, r["partition"], r["offset"]): r for s, found in self.inputs.items() for r in found
        }
        for source, partition, offset in self.case["order"]:
            record = inputs[source, partition, offset]
            self.producer.produce(
                self.choice.topics[source],
                record["value"],
                None,
                partition,
                timestamp=record["timestamp"],
            )
            assert self.producer.flush(10) == 0
            self._wait_for(rows.Position(source, partition, offset))

    def _wait_for(self, at: rows.Position) -> None:
        until(lambda: self._marked(at), f"the mark of {at}", START_S)

    def _marked(self, at: rows.Position) -> bool:
        self.written += map(to_record, poll_batch(self.consumer, 1000, 0.05))
        return any(rows.marked_position(record.key) == at for record in self.written)


@pytest.fixture(scope="module")
def cases(
    kafka: Kafka, session: SparkDriver, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Case]:
    made = {}
    for case in CASES:
        case_run = made[case["name"]] = Case(
            case, kafka, session, tmp_path_factory.mktemp("vectors")
        )
        case_run.run()
    return made


@pytest.mark.parametrize("name", [case["name"] for case in CASES])
def test_the_changelog_matches_the_vector(name: str, cases: dict[str, Case]) -> None:
    case = cases[name]
    topics = case.choice.topics
    expected = [
        (record["key"], _with_topics(record["value"], topics)) for record in case.case["records"]
    ]
    written = [(record.key.decode(), json.loads(record.value)) for record in case.written]
    assert written == expected


def _with_topics(value: dict[str, Any], topics: Mapping[str, str]) -> dict[str, Any]:
    row = value.get("row", {})
    return {**value, "row": {**row, "topic": topics[row["topic"]]}} if "topic" in row else value


@pytest.mark.parametrize("case", OF_FORMAT_2, ids=[case["name"] for case in OF_FORMAT_2])
def test_the_reference_follower_gets_the_tables_of_several_lookups(case: dict[str, Any]) -> None:
    first, *others = case["records"]
    written = [Record("", 0, record["key"].encode(), _text(record)) for record in others]
    for backwards in (False, True):  # each lookup has versions: the order makes no difference
        follower = ReferenceFollower(first["value"]["columns"])
        for record in reversed(written) if backwards else written * 2:
            for change in _changes(record):
                follower.apply(change)
        for table, expected in case["tables"].items():
            if table != "tombstones":
                assert follower.table(table) == expected, table


@pytest.mark.parametrize("name", [case["name"] for case in OF_FORMAT_1])
def test_both_followers_get_the_tables_of_the_vector(name: str, cases: dict[str, Case]) -> None:
    case = cases[name].case
    written = [
        Record("", offset, record["key"].encode(), _text(record))
        for offset, record in enumerate(case["records"])
    ]
    generation = Generation(1, spec.DEFAULT.choice("", "", join=case["join"]), 0.0)
    held, spelt_out = (
        GenerationTables(generation, rejects_kept=100),
        ReferenceFollower(),
    )
    for twice in (written, written):  # the changelog is delivered at least once
        held.apply(
            decode.decoder(spec.DEFAULT).decode_chunk(
                1, len(twice), [(record.key, record.value) for record in twice]
            )
        )
        for record in twice:
            for change in _changes(record):
                spelt_out.apply(change)
    tables = {table: rows for table, rows in case["tables"].items() if table != "tombstones"}
    for table, expected in tables.items():
        assert spelt_out.table(table) == expected, table
        found = {row["_id"]: row for row in held.stores[table].snapshot().to_pylist()}
        assert found.keys() == expected.keys(), table
        if table != spec.REJECTS:
            visible = {c.name for c in spec.DEFAULT.tables[table].columns} - {"_id", "_ts"}
            filled = {
                i: {c: row[c] for c in visible if row[c] is not None} for i, row in found.items()
            }
            assert filled == expected, table
    counted = sum(counts["tombstones"] for counts in held.progress.counts().values())
    assert counted == len(case["tables"]["tombstones"])


def _text(record: dict[str, Any]) -> bytes:
    """A record's value; a bundle has a fixed layout."""
    text = json.dumps(record["value"]).encode()
    key = record["key"]
    return read_bundle(key.encode(), text).value() if _bundled(key) else text


def _changes(record: Record) -> list[rows.ChangelogRecord]:
    if _bundled(record.key.decode()):
        return read_bundle(record.key, record.value).records()
    return [read_record(record.key, record.value)]


def _bundled(key: str) -> bool:
    return key.startswith(rows.BUNDLE_PREFIX)


def test_the_vectors_cover_every_kind_of_record() -> None:
    kinds: dict[str, set[str]] = defaultdict(set)
    for case in CASES:
        for record in case["records"]:
            shape = "row" if "row" in record["value"] else "removal"
            versioned = " with a version" if "version" in record["value"] else ""
            kinds[case["join"]].add(record["key"].split("/")[0] + " " + shape + versioned)
    assert {"final_ui row", "final_ui row with a version", "users_ui row"} <= kinds["left"]
    assert "final_ui removal with a version" in kinds["left_outer"]
    assert "bundle row with a version" in kinds["left"]
    assert "bundle removal with a version" in kinds["left_outer"]
    assert "bundle row" in kinds["inner"]
    assert any("rejects_ui row" in found for found in kinds.values())
    assert any("tombstones removal" in found for found in kinds.values())


@pytest.mark.parametrize("name", [case["name"] for case in CASES])
def test_the_query_runs_in_real_time_mode(name: str, cases: dict[str, Case]) -> None:
    plan = cases[name].plan
    assert plan.count("RealTimeStreamScan") == len(cases[name].spec.sources)
    assert "Python" not in plan, "no Python runs per row"
