"""The documentation is correct: links resolve, nothing is missing, examples run."""

import ast
import re
import shlex
from pathlib import Path
from typing import get_args

import pytest
import typer.main
import yaml
from pydantic import BaseModel

from livejoin.cli.main import cli
from livejoin.config import sections, settings
from livejoin.core import format_versions, spec, state
from livejoin.tables.http import connection_limits
from livejoin.tables.http.routes import ROUTES
from livejoin.tables.live import socket as live_socket

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")])
FOLDERS = [one for one in ROOT.iterdir() if one.is_dir() and one.name[0] != "."]
EVERY_MARKDOWN_FILE = sorted(
    file
    for file in [*ROOT.glob("*.md"), *(md for one in FOLDERS for md in one.rglob("*.md"))]
    if "node_modules" not in file.parts
)
COLUMNS = 120
MODULES = {
    file.name
    for folder in ("src", "web", "tests", "bench", "clients")
    for kind in ("*.py", "*.ts")
    for file in (ROOT / folder).rglob(kind)
    if "node_modules" not in file.parts
}
# the decision about names has the old ones too
NAMES_OF_THE_PAST = ("0027-one-tree-one-vocabulary.md", "CHANGELOG.md")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?[^)]*\)", document.read_text())
    for link, heading in links:
        if "://" in link:
            continue
        target = document.parent / link if link else document
        assert target.exists(), link
        assert not heading or heading in _headings(target), f"{link}#{heading}"


def _headings(document: Path) -> set[str]:
    """The anchors of a page's headings."""
    found = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize(
    "document", EVERY_MARKDOWN_FILE, ids=lambda path: str(path.relative_to(ROOT))
)
def test_lines_fit_120_columns(document: Path) -> None:
    prose = re.sub(r"(?ms)^ *```.*?^ *```$", "", document.read_text())
    long = [line for line in prose.splitlines() if len(line) > COLUMNS and _can_be_broken(line)]
    assert long == []


def _can_be_broken(line: str) -> bool:
    """Tables, indented code, quoted outcomes (→), and a link alone on its line cannot."""
    if re.match(r" *\||    |→ ", line):
        return False
    return len(re.sub(r"!?\[[^\]]*\]\([^)]*\)", "link", line).removeprefix("- ").split()) > 1


@pytest.mark.parametrize(
    "document",
    [document for document in DOCUMENTS if document.name not in NAMES_OF_THE_PAST],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_modules_that_are_mentioned_exist(document: Path) -> None:
    mentioned = set(re.findall(r"`(?:[\w.-]+/)*(\w+\.(?:py|ts))`", document.read_text()))
    assert mentioned - MODULES - {"utils.py", "tutorial.py"} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_picture_has_an_alt_text(document: Path) -> None:
    assert [alt for alt in re.findall(r"!\[([^\]]*)\]\(", document.read_text()) if not alt] == []


def test_every_page_can_be_found_from_the_readme() -> None:
    linked = set(re.findall(r"\]\((docs/[^)#\s]+)", (ROOT / "README.md").read_text()))
    pages = {str(page.relative_to(ROOT)) for page in ROOT.glob("docs/*.md")}
    assert pages - linked == set()


def test_every_picture_of_the_page_is_in_the_tutorial() -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text()
    light = [
        picture.name for picture in ROOT.glob("docs/pictures/*.png") if "-dark" not in picture.name
    ]
    assert light
    assert [name for name in light if f"(pictures/{name})" not in text] == []


def test_every_setting_is_described() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()
    nested: dict[str, type[BaseModel]] = {
        "topics": sections.TopicSettings,
        "own_topics": sections.OwnTopicSettings,
        "http": sections.HttpSettings,
        "spark": sections.SparkSettings,
    }
    names = [name for name in settings.Settings.model_fields if name not in nested]
    names += [
        f"{name}.{field}" for name, section in nested.items() for field in section.model_fields
    ]
    assert [name for name in names if f"`{name}" not in text] == []


@pytest.mark.parametrize(
    "document",
    [
        *("README.md", "docs/settings.md", "docs/security.md", "docs/coming-from-deephaven.md"),
        *("docs/deployment.md", "docs/migrating-a-script.md", "docs/sources.md"),
    ],
)
def test_examples_of_settings_are_valid(document: str, tmp_path: Path) -> None:
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
    names = [command.name or command.callback.__name__ for command in commands if command.callback]
    assert names
    assert [name for name in names if f"livejoin {name}" not in text] == []


@pytest.mark.parametrize(
    "document",
    [
        *("README.md", "docs/control-messages.md", "docs/coming-from-deephaven.md"),
        *("docs/security.md", "docs/troubleshooting.md", "docs/tutorial.md"),
        "docs/migrating-a-script.md",
    ],
)
def test_command_lines_are_valid(document: str) -> None:
    text = (ROOT / document).read_text()
    lines = re.findall(
        r"^ {4}(?:.*\$\()?(?:\.venv/bin/)?livejoin (\w[^:\n)]*)\)?$", text, re.MULTILINE
    )
    assert lines
    for line in lines:
        words = shlex.split(line, comments=True)
        command = typer.main.get_command(cli)
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        command.make_context(command.name, words)  # raises for an unknown option


def test_every_table_is_described() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in spec.DEFAULT.all_tables if f"`{name}`" not in text] == []


