import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livejoin.errors import MachineError
from livejoin.runtime import processes
from livejoin.runtime.processes import Child, file_lock

Java = Callable[[str], Path]
LIMIT_S = 20
# Each writes once to a pipe that stays open until it exits.
WAITS = "import os, signal, sys; os.write(int(sys.argv[1]), b'!'); signal.pause()"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + WAITS
PARENT = f"""
import os, sys
from livejoin.runtime.processes import Child
pipe, silent_s = sys.argv[1], float(sys.argv[2])
child = Child([sys.executable, "-c", {WAITS!r}, pipe], keep=[int(pipe)], silent_s=silent_s)
os.close(int(pipe))
print(child._process.pid, flush=True)  # of its guard
sys.stdin.read()
"""
SILENT_S = 1.5


class Line:
    """A pipe from children: `read` returns their output, and nothing once all have exited."""

    def __init__(self) -> None:
        self._out, self.end = os.pipe()

    def hang_up(self) -> None:
        """Close this process's end, so that only the children hold it."""
        if self.end >= 0:
            os.close(self.end)
            self.end = -1

    def quiet(self, limit_s: float) -> bool:
        """Whether there is no output and no exit within this time."""
        return not select.select([self._out], [], [], limit_s)[0]

    def read(self) -> bytes:
        ready, _, _ = select.select([self._out], [], [], LIMIT_S)
        assert ready, f"nothing within {LIMIT_S} s"
        return os.read(self._out, 100)

    def close(self) -> None:
        self.hang_up()
        os.close(self._out)


@pytest.fixture
def pipe() -> Iterator[Line]:
    with contextlib.closing(Line()) as line:
        yield line


def _python(code: str, pipe: Line) -> list[str]:
    return [sys.executable, "-c", code, str(pipe.end)]


# --- children


@contextlib.contextmanager
def _parent(pipe: Line, silent_s: float = 0) -> Iterator[tuple[int, int]]:
    """A process with a child behind a guard: the pids of the process and of the guard."""
    command = [*_python(PARENT, pipe), str(silent_s)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[pipe.end]
    ) as parent:
        try:
            pipe.hang_up()
            assert pipe.read() == b"!"
            assert parent.stdout is not None
            yield parent.pid, int(parent.stdout.readline())
        finally:
            parent.kill()


def test_a_child_dies_with_its_killed_parent(pipe: Line) -> None:
    with _parent(pipe) as (parent, _):
        os.kill(parent, signal.SIGKILL)
        assert pipe.read() == b""


def test_a_child_dies_when_its_parent_is_frozen_for_too_long(pipe: Line) -> None:
    with _parent(pipe, SILENT_S) as (parent, _):
        os.kill(parent, signal.SIGSTOP)
        assert pipe.read() == b""


def test_a_child_dies_when_all_three_were_frozen_for_too_long(pipe: Line) -> None:
    with _parent(pipe, SILENT_S) as (parent, guard):
        os.kill(parent, signal.SIGSTOP)
        os.killpg(guard, signal.SIGSTOP)  # and the child
        assert pipe.quiet(SILENT_S + 1)
        os.kill(parent, signal.SIGCONT)  # its late heartbeat must not count
        assert pipe.quiet(0.5)
        os.killpg(guard, signal.SIGCONT)
        assert pipe.read() == b""


def test_a_child_survives_while_its_parent_sends_heartbeats(pipe: Line) -> None:
    with _parent(pipe, SILENT_S):
        assert pipe.quiet(3 * SILENT_S)


def test_a_child_without_heartbeats_survives_a_frozen_parent(pipe: Line) -> None:
    with _parent(pipe) as (parent, _):
        os.kill(parent, signal.SIGSTOP)
        assert pipe.quiet(2 * SILENT_S)


def test_kill_ends_a_child_at_once(pipe: Line) -> None:
    child = Child(_python(STUBBORN, pipe), keep=[pipe.end], silent_s=LIMIT_S)
    pipe.hang_up()
    assert pipe.read() == b"!"
    os.killpg(child._process.pid, signal.SIGSTOP)  # its guard too, so it cannot react
    child.kill()
    assert child.exited
    assert pipe.read() == b""
    child.kill()
    child.close()


@pytest.mark.parametrize("code", [WAITS, STUBBORN], ids=["willing", "stubborn"])
def test_close_ends_a_child(pipe: Line, code: str) -> None:
    child = Child(_python(code, pipe), keep=[pipe.end])
    pipe.hang_up()
    assert pipe.read() == b"!"
    assert not child.exited
    child.close(grace_s=LIMIT_S if code is WAITS else 0.5)
    assert child.exited
    assert pipe.read() == b""


def test_close_is_idempotent(pipe: Line) -> None:
    child = Child(_python(WAITS, pipe), keep=[pipe.end])
    child.close()
    child.close()
    assert child.exited


def test_a_child_that_exits_leaves_no_guard(pipe: Line) -> None:
    child = Child(["true"], keep=[pipe.end])
    pipe.hang_up()
    assert pipe.read() == b""
    assert child._process.wait(LIMIT_S) == 0
    assert child.exited
    child.close()


