"""Parses Kafka values into typed rows or reasons for a reject. No expression throws on data.

Nearly all values are flat objects with fields of the right types: `from_json` parses them in a
third of the time of VARIANT. Where its result might differ from what docs/records.md specifies, the
value is parsed again by `strict_json`.
"""

import functools

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from livejoin.pipeline import strict_json
from livejoin.pipeline.strict_json import FIELDS, MAX_VALUE_BYTES

REJECT_RAW_BYTES = 4096  # of a rejected value, shown in the rejects table
# A string that `from_json` may have made from an array, from a non-finite number, or from a number
# with several spellings, of which the field must keep the original one.
_AMBIGUOUS_STRING = r"^(?:\[|\"|-?(?:0|[0-9]+[.eE][0-9.eE+-]*)$)"
_AFTER_DIGITS = ":"  # the byte after "9"; quotes and the minus sign sort before the digits

_SPARK_TYPES = {"string": "string", "int64": "bigint", "double": "double"}
_CORRUPT_RECORD = "_doubt"  # column that `from_json` fills with values it could not parse


def parse_records(records: DataFrame) -> DataFrame:
    """Add `row` or `reason` to records with `source` and `value`; a null value gets neither.

    One parser handles all sources: planning a second one costs more than parsing absent fields.
    """
    *stages, row = _stages(records.sparkSession)
    kept = records.columns
    for name, column in stages:
        records = records.withColumn(name, column)
    reason = F.col("_exact.reason").alias("reason")
    return records.select(*kept, reason, row[1].alias(row[0]))


@functools.lru_cache(maxsize=1)
def _stages(_session: SparkSession) -> tuple[tuple[str, Column], ...]:
    """The parser's columns in order, built once per session.

    Building them takes a second of calls to the JVM. Lambda variables are numbered when a column is
    built, so reusing the same columns lets Spark reuse its generated code. Catalyst does not
    collapse projections whose expensive columns are used more than once: nothing is computed twice.
    """
    fits = F.octet_length("value") <= MAX_VALUE_BYTES  # larger values are not parsed at all
    text = F.when(fits, F.expr("try_validate_utf8(cast(value as string))"))
    fields = ",".join(f"{field.name} {_SPARK_TYPES[field.type]}" for field in FIELDS)
    options = {
        "columnNameOfCorruptRecord": _CORRUPT_RECORD,
        "allowSingleQuotes": "false",
        "allowNonNumericNumbers": "false",
    }
    quick = F.from_json(F.col("_text"), f"{fields},{_CORRUPT_RECORD} string", options)
    values = strict_json.row_struct(
        F.when(strict_json.source_has_field(field), F.col(f"_quick.{field.name}"))
        for field in FIELDS
    )
    doubtful = F.col("value").isNotNull() & ~F.col("_sure")
    return (
        ("_text", text),
        ("_quick", F.when(_looks_flat(), quick)),
        ("_sure", F.coalesce(_is_exact(), F.lit(col=False))),
        ("_exact", F.when(doubtful, strict_json.parse_strictly(F.col("_text")))),
        ("row", F.when(F.col("_sure"), values).otherwise(F.col("_exact.row"))),
    )


def _looks_flat() -> Column:
    """Whether a text looks like one object without nested ones.

    A text that `from_json` cannot parse costs an exception; this check avoids most of them.
    """
    text = F.col("_text")
    without_last = _byte_slice(text, 1, 1)
    return text.startswith("{") & text.endswith("}") & ~without_last.contains("}")


def strip_ends(text: Column) -> Column:
    """A text without its first and last character, both of one byte."""
    return _byte_slice(text, 2, 2)


def _byte_slice(text: Column, start: int, less: int) -> Column:
    """A substring by bytes. Spark's substring by characters would scan the whole text."""
    cut = F.substr(text.cast("binary"), F.lit(start), F.octet_length(text) - less)
    return cut.cast("string")


def _is_exact() -> Column:
    """Whether the result of `from_json` is certainly what docs/records.md specifies."""
    text, quick = F.col("_text"), F.col("_quick")
    # `from_json` turns a lone surrogate into a question mark
    surrogates = text.contains("\\ud") | text.contains("\\uD")
    sure = quick.isNotNull() & quick[_CORRUPT_RECORD].isNull() & ~surrogates
    for field in FIELDS:
        value = F.col(f"_quick.{field.name}")
        if field.type == "string":
            sure &= value.isNull() | ~(_may_be_ambiguous(value) & value.rlike(_AMBIGUOUS_STRING))
        elif field.type == "double":
            sure &= value.isNull() | strict_json.is_finite(value)
    return sure


def _may_be_ambiguous(value: Column) -> Column:
    """A cheap test before the regular expression: its matches begin with one of these."""
    return (value < _AFTER_DIGITS) | value.startswith("[")
