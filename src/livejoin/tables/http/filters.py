r"""The filter language of `GET tables/{name}`: a recursive-descent parser over Arrow kernels.

filter      =  conjunction { "or" conjunction }
conjunction =  operand { "and" operand }
operand     =  "not" operand | "(" filter ")" | COLUMN comparison
comparison  =  ( "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" ) VALUE | "is" [ "not" ] "null"

A value is "text", 'text', a number, a time, true or false, and must match its column's type. A
comparison with null is false. No part of a filter is evaluated as code or used as a pattern.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from livejoin.core.control_messages import excerpt
from livejoin.core.names import nearest
from livejoin.errors import RequestError
from livejoin.tables.http.comparisons import (
    BOOLEANS,
    OPERATORS,
    FilterToken,
    Predicate,
    compile_comparison,
)

MAX_BYTES = 4 << 10
MAX_DEPTH = 32
MAX_COMPARISONS = 100  # each is a pass over the table

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<time>\d{4}-\d\d-\d\d(?:[Tt]\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:[Zz]|[+-]\d\d:\d\d)?)?)
  | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<sign><=|>=|!=|[=<>~()])
    )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_KEYWORDS = ("and", "or", "not", "is", "null", "true", "false")


def compile_filter(text: str, schema: pa.Schema) -> Predicate:
    """Compile a filter to a predicate, whose result has no nulls."""
    if (size := len(text.encode(errors="replace"))) > MAX_BYTES:
        raise RequestError(f"filter: larger than {MAX_BYTES >> 10} KiB: {size} bytes")
    return _Parser(_tokenize(text), schema).parse()


def _tokenize(text: str) -> list[FilterToken]:
    result, position, end = [], 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            position += len(text[position:]) - len(text[position:].lstrip())
            what = (
                "unterminated text"
                if text[position] in "\"'"
                else f"unexpected {excerpt(text[position])}"
            )
            raise RequestError(f"filter: {what} at character {position + 1}", hint=_EXAMPLE)
        kind = match.lastgroup or ""
        result.append(FilterToken(kind, match[kind], match.start(kind) + 1))
        position = match.end()
    return result


_EXAMPLE = 'Example: age>=30 and (name~"ad" or email is null).'


@dataclass
class _Parser:
    tokens: list[FilterToken]
    schema: pa.Schema
    position: int = 0
    depth: int = 0
    comparisons: int = 0

    def parse(self) -> Predicate:
        if not self.tokens:
            raise RequestError("filter: empty", hint=_EXAMPLE)
        result = self._or_expression()
        if self._next.kind != "end":
            raise self._unexpected("and, or, or the end")
        return result

    @property
    def _next(self) -> FilterToken:
        return (
            self.tokens[self.position]
            if self.position < len(self.tokens)
            else FilterToken("end", "", 0)
        )

    def _accept(self, *words: str) -> bool:
        """Consume the next token if it is one of these words or operators."""
        token = self._next
        matches = token.kind in ("word", "sign") and token.text.lower() in words
        self.position += matches
        return matches

    def _unexpected(self, expected: str) -> RequestError:
        return RequestError(f"filter: expected {expected}, got {self._next}", hint=_EXAMPLE)

    def _or_expression(self) -> Predicate:
        parts = [self._and_expression()]
        while self._accept("or"):
            parts.append(self._and_expression())
        return _combine(pc.or_, parts)

    def _and_expression(self) -> Predicate:
        parts = [self._operand()]
        while self._accept("and"):
            parts.append(self._operand())
        return _combine(pc.and_, parts)

    def _operand(self) -> Predicate:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise RequestError(f"filter: nested more than {MAX_DEPTH} levels deep")
        if self._accept("not"):
            inner = self._operand()
            result: Predicate = lambda batch: pc.invert(inner(batch))  # noqa: E731 - as short as its siblings
        elif self._accept("("):
            result = self._or_expression()
            if not self._accept(")"):
                raise self._unexpected("and, or, or )")
        else:
            result = self._comparison()
        self.depth -= 1
        return result

    def _comparison(self) -> Predicate:
        self.comparisons += 1
        if self.comparisons > MAX_COMPARISONS:
            raise RequestError(f"filter: more than {MAX_COMPARISONS} comparisons")
        token = self._next
        if token.kind != "word" or token.text.lower() in _KEYWORDS:
            raise self._unexpected("a column")
        column = check_column(token.text, self.schema, "filter")
        self.position += 1
        if self._accept("is"):
            negated = self._accept("not")
            if not self._accept("null"):
                raise self._unexpected("null" if negated else "null or not null")
            kernel = pc.is_valid if negated else pc.is_null
            return lambda batch: kernel(batch.column(column))
        operator = self._next.text
        if not self._accept(*OPERATORS):
            raise self._unexpected(f"one of {' '.join(OPERATORS)} or is")
        token = self._next
        if token.kind not in ("text", "number", "time") and token.text.lower() not in BOOLEANS:
            if token.text.lower() == "null":
                raise RequestError(f"filter: cannot compare with null; write {column} is null")
            raise self._unexpected('a value (quote text, like "Ada")')
        self.position += 1
        return compile_comparison(self.schema.field(column), operator, token)


def check_column(name: str, schema: pa.Schema, parameter: str) -> str:
    """Return the column's name; raises with the closest match if there is none."""
    if name in schema.names:
        return name
    suggestion = nearest(name[:100], schema.names)
    hint = f"Did you mean {suggestion}?" if suggestion else f"Columns: {', '.join(schema.names)}."
    raise RequestError(f"{parameter}: there is no column {excerpt(name)}", hint=hint)


def _combine(kernel: Callable[[Any, Any], Any], parts: list[Predicate]) -> Predicate:
    if len(parts) == 1:
        return parts[0]
    return lambda batch: reduce(kernel, (part(batch) for part in parts))
