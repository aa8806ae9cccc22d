"""Converts values of VARIANT to the types of fields, as docs/records.md specifies: nothing is lost.

VARIANT does not keep the spelling of numbers. Where it matters (numbers with an exponent, numbers
in a string field), the caller extracts it from the record's text.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from livejoin.core import spec

NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"

# Patterns end with "\z": "$" would also match before a line break at the end.

# The zone is required, a part of a second ends at its millisecond.
_ISO_8601 = (
    r"^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,3}0{0,6})?"
    r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)\z"
)
_YEAR_1_MS, _YEAR_9999_MS = -62_135_596_800_000, 253_402_300_799_999
_MAX_DIGITS = 38  # of a decimal

# Kinds of VARIANT that hold numbers: integers, exact fractions, all others.
INTEGER, DECIMAL, DOUBLE = "BIGINT", "DECIMAL", "DOUBLE"


class Value(NamedTuple):
    """A field's value: as VARIANT, its kind, as text, its original spelling where needed."""

    v: Column
    kind: Column
    text: Column
    spelling: Column
    precision: Column  # of a decimal field
    scale: Column


def let(value: Column, use: Callable[[Column], Column]) -> Column:
    """`use(value)`, with `value` evaluated once; interpreted, not compiled.

    This rarely used path made up nine tenths of the parser's generated code: compiling it took
    seconds at every query start, and came near the JVM's limit for a method's size.
    """
    # unlike transform, zip_with has no code generation
    return F.zip_with(F.array(value), F.array(F.lit(0)), lambda it, _: use(it))[0]


def is_finite(value: Column) -> Column:
    """Whether a double is finite; JSON has no other numbers."""
    return F.abs(value) < F.lit(float("inf"))


def type_name(kind: spec.Type) -> str:
    """The key of `CONVERTERS` for a field's type."""
    return kind.partition("(")[0]


def quick(v: Column, column: spec.Column) -> Column:
    """A timestamp or decimal in its usual spelling; null where `CONVERTERS` must decide."""
    kind, text = F.schema_of_variant(v), v.try_cast("string")
    if column.digits is None:
        return F.when(kind == INTEGER, _in_range(text.try_cast("bigint"))).when(
            kind == "STRING", _iso_8601(text)
        )
    precision, scale = column.digits
    integer = "0" if precision == scale else rf"(?:0|[1-9][0-9]{{0,{precision - scale - 1}}})"
    fraction = rf"(?:\.[0-9]{{1,{scale}}})?" if scale else ""
    usual = (kind != DOUBLE) & text.rlike(rf"^-?{integer}{fraction}\z")
    return F.when(usual, text.try_cast(f"decimal({precision},{scale})").cast("string"))


def _string(value: Value) -> Column:
    is_text = value.kind.isin("STRING", INTEGER, "BOOLEAN") | value.kind.startswith("D")
    return F.when(is_text, F.coalesce(value.spelling, value.text))


def _double(value: Value) -> Column:
    text, kind = value.text, value.kind
    number = F.when(kind.startswith("D") | (kind == INTEGER), value.v.try_cast("double")).when(
        kind == "STRING", F.when(_is_number(text), text.try_cast("double"))
    )
    return let(number, lambda it: F.when(is_finite(it), it))


def _int64(value: Value) -> Column:
    kind = value.kind
    # VARIANT drops trailing zeros, so 30.0 is a DECIMAL(2,0)
    whole = (kind == INTEGER) | (kind.startswith(DECIMAL) & kind.endswith(",0)"))
    text = F.when(kind == "STRING", value.text).when(kind == DOUBLE, value.spelling)
    return F.when(whole, value.v.try_cast("bigint")).when(
        kind.isin("STRING", DOUBLE), _parse_number(text, _integer)
    )


def _boolean(value: Value) -> Column:
    is_word = value.kind.isin("STRING", "BOOLEAN") & value.text.isin("true", "false")
    return F.when(is_word, value.text == "true")


