import os
from collections.abc import Callable
from pathlib import Path

import pytest

Java = Callable[[str], Path]


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """Makes a Java that says what it is told to say, and points JAVA_HOME at it."""

    def making(script: str) -> Path:
        file = tmp_path / "jdk" / "bin" / "java"
        file.parent.mkdir(parents=True)
        file.write_text(script)
        file.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
        return file

    return making


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which nothing of ours is set."""
    for name in os.environ:
        if name.upper().startswith("LIVEJOIN_"):
            monkeypatch.delenv(name)