def test_documented_roles_match_the_routes() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    rows = re.findall(r"^\| `([A-Z]+) (/[^`]*)` \| (\w+) \|$", text, re.MULTILINE)
    assert sorted(rows) == sorted((route.method, route.path, route.role) for route in ROUTES)


def test_documented_limits_match_the_code() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    assert f"| headers | {connection_limits.MAX_HEADER_BYTES >> 10} KiB |" in text
    assert f"its first byte to its last | {connection_limits.REQUEST_TIMEOUT_S:g} s |" in text
    assert f"that nobody takes | {connection_limits.WRITE_TIMEOUT_S:g} s |" in text
    burst, interval_s = live_socket.SUBSCRIPTION_BURST, live_socket.SUBSCRIPTION_INTERVAL_S
    assert f"| {burst} at once, then one every {interval_s:g} s |" in text
    http = sections.HttpSettings()
    burst, rate = connection_limits.NEW_CONNECTION_BURST, http.connections_per_second
    assert f"{burst} at once, then {rate:g} a second" in text
    assert f"{http.connections:,}, of one address {http.connections_per_address:,}" in text


def test_the_python_of_the_protocol_runs() -> None:
    text = (ROOT / "docs" / "live-protocol.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert any("assert table(" in block for block in blocks)
    for block in blocks:
        exec(block, {})


def _source_texts() -> list[str]:
    """Every string of the source, with … for each placeholder."""
    texts = [
        re.sub(r"\$\{[^{}]*\}", "…", file.read_text())
        for file in [*ROOT.glob("web/**/*.ts"), ROOT / "src/livejoin/tables/static/index.html"]
    ]
    for file in ROOT.glob("src/**/*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            constants = [part.value if isinstance(part, ast.Constant) else "…" for part in parts]
            texts.append("".join(text for text in constants if isinstance(text, str)))
    return texts


@pytest.mark.parametrize(
    ("page", "least"),
    [("troubleshooting.md", 50), ("migrating-a-script.md", 12), ("upgrading.md", 1)],
)
def test_messages_quoted_in_a_page_exist(page: str, least: int) -> None:
    text = (ROOT / "docs" / page).read_text()
    quoted = set(re.findall(r"\*\*`([^`]+)`\*\*", text)) - {"like this"}
    source_texts = _source_texts()
    assert len(quoted) >= least
    assert [
        message for message in sorted(quoted) if not any(message in text for text in source_texts)
    ] == []


def test_every_outcome_is_in_troubleshooting() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    assert [outcome for outcome in get_args(state.Outcome) if f"`{outcome}`" not in text] == []


def test_the_events_of_the_log_are_documented_with_their_levels() -> None:
    text = (ROOT / "docs" / "tables.md").read_text()
    text = text.partition("## Events of the log")[2].partition("\n## ")[0]
    table, _, levels = text.partition("Each event has one level:")
    found = re.findall(r"`([a-z-]+)`", " ".join(re.findall(r"^\|.*\|$", table, re.MULTILINE)))
    assert sorted(set(found) - {"event"}) == sorted(get_args(state.LogEvent))
    errors, _, rest = levels.partition(" are ERROR;")
    warnings = rest.partition(" are WARN;")[0]
    documented = dict.fromkeys(re.findall(r"`([a-z-]+)`", errors), "ERROR")
    documented |= dict.fromkeys(re.findall(r"`([a-z-]+)`", warnings), "WARN")
    assert documented == state.LOG_LEVELS


def test_tables_described_for_deephaven_users_match_the_schema() -> None:
    text = (ROOT / "docs" / "coming-from-deephaven.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]*)\| ([\w, ]*)\|", text, re.MULTILINE)
    described = {name: re.findall(r"\w+", f"{stays}, {new}") for name, stays, new in rows}
    for name, table in spec.DEFAULT.tables.items():
        columns = [column.name for column in table.columns if not column.name.startswith("_")]
        assert described[name] == columns


@pytest.mark.parametrize("page", ["settings.md", "operations.md"])
def test_the_task_slots_are_as_described(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    formula = re.search(
        r"partitions of the users topic \+ partitions of the accounts topic"
        r" \+ spark\.shuffle_partitions \+ (\d+)",
        " ".join(text.split()),
    )
    assert formula is not None
    for shuffle in (1, 2, 8):
        limits = state.Limits(shuffle_partitions=shuffle)
        assert limits.slots_needed(3 + 4) == 3 + 4 + shuffle + int(formula[1])


def test_the_formats_are_those_of_this_version() -> None:
    text = (ROOT / "docs" / "upgrading.md").read_text()
    table = dict(re.findall(r"^\| ([a-z ]+) \| (\d+) \|$", text, re.MULTILINE))
    assert {name: int(number) for name, number in table.items()} == {
        "ledger": format_versions.LEDGER,
        "changelog": format_versions.CHANGELOG,
        "frames of the live socket": format_versions.LIVE,
        "tokens": format_versions.TOKEN,
    }
    for older in range(1, format_versions.LEDGER):
        assert f"| a ledger of format {older} |" in text
    newer, known = format_versions.LEDGER + 1, format_versions.LEDGER
    assert format_versions.unsupported_reason("the ledger", newer, known) in text


def test_every_bench_has_a_make_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    benches = [file for file in (ROOT / "bench").glob("*.py") if "__main__" in file.read_text()]
    assert len(benches) > 5
    assert [file.name for file in benches if f"bench/{file.name}" not in makefile] == []
