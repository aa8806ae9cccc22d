"""ARCHITECTURE.md names modules that exist, every folder, and walks that enter each folder once."""

import ast
import itertools
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
SOURCE = ROOT / "src" / "livejoin"
THREADS = "Threads and processes of a running livejoin"
HISTORY = "<name>.pipeline-history-<n>-…"  # named after its job group


def _section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def _modules(text: str) -> list[str]:
    return re.findall(r"`((?:\w+/)*\w+\.(?:py|ts))`", text)


def _path(module: str) -> Path:
    return ROOT / module if module.startswith(("web/", "tests/")) else SOURCE / module


@pytest.mark.parametrize("module", sorted(set(_modules(PAGE))))
def test_named_modules_exist(module: str) -> None:
    assert _path(module).is_file()


@pytest.mark.parametrize("walk", re.split(r"\n(?=The way of)", _section("Two walks"))[1:])
def test_a_walk_enters_each_folder_once(walk: str) -> None:
    steps = re.split(r"^\d+\. ", walk, flags=re.MULTILINE)[1:]
    assert len(steps) > 5
    folders = [module.rpartition("/")[0] for step in steps for module in _modules(step)]
    entered = [folder for folder, _ in itertools.groupby(folders)]
    assert len(entered) == len(set(entered)), entered


def test_every_folder_is_in_the_table() -> None:
    named = set(re.findall(r"^\| `([\w/]+)/` \|", _section("Folders"), re.MULTILINE))
    packages = {str(file.parent.relative_to(SOURCE)) for file in SOURCE.rglob("__init__.py")}
    web = {f"web/{folder.name}" for folder in (ROOT / "web").iterdir() if folder.is_dir()}
    # the root package, and a package of which only the subfolders are listed
    assert named == (packages | web) - {".", "tables"}


def test_the_layers_are_those_that_import_linter_checks() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    expected = "\n".join(f"    {layer.replace('livejoin.', '')}" for layer in layers)
    assert f"\n{expected}\n" in _section("Folders")


def _thread_names() -> set[str]:
    """Names of threads in the code of a running livejoin, with … for each placeholder."""
    found = set()
    for folder in ("control", "pipeline", "runtime", "tables"):
        for file in (SOURCE / folder).rglob("*.py"):
            found |= _names_in(file)
    return found | _names_in(SOURCE / "orchestrator.py") | _names_in(SOURCE / "serving.py")


def _names_in(file: Path) -> set[str]:
    text = re.sub(r"\{[^}]*\}", "…", file.read_text())
    started = re.findall(r"threads\.start\(\s*f?\"([^\"]+)\"", text)
    created = re.findall(r"Thread\((?:[^()]|\([^()]*\))*?\bname=\"([^\"]+)\"", text)
    return {*started, *created, *re.findall(r"thread_name_prefix=\"([^\"]+)\"", text)}


def test_every_thread_is_in_the_table_under_its_name() -> None:
    rows = [line.split("|")[1] for line in _section(THREADS).splitlines() if line[:3] == "| `"]
    listed = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(listed) == len(set(listed)), "a thread is listed twice"
    expected = {*_thread_names(), HISTORY}
    assert len(expected) > 15
    unlisted = [name for name in expected if not any(_matches(name, one) for one in listed)]
    outdated = [one for one in listed if not any(_matches(name, one) for name in expected)]
    assert (unlisted, outdated) == ([], [])


def _matches(name: str, listed: str) -> bool:
    """Pools number their threads, and `watch-…` are named after their clusters."""
    if name.endswith("…") and name != HISTORY:
        return listed.startswith(name[:-1])
    return re.fullmatch(rf"{re.escape(name)}(_\d)?", listed) is not None


def test_class_names_are_unique() -> None:
    classes = Counter(
        node.name
        for file in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert len(classes) > 100
    assert [name for name, count in classes.items() if count > 1] == []
