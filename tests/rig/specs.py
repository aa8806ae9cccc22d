"""Random specs, and records for them: all types, nested members, null and hostile values."""

import json
import random
import re
from collections.abc import Mapping
from typing import Any

from livejoin.core.spec import JoinSpec

TYPES = (
    *("string", "int64", "double", "boolean", "timestamp"),
    *("decimal(12,2)", "decimal(38,10)", "decimal(4,4)", "decimal(18,0)"),
)
_NAMES = (
    *("id", "Id", "name", "status", "total", "größe", "a b", "x-y", "select", "row", "text"),
    *("ts", "source", "value", "v", "reason", "key", "into", "kept", "e", "group", "_quick"[1:]),
)
# No member of a record has one of these and is no container: paths go through them.
_OBJECTS, _ARRAYS = ("o", "O", "inner"), ("list", "List")

STRINGS = ('"x"', '"é\\u00e9"', '"1.5"', "123", "1.50", "true", '""', '"{"', '"}]]"', '"}]]}"',
           '"\\n"', '"=1+1"', '"\\ud834\\udd1e"', '"[1]"')  # fmt: skip
VALID: dict[str, tuple[str, ...]] = {
    "string": STRINGS,
    "int64": ("1", "30.0", '"7"', "3e1", "-0", "9223372036854775807", '"3e1"'),
    "double": ("1", "1.5", "-2e-3", '"0.25"', "-0.0", "12345678901234567890.12"),
    "boolean": ("true", "false", '"true"', '"false"'),
    "timestamp": (
        *('"2024-02-29T10:00:00Z"', '"2024-02-29T10:00:00.123+05:30"', '"1969-12-31T23:59:59.5Z"'),
        *('"2024-02-29T10:00:00.120000-0330"', '"2024-02-29T10:00:00+02"', "1700000000000"),
        *("1.7e12", "1700000000000.0", "-1", "0", '"0001-01-01T00:00:00Z"'),
        '"9999-12-31T23:59:59.999Z"',
    ),
    "decimal": ("0", "0.5", '"0.25"', "-0.0", '"-0"', "0.10", "0.1200000", "5e-1", '"5E-1"'),
}
HOSTILE = (
    *('"abc"', "{}", "[]", "[1]", '{"a": {"b": 1}}', '[{"a": [[1]]}]', '"1,2"', '"1,234.5"'),
    *("1e400", "1e39", "0.00001", "1.005", "1.0000000000000000000000000000000000000000001"),
    *("99999999999.99", "10000000000", "9999999999.99", "12345678901234567890123456789012345678"),
    *("9223372036854775808", "123456789012345678901234567890123456789", '"+1"', '" 1"', '"1\\n"'),
    *('"01"', '"1."', '".5"', '"0x1F"', '"NaN"', '"TRUE"', '"yes"', "1", "1.5", "true", "null"),
    *('"2024"', '"2024-02"', '"2024-02-29"', '"20240229"', '"2024-02-29T10:00:00"'),
    *('"2024-02-29T10:00Z"', '"2024-02-29 10:00:00Z"', '"2024-02-30T00:00:00Z"', '"10:00:00Z"'),
    *('"2024-02-29T24:00:00Z"', '"2024-02-29T10:00:60Z"', '"2024-02-29T10:00:00.1234Z"'),
    *('"2024-02-29T10:00:00,5Z"', '"2024-02-29t10:00:00z"', '"2024-02-29T10:00:00Z\\n"'),
    *('"2024-02-29T10:00:00+19:00"', '"2024-02-29T10:00:00+18:30"', '"2024-02-29T10:00:00+02:60"'),
    *('"0000-12-31T23:59:59-05:00"', '"9999-12-31T23:59:59.999-01:00"', '"+10000-01-01T00:00:00Z"'),
    *('"0001-01-01T00:00:00+05:00"', '"2024-02-29T10:00:00 UTC"', '"1700000000000"', '"0"'),
    *("253402300799999", "253402300800000", "-62135596800001", "1700000000000.5", "1e15", "1e30"),
    *('"\\ud83d"', '"٣"', '"２０２４-02-29T10:00:00Z"'),
)
KEYS = {
    "string": ('"k1"', '"k2"', '"k2"', '"é"', '"\\u00e9"', "5", '"5"', "null", ""),
    "int64": ("1", '"1"', "1.0", "2", "20e-1", "null", "", "-9223372036854775808"),
}
BROKEN = (
    b'{"id": "cut', b"[]", b"7", b"", b"\xff", b'{"o": {"a": 1}} {"o": {"a": 2}}', b"{}}",
    b'{"o": {"a": 1}}, {"o": {"a": 1}}', b'{"a": 1}], [{"a": 1}', b'{"a": 1}]], "v": [[{"a": 2}',
    b'{"o": {"a": 1}}]]}', b'{"o": {"a": 1}}]] , "x": {"y": [[{"a": 1}',
)  # fmt: skip

