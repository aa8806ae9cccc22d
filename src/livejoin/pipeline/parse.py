"""A Kafka value becomes a typed row or a reason why not, in expressions that never throw on data.

A value is parsed once, as VARIANT, and each field is converted only where nothing is lost. What is
rare (numbers spelt with an exponent, numbers in a string field) goes back to the text, since
VARIANT has forgotten the spelling.
"""

import functools
from collections.abc import Callable, Iterable

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


# The fields of all sources; a name that two sources share has one type.
FIELDS = tuple(dict.fromkeys(field for source in spec.SOURCES for field in source.fields))


def parsed(records: DataFrame) -> DataFrame:
    """Records with `source` and `value` as records with `row` or `reason`; a null has neither.

    All sources go through one parser: planning it costs more than the fields that are not there.
    """
    *stages, row = _stages(records.sparkSession)
    kept = records.columns
    for name, column in stages:
        records = records.withColumn(name, column)
    return records.select(*kept, "reason", row[1].alias(row[0]))


@functools.lru_cache(maxsize=1)
def _stages(_session: SparkSession) -> tuple[tuple[str, Column], ...]:
    """The columns of the parser in their order, made once per session.

    Each takes several calls to the JVM, a second in all; and lambdas are numbered as they are made,
    so that code generated from the same column is found again.
    """
    fits = F.octet_length("value") <= MAX_VALUE_BYTES  # what does not is not even looked at
    text = F.when(fits, F.expr("try_validate_utf8(cast(value as string))"))
    v = F.try_parse_json(F.concat(F.lit(_OPEN), text, F.lit(_CLOSE)))
    variants = ",".join(f"{field.name}:variant" for field in FIELDS)
    cells = F.expr(f"try_variant_get(_json.v, '$[0]', 'struct<{variants}>')")
    kinds = (
        F.coalesce(F.when(_has(field), F.schema_of_variant(_cell(field))), F.lit("VOID"))
        for field in FIELDS
    )
    reason = F.coalesce(_wrong_record(F.col("_json.text"), F.col("_json.v")), _wrong_fields())
    there = F.col("value").isNotNull()
    return (
        ("_json", _once(F.struct(text.alias("text"), v.alias("v")))),
        ("_cell", _once(cells)),
        ("_kind", _once(_struct(kinds))),
        ("_got", _struct(_CONVERT[field.type](field) for field in FIELDS)),
        # no _once from here on: a Generate would be interpreted whole for the rare parts' sake
        ("reason", F.when(there & ~_plain(), _rarely(reason))),
        ("row", F.when(there & F.col("reason").isNull(), F.col("_got"))),
    )


def _has(field: spec.Column) -> Column:
    """Whether a record's source has this field; one that it does not have is ignored."""
    having = [source.name for source in spec.SOURCES if field in source.fields]
    return F.lit(col=True) if len(having) == len(spec.SOURCES) else F.col("source").isin(having)


def _struct(cells: Iterable[Column]) -> Column:
    return F.struct(*(c.alias(field.name) for c, field in zip(cells, FIELDS, strict=True)))


def _once(column: Column) -> Column:
    """The same, evaluated once: Catalyst collapses projections and repeats what is used twice."""
    return F.explode(F.array(column))


def _rarely(column: Column) -> Column:
    """The same, interpreted instead of compiled.

    As generated code, what hardly ever runs was nine tenths of the parser: compiling it took
    seconds at every start of a query, and a method of the JVM has a limit.
    """
    return _let(F.lit(0), lambda _it: column)


def _let(value: Column, use: Callable[[Column], Column]) -> Column:
    """What `use` makes of a value that is worked out once; interpreted, as in `_rarely`."""
    # zip_with has no code generation, unlike transform
    return F.zip_with(F.array(value), F.array(F.lit(0)), lambda it, _: use(it))[0]


def _plain() -> Column:
    """Whether a value is an object without doubt and has no wrong field, as nearly all are."""
    alone = F.expr("try_variant_get(_json.v, '$[1]', 'variant')").isNull()
    shape = F.col("_json.text").startswith("{") & ~F.col("_json.text").contains(_CLOSE)
    plain = F.col("_json.v").isNotNull() & alone & shape
    for field in FIELDS:
        plain &= (_kind(field) == "VOID") | F.col(f"_got.{field.name}").isNotNull()
    return F.coalesce(plain, F.lit(col=False))


