"""Comparisons of a filter: checks the value against the column's type and picks the kernel."""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from livejoin.core.control_messages import excerpt
from livejoin.errors import RequestError

_MAX_EXPONENT = 400  # beyond any double; larger ones would build huge integers
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
    """A batch of rows, with lower-case columns cached for several comparisons."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.column = batch.column
        self.num_rows = batch.num_rows
        self._lower_case: dict[str, pa.StringArray] = {}

    def lower_case(self, column: str) -> pa.StringArray:
        """Return a text column in lower case; the conversion costs more than the search."""
        if column not in self._lower_case:
            self._lower_case[column] = pc.utf8_lower(self.column(column))
        return self._lower_case[column]


Predicate = Callable[[FilterBatch], pa.BooleanArray]


class FilterToken(NamedTuple):
    """A token of a filter: quoted text, a number, a time, a word or an operator."""

    kind: str
    text: str
    position: int  # of its first character, from 1

    def __str__(self) -> str:
        unquoted = self.text[1:-1] if self.kind == "text" else self.text
        return f"{excerpt(unquoted)} at character {self.position}" if self.text else "the end"


def compile_comparison(field: pa.Field, operator: str, token: FilterToken) -> Predicate:
    """Return the predicate of one comparison; null never matches."""
    name, data_type = field.name, field.type
    if operator == "~":
        if not pa.types.is_string(data_type):
            raise RequestError(f"filter: ~ searches text, but {name} is {_type_name(data_type)}")
        needle = pc.utf8_lower(pa.scalar(_text(field, token))).as_py()
        return lambda batch: _null_as_false(
            pc.match_substring(batch.lower_case(name), pattern=needle)
        )
    if pa.types.is_integer(data_type):
        return _compare_exactly(name, operator, Fraction(_number(field, token)), _INTEGERS)
    if pa.types.is_decimal(data_type):
        number = Fraction(_number(field, token)) * 10**data_type.scale
        return _compare_exactly(name, operator, number, _decimals(data_type))
    value: Any
    if pa.types.is_string(data_type):
        value = _text(field, token)
    elif pa.types.is_floating(data_type):
        value = float(_number(field, token))
    elif pa.types.is_boolean(data_type):
        value = _boolean(field, operator, token)
    else:
        value = _time(field, token)
    scalar = pa.scalar(value, data_type)
    return lambda batch: _null_as_false(_KERNELS[operator](batch.column(name), scalar))


def _null_as_false(mask: pa.BooleanArray) -> pa.BooleanArray:
    """Make a comparison with null false, so that `and`, `or` and `not` are two-valued."""
    return pc.fill_null(mask, False)  # noqa: FBT003 - the fill value


class _Grid(NamedTuple):
    """The values of an exact type, as consecutive integers."""

    values: range
    scalar: Callable[[int], pa.Scalar]


_INTEGERS = _Grid(range(-(2**63), 2**63), lambda value: pa.scalar(value, pa.int64()))


def _decimals(data_type: pa.Decimal128Type) -> _Grid:
    """The decimals of a type, counted in units of their last place."""
    limit = 10**data_type.precision

    def scalar(value: int) -> pa.Scalar:
        digits = Decimal(abs(value)).as_tuple().digits
        return pa.scalar(Decimal((value < 0, digits, -data_type.scale)), data_type)

    return _Grid(range(1 - limit, limit), scalar)


def _compare_exactly(name: str, operator: str, number: Fraction, grid: _Grid) -> Predicate:
    """Compare with any number exactly, including fractions and what is beyond the type's range."""
    floor, ceiling = math.floor(number), math.ceil(number)
    is_integer = floor == ceiling

    def compare(sign: str, value: int) -> Predicate:
        scalar = grid.scalar(value)
        return lambda batch: _null_as_false(_KERNELS[sign](batch.column(name), scalar))

    if operator in ("=", "!="):
        if is_integer and floor in grid.values:
            return compare(operator, floor)
        return _constant_unless_null(name, result=operator == "!=")
    upper_bounds = {"<": ceiling - 1, "<=": floor}
    if operator in upper_bounds:
        upper = upper_bounds[operator]
        if upper in grid.values:
            return compare("<=", upper)
        return _constant_unless_null(name, result=upper > 0)
    lower = floor + 1 if operator == ">" else ceiling
    if lower in grid.values:
        return compare(">=", lower)
    return _constant_unless_null(name, result=lower < 0)


def _constant_unless_null(name: str, *, result: bool) -> Predicate:
    """Return the same result for every row whose value is not null."""
    if result:
        return lambda batch: pc.is_valid(batch.column(name))
    return lambda batch: pa.repeat(pa.scalar(value=False), batch.num_rows)


def _type_mismatch(field: pa.Field, example: str, token: FilterToken) -> RequestError:
    return RequestError(
        f"filter: expected {_type_name(field.type)} for {field.name}, got {token}",
        hint=f"Write it like {example}.",
    )


def _type_name(data_type: pa.DataType) -> str:
    if pa.types.is_timestamp(data_type):
        return "a time"
    if pa.types.is_decimal(data_type):
        return f"decimal({data_type.precision},{data_type.scale})"
    return "text" if pa.types.is_string(data_type) else str(data_type)


def _text(field: pa.Field, token: FilterToken) -> str:
    if token.kind != "text":
        raise _type_mismatch(field, excerpt(token.text), token)
    unescaped = re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL)
    if unescaped != unescaped.encode(errors="replace").decode():
        raise RequestError(f"filter: {token} is not valid Unicode")
    return unescaped


def _number(field: pa.Field, token: FilterToken) -> Decimal:
    if token.kind != "number":
        raise _type_mismatch(field, "30" if pa.types.is_integer(field.type) else "30.5", token)
    if len(exponent := token.text.lower().partition("e")[2]) > 6:
        raise RequestError(
            f"filter: exponent e{exponent[:10]} at character {token.position} is too large"
        )
    number = Decimal(token.text)
    if abs(number.adjusted()) > _MAX_EXPONENT:
        raise RequestError(f"filter: {token} is out of range")
    return number


def _boolean(field: pa.Field, operator: str, token: FilterToken) -> bool:
    if token.text.lower() not in BOOLEANS:
        raise _type_mismatch(field, "true", token)
    if operator not in ("=", "!="):
        raise RequestError(f"filter: {field.name} is boolean; compare it with = or !=")
    return token.text.lower() == "true"


def _time(field: pa.Field, token: FilterToken) -> datetime:
    text = token.text[1:-1] if token.kind == "text" else token.text
    try:
        time = datetime.fromisoformat(text) if token.kind in ("text", "time") else None
        # UTC unless a zone is given, like Kafka's times
        utc = time and (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):  # no such day, or before year 1 in UTC
        utc = None
    if utc is None or utc.microsecond % 1000:  # Kafka's times have milliseconds
        raise _type_mismatch(field, "2026-01-31T12:00:00Z", token)
    return utc
