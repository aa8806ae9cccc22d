"""Child processes that cannot outlive us, the machine's Java, and folders of the user's.

Nothing of Kafka or Spark.
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
    """A process of ours: ended by `close`, and by our own death.

    Where `silent_s` is given also by our silence for so long: somebody stopped us, or the machine.
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
            start_new_session=True,  # a Ctrl-C on the terminal is ours to handle
        )
        if not isinstance(log_file, int):
            log_file.close()
        self._ending = threading.Event()
        self._heartbeat: threading.Thread | None = None
        if silent_s:  # a thread of its own: whatever else we do, we are heard
            self._heartbeat = threading.Thread(target=self._send_heartbeats, name="guard-beat")
            self._heartbeat.start()

    def _send_heartbeats(self) -> None:
        assert self._process.stdin is not None
        pipe = self._process.stdin.fileno()
        os.set_blocking(pipe, False)  # a guard that is frozen itself must not hold us up
        with contextlib.suppress(BrokenPipeError):  # the guard is gone, and so is the child
            while not self._ending.is_set():
                with contextlib.suppress(BlockingIOError):
                    os.write(pipe, b".")
                self._ending.wait(_HEARTBEAT_S)

    @property
    def exited(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def close(self, grace_s: float = 10) -> None:
        """Ask it to end, then end it. Twice is fine."""
        if not self.exited:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        self._close_pipe()  # the guard ends what is left
        self._process.wait(grace_s)

    def kill(self) -> None:
        """End it at once, guard and all."""
        if not self.exited:
            with contextlib.suppress(ProcessLookupError):  # it ended just now
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
    """The machine's Java, if it is new enough."""
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
        said = subprocess.run(
            [found, "-version"], capture_output=True, text=True, check=False, timeout=60
        ).stderr
    except OSError as error:
        raise MachineError(f"{found} cannot be run: {error.strerror}", hint=install) from error
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None or int(version[1]) < MIN_JAVA:
        named = f"Java {version[1]}" if version else "no Java that tells its version"
        raise MachineError(f"{found} is {named}, which is too old", hint=install)
    return found


def cache_folder() -> Path:
    """Where downloads of this user are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "livejoin"


def state_folder() -> Path:
    """Where what must survive a restart is kept unless the settings name another place."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "livejoin"


def config_folder() -> Path:
    """Where what this user has chosen, or was given, is kept."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "livejoin"


@contextlib.contextmanager
def file_lock(path: Path, what: str, limit_s: float = 30) -> Iterator[int]:
    """Hold a lock file. Children that are given its descriptor hold it too, until they are dead."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    # after kill -9 of our predecessor its children need a moment
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
    """Progress of long work, for a person who watches."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":  # `make` asks before it installs anything
    try:
        find_java()
    except MachineError as error:
        sys.exit(f"livejoin: {error}")