def _wrong_record(text: Column, v: Column) -> Column:
    """Why the value as a whole is not one JSON object, or null."""
    size = F.octet_length("value")
    start = F.expr(f"trim(LEADING '{_BLANKS}' FROM _json.text)")
    # "]" may close our own bracket and hide what follows: such texts are read again inside a brace
    hidden = (
        text.contains(_CLOSE)
        & F.try_parse_json(F.concat(F.lit('{"v":'), text, F.lit("}"))).isNull()
    )
    second = F.expr("try_variant_get(_json.v, '$[1]', 'variant')").isNotNull()
    shown = F.concat(F.lit(", got "), F.left(start, F.lit(_SHOWN_CHARS)))
    return (
        F.when(
            size > MAX_VALUE_BYTES,
            F.concat(F.lit("value: larger than 1 MiB, "), size, F.lit(" bytes")),
        )
        .when(text.isNull(), F.lit("value: not UTF-8"))
        .when(start == "", F.lit("value: empty"))
        .when(v.isNull() | second | hidden, F.concat(F.lit("value: not valid JSON"), shown))
        .when(~start.startswith("{"), F.concat(F.lit("value: expected an object"), shown))
    )


def _wrong_fields() -> Column:
    """Which fields have the wrong type, all of them in one reason, or null."""
    fields = F.array(
        *(
            F.struct(
                F.lit(c.name).alias("name"),
                F.lit(c.type).alias("type"),
                _cell(c).alias("cell"),
                ((_kind(c) != "VOID") & F.col(f"_got.{c.name}").isNull()).alias("wrong"),
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
                    F.coalesce(_spelt(c["name"], c["cell"]), F.to_json(c["cell"])),
                    F.lit(_SHOWN_CHARS),
                ),
            ),
        ),
    )
    return F.nullif(F.array_join(reasons, "; "), F.lit(""))


def _cell(column: spec.Column) -> Column:
    return F.col(f"_cell.{column.name}")


def _kind(column: spec.Column) -> Column:
    return F.col(f"_kind.{column.name}")


def _string(column: spec.Column) -> Column:
    text, kind = _cell(column).try_cast("string"), _kind(column)
    # "D" stands for DECIMAL and DOUBLE; of whole numbers only -0 is spelt otherwise
    spelt = _spelt(F.lit(column.name), _cell(column))
    respelt = kind.startswith("D") | ((kind == "BIGINT") & (text == "0"))
    return F.when(kind == "STRING", text).when(
        kind.isin("BIGINT", "BOOLEAN") | respelt,
        _rarely(F.when(respelt, F.coalesce(spelt, text)).otherwise(text)),
    )


def _double(column: spec.Column) -> Column:
    text, kind = _cell(column).try_cast("string"), _kind(column)
    value = F.when(
        kind.startswith("D") | (kind == "BIGINT"), _cell(column).try_cast("double")
    ).when(kind == "STRING", _rarely(F.when(_is_number(text), text.try_cast("double"))))
    return F.nullif(F.nullif(value, F.lit(float("inf"))), F.lit(float("-inf")))


def _int64(column: spec.Column) -> Column:
    kind = _kind(column)
    # VARIANT drops trailing zeros, so 30.0 is a DECIMAL(2,0)
    whole = (kind == "BIGINT") | (kind.startswith("DECIMAL") & kind.endswith(",0)"))
    text = F.when(kind == "STRING", _cell(column).try_cast("string")).when(
        kind == "DOUBLE", _spelt(F.lit(column.name), _cell(column))
    )
    return F.when(whole, _cell(column).try_cast("bigint")).when(
        kind.isin("STRING", "DOUBLE"), _whole(text)
    )


_CONVERT = {"string": _string, "double": _double, "int64": _int64}


def _spelt(name: Column, cell: Column) -> Column:
    """A number as it stands in the text: the last one of this name with the value VARIANT read."""
    pattern = F.concat(F.lit('"'), name, F.lit(rf'"\s*:\s*({_NUMBER})'))
    found = F.regexp_extract_all("_json.text", pattern, F.lit(1))
    same = F.filter(found, lambda text: text.try_cast("double") == cell.try_cast("double"))
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
