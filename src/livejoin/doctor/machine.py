"""Checks of this machine: system, Java, jars, settings, port, folders, Spark's task slots."""

import contextlib
import fcntl
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

from livejoin import serving
from livejoin.client.endpoint import Endpoint
from livejoin.config.sections import HttpSettings
from livejoin.config.settings import Settings
from livejoin.core.json_object import parse_object
from livejoin.doctor.findings import Finding, bad, failed, ok, skipped, warning
from livejoin.errors import LivejoinError, MachineError, RequestError
from livejoin.runtime import jars, processes
from livejoin.tables.http.server import listen

_PROBE_S = 2.0
_LOW_DISK_BYTES = 1 << 30
_LIVEJOIN = "a running livejoin"
_ANY_HOST = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound to
_LISTENING = "0A"  # state of a socket in /proc/net/tcp


def check_programs() -> Iterator[Finding]:
    """Check the system, Java, and the cached jars."""
    system = platform.system()
    if system in ("Linux", "Darwin"):
        yield ok("system", system)
    else:
        yield bad("system", f"{system} is not supported", "Run livejoin under WSL2.")
    try:
        yield ok("java", processes.find_java())
    except MachineError as error:
        yield failed("java", error)
    missing = [
        jar.coordinate
        for jar in jars.read_lock_file()
        if jar.group in jars.RUNTIME_GROUPS and not jar.file.exists()
    ]
    yield ok("jars", f"{len(missing)} to download at the first start" if missing else "all cached")


def check_port(chosen: Settings, *, is_ours: bool) -> Iterator[Finding]:
    """Check that the HTTP server can listen; `is_ours`: what listens runs with these settings."""
    http = chosen.http
    try:
        serving.check_exposure(chosen)
    except LivejoinError as error:
        yield failed("port", error)
        return
    place = f"{http.host}:{http.port}"
    try:
        listen(http.host, http.port).close()
    except MachineError as error:
        user = _port_user(http)
        if user == _LIVEJOIN and is_ours:
            yield ok("port", f"{place} is used by the running demo")
        elif user == _LIVEJOIN:
            advice = "If it is not this one, choose another http.port."
            yield warning("port", f"{place} is used by {user}", advice)
        else:
            yield bad("port", error.message + (f": {user}" if user else ""), error.hint)
    else:
        yield ok("port", f"{place} is free" if http.port else "any free one")


def check_folders(chosen: Settings, *, is_ours: bool) -> Iterator[Finding]:
    """Check the folders of the checkpoints and of the session key."""
    url = urlparse(chosen.checkpoint_path)
    if url.scheme in ("", "file"):
        yield from _check_folder("checkpoints", Path(url.path))
        if _is_locked(Path(url.path) / "livejoin.lock"):
            by = "the running demo" if is_ours else "a running livejoin"
            yield (ok if is_ours else warning)("checkpoints", f"{url.path} is used by {by}")
    else:
        yield skipped("checkpoints", f"not checked: Spark's JVM accesses {chosen.checkpoint_path}")
    yield from _check_folder("state folder", processes.state_folder() / chosen.name)


def check_task_slots(chosen: Settings, partitions: int | None) -> Finding:
    """Check how many generations fit, given the partitions of both sources."""
    if partitions is None:
        return skipped("task slots", "not checked: the partitions of the sources are not known")
    limits = chosen.limits
    needed = limits.slots_needed(partitions)
    fitting = limits.slots // needed
    text = f"a generation takes {needed} of {limits.slots}: {fitting} fit at once"
    more = "Give Spark more in spark.master or spark.slots."
    if fitting == 0:
        return bad("task slots", text, more)
    if fitting == 1:
        return warning("task slots", f"{text}, so a swap of topics has no room", more)
    return ok("task slots", text)


def _check_folder(check: str, folder: Path) -> Iterator[Finding]:
    """Try to write in a folder, or in the nearest one that exists; nothing is left there."""
    existing = folder
    try:
        existing = next(one for one in (folder, *folder.parents) if one.exists())
        with tempfile.NamedTemporaryFile(dir=existing, prefix=".livejoin-doctor-") as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        advice = "Make it writable for this user, or choose another folder."
        yield bad(check, f"{existing} cannot be written: {error.strerror}", advice)
        return
    free = shutil.disk_usage(existing).free
    found = f"{folder} is {'writable' if existing == folder else 'created at the first start'}"
    text = f"{found}, {free / (1 << 30):,.1f} GiB free"
    yield ok(check, text) if free >= _LOW_DISK_BYTES else warning(check, text, "Make room.")


def _is_locked(file: Path) -> bool:
    try:
        lock = os.open(file, os.O_RDWR)
    except OSError:
        return False  # there is none yet, or it is another user's: the folder's check tells
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _port_user(http: HttpSettings) -> str:
    """What listens on the port of this machine, if that can be determined."""
    host = "127.0.0.1" if http.host in _ANY_HOST else http.host
    if not http.tls.certificate:
        url = f"http://{f'[{host}]' if ':' in host else host}:{http.port}/"
        with contextlib.suppress(RequestError):  # it speaks another protocol
            # the first part is enough: another server may send without end
            answer = parse_object(next(Endpoint(url, timeout_s=_PROBE_S).stream("livez"), b""))
            if answer is not None and answer.get("status") == "alive":
                return _LIVEJOIN
    return _process_on(http.port)


def _process_on(port: int) -> str:
    """The process that listens on a port; empty where the system or its rights do not tell."""
    sockets = {f"socket:[{inode}]" for inode in _listening_sockets(port)}
    for folder in Path("/proc").glob("[0-9]*") if sockets else ():
        try:
            links = list((folder / "fd").iterdir())
            command = (folder / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
        except OSError:  # it has just ended, or is another user's
            continue
        if any(_target(link) in sockets for link in links):
            return f"process {folder.name} ({Path(command).name}) listens there"
    return ""


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # closed since it was listed
        return ""


def _listening_sockets(port: int) -> Iterator[str]:
    for table in map(Path, ("/proc/net/tcp", "/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]
