"""The schemas with which `from_json` reads the records of a spec.

One schema holds the fields of all sources: planning a second one costs more than parsing absent
fields. A field of another type, or a member that is an object here and a scalar there, needs a
further schema.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from livejoin.core.spec import Column, JoinSpec, Type

Steps = tuple[str | int, ...]

_ELEMENTS = 0  # the step that stands for all indexes of an array
_SPARK_TYPES = {"string": "string", "int64": "bigint", "double": "double", "boolean": "boolean"}
# `from_json` would round decimals, drop their commas, and read integers as seconds.
_AS_WRITTEN = "variant"


@dataclass
class JsonSchema:
    """The members that one `from_json` reads."""

    members: dict[str | int, "Node"] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)  # whose records need it

    @property
    def is_flat(self) -> bool:
        """Whether it has no objects and arrays in the record's object."""
        return all(isinstance(node, str) for node in self.members.values())

    def add(self, source: str, column: Column) -> bool:
        """Add a field of a source, if it fits."""
        if not _insert(self.members, column.steps, spark_type(column.type)):
            return False
        if source not in self.sources:
            self.sources.append(source)
        return True

    def struct(self, *further: str) -> str:
        """Its type in Spark's notation, with further members."""
        return f"struct<{','.join((*_members(self.members), *further))}>"


Node = str | dict[str | int, "Node"]  # a Spark type; members of an object; elements of an array


@dataclass(frozen=True)
class Schemas:
    """All schemas of a spec, and the number of the one that reads each field."""

    schemas: Sequence[JsonSchema]
    of_field: Mapping[tuple[str, str], int]  # by source and field


def json_schemas(joined: JoinSpec) -> Schemas:
    """As few schemas as the fields of a spec need."""
    schemas: list[JsonSchema] = []
    of_field: dict[tuple[str, str], int] = {}
    for source in joined.sources:
        for column in source.fields:
            fits = (i for i, schema in enumerate(schemas) if schema.add(source.name, column))
            number = next(fits, None)
            if number is None:
                number = len(schemas)
                schemas.append(JsonSchema())
                schemas[number].add(source.name, column)
            of_field[source.name, column.name] = number
    return Schemas(schemas, of_field)


def spark_type(kind: Type) -> str:
    """The type with which `from_json` reads a field of this type."""
    return _SPARK_TYPES.get(kind, _AS_WRITTEN)


def is_as_written(kind: Type) -> bool:
    """Whether `from_json` leaves the value as it is, and it is converted afterwards."""
    return kind not in _SPARK_TYPES


def quote(name: str) -> str:
    """A name in Spark's notation of types."""
    return f"`{name.replace('`', '``')}`"


def variant_path(steps: Steps) -> str:
    """Steps in the notation of VARIANT's functions."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def number_pattern(steps: Steps, number: str) -> str:
    """A regular expression that finds the number of a member or element in a record's text."""
    last = steps[-1]
    if isinstance(last, int):
        return rf"[\[,]\s*({number})"
    return rf'"{"".join(map(_spellings, last))}"\s*:\s*({number})'


def _spellings(char: str) -> str:
    """A regular expression for a character in JSON text, where it may be escaped."""
    if char.isascii() and (char.isalnum() or char in "_-. "):  # no serializer escapes these
        return re.escape(char)
    plain, units = json.dumps(char, ensure_ascii=False)[1:-1], char.encode("utf-16-be")
    escaped = (rf"\\u(?i:{units[i : i + 2].hex()})" for i in range(0, len(units), 2))
    return f"(?:{re.escape(plain)}|{''.join(escaped)})"


def _insert(node: dict[str | int, Node], steps: Sequence[str | int], kind: str) -> bool:
    step, *rest = steps
    step = step if isinstance(step, str) else _ELEMENTS
    if node and (_ELEMENTS in node) != (step == _ELEMENTS):
        return False
    if not rest:
        return node.setdefault(step, kind) == kind
    inner = node.setdefault(step, {})
    return isinstance(inner, dict) and _insert(inner, rest, kind)


def _members(members: Mapping[str | int, Node]) -> list[str]:
    return [f"{quote(str(name))}:{_type(node)}" for name, node in members.items()]


def _type(node: Node) -> str:
    if isinstance(node, str):
        return node
    if _ELEMENTS in node:
        return f"array<{_type(node[_ELEMENTS])}>"
    return f"struct<{','.join(_members(node))}>"
