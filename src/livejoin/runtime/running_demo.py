"""Where a running demo of this user listens, for commands in other terminals.

Each demo keeps a file in the user's state folder, and locks it as long as it lives: a file that is
not locked was left by one that was killed.
"""

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from livejoin.core.json_object import parse_object
from livejoin.runtime import processes


@dataclass(frozen=True)
class RunningDemo:
    """A demo of this user that runs now."""

    address: str  # of its broker
    url: str  # of its page
    settings: Mapping[str, Any]  # as it loaded them, with its port


@contextlib.contextmanager
def announced(demo: RunningDemo) -> Iterator[None]:
    """Let commands of this user find this demo, until the end of the block."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as new:  # mode 0600
        file = folder / f"{os.getpid()}.json"
        try:
            fcntl.flock(new, fcntl.LOCK_EX)  # before it has its name
            json.dump(asdict(demo), new)
            new.flush()
            Path(new.name).rename(file)
            yield
        finally:
            file.unlink(missing_ok=True)


def find() -> RunningDemo | None:
    """The demo of this user that was started last, if one runs. Removes what others left."""
    found: dict[float, RunningDemo] = {}
    for file in _folder().glob("*.json"):
        with contextlib.suppress(FileNotFoundError), file.open("rb") as content:  # it just ended
            if not _is_locked(content.fileno()):
                file.unlink(missing_ok=True)
                continue
            demo = _parse(content.read())
            if demo is not None:
                found[os.fstat(content.fileno()).st_mtime] = demo
    return found[max(found)] if found else None


def _parse(content: bytes) -> RunningDemo | None:
    """The demo of a file; None if another version wrote it."""
    values = parse_object(content) or {}
    address, url, settings = (values.get(name) for name in ("address", "url", "settings"))
    if isinstance(address, str) and isinstance(url, str) and isinstance(settings, dict):
        return RunningDemo(address, url, settings)
    return None


def _folder() -> Path:
    return processes.state_folder() / "running-demos"


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
