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

from livejoin.core.control_messages import shown
from livejoin.core.suggest import nearest
from livejoin.errors import AskError
from livejoin.tables.http.comparisons import SIGNS, TRUTHS, Test, Token, comparison

MAX_BYTES = 4 << 10
MAX_DEPTH = 32
MAX_TESTS = 100  # each is a pass over the table

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
_WORDS = ("and", "or", "not", "is", "null", "true", "false")


def compiled(text: str, schema: pa.Schema) -> Test:
    """What tells of each row of a batch whether it stays; never null."""
    if (size := len(text.encode(errors="replace"))) > MAX_BYTES:
        raise AskError(f"filter: larger than {MAX_BYTES >> 10} KiB: {size} bytes")
    return _Parser(_tokens(text), schema).whole()


def _tokens(text: str) -> list[Token]:
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            what = "the text" if text[at] in "\"'" else shown(text[at])
            why = "does not end" if what == "the text" else "is nothing that a filter knows"
            raise AskError(f"filter: {what} at character {at + 1} {why}", hint=_EXAMPLE)
        kind = match.lastgroup or ""
        found.append(Token(kind, match[kind], match.start(kind) + 1))
        at = match.end()
    return found


_EXAMPLE = 'Write for example age>=30 and (name~"ad" or email is null).'


@dataclass
class _Parser:
    tokens: list[Token]
    schema: pa.Schema
    place: int = 0
    depth: int = 0
    tests: int = 0

    def whole(self) -> Test:
        if not self.tokens:
            raise AskError("filter: empty", hint=_EXAMPLE)
        found = self._any()
        if self._next.kind != "end":
            raise self._wrong("and, or, or the end")
        return found

    @property
    def _next(self) -> Token:
        return self.tokens[self.place] if self.place < len(self.tokens) else Token("end", "", 0)

    def _taken(self, *words: str) -> bool:
        """Whether one of these words or signs comes next; it is taken."""
        token = self._next
        found = token.kind in ("word", "sign") and token.text.lower() in words
        self.place += found
        return found

    def _wrong(self, expected: str) -> AskError:
        return AskError(f"filter: expected {expected}, got {self._next}", hint=_EXAMPLE)

    def _any(self) -> Test:
        parts = [self._all()]
        while self._taken("or"):
            parts.append(self._all())
        return _joined(pc.or_, parts)

    def _all(self) -> Test:
        parts = [self._one()]
        while self._taken("and"):
            parts.append(self._one())
        return _joined(pc.and_, parts)

    def _one(self) -> Test:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise AskError(f"filter: nested more than {MAX_DEPTH} deep")
        if self._taken("not"):
            inner = self._one()
            found: Test = lambda rows: pc.invert(inner(rows))  # noqa: E731 - as short as its siblings
        elif self._taken("("):
            found = self._any()
            if not self._taken(")"):
                raise self._wrong("and, or, or )")
        else:
            found = self._test()
        self.depth -= 1
        return found

    def _test(self) -> Test:
        self.tests += 1
        if self.tests > MAX_TESTS:
            raise AskError(f"filter: more than {MAX_TESTS} comparisons")
        token = self._next
        if token.kind != "word" or token.text.lower() in _WORDS:
            raise self._wrong("a column")
        column = known_column(token.text, self.schema, "filter")
        self.place += 1
        if self._taken("is"):
            there = self._taken("not")
            if not self._taken("null"):
                raise self._wrong("null" if there else "null or not null")
            kernel = pc.is_valid if there else pc.is_null
            return lambda rows: kernel(rows.column(column))
        sign = self._next.text
        if not self._taken(*SIGNS):
            raise self._wrong(f"one of {' '.join(SIGNS)} or is")
        token = self._next
        if token.kind not in ("text", "number", "time") and token.text.lower() not in TRUTHS:
            if token.text.lower() == "null":
                raise AskError(f"filter: nothing compares with null; write {column} is null")
            raise self._wrong('a value (text stands in quotes, like "Ada")')
        self.place += 1
        return comparison(self.schema.field(column), sign, token)


def known_column(name: str, schema: pa.Schema, where: str) -> str:
    """A column that is there, or an error that names the nearest."""
    if name in schema.names:
        return name
    close = nearest(name[:100], schema.names)
    meant = f"Did you mean {close}?" if close else f"There are {', '.join(schema.names)}."
    raise AskError(f"{where}: there is no column {shown(name)}", hint=meant)


def _joined(kernel: Callable[[Any, Any], Any], parts: list[Test]) -> Test:
    if len(parts) == 1:
        return parts[0]
    return lambda rows: reduce(kernel, (part(rows) for part in parts))
