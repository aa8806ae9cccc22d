"""docs/web-module.md and the published types match the module and the examples."""

import re
from pathlib import Path

from livejoin.core import control_messages, spec
from livejoin.tables.http.routes import ROUTES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "web-module.md").read_text()
TYPES = (ROOT / "src" / "livejoin" / "tables" / "static" / "livejoin.d.ts").read_text()


def _members(interface: str) -> list[str]:
    """The names that an interface of the published types declares."""
    body = re.search(rf"export interface {interface} {{\n(.*?)^}}", TYPES, re.DOTALL | re.MULTILINE)
    assert body
    return re.findall(r"^  (?:readonly )?(\w+)\??[:(]", body[1], re.MULTILINE)


def test_the_types_name_every_field_of_a_control_message() -> None:
    fields = set(control_messages.message_schema(spec.DEFAULT)["properties"])
    topics = {source.topic_field for source in spec.DEFAULT.sources}
    assert sorted(_members("ControlMessage")) == sorted(fields - topics)
    assert "[field: `${string}Topic`]: string" in TYPES, "sources have any names"


def test_every_method_is_described() -> None:
    methods = {f"client.{name}" for name in _members("Client")} - {"client.table"}
    methods |= {f"table.{name}" for name in _members("Table")} - {"table.name"}
    assert len(methods) > 5
    assert [
        name for name in sorted(methods) if f"`{name}" not in PAGE and f", `{name}" not in PAGE
    ] == []


def test_every_example_is_described() -> None:
    assert any(route.path == "/example" for route in ROUTES)
    section = PAGE.partition("\n## Examples\n")[2].partition("\n## ")[0]
    assert "`/example`" in section
    for folder in (ROOT / "clients").iterdir():
        assert f"clients/{folder.name}" in section
