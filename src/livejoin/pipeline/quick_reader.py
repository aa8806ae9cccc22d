"""Reads records by `from_json`, and decides whether the result is exact.

It is exact if it is certainly what docs/records.md specifies. Other values are parsed again by the
strict parser.
"""

import functools
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from livejoin.core import spec
from livejoin.pipeline import conversions
from livejoin.pipeline.cells import by_source, cells, row_struct
from livejoin.pipeline.json_schema import JsonSchema, Steps, is_as_written, json_schemas
from livejoin.pipeline.text_slices import byte_slice

_CORRUPT_RECORD = "_doubt"  # column that `from_json` fills with values it could not parse

# A string that `from_json` may have made from an array or object, from a non-finite number, or from
# a number with several spellings, of which the field must keep the original one.
_AMBIGUOUS_STRING = r"^(?:\[|\{|\"|-?(?:0|[0-9]+[.eE][0-9.eE+-]*)$)"
_AFTER_DIGITS = ":"  # the byte after "9"; quotes and the minus sign sort before the digits

# Jackson ignores text after the first value. Inside brackets it parses all of it.
# A record with nested members is parsed as the only element of two arrays. What follows its object
# would be a second element, or it closes both arrays.
_NEST_OPEN, _NEST_CLOSE, _NEST = '{"v":[[', "]]}", "v"
_CLOSES_NEST = r"\}\s*\]\s*\]"

_Place = tuple[int, Steps, spec.Type]  # number of the schema, and where in it


class _Written(NamedTuple):
    """A field that `from_json` leaves as written: the column with its value, and the field."""

    name: str
    source: str
    column: spec.Column


class QuickReader:
    """Columns that read records by `from_json`, and whether the result is exact."""

    def __init__(self, joined: spec.JoinSpec) -> None:
        self._joined = joined
        self._found = json_schemas(joined)
        self._written: dict[_Place, _Written] = {}
        for source in joined.sources:
            for column in source.fields:
                if is_as_written(column.type):
                    name = f"_written{len(self._written)}"
                    place = self._place(source.name, column)
                    self._written.setdefault(place, _Written(name, source.name, column))

    def stages(self) -> list[tuple[str, Column]]:
        """What `from_json` reads, and then what is converted from it."""
        stages = []
        for number, schema in enumerate(self._found.schemas):
            looks_right = _looks_flat() if schema.is_flat else _looks_nested()
            if len(schema.sources) < len(self._joined.sources):
                looks_right &= F.col("source").isin(schema.sources)
            stages.append((_quick(number), F.when(looks_right, _from_json(schema))))
        for name, source, column in self._written.values():
            written = self._member(source, column)
            stages.append((name, F.when(_is_present(written), conversions.quick(written, column))))
        return stages

    def is_exact(self) -> Column:
        """Whether the result of `from_json` is certainly what docs/records.md specifies."""
        exact = functools.reduce(Column.__and__, map(self._is_exact, self._numbers()))
        for name, source, column in self._written.values():
            written = self._member(source, column)
            exact &= ~_is_present(written) | F.col(name).isNotNull()
        return exact

    def row(self) -> Column:
        """The parsed row."""
        sources = len(self._joined.sources)
        return row_struct(
            self._joined, [by_source(c.fields, sources, self._value) for c in cells(self._joined)]
        )

    def _numbers(self) -> range:
        return range(len(self._found.schemas))

    def _is_exact(self, number: int) -> Column:
        text, schema, quick = F.col("_text"), self._found.schemas[number], F.col(_quick(number))
        # `from_json` turns a lone surrogate into a question mark
        surrogates = text.contains("\\ud") | text.contains("\\uD")
        sure = quick.isNotNull() & quick[_CORRUPT_RECORD].isNull() & ~surrogates
        if not schema.is_flat:
            only = (F.size(quick[_NEST]) == 1) & (F.size(F.get(quick[_NEST], 0)) == 1)
            sure &= only & ~(text.contains("]") & text.rlike(_CLOSES_NEST))
        for source, column in self._distinct_fields(number):
            value = self._member(source, column)
            if column.type == "string":
                sure &= value.isNull() | ~(
                    _may_be_ambiguous(value, nested=not schema.is_flat)
                    & value.rlike(_AMBIGUOUS_STRING)
                )
            elif column.type == "double":
                sure &= value.isNull() | conversions.is_finite(value)
        if len(schema.sources) < len(self._joined.sources):
            sure |= ~F.col("source").isin(schema.sources)
        return sure

    def _distinct_fields(self, number: int) -> list[tuple[str, spec.Column]]:
        """The fields that a schema reads, each place once."""
        places = {
            column.steps: (source.name, column)
            for source in self._joined.sources
            for column in source.fields
            if self._found.of_field[source.name, column.name] == number
        }
        return list(places.values())

    def _place(self, source: str, column: spec.Column) -> _Place:
        return self._found.of_field[source, column.name], column.steps, column.type

    def _value(self, source: str, column: spec.Column) -> Column:
        if is_as_written(column.type):
            return F.col(self._written[self._place(source, column)].name)
        return self._member(source, column)

    def _member(self, source: str, column: spec.Column) -> Column:
        """A field in what `from_json` has read."""
        number = self._found.of_field[source, column.name]
        value = F.col(_quick(number))
        if not self._found.schemas[number].is_flat:
            value = F.get(F.get(value[_NEST], 0), 0)
        for step in column.steps:
            value = F.get(value, step) if isinstance(step, int) else value[step]
        return value


def _quick(number: int) -> str:
    """The column with what a schema's `from_json` has read."""
    return f"_quick{number}"


def _from_json(schema: JsonSchema) -> Column:
    text, corrupt = F.col("_text"), f"{_CORRUPT_RECORD}:string"
    options = {
        "columnNameOfCorruptRecord": _CORRUPT_RECORD,
        "allowSingleQuotes": "false",
        "allowNonNumericNumbers": "false",
    }
    if schema.is_flat:
        return F.from_json(text, schema.struct(corrupt), options)
    nested = f"struct<{_NEST}:array<array<{schema.struct()}>>,{corrupt}>"
    return F.from_json(F.concat(F.lit(_NEST_OPEN), text, F.lit(_NEST_CLOSE)), nested, options)


def _looks_flat() -> Column:
    """Whether a text looks like one object without nested ones.

    A text that `from_json` cannot parse costs an exception; this check avoids most of them.
    """
    text = F.col("_text")
    without_last = byte_slice(text, 1, 1)
    return text.startswith("{") & text.endswith("}") & ~without_last.contains("}")


def _looks_nested() -> Column:
    """Whether a text looks like one object."""
    return F.col("_text").startswith("{") & F.col("_text").endswith("}")


def _may_be_ambiguous(value: Column, *, nested: bool) -> Column:
    """A cheap test before the regular expression: its matches begin with one of these."""
    begins = (value < _AFTER_DIGITS) | value.startswith("[")
    return begins | value.startswith("{") if nested else begins


def _is_present(written: Column) -> Column:
    """Whether a value that is left as written is neither missing nor JSON's null."""
    return written.isNotNull() & ~F.is_variant_null(written)