Spec = Mapping[str, Any]  # as JSON


def random_spec(dice: random.Random, sources: int) -> JoinSpec:
    """Return a spec of so many sources with random names, types and paths."""
    while True:
        made = JoinSpec.from_json({"sources": _sources(dice, sources)})
        try:
            assert made.joined_names
        except ValueError:  # a name that is taken twice
            continue
        return made


def _sources(dice: random.Random, count: int) -> list[dict[str, Any]]:
    key_type = dice.choice(list(KEYS))
    letters = "abcdefgh"
    names = dice.sample([a + b + "9_" for a in letters for b in letters], count)
    sources = []
    for name in names:
        own = list({n.lower(): n for n in dice.sample(_NAMES, dice.randint(3, 8))}.values())
        key, *others = own
        fields = [{"name": key, "type": key_type}]
        fields += [{"name": other, "type": dice.choice(TYPES)} for other in others]
        for number, field in enumerate(fields):
            if dice.random() < 0.5:
                field["path"] = _path(dice, number)
        sources.append({"name": name, "key": key, "fields": fields})
    return sources


def _path(dice: random.Random, number: int) -> str:
    path, end = "$", f".m{number}"
    for _ in range(dice.randint(0, 2)):
        kind = dice.random()
        if kind < 0.6:
            path += f".{dice.choice(_OBJECTS)}"
        elif kind < 0.8:
            path, end = path + f".{dice.choice(_ARRAYS)}[{number}]", dice.choice(["", end])
        else:
            path += f".{dice.choice(_ARRAYS)}[{number}]"
        if not end:
            break
    return path + end


def random_value(dice: random.Random, source: Spec) -> bytes | None:
    """Return a record of a source: a tombstone, broken, hostile or valid."""
    kind = dice.random()
    if kind < 0.05:
        return None
    if kind < 0.1:
        return dice.choice(BROKEN)
    hostile = 0.15 if kind < 0.3 else 0.0
    members: dict[Any, Any] = {}
    if dice.random() < 0.5:  # members that are no fields
        members["unknown"] = dice.choice(('"}]"', '[{"a": 1}]', '{"o": {"x": "}"}}', "1.50"))
    for field in source["fields"]:
        text = _cell(dice, source, field, hostile)
        if text:
            _put(members, field.get("path") or f"$.{field['name']}", text)
    if dice.random() < hostile:
        members[dice.choice(_OBJECTS + _ARRAYS)] = dice.choice(HOSTILE)
    return _render(members).encode()


def _cell(dice: random.Random, source: Spec, field: Spec, hostile: float) -> str:
    if field["name"] == source["key"]:
        return dice.choice(KEYS[field["type"]])
    if dice.random() < hostile:
        return dice.choice(HOSTILE)
    if dice.random() < 0.15:
        return dice.choice(("", "null"))
    return dice.choice(VALID[field["type"].partition("(")[0]])


def _put(members: dict[Any, Any], path: str, text: str) -> None:
    steps = re.findall(r"\.([^.\[\]]+)|\[(\d+)\]", path)
    *way, last = [name or int(index) for name, index in steps]
    for step in way:
        members = members.setdefault(step, {})
        if not isinstance(members, dict):
            return
    members[last] = text


def _render(node: Any) -> str:
    if isinstance(node, str):
        return node
    if any(isinstance(step, int) for step in node):
        ends = range(max(step for step in node if isinstance(step, int)) + 1)
        return "[" + ", ".join(_render(node.get(i, "null")) for i in ends) + "]"
    return "{" + ", ".join(f"{json.dumps(k)}: {_render(v)}" for k, v in node.items()) + "}"
