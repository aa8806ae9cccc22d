"""The wheel holds everything that livejoin opens, and runs without the clone."""

import json
import re
import zipfile
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from livejoin import __version__
from rig import installed
from rig.installed import ROOT, Installed

IMPORT_ALL = """
import importlib, pkgutil, livejoin
for module in pkgutil.walk_packages(livejoin.__path__, "livejoin."):
    importlib.import_module(module.name)
    print(module.name)
"""


def test_the_wheel_holds_what_is_in_the_tree_and_nothing_else(wheel: Path) -> None:
    source = ROOT / "src"
    tree = {
        str(file.relative_to(source))
        for file in source.glob("livejoin/**/*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == tree
    # the files that the code opens: jars, page, module, guard of child processes
    for opened in ("runtime/jars.lock", "tables/static/index.html", "tables/static/livejoin.js"):
        assert f"livejoin/{opened}" in held
    assert {"livejoin/runtime/guard.py", "livejoin/py.typed"} <= held


def test_make_wheel_adds_the_locked_dependencies_and_leaves_no_build_folder(wheel: Path) -> None:
    locks = ["requirements-build.lock", "requirements-run.lock"]
    for lock in locks:
        assert (wheel.parent / lock).read_bytes() == (ROOT / lock).read_bytes()
    assert {file.name for file in wheel.parent.iterdir()} == {wheel.name, *locks}
    assert not (wheel.parents[1] / "build").exists()


def test_the_version_comes_from_one_place(wheel: Path, livejoin: Installed) -> None:
    assert wheel.name == f"livejoin-{__version__}-py3-none-any.whl"
    done = livejoin.run(livejoin.livejoin, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"livejoin {__version__}\n", "")
    written = [
        name
        for name in ("pyproject.toml", "package.json", "Makefile")
        if re.search(rf"(?<![\d.]){re.escape(__version__)}(?![\d.])", (ROOT / name).read_text())
    ]
    assert written == []


def test_config_prints_the_defaults_from_an_empty_folder(livejoin: Installed) -> None:
    done = livejoin.run(livejoin.livejoin, "config", "--output", "json")
    assert (done.returncode, done.stderr) == (0, "")
    rows = {row["setting"]: row["value"] for row in json.loads(done.stdout)}
    assert rows["topics.users"] == "users"
    assert list(livejoin.home.iterdir()) == []


@pytest.mark.parametrize("command", ["demo", "doctor"])
def test_commands_describe_themselves(livejoin: Installed, command: str) -> None:
    done = livejoin.run(livejoin.livejoin, command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"livejoin {command}" in done.stdout


def test_every_module_imports_with_the_declared_dependencies_alone(livejoin: Installed) -> None:
    done = livejoin.run(livejoin.venv / "bin" / "python", "-W", "error", "-c", IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    modules = set(done.stdout.split())
    assert {"livejoin.demo", "livejoin.prepare", "livejoin.pipeline.queries"} <= modules
    assert livejoin.run(livejoin.venv / "bin" / "python", "-c", "import pytest").returncode == 1


def test_no_message_sends_a_user_of_the_wheel_to_the_makefile() -> None:
    said = [
        (file.name, line.strip())
        for file in ROOT.glob("src/**/*.py")
        for line in file.read_text().splitlines()
        if re.search(r"hint=.*\bmake (setup|demo|lock)\b", line)
    ]
    assert said == []


def test_the_lock_for_running_is_complete_and_a_part_of_the_whole_lock(wheel: Path) -> None:
    parts, whole = (
        set(re.split(r"\n(?=\S)", (ROOT / name).read_text().strip()))
        for name in ("requirements-run.lock", "requirements.lock")
    )
    assert parts <= whole
    locked = {re.match(r"[\w.-]+==[\w.]+", one)[0] for one in parts}  # type: ignore[index]
    needed = {
        f"{canonicalize_name(one.name)}=={one.version}" for one in installed.dependencies(wheel)
    }
    assert needed <= locked
    assert not [one for one in locked if one.startswith(("pytest", "mypy", "playwright"))]
