"""`make test` runs every test once: a new folder must be in one of its groups."""

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONG = {"tests/faults"}  # `make faults` runs it


def _files(path: str) -> set[Path]:
    """The test files that pytest collects for an argument."""
    found = ROOT / path
    return {found} if found.is_file() else set(found.rglob("test_*.py"))


def test_every_test_file_is_in_one_group() -> None:
    recipe = subprocess.run(
        ["make", "--dry-run", "test"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    groups = [line for line in recipe.splitlines() if "/pytest tests/" in line]
    named = [path for line in groups for path in re.findall(r"tests/[\w/.]+", line)]
    run = [file for path in named for file in _files(path)]
    expected = _files("tests") - {file for path in LONG for file in _files(path)}
    assert set(run) == expected
    assert len(run) == len(set(run))


def test_plain_pytest_runs_the_same_folders() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]
    run = {file for path in settings["testpaths"] for file in _files(path)}
    assert run == _files("tests") - {file for path in LONG for file in _files(path)}


def test_test_modules_do_not_import_each_other() -> None:
    """What several share is in `rig`, a `conftest.py` or a module without tests."""
    imports = re.compile(r"^(?:from|import) [\w.]*\btest_\w+", re.MULTILINE)
    found = [
        f"{file.relative_to(ROOT)}: {line}"
        for file in (ROOT / "tests").rglob("*.py")
        for line in imports.findall(file.read_text())
    ]
    assert found == []
