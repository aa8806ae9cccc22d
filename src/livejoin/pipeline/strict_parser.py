"""Parses records as VARIANT, with conversions that lose nothing; gives the reasons of rejects."""

import functools

from pyspark.sql import Column
from pyspark.sql import functions as F

from livejoin.core import own_topics, spec
from livejoin.pipeline import conversions
from livejoin.pipeline.cells import Cell, by_source, cells, row_struct
from livejoin.pipeline.conversions import CONVERTERS, INTEGER, NUMBER, Value, let
from livejoin.pipeline.json_schema import number_pattern, quote, variant_path

_REASON_CHARS = 80  # of the offending value

# A value inside brackets is parsed to its end.
_OPEN, _CLOSE = "[", "]"
_WHITESPACE = " \t\r\n"


class StrictParser:
    """Columns that parse a text as VARIANT: a struct with the `reason` or the `row`."""

    def __init__(self, joined: spec.JoinSpec, max_value_bytes: int) -> None:
        self._joined = joined
        self._cells = cells(joined)
        self._max_value_bytes = max_value_bytes
        used = {conversions.type_name(cell.type) for cell in self._cells}
        self._converters = {name: to for name, to in CONVERTERS.items() if name in used}

    def parse(self, text: Column) -> Column:
        """The text as row or reason."""
        first = dict.fromkeys(
            str(column.steps[0]) for cell in self._cells for column in cell.fields.values()
        )
        variants = ",".join(f"{quote(name)}:variant" for name in first)

        def get_fields(v: Column) -> Column:
            found = F.try_variant_get(v, "$[0]", f"struct<{variants}>")
            return let(found, functools.partial(self._convert, text, v))

        return let(F.try_parse_json(F.concat(F.lit(_OPEN), text, F.lit(_CLOSE))), get_fields)

    def _convert(self, text: Column, v: Column, found: Column) -> Column:
        values = F.array(*(self._described(cell, found) for cell in self._cells))
        # one lambda for all fields: an expression per field would dominate the query plan
        converted = F.transform(values, functools.partial(self._convert_field, text))
        return let(converted, functools.partial(self._row_or_reason, text, v))

    def _described(self, cell: Cell, found: Column) -> Column:
        """A field's value and what its conversion must know."""

        def member(_source: str, column: spec.Column) -> Column:
            value = found[str(column.steps[0])]
            rest = column.steps[1:]
            return F.try_variant_get(value, variant_path(rest), "variant") if rest else value

        def label(_source: str, column: spec.Column) -> Column:
            return F.lit(column.label)

        def pattern(_source: str, column: spec.Column) -> Column:
            return F.lit(number_pattern(column.steps, NUMBER))

        sources = len(self._joined.sources)
        digits = next(iter(cell.fields.values())).digits or (0, 0)
        return F.struct(
            by_source(cell.fields, sources, label).alias("name"),
            F.lit(cell.type).alias("type"),
            by_source(cell.fields, sources, member).alias("v"),
            by_source(cell.fields, sources, pattern).alias("pattern"),
            *(F.lit(number).alias(f"digits{i}") for i, number in enumerate(digits)),
        )

    def _row_or_reason(self, text: Column, v: Column, got: Column) -> Column:
        wrong = F.nullif(F.array_join(got["reason"], "; "), F.lit(""))
        row = row_struct(
            self._joined,
            [got[i][conversions.type_name(c.type)] for i, c in enumerate(self._cells)],
        )
        return let(
            F.coalesce(_record_error(text, v, self._max_value_bytes), wrong),
            lambda reason: F.struct(
                reason.alias("reason"), F.when(reason.isNull(), row).alias("row")
            ),
        )

    def _convert_field(self, text: Column, described: Column) -> Column:
        """Convert a field's value: a struct with a column per type, and a failure's `reason`."""
        v, name, field_type = described["v"], described["name"], described["type"]

        def spell(kind: Column, plain: Column) -> Column:
            # "D": DECIMAL or DOUBLE; -0 is the only integer that VARIANT spells differently
            is_ambiguous = kind.startswith("D") | ((kind == INTEGER) & (plain == "0"))
            return F.when(is_ambiguous, _original_spelling(text, described["pattern"], v))

        def convert(known: Column) -> Column:
            kind, plain = known["kind"], known["plain"]
            digits = {"precision": described["digits0"], "scale": described["digits1"]}
            use = functools.partial(Value, v, kind, plain, **digits)
            return let(spell(kind, plain), lambda spelling: by_type(use(spelling=spelling)))

        def by_type(value: Value) -> Column:
            converted = (
                F.when(field_type.startswith(name), to(value)).alias(name)
                for name, to in self._converters.items()
            )
            return let(F.struct(*converted), functools.partial(with_reason, value))

        def with_reason(value: Value, got: Column) -> Column:
            all_null = functools.reduce(
                Column.__and__, (got[name].isNull() for name in self._converters)
            )
            wrong = (value.kind != "VOID") & all_null
            shown = F.left(F.coalesce(value.spelling, F.to_json(v)), F.lit(_REASON_CHARS))
            reason = F.concat(name, F.lit(": expected "), field_type, F.lit(", got "), shown)
            found = (got[name] for name in self._converters)
            return F.struct(*found, F.when(wrong, reason).alias("reason"))

        kind = F.coalesce(F.schema_of_variant(v), F.lit("VOID"))
        return let(F.struct(kind.alias("kind"), v.try_cast("string").alias("plain")), convert)


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


def _original_spelling(text: Column, pattern: Column, v: Column) -> Column:
    """A number's spelling in the text: the last of this pattern with the same value."""
    found = F.regexp_extract_all(text, pattern, F.lit(1))
    same = F.filter(found, lambda number: number.try_cast("double") == v.try_cast("double"))
    return F.try_element_at(same, F.lit(-1))
