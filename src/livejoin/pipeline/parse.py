"""A Kafka value becomes a typed row or a reason why not, in expressions that never throw on data.

Nearly all values are flat objects whose fields have the right types: `from_json` reads them in a
third of the time of VARIANT. Wherever what it read might not be what the contract says, the value
is read again, exactly: as VARIANT, each field converted only where nothing is lost. What is rare
even there (numbers spelt with an exponent, numbers in a string field) goes back to the text, since
VARIANT has forgotten the spelling.
"""

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from livejoin.core import spec

MAX_VALUE_BYTES = 1 << 20
RAW_BYTES = 4096  # of a rejected record, for people to look at
_SHOWN_CHARS = 80  # of a wrong value, in the reason

# Jackson ignores what follows the first value. Between brackets it has to read to the end.
_OPEN, _CLOSE = "[", "]"
_BLANKS = " \t\r\n"
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
# What `from_json` makes, for a string field, of an array, of a number without end, and of a number
# that can be spelt in several ways, of which the field keeps the one it was given.
_DOUBTFUL = r"^(?:\[|\"|-?(?:0|[0-9]+[.eE][0-9.eE+-]*)$)"
_AFTER_DIGITS = ":"  # in the order of bytes; quotes and the minus sign stand before them

# The fields of all sources; a name that two sources share has one type.
FIELDS = tuple(dict.fromkeys(field for source in spec.SOURCES for field in source.fields))
_SPARK = {"string": "string", "int64": "bigint", "double": "double"}
_DOUBT = "_doubt"  # where `from_json` puts what it could not read


def parsed(records: DataFrame) -> DataFrame:
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
    fields = ",".join(f"{field.name} {_SPARK[field.type]}" for field in FIELDS)
    options = {
        "columnNameOfCorruptRecord": _DOUBT,
        "allowSingleQuotes": "false",
        "allowNonNumericNumbers": "false",
    }
    quick = F.from_json(F.col("_text"), f"{fields},{_DOUBT} string", options)
    values = _struct(F.when(_has(field), F.col(f"_quick.{field.name}")) for field in FIELDS)
    doubtful = F.col("value").isNotNull() & ~F.col("_sure")
    return (
        ("_text", text),
        ("_quick", F.when(_flat(), quick)),
        ("_sure", F.coalesce(_sure(), F.lit(col=False))),
        ("_exact", F.when(doubtful, _let(F.col("_text"), _exact))),
        ("row", F.when(F.col("_sure"), values).otherwise(F.col("_exact.row"))),
    )


def _flat() -> Column:
    """Whether a text looks like one object without any other inside.

    What `from_json` cannot read costs an exception, and most of that is seen by its ends.
    """
    text = F.col("_text")
    but_the_last = _bytes(text, 1, 1)
    return text.startswith("{") & text.endswith("}") & ~but_the_last.contains("}")


def inside(text: Column) -> Column:
    """A text without its first and its last character, which take a byte each."""
    return _bytes(text, 2, 2)


def _bytes(text: Column, start: int, less: int) -> Column:
    """A part of a text, cut by bytes: to count characters, all of them have to be looked at."""
    cut = F.substr(text.cast("binary"), F.lit(start), F.octet_length(text) - less)
    return cut.cast("string")


def _sure() -> Column:
    """Whether what was read quickly is what the contract says, beyond doubt."""
    text, quick = F.col("_text"), F.col("_quick")
    # half of a pair would become a question mark
    surrogates = text.contains("\\ud") | text.contains("\\uD")
    sure = quick.isNotNull() & quick[_DOUBT].isNull() & ~surrogates
    for field in FIELDS:
        value = F.col(f"_quick.{field.name}")
        if field.type == "string":
            sure &= value.isNull() | ~(_may_be_doubtful(value) & value.rlike(_DOUBTFUL))
        elif field.type == "double":
            sure &= value.isNull() | (F.abs(value) < F.lit(float("inf")))
    return sure


def _may_be_doubtful(value: Column) -> Column:
    """Whether the pattern is worth its time: what it finds begins with one of these."""
    return (value < _AFTER_DIGITS) | value.startswith("[")


