"""The wheel, built by `make wheel` and installed the way a user installs it.

Its virtual environment has the dependencies that the wheel declares, as links to those of this
Python, and nothing else: no development tools, no clone.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
BUILT_FROM = (
    *("Makefile", "pyproject.toml", "README.md", "LICENSE", "src"),
    *("requirements.lock", "requirements-build.lock", "requirements-run.lock"),
)
_BIN = Path(sys.executable).parent
_LIMIT_S = 120


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel, and an empty home folder."""

    wheel: Path
    venv: Path
    home: Path

    @property
    def livejoin(self) -> Path:
        """The command."""
        return self.venv / "bin" / "livejoin"

    @property
    def site(self) -> Path:
        """Its site-packages."""
        return site_packages(self.venv)

    def env(self, **more: str) -> dict[str, str]:
        """The environment of a user who has never seen the clone."""
        return bare_environment(self.home, **more)

    def run(self, *command: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command from the empty home folder."""
        return subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            check=False,
            cwd=self.home,
            env=self.env(**more),
            timeout=_LIMIT_S,
        )


def copy_sources(folder: Path) -> None:
    """Copy what the wheel is built from, without what a build or a test run left in it."""
    leftovers = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in BUILT_FROM:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=leftovers)
        else:
            shutil.copy(source, folder / name)


def make_wheel(folder: Path) -> Path:
    """Run `make wheel` in a copy of the sources, with the tools of this Python."""
    # Set-up must not run: it would install this copy into the Python of the tests. `ready` is never
    # remade, and without a PYTHON the set-up fails before it installs anything.
    (folder / "ready").touch()
    variables = [f"BIN={_BIN}", "READY=ready", "PYTHON=false"]
    command = ["make", "--no-print-directory", "--old-file=ready", "wheel", *variables]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def install(wheel: Path, venv: Path, home: Path) -> Installed:
    """Install it without its dependencies, next to links to them."""
    home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    link_dependencies(wheel, site_packages(venv))
    pip = [str(_BIN / "pip"), "--python", str(venv / "bin" / "python"), "install"]
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    subprocess.run([*pip, *options, str(wheel)], check=True, timeout=_LIMIT_S)
    return Installed(wheel, venv, home)


def site_packages(venv: Path) -> Path:
    """The folder of a virtual environment into which packages are installed."""
    (site,) = venv.glob("lib/python*/site-packages")
    return site


def link_dependencies(wheel: Path, site: Path, *more: str) -> None:
    """Link every package that the wheel needs, directly or not, and more by name."""
    for found in (*dependencies(wheel), *map(importlib.metadata.distribution, more)):
        for file in found.files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (site / top).exists():
                (site / top).symlink_to(Path(str(found.locate_file(top))).resolve())


def dependencies(wheel: Path) -> Iterator[importlib.metadata.Distribution]:
    """What pip would install along with the wheel, as it is installed here."""
    info = next(path for path in zipfile.Path(wheel).iterdir() if path.name.endswith(".dist-info"))
    own = importlib.metadata.PathDistribution(info)
    waiting, seen = _needed(own, frozenset()), set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if (name, *sorted(wanted.extras)) in seen:
            continue
        seen.add((name, *sorted(wanted.extras)))
        found = importlib.metadata.distribution(name)
        waiting += _needed(found, frozenset(wanted.extras))
        yield found


def _needed(found: importlib.metadata.Distribution, extras: frozenset[str]) -> list[Requirement]:
    requirements = map(Requirement, found.requires or ())
    return [
        one
        for one in requirements
        if one.marker is None
        or any(one.marker.evaluate({"extra": extra}) for extra in extras or {""})
    ]


def bare_environment(home: Path, **more: str) -> dict[str, str]:
    """Environment variables without anything of this clone, and another home folder."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LIVEJOIN_", "PYTHON", "XDG_", "VIRTUAL_ENV", "_LIVEJOIN"))
    }
    path = os.pathsep.join(
        folder for folder in kept["PATH"].split(os.pathsep) if Path(folder) != _BIN
    )
    return {**kept, "PATH": path, "HOME": str(home), **more}