def _timestamp(value: Value) -> Column:
    return F.when(value.kind == "STRING", _iso_8601(value.text)).otherwise(_in_range(_int64(value)))


def _decimal(value: Value) -> Column:
    kind = value.kind
    text = F.when(kind == DOUBLE, value.spelling).when(
        kind.isin("STRING", INTEGER) | kind.startswith(DECIMAL), value.text
    )
    return _parse_number(text, lambda it: _fixed_point(it, value.precision, value.scale))


CONVERTERS: dict[str, Callable[[Value], Column]] = {
    "string": _string,
    "double": _double,
    "int64": _int64,
    "boolean": _boolean,
    "timestamp": _timestamp,
    "decimal": _decimal,
}


def _iso_8601(text: Column) -> Column:
    """The milliseconds of a time with a zone; null for every other text."""
    # a cast alone would take partial dates, and times without a zone
    return F.when(text.rlike(_ISO_8601), _in_range(F.unix_millis(text.try_cast("timestamp"))))


def _in_range(ms: Column) -> Column:
    return F.when(ms.between(_YEAR_1_MS, _YEAR_9999_MS), ms)


def _is_number(text: Column) -> Column:
    return text.rlike(rf"^{NUMBER}\z")


def _parse_number(text: Column, convert: Callable[[Column], Column]) -> Column:
    """`convert` of a JSON number's sign, digits and places before the point; null for others."""
    shape = r"^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$"

    def cut(it: Column) -> Column:
        parts = {"sign": 1, "integer": 2, "fraction": 3, "exponent": 4}
        found = F.struct(*(F.regexp_extract(it, shape, i).alias(name) for name, i in parts.items()))
        use = functools.partial(_digits_and_places, convert)
        return F.when(_is_number(it), let(found, use))

    return let(text, cut)


def _digits_and_places(convert: Callable[[Column], Column], part: Column) -> Column:
    digits = F.concat(part["integer"], part["fraction"])
    significant = F.regexp_replace(digits, "(?<!0)0+$", "")  # the lookbehind avoids quadratic time
    shift = F.when(part["exponent"] == "", 0).otherwise(part["exponent"].try_cast("int"))
    places = shift - F.length(part["fraction"]) + F.length(digits)
    found = F.struct(part["sign"], significant.alias("digits"), places.alias("places"))
    return let(found, convert)


def _integer(it: Column) -> Column:
    """The int64 of a number in any spelling; null if it is not integral or does not fit."""
    zeros = it["places"] - F.length(it["digits"])
    number = F.concat(it["sign"], it["digits"], F.repeat(F.lit("0"), zeros)).try_cast("bigint")
    nothing = F.regexp_replace(it["digits"], "^0+", "") == ""
    return F.when(nothing, F.lit(0).cast("bigint")).when(zeros.between(0, 19), number)


def _fixed_point(it: Column, precision: Column, scale: Column) -> Column:
    """The text of a decimal; null if it would be rounded or does not fit."""

    def unscaled(bare: Column) -> Column:
        zeros = it["places"] + scale - F.length(it["digits"])
        fits = zeros.between(0, _MAX_DIGITS) & (F.length(bare) + zeros <= precision)
        digits = F.when(fits, F.concat(bare, F.repeat(F.lit("0"), zeros)))
        return let(F.when(bare == "", F.lit("")).otherwise(digits), point)

    def point(digits: Column) -> Column:
        length = F.greatest(F.length(digits), scale + 1)
        padded = F.lpad(digits, length, F.lit("0"))
        sign = F.when(digits == "", F.lit("")).otherwise(it["sign"])
        text = F.concat(sign, F.substr(padded, F.lit(1), length - scale))
        fraction = F.concat(F.lit("."), F.substr(padded, length - scale + 1, scale))
        return F.when(scale > 0, F.concat(text, fraction)).otherwise(text)

    return let(F.regexp_replace(it["digits"], "^0+", ""), unscaled)