class _Value(NamedTuple):
    """A value as VARIANT, and of each field its cell, the kind of that, and what it converts to."""

    text: Column
    v: Column
    cells: Column
    kinds: Column
    got: Column


def _exact(text: Column) -> Column:
    """The `reason` or the `row` of any text at all."""
    v = F.try_parse_json(F.concat(F.lit(_OPEN), text, F.lit(_CLOSE)))
    variants = ",".join(f"{field.name}:variant" for field in FIELDS)

    def read(v: Column) -> Column:
        return _let(F.try_variant_get(v, "$[0]", f"struct<{variants}>"), functools.partial(cut, v))

    def cut(v: Column, cells: Column) -> Column:
        kinds = _struct(
            F.coalesce(F.when(_has(c), F.schema_of_variant(cells[c.name])), F.lit("VOID"))
            for c in FIELDS
        )
        return _let(kinds, functools.partial(convert, v, cells))

    def convert(v: Column, cells: Column, kinds: Column) -> Column:
        cell = {c.name: _Cell(c.name, text, cells[c.name], kinds[c.name]) for c in FIELDS}
        got = _struct(_CONVERT[c.type](cell[c.name]) for c in FIELDS)
        return _let(got, lambda got: judge(_Value(text, v, cells, kinds, got)))

    def judge(it: _Value) -> Column:
        reason = F.coalesce(_wrong_record(it), _wrong_fields(it))
        return _let(
            reason,
            lambda reason: F.struct(
                reason.alias("reason"), F.when(reason.isNull(), it.got).alias("row")
            ),
        )

    return _let(v, read)


def _has(field: spec.Column) -> Column:
    """Whether a record's source has this field; one that it does not have is ignored."""
    having = [source.name for source in spec.SOURCES if field in source.fields]
    return F.lit(col=True) if len(having) == len(spec.SOURCES) else F.col("source").isin(having)


def _struct(cells: Iterable[Column]) -> Column:
    return F.struct(*(c.alias(field.name) for c, field in zip(cells, FIELDS, strict=True)))


def _let(value: Column, use: Callable[[Column], Column]) -> Column:
    """What `use` makes of a value that is worked out once; interpreted instead of compiled.

    As generated code, what hardly ever runs was nine tenths of the parser: compiling it took
    seconds at every start of a query, and a method of the JVM has a limit.
    """
    # zip_with has no code generation, unlike transform
    return F.zip_with(F.array(value), F.array(F.lit(0)), lambda it, _: use(it))[0]


def _wrong_record(it: _Value) -> Column:
    """Why the value as a whole is not one JSON object, or null."""
    size = F.octet_length("value")
    start = F.ltrim(it.text, F.lit(_BLANKS))
    # "]" may close our own bracket and hide what follows: such texts are read again inside a brace
    hidden = (
        it.text.contains(_CLOSE)
        & F.try_parse_json(F.concat(F.lit('{"v":'), it.text, F.lit("}"))).isNull()
    )
    second = F.try_variant_get(it.v, "$[1]", "variant").isNotNull()
    shown = F.concat(F.lit(", got "), F.left(start, F.lit(_SHOWN_CHARS)))
    return (
        F.when(
            size > MAX_VALUE_BYTES,
            F.concat(F.lit("value: larger than 1 MiB, "), size, F.lit(" bytes")),
        )
        .when(it.text.isNull(), F.lit("value: not UTF-8"))
        .when(start == "", F.lit("value: empty"))
        .when(it.v.isNull() | second | hidden, F.concat(F.lit("value: not valid JSON"), shown))
        .when(~start.startswith("{"), F.concat(F.lit("value: expected an object"), shown))
    )


def _wrong_fields(it: _Value) -> Column:
    """Which fields have the wrong type, all of them in one reason, or null."""
    fields = F.array(
        *(
            F.struct(
                F.lit(c.name).alias("name"),
                F.lit(c.type).alias("type"),
                it.cells[c.name].alias("cell"),
                ((it.kinds[c.name] != "VOID") & it.got[c.name].isNull()).alias("wrong"),
            )
            for c in FIELDS
        )
    )
    # one lambda for all fields: the plan is a quarter smaller
    reasons = F.transform(
        fields,
        lambda c: F.when(
            c["wrong"],
            F.concat(
                c["name"],
                F.lit(": expected "),
                c["type"],
                F.lit(", got "),
                F.left(
                    F.coalesce(_spelt(it.text, c["name"], c["cell"]), F.to_json(c["cell"])),
                    F.lit(_SHOWN_CHARS),
                ),
            ),
        ),
    )
    return F.nullif(F.array_join(reasons, "; "), F.lit(""))


