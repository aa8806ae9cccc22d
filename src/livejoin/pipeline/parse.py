"""A Kafka value becomes a typed row or a reason why not, in expressions that never throw on data.

Nearly all values are flat objects whose fields have the right types: `from_json` reads them in a
third of the time of VARIANT. Wherever what it read might not be what the contract says, the value
is read again, exactly.
"""

import functools

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from livejoin.pipeline import strict_json
from livejoin.pipeline.strict_json import FIELDS, MAX_VALUE_BYTES

REJECT_RAW_BYTES = 4096  # of a rejected record, for people to look at
# What `from_json` makes, for a string field, of an array, of a number without end, and of a number
# that can be spelt in several ways, of which the field keeps the one it was given.
_AMBIGUOUS_STRING = r"^(?:\[|\"|-?(?:0|[0-9]+[.eE][0-9.eE+-]*)$)"
_AFTER_DIGITS = ":"  # in the order of bytes; quotes and the minus sign stand before them

_SPARK_TYPES = {"string": "string", "int64": "bigint", "double": "double"}
_CORRUPT_RECORD = "_doubt"  # where `from_json` puts what it could not read


def parse_records(records: DataFrame) -> DataFrame:
    """Records with `source` and `value` as records with `row` or `reason`; a null has neither.

    All sources go through one parser: planning it costs more than the fields that are not there.
    """
    *stages, row = _stages(records.sparkSession)
    kept = records.columns
    for name, column in stages:
        records = records.withColumn(name, column)
    reason = F.col("_exact.reason").alias("reason")
    return records.select(*kept, reason, row[1].alias(row[0]))


@functools.lru_cache(maxsize=1)
def _stages(_session: SparkSession) -> tuple[tuple[str, Column], ...]:
    """The columns of the parser in their order, made once per session.

    Each takes several calls to the JVM, a second in all; and lambdas are numbered as they are made,
    so that code generated from the same column is found again. Catalyst keeps stages apart whose
    columns are used more than once and are not cheap: nothing here is worked out twice.
    """
    fits = F.octet_length("value") <= MAX_VALUE_BYTES  # what does not is not even looked at
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
    """Whether a text looks like one object without any other inside.

    What `from_json` cannot read costs an exception, and most of that is seen by its ends.
    """
    text = F.col("_text")
    but_the_last = _byte_slice(text, 1, 1)
    return text.startswith("{") & text.endswith("}") & ~but_the_last.contains("}")


def strip_ends(text: Column) -> Column:
    """A text without its first and its last character, which take a byte each."""
    return _byte_slice(text, 2, 2)


def _byte_slice(text: Column, start: int, less: int) -> Column:
    """A part of a text, cut by bytes: to count characters, all of them have to be looked at."""
    cut = F.substr(text.cast("binary"), F.lit(start), F.octet_length(text) - less)
    return cut.cast("string")


def _is_exact() -> Column:
    """Whether what was read quickly is what the contract says, beyond doubt."""
    text, quick = F.col("_text"), F.col("_quick")
    # half of a pair would become a question mark
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
    """Whether the pattern is worth its time: what it finds begins with one of these."""
    return (value < _AFTER_DIGITS) | value.startswith("[")
