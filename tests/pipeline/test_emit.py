"""Which rows are bundled, and how bundles are keyed and split."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F

from livejoin.core import changelog as written
from livejoin.pipeline import emit
from livejoin.pipeline.spark_driver import SparkDriver
from rig.reference_changelog import read_bundle

KEPT = "array<struct<ts:bigint,offset:bigint,text:string>>"
FULL = ["x"] * written.BUNDLE_MIN_ROWS


def _ask(session: SparkDriver, texts: list[str] | None, about: Callable[[Column], Column]) -> Any:
    kept = None if texts is None else [(100 + n, n, text) for n, text in enumerate(texts)]
    rows = session.spark().createDataFrame([(kept,)], f"many {KEPT}")
    ((answers,),) = rows.select(about(rows["many"])).collect()
    return answers


def _bundled(many: Column, *, growing: bool, max_rows: int = written.BUNDLE_MAX_ROWS) -> Column:
    shared = [F.lit('"row":{"userId":"a"},"ts":103')]
    return emit.bundle_records(
        many, lambda row: F.concat(F.lit("0-"), row["offset"]), shared, max_rows, growing=growing
    )


def test_rows_beyond_the_limit_go_into_further_bundles(session: SparkDriver) -> None:
    texts = [f',"name":"n{n}"' for n in range(7)]
    records = _ask(session, texts, partial(_bundled, growing=True, max_rows=3))
    assert [record["key"] for record in records] == [f"bundle/final_ui/0-{n}" for n in (0, 3, 6)]
    bundles = [read_bundle(record["key"].encode(), record["value"].encode()) for record in records]
    assert [
        (change.id, change.row, change.ts) for record in bundles for change in record.records()
    ] == [(f"0-{n}", {"userId": "a", "name": f"n{n}"}, max(103, 100 + n)) for n in range(7)]


def test_bundles_of_other_rows_have_other_keys_unless_growing(
    session: SparkDriver,
) -> None:
    def keys(count: int, *, growing: bool) -> list[str]:
        records = _ask(session, ["x"] * count, partial(_bundled, growing=growing))
        return [record["key"] for record in records]

    assert keys(3, growing=True) == keys(4, growing=True)
    assert keys(3, growing=False) == keys(3, growing=False) != keys(4, growing=False)


@pytest.mark.parametrize(
    ("texts", "worth"),
    [
        (FULL, False),
        ([*FULL, "x"], True),
        ([*FULL, "x" * written.BUNDLE_MAX_PART_BYTES], True),
        ([*FULL, "x" * (written.BUNDLE_MAX_PART_BYTES + 1)], False),
        ([*FULL, "é" * written.BUNDLE_MAX_PART_BYTES], False),
        (None, False),
    ],
    ids=["few", "many", "as large as may be", "too large", "too large in bytes", "none at all"],
)
def test_many_small_rows_are_bundled(
    session: SparkDriver, texts: list[str] | None, *, worth: bool
) -> None:
    def worth_bundling(shared: str) -> bool:
        return bool(_ask(session, texts, lambda many: emit.worth_bundling(many, F.lit(shared))))

    assert worth_bundling("x" * written.BUNDLE_MAX_PART_BYTES) is worth
    assert not worth_bundling("x" * (written.BUNDLE_MAX_PART_BYTES + 1))