class _Cell(NamedTuple):
    """A field's value in a text."""

    name: str
    text: Column
    v: Column
    kind: Column

    @property
    def spelt(self) -> Column:
        return _spelt(self.text, F.lit(self.name), self.v)


def _string(cell: _Cell) -> Column:
    text, kind = cell.v.try_cast("string"), cell.kind
    # "D" stands for DECIMAL and DOUBLE; of whole numbers only -0 is spelt otherwise
    respelt = kind.startswith("D") | ((kind == "BIGINT") & (text == "0"))
    return F.when(respelt, F.coalesce(cell.spelt, text)).when(
        kind.isin("STRING", "BIGINT", "BOOLEAN"), text
    )


def _double(cell: _Cell) -> Column:
    text, kind = cell.v.try_cast("string"), cell.kind
    value = F.when(kind.startswith("D") | (kind == "BIGINT"), cell.v.try_cast("double")).when(
        kind == "STRING", F.when(_is_number(text), text.try_cast("double"))
    )
    return F.nullif(F.nullif(value, F.lit(float("inf"))), F.lit(float("-inf")))


def _int64(cell: _Cell) -> Column:
    kind = cell.kind
    # VARIANT drops trailing zeros, so 30.0 is a DECIMAL(2,0)
    whole = (kind == "BIGINT") | (kind.startswith("DECIMAL") & kind.endswith(",0)"))
    text = F.when(kind == "STRING", cell.v.try_cast("string")).when(kind == "DOUBLE", cell.spelt)
    return F.when(whole, cell.v.try_cast("bigint")).when(
        kind.isin("STRING", "DOUBLE"), _whole(text)
    )


_CONVERT = {"string": _string, "double": _double, "int64": _int64}


def _spelt(text: Column, name: Column, cell: Column) -> Column:
    """A number as it stands in the text: the last one of this name with the value VARIANT read."""
    pattern = F.concat(F.lit('"'), name, F.lit(rf'"\s*:\s*({_NUMBER})'))
    found = F.regexp_extract_all(text, pattern, F.lit(1))
    same = F.filter(found, lambda number: number.try_cast("double") == cell.try_cast("double"))
    return F.try_element_at(same, F.lit(-1))


def _is_number(text: Column) -> Column:
    return text.rlike(f"^{_NUMBER}$")


def _whole(text: Column) -> Column:
    """A JSON number's text as int64 if it is whole and fits, whatever its spelling; else null."""
    shape = r"^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$"

    def cut(it: Column) -> Column:
        parts = {"sign": 1, "integer": 2, "fraction": 3, "exponent": 4}
        found = F.struct(*(F.regexp_extract(it, shape, i).alias(name) for name, i in parts.items()))
        return F.when(_is_number(it), _let(found, _number))

    return _let(text, cut)


def _number(part: Column) -> Column:
    digits = F.concat(part["integer"], part["fraction"])
    significant = F.regexp_replace(digits, "(?<!0)0+$", "")  # tries each run of zeros only once
    shift = F.when(part["exponent"] == "", 0).otherwise(part["exponent"].try_cast("int"))
    places = shift - F.length(part["fraction"]) + F.length(digits)
    found = F.struct(part["sign"], significant.alias("digits"), places.alias("places"))
    return _let(found, _shifted)


def _shifted(it: Column) -> Column:
    zeros = it["places"] - F.length(it["digits"])
    number = F.concat(it["sign"], it["digits"], F.repeat(F.lit("0"), zeros)).try_cast("bigint")
    nothing = F.regexp_replace(it["digits"], "^0+", "") == ""
    return F.when(nothing, F.lit(0).cast("bigint")).when(zeros.between(0, 19), number)
