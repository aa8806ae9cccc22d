"""The follower in docs/changelog.md gives the tables of the test vectors."""

import ast
import json
import re
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pytest

DOCS = Path(__file__).parents[2] / "docs"
CASES = [
    case
    for name in ("changelog-vectors.json", "changelog-vectors-2.json")
    for case in json.loads((DOCS / name).read_text())["cases"]
]


class Message(NamedTuple):
    """A record with the interface that the page's code uses."""

    record: dict[str, Any]

    def key(self) -> bytes:
        return str(self.record["key"]).encode()

    def value(self) -> bytes:
        return json.dumps(self.record["value"]).encode()


def _parts() -> tuple[ast.Module, ast.Module]:
    """The page's function, and the part of its loop that handles a message."""
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "changelog.md").read_text(), re.DOTALL)
    tree = ast.parse(code)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    (loop,) = (node for node in tree.body if isinstance(node, ast.While))
    check_at = next(at for at, node in enumerate(loop.body) if isinstance(node, ast.If))
    return ast.Module([*functions], []), ast.Module(loop.body[check_at + 1 :], [])


def _compiled(part: ast.Module) -> CodeType:
    return compile(ast.fix_missing_locations(part), "changelog.md", "exec")


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_documented_follower_gives_the_tables_of_the_vectors(case: dict[str, Any]) -> None:
    functions, body = _parts()
    names: dict[str, Any] = {"json": json, "newest": {}, "columns": {}, "print": lambda *_: None}
    exec(_compiled(functions), names)
    # delivered at least once; the loop is there for `continue`
    loop = ast.For(
        ast.Name("message", ast.Store()), ast.Name("messages", ast.Load()), body.body, []
    )
    names["messages"] = [Message(record) for record in case["records"] * 2]
    exec(_compiled(ast.Module([loop], [])), names)
    for table, expected in case["tables"].items():
        newest = {k: row for k, (_, row) in names["newest"].items() if k.startswith(f"{table}/")}
        found = {key.partition("/")[2]: row for key, row in newest.items()}
        if table == "tombstones":
            assert sorted(found) == sorted(expected)
        else:
            assert {row_id: row for row_id, row in found.items() if row is not None} == expected
