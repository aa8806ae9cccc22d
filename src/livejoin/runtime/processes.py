"""Child processes that die with livejoin, lock files, the machine's Java, the user's folders.

Independent of Kafka and Spark.
"""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from livejoin.errors import MachineError

MIN_JAVA = 17

_GUARD = Path(__file__).with_name("guard.py")
_HEARTBEAT_S = 1.0
_KILL_WAIT_S = 10


class Child:
    """A child process, ended by `close` and by the death of this process.

    With `silent_s` it is also killed when this process is frozen for so long (SIGSTOP, suspend).
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path | None = None,
        env: dict[str, str] | None = None,
        keep: Sequence[int] = (),
        silent_s: float = 0,
    ) -> None:
        log_file: IO[bytes] | int = subprocess.DEVNULL
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            log_file = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARD), str(silent_s), *command],
            stdin=subprocess.PIPE,
            stdout=log_file,
            stderr=log_file,
            env={**os.environ, **(env or {})},
            pass_fds=keep,
            start_new_session=True,  # Ctrl-C must not reach it directly
        )
        if not isinstance(log_file, int):
            log_file.close()
        self._ending = threading.Event()
        self._heartbeat: threading.Thread | None = None
        if silent_s:  # in a thread, so that nothing else delays heartbeats
            self._heartbeat = threading.Thread(target=self._send_heartbeats, name="guard-beat")
            self._heartbeat.start()

    def _send_heartbeats(self) -> None:
        assert self._process.stdin is not None
        pipe = self._process.stdin.fileno()
        os.set_blocking(pipe, False)  # a frozen guard must not block this process
        with contextlib.suppress(BrokenPipeError):  # guard and child have exited
            while not self._ending.is_set():
                with contextlib.suppress(BlockingIOError):
                    os.write(pipe, b".")
                self._ending.wait(_HEARTBEAT_S)

    @property
    def exited(self) -> bool:
        """Whether it has exited."""
        return self._process.poll() is not None

    def close(self, grace_s: float = 10) -> None:
        """Terminate it, and kill it after the grace period. Idempotent."""
        if not self.exited:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        self._close_pipe()  # the guard then kills the child
        self._process.wait(grace_s)

    def kill(self) -> None:
        """Kill it and its guard at once."""
        if not self.exited:
            with contextlib.suppress(ProcessLookupError):  # it has just exited
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(_KILL_WAIT_S)
        self._close_pipe()

    def _close_pipe(self) -> None:
        self._ending.set()
        if self._heartbeat is not None:
            self._heartbeat.join()
        if self._process.stdin is not None:
            self._process.stdin.close()


def find_java() -> str:
    """Path of the machine's Java; MachineError if there is none that is new enough."""
    install = (
        f"Install Java {MIN_JAVA} or later"
        " (Debian: openjdk-17-jre-headless, macOS: brew install openjdk@17)."
    )
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise MachineError(f"there is no java {where}", hint=install)
    try:
        output = subprocess.run(
            [found, "-version"], capture_output=True, text=True, check=False, timeout=60
        ).stderr
    except OSError as error:
        raise MachineError(f"{found} cannot be run: {error.strerror}", hint=install) from error
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if version is None or int(version[1]) < MIN_JAVA:
        why = f"is Java {version[1]}, which is too old" if version else "reports no Java version"
        raise MachineError(f"{found} {why}", hint=install)
    return found


def cache_folder() -> Path:
    """The user's folder for downloads."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "livejoin"


def state_folder() -> Path:
    """The user's default folder for data that must survive a restart."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "livejoin"


def config_folder() -> Path:
    """The user's folder for configuration and credentials."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "livejoin"


@contextlib.contextmanager
def file_lock(path: Path, what: str, limit_s: float = 30) -> Iterator[int]:
    """Hold a lock file. Children that inherit its descriptor hold it too, until they exit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    # the children of a killed predecessor need a moment to exit
    until = time.monotonic() + limit_s
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise MachineError(
                        f"another livejoin uses {path.parent}",
                        hint=f"Stop it, or give this one another {what}.",
                    ) from None
                time.sleep(0.05)
        yield lock
    finally:
        os.close(lock)


def print_progress(text: str) -> None:
    """Print progress of long work, on a terminal only."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":  # run by `make` before it installs anything
    try:
        find_java()
    except MachineError as error:
        sys.exit(f"livejoin: {error}")
