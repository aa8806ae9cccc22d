"""Parses Kafka values into typed rows or reasons for a reject. No expression throws on data.

Nearly all values are flat objects with fields of the right types: `from_json` parses them in a
third of the time of VARIANT. Where its result might differ from what docs/records.md specifies, the
value is parsed again as VARIANT, with conversions that lose nothing. VARIANT does not keep the
spelling of numbers. Where it matters (numbers with an exponent, numbers in a string field), it is
extracted from the text.
"""

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from livejoin.core import own_topics, spec

# The fields of all sources; a name that two sources share has one type.
FIELDS = tuple(dict.fromkeys(field for source in spec.DEFAULT.sources for field in source.fields))

REJECT_RAW_BYTES = 4096  # of a rejected value, shown in the rejects table
_REASON_CHARS = 80  # of the offending value

_SPARK_TYPES = {"string": "string", "int64": "bigint", "double": "double"}
_CORRUPT_RECORD = "_doubt"  # column that `from_json` fills with values it could not parse

# A string that `from_json` may have made from an array, from a non-finite number, or from a number
# with several spellings, of which the field must keep the original one.
_AMBIGUOUS_STRING = r"^(?:\[|\"|-?(?:0|[0-9]+[.eE][0-9.eE+-]*)$)"
_AFTER_DIGITS = ":"  # the byte after "9"; quotes and the minus sign sort before the digits

# Jackson ignores text after the first value. Inside brackets it parses all of it.
_OPEN, _CLOSE = "[", "]"
_WHITESPACE = " \t\r\n"
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"


def parse_records(
    records: DataFrame, max_value_bytes: int = own_topics.MAX_VALUE_BYTES
) -> DataFrame:
    """Add `row` or `reason` to records with `source` and `value`; a null value gets neither.

    One parser handles all sources: planning a second one costs more than parsing absent fields.
    """
    *stages, row = _stages(records.sparkSession, max_value_bytes)
    kept = records.columns
    for name, column in stages:
        records = records.withColumn(name, column)
    reason = F.col("_exact.reason").alias("reason")
    return records.select(*kept, reason, row[1].alias(row[0]))


