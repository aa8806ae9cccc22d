"""The wheel is built and installed once for all tests of what is delivered."""

from pathlib import Path

import pytest

from rig import installed


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the wheel is built from, with what an older build has left in it."""
    folder = tmp_path_factory.mktemp("sources")
    installed.copy_sources(folder)
    stale = folder / "build" / "lib" / "livejoin" / "deleted_long_ago.py"
    stale.parent.mkdir(parents=True)
    stale.touch()
    return folder


@pytest.fixture(scope="session")
def wheel(sources: Path) -> Path:
    """The wheel."""
    return installed.make_wheel(sources)


@pytest.fixture(scope="session")
def livejoin(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> installed.Installed:
    """The wheel, installed."""
    folder = tmp_path_factory.mktemp("installed")
    return installed.install(wheel, folder / "venv", folder / "home")
