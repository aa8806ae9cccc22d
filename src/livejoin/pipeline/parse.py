"""Parses Kafka values into typed rows or reasons for a reject. No expression throws on data.

Nearly all values have fields of the right types: `from_json` parses them in a third of the time of
VARIANT. Where its result might differ from what docs/records.md specifies, the value is parsed
again as VARIANT.
"""

import functools

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from livejoin.core import own_topics, spec
from livejoin.pipeline.quick_reader import QuickReader
from livejoin.pipeline.strict_parser import StrictParser

REJECT_RAW_BYTES = 4096  # of a rejected value, shown in the rejects table


def parse_records(
    records: DataFrame, joined: spec.JoinSpec, max_value_bytes: int = own_topics.MAX_VALUE_BYTES
) -> DataFrame:
    """Add `row` or `reason` to records with `source` and `value`; a null value gets neither.

    A row has the columns of `final_ui`; those of other sources are null.
    """
    *stages, row = _stages(records.sparkSession, joined, max_value_bytes)
    kept = records.columns
    for name, column in stages:
        records = records.withColumn(name, column)
    reason = F.col("_exact.reason").alias("reason")
    return records.select(*kept, reason, row[1].alias(row[0]))


@functools.lru_cache(maxsize=4)  # a live generation, one on standby, one that is built
def _stages(
    _session: SparkSession, joined: spec.JoinSpec, max_value_bytes: int
) -> tuple[tuple[str, Column], ...]:
    """The parser's columns in order, built once per session and spec.

    Building them takes a second of calls to the JVM. Lambda variables are numbered when a column is
    built, so reusing the same columns lets Spark reuse its generated code. Catalyst does not
    collapse projections whose expensive columns are used more than once: nothing is computed twice.
    """
    fits = F.octet_length("value") <= max_value_bytes  # larger values are not parsed at all
    text = F.when(fits, F.expr("try_validate_utf8(cast(value as string))"))
    reader = QuickReader(joined)
    strict = StrictParser(joined, max_value_bytes)
    doubtful = F.col("value").isNotNull() & ~F.col("_sure")
    return (
        ("_text", text),
        *reader.stages(),
        ("_sure", F.coalesce(reader.is_exact(), F.lit(col=False))),
        ("_exact", F.when(doubtful, strict.parse(F.col("_text")))),
        ("row", F.when(F.col("_sure"), reader.row()).otherwise(F.col("_exact.row"))),
    )
