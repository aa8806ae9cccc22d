"""A checkpoint is reused only by the query that wrote it."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest

from livejoin.config.sections import SparkSettings
from livejoin.core import spec
from livejoin.core.generation import Generation, Reading
from livejoin.core.names import Names
from livejoin.errors import GenerationUnrecoverable
from livejoin.kafka.cluster import Kafka, Topic
from livejoin.kafka.clusters import Clusters
from livejoin.pipeline import join
from livejoin.pipeline.pipeline import Pipeline
from livejoin.pipeline.queries import Queries
from livejoin.pipeline.spark_driver import SparkDriver

SOURCES = {
    name: Reading(f"{name}_a", f"id-{name}", {0: 0}, {0: 9}) for name in ("users", "accounts")
}
GENERATION = Generation(
    1,
    spec.DEFAULT.choice("users_a", "accounts_a"),
    0.0,
    sources=SOURCES,
    changelog_id="id-changelog",
)
NAMES = Names("x")


class ExistingTopics(Kafka):
    """All topics of a generation exist, with the ids that it recorded."""

    def describe(self, names: Iterable[str]) -> dict[str, Topic]:
        ids = {reading.topic: reading.topic_id for reading in SOURCES.values()}
        return {name: Topic(name, ids.get(name, "id-changelog"), (0,)) for name in names}


def _queries(folder: Path, spark: SparkSettings | None = None) -> Queries:
    session = SparkDriver(spark or SparkSettings(), lock=0, log=folder / "log")
    session.close()  # any use of a JVM is an error
    kafka = ExistingTopics({"bootstrap.servers": "127.0.0.1:9"})
    return Queries(session, Clusters.single(kafka), NAMES, str(folder), spark or SparkSettings())


def _reading(source: str, reading: Reading) -> Generation:
    return replace(GENERATION, sources={**SOURCES, source: reading})


USERS, ACCOUNTS = SOURCES["users"], SOURCES["accounts"]
DRIVER, LOOKUP = spec.DEFAULT.sources
MOVED = replace(DRIVER.fields[1], path="$.person.name")


def _with(driver: spec.Source, *lookups: spec.Source) -> Generation:
    return replace(GENERATION, spec=spec.JoinSpec((driver, *lookups)))


OF_A_GENERATION = {
    "a field under another path": _with(
        replace(DRIVER, fields=(DRIVER.fields[0], MOVED, *DRIVER.fields[2:])), LOOKUP
    ),
    "another key": _with(replace(DRIVER, key="email"), LOOKUP),
    "a further source": _with(DRIVER, LOOKUP, replace(LOOKUP, name="more")),
    "another users topic of the same name": _reading("users", replace(USERS, topic_id="x")),
    "another accounts topic of the same name": _reading(
        "accounts", replace(ACCOUNTS, topic_id="x")
    ),
    "another topic": _reading("users", replace(USERS, topic="users_b")),
    "another join": replace(
        GENERATION, choice=spec.DEFAULT.choice("users_a", "accounts_a", join="inner")
    ),
}


@pytest.mark.parametrize("what", OF_A_GENERATION)
def test_the_fingerprint_covers_topics_and_join(what: str, tmp_path: Path) -> None:
    queries = _queries(tmp_path)
    assert queries.fingerprint(OF_A_GENERATION[what]) != queries.fingerprint(GENERATION)


def _with_a_column(patched: pytest.MonkeyPatch) -> None:
    final = spec.DEFAULT.tables[spec.FINAL]
    wider = replace(final, columns=(*final.columns, spec.Column("more", "string")))
    patched.setitem(spec.DEFAULT.tables, spec.FINAL, wider)


def _with_another_type(patched: pytest.MonkeyPatch) -> None:
    users = spec.DEFAULT.tables["users_ui"]
    others = tuple(replace(c, type="double") if c.name == "age" else c for c in users.columns)
    patched.setitem(spec.DEFAULT.tables, "users_ui", replace(users, columns=others))


OF_THE_PROGRAM: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "another version of the query": lambda patched: patched.setattr(join, "VERSION", "other"),
    "another Spark": lambda patched: patched.setattr(pyspark, "__version__", "0.0"),
    "a table with a further column": _with_a_column,
    "a column of another type": _with_another_type,
}


@pytest.mark.parametrize("what", OF_THE_PROGRAM)
def test_the_fingerprint_covers_versions_and_table_schemas(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _queries(tmp_path).fingerprint(GENERATION)
    OF_THE_PROGRAM[what](monkeypatch)
    assert _queries(tmp_path).fingerprint(GENERATION) != before


def test_the_fingerprint_covers_settings_of_the_checkpoint(tmp_path: Path) -> None:
    settings = (
        SparkSettings(shuffle_partitions=2, history_records=0),
        SparkSettings(shuffle_partitions=3, history_records=0),
        SparkSettings(shuffle_partitions=2, history_records=1),
    )
    found = {_queries(tmp_path, spark).fingerprint(GENERATION) for spark in settings}
    assert len(found) == len(settings)


def test_a_history_of_several_lookups_is_joined_by_the_stream(tmp_path: Path) -> None:
    queries = _queries(tmp_path, SparkSettings(history_records=1))
    several = _with(DRIVER, LOOKUP, replace(LOOKUP, name="more"))
    assert queries.uses_batch_history(GENERATION)
    assert not queries.uses_batch_history(several)


def test_the_same_query_has_the_same_fingerprint(tmp_path: Path) -> None:
    later = replace(GENERATION, number=2, requested_at=5.0, ready_at=7, live_at=6.0)
    assert _queries(tmp_path).fingerprint(later) == _queries(tmp_path).fingerprint(GENERATION)


def test_a_checkpoint_of_another_query_is_refused(tmp_path: Path) -> None:
    queries = _queries(tmp_path)
    pipeline = Pipeline(
        Clusters.single(ExistingTopics({"bootstrap.servers": "127.0.0.1:9"})), NAMES, queries, {}
    )
    made_by = replace(GENERATION, fingerprint="Spark 0.0, query 0")
    now = queries.fingerprint(GENERATION)
    with pytest.raises(
        GenerationUnrecoverable, match=f"its query was Spark 0.0, query 0 and is {now} now"
    ):
        pipeline.start(made_by)