@functools.lru_cache(maxsize=2)  # generations differ in size only after a change of the settings
def _stages(_session: SparkSession, max_value_bytes: int) -> tuple[tuple[str, Column], ...]:
    """The parser's columns in order, built once per session.

    Building them takes a second of calls to the JVM. Lambda variables are numbered when a column is
    built, so reusing the same columns lets Spark reuse its generated code. Catalyst does not
    collapse projections whose expensive columns are used more than once: nothing is computed twice.
    """
    fits = F.octet_length("value") <= max_value_bytes  # larger values are not parsed at all
    text = F.when(fits, F.expr("try_validate_utf8(cast(value as string))"))
    fields = ",".join(f"{field.name} {_SPARK_TYPES[field.type]}" for field in FIELDS)
    options = {
        "columnNameOfCorruptRecord": _CORRUPT_RECORD,
        "allowSingleQuotes": "false",
        "allowNonNumericNumbers": "false",
    }
    quick = F.from_json(F.col("_text"), f"{fields},{_CORRUPT_RECORD} string", options)
    values = _row_struct(
        F.when(_source_has_field(field), F.col(f"_quick.{field.name}")) for field in FIELDS
    )
    doubtful = F.col("value").isNotNull() & ~F.col("_sure")
    return (
        ("_text", text),
        ("_quick", F.when(_looks_flat(), quick)),
        ("_sure", F.coalesce(_is_exact(), F.lit(col=False))),
        ("_exact", F.when(doubtful, _parse_strictly(F.col("_text"), max_value_bytes))),
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
            sure &= value.isNull() | _is_finite(value)
    return sure


def _may_be_ambiguous(value: Column) -> Column:
    """A cheap test before the regular expression: its matches begin with one of these."""
    return (value < _AFTER_DIGITS) | value.startswith("[")


def _parse_strictly(text: Column, max_value_bytes: int) -> Column:
    """A struct with the `reason` or the `row` of a text."""
    variants = ",".join(f"{field.name}:variant" for field in FIELDS)

    def get_fields(v: Column) -> Column:
        found = F.try_variant_get(v, "$[0]", f"struct<{variants}>")
        return _let(found, functools.partial(convert, v))

    def convert(v: Column, found: Column) -> Column:
        cells = F.array(
            *(
                F.struct(
                    F.lit(c.name).alias("name"),
                    F.lit(c.type).alias("type"),
                    F.when(_source_has_field(c), found[c.name]).alias("v"),
                )
                for c in FIELDS
            )
        )
        # one lambda for all fields: an expression per field would dominate the query plan
        converted = F.transform(cells, functools.partial(_convert_field, text))
        return _let(converted, functools.partial(row_or_reason, v))

    def row_or_reason(v: Column, got: Column) -> Column:
        wrong = F.nullif(F.array_join(got["reason"], "; "), F.lit(""))
        row = _row_struct(got[i][c.type] for i, c in enumerate(FIELDS))
        return _let(
            F.coalesce(_record_error(text, v, max_value_bytes), wrong),
            lambda reason: F.struct(
                reason.alias("reason"), F.when(reason.isNull(), row).alias("row")
            ),
        )

    return _let(F.try_parse_json(F.concat(F.lit(_OPEN), text, F.lit(_CLOSE))), get_fields)


def _source_has_field(field: spec.Column) -> Column:
    """Whether the record's source has this field. Other fields of a value are ignored."""
    having = [source.name for source in spec.DEFAULT.sources if field in source.fields]
    return (
        F.lit(col=True)
        if len(having) == len(spec.DEFAULT.sources)
        else F.col("source").isin(having)
    )


def _row_struct(cells: Iterable[Column]) -> Column:
    """A row of these cells, in the order of `FIELDS`."""
    return F.struct(*(c.alias(field.name) for c, field in zip(cells, FIELDS, strict=True)))


def _let(value: Column, use: Callable[[Column], Column]) -> Column:
    """`use(value)`, with `value` evaluated once; interpreted, not compiled.

    This rarely used path made up nine tenths of the parser's generated code: compiling it took
    seconds at every query start, and came near the JVM's limit for a method's size.
    """
    # unlike transform, zip_with has no code generation
    return F.zip_with(F.array(value), F.array(F.lit(0)), lambda it, _: use(it))[0]


def _record_error(text: Column, v: Column, max_value_bytes: int) -> Column:
    """Why the value is not one JSON object; null if it is."""
    size, limit = F.octet_length("value"), own_topics.size_text(max_value_bytes)
    start = F.ltrim(text, F.lit(_WHITESPACE))
    # "]" may close the added bracket and hide what follows: such texts are also parsed in braces
    hidden = (
        text.contains(_CLOSE)
        & F.try_parse_json(F.concat(F.lit('{"v":'), text, F.lit("}"))).isNull()
    )
    second = F.try_variant_get(v, "$[1]", "variant").isNotNull()
    shown = F.concat(F.lit(", got "), F.left(start, F.lit(_REASON_CHARS)))
    return (
        F.when(
            size > max_value_bytes,
            F.concat(F.lit(f"value: larger than {limit}, "), size, F.lit(" bytes")),
        )
        .when(text.isNull(), F.lit("value: not UTF-8"))
        .when(start == "", F.lit("value: empty"))
        .when(v.isNull() | second | hidden, F.concat(F.lit("value: not valid JSON"), shown))
        .when(~start.startswith("{"), F.concat(F.lit("value: expected an object"), shown))
    )


class _Cell(NamedTuple):
    """A field's value: as VARIANT, its type, as text, and its original spelling where needed."""

    v: Column
    kind: Column
    text: Column
    spelling: Column


def _convert_field(text: Column, field: Column) -> Column:
    """Convert a field's value: a struct with a column per type, and the `reason` of a failure."""
    v, name, field_type = field["v"], field["name"], field["type"]

    def spell(kind: Column, plain: Column) -> Column:
        # "D": DECIMAL or DOUBLE; -0 is the only integer that VARIANT spells differently
        is_ambiguous = kind.startswith("D") | ((kind == "BIGINT") & (plain == "0"))
        return F.when(is_ambiguous, _original_spelling(text, name, v))

    def convert(known: Column) -> Column:
        kind, plain = known["kind"], known["plain"]
        return _let(spell(kind, plain), lambda spelling: by_type(_Cell(v, kind, plain, spelling)))

    def by_type(cell: _Cell) -> Column:
        cells = (F.when(field_type == t, to(cell)).alias(t) for t, to in _CONVERTERS.items())
        return _let(F.struct(*cells), functools.partial(with_reason, cell))

    def with_reason(cell: _Cell, got: Column) -> Column:
        all_null = functools.reduce(Column.__and__, (got[t].isNull() for t in _CONVERTERS))
        wrong = (cell.kind != "VOID") & all_null
        shown = F.left(F.coalesce(cell.spelling, F.to_json(v)), F.lit(_REASON_CHARS))
        reason = F.concat(name, F.lit(": expected "), field_type, F.lit(", got "), shown)
        return F.struct(*(got[t] for t in _CONVERTERS), F.when(wrong, reason).alias("reason"))

    kind = F.coalesce(F.schema_of_variant(v), F.lit("VOID"))
    return _let(F.struct(kind.alias("kind"), v.try_cast("string").alias("plain")), convert)


def _string(cell: _Cell) -> Column:
    is_text = cell.kind.isin("STRING", "BIGINT", "BOOLEAN") | cell.kind.startswith("D")
    return F.when(is_text, F.coalesce(cell.spelling, cell.text))


def _double(cell: _Cell) -> Column:
    text, kind = cell.text, cell.kind
    value = F.when(kind.startswith("D") | (kind == "BIGINT"), cell.v.try_cast("double")).when(
        kind == "STRING", F.when(_is_number(text), text.try_cast("double"))
    )
    return _let(value, lambda it: F.when(_is_finite(it), it))


def _is_finite(value: Column) -> Column:
    """Whether a double is finite; JSON has no other numbers."""
    return F.abs(value) < F.lit(float("inf"))


def _int64(cell: _Cell) -> Column:
    kind = cell.kind
    # VARIANT drops trailing zeros, so 30.0 is a DECIMAL(2,0)
    whole = (kind == "BIGINT") | (kind.startswith("DECIMAL") & kind.endswith(",0)"))
    text = F.when(kind == "STRING", cell.text).when(kind == "DOUBLE", cell.spelling)
    return F.when(whole, cell.v.try_cast("bigint")).when(
        kind.isin("STRING", "DOUBLE"), _parse_integer(text)
    )


_CONVERTERS = {"string": _string, "double": _double, "int64": _int64}


def _original_spelling(text: Column, name: Column, cell: Column) -> Column:
    """A number's spelling in the text: the last member of this name with the same value."""
    pattern = F.concat(F.lit('"'), name, F.lit(rf'"\s*:\s*({_NUMBER})'))
    found = F.regexp_extract_all(text, pattern, F.lit(1))
    same = F.filter(found, lambda number: number.try_cast("double") == cell.try_cast("double"))
    return F.try_element_at(same, F.lit(-1))


def _is_number(text: Column) -> Column:
    return text.rlike(f"^{_NUMBER}$")


def _parse_integer(text: Column) -> Column:
    """The int64 of a JSON number in any spelling; null if it is not integral or does not fit."""
    shape = r"^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$"

    def cut(it: Column) -> Column:
        parts = {"sign": 1, "integer": 2, "fraction": 3, "exponent": 4}
        found = F.struct(*(F.regexp_extract(it, shape, i).alias(name) for name, i in parts.items()))
        return F.when(_is_number(it), _let(found, _integer_from_parts))

    return _let(text, cut)


def _integer_from_parts(part: Column) -> Column:
    digits = F.concat(part["integer"], part["fraction"])
    significant = F.regexp_replace(digits, "(?<!0)0+$", "")  # the lookbehind avoids quadratic time
    shift = F.when(part["exponent"] == "", 0).otherwise(part["exponent"].try_cast("int"))
    places = shift - F.length(part["fraction"]) + F.length(digits)
    found = F.struct(part["sign"], significant.alias("digits"), places.alias("places"))
    return _let(found, _integer_from_digits)


def _integer_from_digits(it: Column) -> Column:
    zeros = it["places"] - F.length(it["digits"])
    number = F.concat(it["sign"], it["digits"], F.repeat(F.lit("0"), zeros)).try_cast("bigint")
    nothing = F.regexp_replace(it["digits"], "^0+", "") == ""
    return F.when(nothing, F.lit(0).cast("bigint")).when(zeros.between(0, 19), number)
