r"""The filter language of `GET tables/{name}`: read by hand, run as Arrow kernels.

filter   =  all { "or" all }
all      =  one { "and" one }
one      =  "not" one | "(" filter ")" | COLUMN test
test     =  ( "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" ) VALUE | "is" [ "not" ] "null"

A value is "text", 'text', a number, a time, true or false, and must fit its column. A comparison
with a null is false. Nothing of a filter is evaluated as code or used as a pattern.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from livejoin.core.control_messages import excerpt
from livejoin.core.suggest import nearest
from livejoin.errors import AskError
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
    """What tells of each row of a batch whether it stays; never null."""
    if (size := len(text.encode(errors="replace"))) > MAX_BYTES:
        raise AskError(f"filter: larger than {MAX_BYTES >> 10} KiB: {size} bytes")
    return _Parser(_tokenize(text), schema).parse()


def _tokenize(text: str) -> list[FilterToken]:
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            what = "the text" if text[at] in "\"'" else excerpt(text[at])
            why = "does not end" if what == "the text" else "is nothing that a filter knows"
            raise AskError(f"filter: {what} at character {at + 1} {why}", hint=_EXAMPLE)
        kind = match.lastgroup or ""
        found.append(FilterToken(kind, match[kind], match.start(kind) + 1))
        at = match.end()
    return found


_EXAMPLE = 'Write for example age>=30 and (name~"ad" or email is null).'


@dataclass
class _Parser:
    tokens: list[FilterToken]
    schema: pa.Schema
    position: int = 0
    depth: int = 0
    comparisons: int = 0

    def parse(self) -> Predicate:
        if not self.tokens:
            raise AskError("filter: empty", hint=_EXAMPLE)
        found = self._or_expression()
        if self._next.kind != "end":
            raise self._unexpected("and, or, or the end")
        return found

    @property
    def _next(self) -> FilterToken:
        return (
            self.tokens[self.position]
            if self.position < len(self.tokens)
            else FilterToken("end", "", 0)
        )

    def _accept(self, *words: str) -> bool:
        """Whether one of these words or signs comes next; it is taken."""
        token = self._next
        found = token.kind in ("word", "sign") and token.text.lower() in words
        self.position += found
        return found

    def _unexpected(self, expected: str) -> AskError:
        return AskError(f"filter: expected {expected}, got {self._next}", hint=_EXAMPLE)

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
            raise AskError(f"filter: nested more than {MAX_DEPTH} deep")
        if self._accept("not"):
            inner = self._operand()
            found: Predicate = lambda rows: pc.invert(inner(rows))  # noqa: E731 - as short as its siblings
        elif self._accept("("):
            found = self._or_expression()
            if not self._accept(")"):
                raise self._unexpected("and, or, or )")
        else:
            found = self._comparison()
        self.depth -= 1
        return found

    def _comparison(self) -> Predicate:
        self.comparisons += 1
        if self.comparisons > MAX_COMPARISONS:
            raise AskError(f"filter: more than {MAX_COMPARISONS} comparisons")
        token = self._next
        if token.kind != "word" or token.text.lower() in _KEYWORDS:
            raise self._unexpected("a column")
        column = check_column(token.text, self.schema, "filter")
        self.position += 1
        if self._accept("is"):
            there = self._accept("not")
            if not self._accept("null"):
                raise self._unexpected("null" if there else "null or not null")
            kernel = pc.is_valid if there else pc.is_null
            return lambda rows: kernel(rows.column(column))
        sign = self._next.text
        if not self._accept(*OPERATORS):
            raise self._unexpected(f"one of {' '.join(OPERATORS)} or is")
        token = self._next
        if token.kind not in ("text", "number", "time") and token.text.lower() not in BOOLEANS:
            if token.text.lower() == "null":
                raise AskError(f"filter: nothing compares with null; write {column} is null")
            raise self._unexpected('a value (text stands in quotes, like "Ada")')
        self.position += 1
        return compile_comparison(self.schema.field(column), sign, token)


def check_column(name: str, schema: pa.Schema, where: str) -> str:
    """A column that is there, or an error that names the nearest."""
    if name in schema.names:
        return name
    close = nearest(name[:100], schema.names)
    meant = f"Did you mean {close}?" if close else f"There are {', '.join(schema.names)}."
    raise AskError(f"{where}: there is no column {excerpt(name)}", hint=meant)


def _combine(kernel: Callable[[Any, Any], Any], parts: list[Predicate]) -> Predicate:
    if len(parts) == 1:
        return parts[0]
    return lambda rows: reduce(kernel, (part(rows) for part in parts))
