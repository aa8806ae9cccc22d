"""The documents tell the truth: links lead somewhere, nothing is left out, examples run."""

import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from livejoin import sections, settings
from livejoin.cli import cli
from livejoin.core import spec
from livejoin.tables import doors, rights, viewer

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text())
    missing = [
        link for link in links if "://" not in link and not (document.parent / link).exists()
    ]
    assert missing == []


def test_every_setting_is_described() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()
    within: dict[str, type[BaseModel]] = {
        "topics": sections.Topics,
        "http": sections.Http,
        "spark": sections.Spark,
    }
    names = [name for name in settings.Settings.model_fields if name not in within]
    names += [f"{name}.{field}" for name, of in within.items() for field in of.model_fields]
    assert [name for name in names if f"`{name}" not in text] == []


@pytest.mark.parametrize("document", ["README.md", "docs/settings.md", "docs/security.md"])
def test_the_examples_of_settings_are_valid(document: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        file = tmp_path / "example.yaml"
        file.write_text(re.sub(r"\$\{(env|file):[^}]*\}", "x", block))
        assert yaml.safe_load(block)
        settings.load(file)


def test_every_command_is_described() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    commands = cli.registered_commands
    names = [one.name or one.callback.__name__ for one in commands if one.callback]
    assert names
    assert [name for name in names if f"livejoin {name}" not in text] == []


def test_every_table_is_described() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in spec.ALL_TABLES if f"`{name}`" not in text] == []


def test_who_may_ask_for_what_is_as_described() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    rows = re.findall(r"^\| `([A-Z]+) (/[^`]*)` \| (\w+) \|$", text, re.MULTILINE)
    assert {(method, path): need for method, path, need in rows} == rights.RULES


def test_the_limits_are_as_described() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    assert f"| headers | {doors.HEADER_BYTES >> 10} KiB |" in text
    assert f"its first byte to its last | {doors.ASK_S:g} s |" in text
    assert f"that nobody takes | {doors.TAKE_S:g} s |" in text
    assert f"| {viewer.ASKS} at once, then one every {viewer.ASK_S:g} s |" in text
    http = sections.Http()
    assert f"{doors.NEW_AT_ONCE} at once, then {http.connections_per_second:g} a second" in text
    assert f"{http.connections:,}, of one address {http.connections_per_address:,}" in text


def test_the_python_of_the_protocol_runs() -> None:
    text = (ROOT / "docs" / "live-protocol.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert any("assert table(" in block for block in blocks)
    for block in blocks:
        exec(block, {})
