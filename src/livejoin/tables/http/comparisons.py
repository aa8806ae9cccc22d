"""Comparing a column with a value of a filter: what fits which type, and which kernel does it."""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from livejoin.core.control_messages import excerpt
from livejoin.errors import AskError

_MAX_EXPONENT = 400  # past any double; larger ones would make integers without end
_INT64 = range(-(2**63), 2**63)
_KERNELS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
OPERATORS = (*_KERNELS, "~")
BOOLEANS = ("true", "false")


class FilterBatch:
    """Some rows of a table; what several comparisons need of them is made once."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.column = batch.column
        self.num_rows = batch.num_rows
        self._lower_case: dict[str, pa.StringArray] = {}

    def lower_case(self, column: str) -> pa.StringArray:
        """A column of texts in lower case, which takes longer than to look into it."""
        if column not in self._lower_case:
            self._lower_case[column] = pc.utf8_lower(self.column(column))
        return self._lower_case[column]


Predicate = Callable[[FilterBatch], pa.BooleanArray]


class FilterToken(NamedTuple):
    """A piece of a filter: a text in its quotes, a number, a time, a word or a sign."""

    kind: str
    text: str
    position: int  # the character it starts at, from 1

    def __str__(self) -> str:
        bare = self.text[1:-1] if self.kind == "text" else self.text
        return f"{excerpt(bare)} at character {self.position}" if self.text else "the end"


def compile_comparison(field: pa.Field, sign: str, token: FilterToken) -> Predicate:
    """What tells of each row whether its cell is so; of a null it is not, whatever the sign."""
    name, kind = field.name, field.type
    if sign == "~":
        if not pa.types.is_string(kind):
            raise AskError(f"filter: ~ looks into text, and {name} is {_type_name(kind)}")
        part = pc.utf8_lower(pa.scalar(_text(field, token))).as_py()
        return lambda rows: _null_as_false(pc.match_substring(rows.lower_case(name), pattern=part))
    if pa.types.is_integer(kind):
        return _compare_integers(name, sign, _number(field, token))
    value: Any
    if pa.types.is_string(kind):
        value = _text(field, token)
    elif pa.types.is_floating(kind):
        value = float(_number(field, token))
    elif pa.types.is_boolean(kind):
        value = _boolean(field, sign, token)
    else:
        value = _time(field, token)
    limit = pa.scalar(value, kind)
    return lambda rows: _null_as_false(_KERNELS[sign](rows.column(name), limit))


def _null_as_false(mask: pa.BooleanArray) -> pa.BooleanArray:
    """A comparison with a null is false, so that `and`, `or` and `not` know two values only."""
    return pc.fill_null(mask, False)  # noqa: FBT003 - a cell, not a flag


def _compare_integers(name: str, sign: str, number: Decimal) -> Predicate:
    """Integers against any number, exactly: 30.5 and numbers past 64 bits have an answer too."""
    floor, ceiling = math.floor(number), math.ceil(number)
    whole = floor == ceiling
    if sign in ("=", "!="):
        if whole and floor in _INT64:
            return _compare_int64(name, sign, floor)
        return _constant_unless_null(name, there=sign == "!=")
    at_most = {"<": ceiling - 1, "<=": floor}
    if sign in at_most:
        most = at_most[sign]
        if most in _INT64:
            return _compare_int64(name, "<=", most)
        return _constant_unless_null(name, there=most > 0)
    least = floor + 1 if sign == ">" else ceiling
    if least in _INT64:
        return _compare_int64(name, ">=", least)
    return _constant_unless_null(name, there=least < 0)


def _compare_int64(name: str, sign: str, value: int) -> Predicate:
    limit = pa.scalar(value, pa.int64())
    return lambda rows: _null_as_false(_KERNELS[sign](rows.column(name), limit))


def _constant_unless_null(name: str, *, there: bool) -> Predicate:
    """Of every row that has a value, the same."""
    if there:
        return lambda rows: pc.is_valid(rows.column(name))
    return lambda rows: pa.repeat(pa.scalar(value=False), rows.num_rows)


def _type_mismatch(field: pa.Field, example: str, token: FilterToken) -> AskError:
    return AskError(
        f"filter: {field.name} is {_type_name(field.type)}, which {token} is not",
        hint=f"Write it like {example}.",
    )


def _type_name(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "a time"
    return "text" if pa.types.is_string(kind) else str(kind)


def _text(field: pa.Field, token: FilterToken) -> str:
    if token.kind != "text":
        raise _type_mismatch(field, excerpt(token.text), token)
    inside = re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL)
    if inside != inside.encode(errors="replace").decode():
        raise AskError(f"filter: {token} is no Unicode text")
    return inside


def _number(field: pa.Field, token: FilterToken) -> Decimal:
    if token.kind != "number":
        raise _type_mismatch(field, "30" if pa.types.is_integer(field.type) else "30.5", token)
    if len(exponent := token.text.lower().partition("e")[2]) > 6:
        raise AskError(
            f"filter: e{exponent[:10]} at character {token.position} is too large an exponent"
        )
    number = Decimal(token.text)
    if abs(number.adjusted()) > _MAX_EXPONENT:
        raise AskError(f"filter: {token} is no number that a column can hold")
    return number


def _boolean(field: pa.Field, sign: str, token: FilterToken) -> bool:
    if token.text.lower() not in BOOLEANS:
        raise _type_mismatch(field, "true", token)
    if sign not in ("=", "!="):
        raise AskError(f"filter: {field.name} is true or false; compare it with = or !=")
    return token.text.lower() == "true"


def _time(field: pa.Field, token: FilterToken) -> datetime:
    text = token.text[1:-1] if token.kind == "text" else token.text
    try:
        time = datetime.fromisoformat(text) if token.kind in ("text", "time") else None
        # as Kafka times are: UTC where nothing else is said
        found = time and (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):  # no such day, or before the year 1 once it is UTC
        found = None
    if found is None or found.microsecond % 1000:  # Kafka's times are milliseconds
        raise _type_mismatch(field, "2026-01-31T12:00:00Z", token)
    return found
