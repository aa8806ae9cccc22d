"""The follower that docs/changelog.md shows comes to the tables of the test vectors."""

import ast
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

DOCS = Path(__file__).parents[2] / "docs"
CASES = json.loads((DOCS / "changelog-vectors.json").read_text())["cases"]


class Shown(NamedTuple):
    """A record, as the page's code asks for it."""

    record: dict[str, Any]

    def key(self) -> bytes:
        return str(self.record["key"]).encode()

    def value(self) -> bytes:
        return json.dumps(self.record["value"]).encode()


def _parts() -> tuple[ast.Module, ast.Module]:
    """The page's function, and what it does with each message once it has one."""
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "changelog.md").read_text(), re.DOTALL)
    tree = ast.parse(code)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    (loop,) = (node for node in tree.body if isinstance(node, ast.While))
    asked = next(at for at, node in enumerate(loop.body) if isinstance(node, ast.If))
    return ast.Module([*functions], []), ast.Module(loop.body[asked + 1 :], [])


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_follower_of_the_page_comes_to_the_tables(case: dict[str, Any]) -> None:
    functions, body = (compile(part, "changelog.md", "exec") for part in _parts())
    names: dict[str, Any] = {"json": json, "newest": {}, "print": lambda *_: None}
    exec(functions, names)
    for record in case["records"] * 2:  # at least once
        names["message"] = Shown(record)
        exec(body, names)
    for table, expected in case["tables"].items():
        mine = {k: row for k, (_, row) in names["newest"].items() if k.startswith(f"{table}/")}
        found = {key.partition("/")[2]: row for key, row in mine.items()}
        if table == "tombstones":
            assert sorted(found) == sorted(expected)
        else:
            assert {row_id: row for row_id, row in found.items() if row is not None} == expected