def test_the_exit_code_of_a_child_is_passed_on() -> None:
    child = Child(["sh", "-c", "exit 7"])
    assert child._process.wait(LIMIT_S) == 7
    child.close()


def test_output_of_a_child_goes_to_its_log(tmp_path: Path) -> None:
    log = tmp_path / "made" / "child.log"
    for word in ("one", "two"):
        child = Child(["sh", "-c", "echo $WORD; echo error >&2"], log=log, env={"WORD": word})
        child._process.wait(LIMIT_S)
        child.close()
    assert log.read_text() == "one\nerror\ntwo\nerror\n"


# --- locks


def test_a_second_holder_is_refused_with_a_hint(tmp_path: Path) -> None:
    with file_lock(tmp_path / "lock", "folder"):
        with (
            pytest.raises(MachineError) as refused,
            file_lock(tmp_path / "lock", "folder", limit_s=0),
        ):
            pass
        assert str(refused.value) == (
            f"another livejoin uses {tmp_path}. Stop it, or give this one another folder."
        )


def test_a_lock_is_released_by_its_holder(tmp_path: Path) -> None:
    for _ in range(2):
        with file_lock(tmp_path / "made" / "lock", "folder", limit_s=0):
            pass


def test_locks_of_different_folders_are_independent(tmp_path: Path) -> None:
    with file_lock(tmp_path / "a" / "lock", "folder"), file_lock(tmp_path / "b" / "lock", "folder"):
        pass


def test_a_child_that_inherits_the_lock_holds_it_until_it_exits(tmp_path: Path, pipe: Line) -> None:
    with file_lock(tmp_path / "lock", "folder") as lock:
        child = Child(_python(WAITS, pipe), keep=[pipe.end, lock])
        assert pipe.read() == b"!"
    with pytest.raises(MachineError), file_lock(tmp_path / "lock", "folder", limit_s=0):
        pass
    child.close()
    with file_lock(tmp_path / "lock", "folder", limit_s=LIMIT_S):
        pass


def test_a_child_that_does_not_inherit_the_lock_does_not_hold_it(
    tmp_path: Path, pipe: Line
) -> None:
    with file_lock(tmp_path / "lock", "folder"):
        child = Child(_python(WAITS, pipe), keep=[pipe.end])
        assert pipe.read() == b"!"
    with file_lock(tmp_path / "lock", "folder", limit_s=0):
        pass
    child.close()


# --- Java


def _says(text: str) -> str:
    return f"#!/bin/sh\necho '{text}' >&2\n"


@pytest.mark.parametrize(
    "said",
    [
        'openjdk version "17.0.15" 2025-04-15',
        'openjdk version "21" 2023-09-19',
        'openjdk version "25-ea" 2025-09-16',
        'Picked up JAVA_TOOL_OPTIONS: -Dx\nopenjdk version "17.0.1"',
    ],
)
def test_a_java_that_is_new_enough_is_used(java_home: Java, said: str) -> None:
    file = java_home(_says(said))
    assert processes.find_java() == str(file)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ('java version "1.8.0_392"', "is Java 8, which is too old"),
        ('openjdk version "11.0.2" 2019-01-15', "is Java 11, which is too old"),
        ('openjdk version "16.0.1" 2021-04-20', "is Java 16, which is too old"),
        ("The operation could not be completed.", "reports no Java version"),
    ],
)
def test_a_java_that_is_too_old_is_refused_with_a_hint(
    java_home: Java, said: str, why: str
) -> None:
    file = java_home(_says(said))
    with pytest.raises(MachineError) as refused:
        processes.find_java()
    assert refused.value.message == f"{file} {why}"
    assert "Install Java 17 or later" in refused.value.hint


def test_a_java_home_without_java_is_refused_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MachineError) as refused:
        processes.find_java()
    assert refused.value.message == f"there is no java in JAVA_HOME={tmp_path}"
    assert "Install Java 17 or later" in refused.value.hint


def test_without_java_home_the_path_is_searched(
    java_home: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = java_home(_says('openjdk version "17.0.15"'))
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", f"{file.parent}:/usr/bin:/bin")
    assert processes.find_java() == str(file)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match="there is no java on the PATH"):
        processes.find_java()


def test_a_java_that_cannot_be_run_is_refused(java_home: Java) -> None:
    java_home("")
    with pytest.raises(MachineError):
        processes.find_java()


# --- folders and progress


def test_folders_follow_xdg_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "")
    assert processes.cache_folder() == Path("/home/me/.cache/livejoin")
    assert processes.state_folder() == Path("/home/me/.local/state/livejoin")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert processes.cache_folder() == Path("/cache/livejoin")
    assert processes.state_folder() == Path("/state/livejoin")


def test_progress_is_printed_to_a_terminal_only(capfd: pytest.CaptureFixture[str]) -> None:
    processes.print_progress("Downloading …")
    assert capfd.readouterr() == ("", "")
