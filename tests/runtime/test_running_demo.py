"""A running demo is found, one that has ended or was killed is not."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from livejoin.runtime import running_demo

DEMO = running_demo.RunningDemo(
    *("127.0.0.1:1", "http://127.0.0.1:10000/", {"checkpoints": "/there", "http": {"port": 10000}})
)
# announces a demo, says so, and waits to be killed
OTHER = """
import sys, time
from livejoin.runtime import running_demo
with running_demo.announced(running_demo.RunningDemo("127.0.0.1:2", "http://x/", {})):
    print("announced", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "livejoin" / "running-demos"


def test_without_a_demo_there_is_none() -> None:
    assert running_demo.find() is None


def test_a_running_demo_is_found_until_it_ends(folder: Path) -> None:
    with running_demo.announced(DEMO):
        assert running_demo.find() == DEMO
        (file,) = folder.iterdir()
        assert file.stat().st_mode & 0o077 == 0
    assert running_demo.find() is None
    assert list(folder.iterdir()) == []


def test_a_killed_demo_is_not_found_and_what_it_left_is_removed(folder: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"announced\n"
        found = running_demo.find()
        assert found is not None
        assert found.address == "127.0.0.1:2"
        os.kill(other.pid, signal.SIGKILL)
    assert len(list(folder.iterdir())) == 1
    assert running_demo.find() is None
    assert list(folder.iterdir()) == []


def test_of_two_demos_the_one_that_was_started_last_is_found(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"announced\n"
        with running_demo.announced(DEMO):
            earlier = folder / f"{other.pid}.json"
            os.utime(earlier, (0, 0))
            assert running_demo.find() == DEMO
        found = running_demo.find()
        assert found is not None
        assert found.address == "127.0.0.1:2"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"address": 1}'])
def test_the_file_of_another_version_is_ignored(folder: Path, content: str) -> None:
    folder.mkdir(parents=True)
    file = folder / "1.json"
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(content)
        held.flush()
        assert running_demo.find() is None
        assert file.exists()
