"""A folder that stands for the root of another machine, and a livejoin that runs in it.

Units and Containerfile name absolute paths; here each becomes one below that folder. There is no
Kafka, and the jars come from this user's cache, through a repository of Ivy's.
"""

import contextlib
import http.client
import os
import pty
import re
import signal
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from livejoin.runtime import processes
from livejoin.runtime.broker import free_port
from rig.running import until

_PATHS = re.compile(r"(?<![\w./-])/(opt|etc|var|src|dist)\b")
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_START_S, _STOP_S = 60, 20
SETTINGS = "/etc/livejoin/livejoin.yaml"


@dataclass
class BareRoot:
    """The folder, and the port of the livejoin in it."""

    folder: Path
    port: int = field(default_factory=free_port)

    def map(self, text: str) -> str:
        """Replace absolute paths by those below the folder."""
        return _PATHS.sub(rf"{self.folder}/\1", text)

    def path(self, text: str) -> Path:
        """An absolute path, below the folder."""
        mapped = self.map(text)
        assert mapped.startswith(f"{self.folder}/"), f"{text} is not a path of the service"
        return Path(mapped)

    def write_settings(self, **http: Any) -> Path:
        """Write settings with a Kafka that does not answer."""
        file = self.path(SETTINGS)
        file.parent.mkdir(parents=True, exist_ok=True)
        kafka = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
        file.write_text(yaml.safe_dump({"kafka": kafka, "http": {"port": self.port, **http}}))
        return file

    def files(self) -> set[Path]:
        """All files and folders below it."""
        return {path.relative_to(self.folder) for path in self.folder.rglob("*")}

    def environment(self, given: Mapping[str, str], *, java: bool = True) -> dict[str, str]:
        """The environment of a service: what is given, and nothing of this user's."""
        ivy = self.folder / "ivy.xml"
        cached = processes.cache_folder() / "jars"
        pattern = f"{cached}/[organisation]--[artifact]--[revision].jar"
        ivy.write_text(
            '<ivysettings><settings defaultResolver="cached"/><resolvers>'
            f'<filesystem name="cached"><artifact pattern="{pattern}"/></filesystem>'
            "</resolvers></ivysettings>"
        )
        found = str(Path(processes.find_java()).parent) if java else str(self.folder / "no-java")
        return {
            "PATH": f"{found}:{_SYSTEM_PATH}" if java else found,
            "LIVEJOIN_IVY_SETTINGS": str(ivy),
            **{name: self.map(value) for name, value in given.items()},
        }

    @contextlib.contextmanager
    def start(
        self, command: Sequence[str], env: Mapping[str, str], *, tls: bool = False
    ) -> Iterator["Service"]:
        """Run a command until the end of the block, with a terminal as standard error."""
        terminal, end = pty.openpty()
        process = subprocess.Popen(
            [self.map(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=end,
            env=dict(env),
            cwd=self.folder,
            text=True,
            start_new_session=True,
        )
        os.close(end)
        service = Service(process, self.port, tls=tls)
        reader = threading.Thread(target=_read, args=(terminal, service.lines))
        reader.start()
        try:
            yield service
        finally:
            service.stop()
            reader.join()
            os.close(terminal)


@dataclass
class Service:
    """A running livejoin; `lines` is what its terminal shows."""

    process: subprocess.Popen[str]
    port: int
    tls: bool
    lines: list[str] = field(default_factory=list)
    exit_code: int | None = None

    def get(self, path: str) -> tuple[int, bytes]:
        """GET a path: status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        if self.tls:
            context = ssl._create_unverified_context()
            connection = http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=10, context=context
            )
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def wait_until_alive(self, limit_s: float = _START_S) -> None:
        """Wait for the first answer of /livez."""
        until(self._is_alive, "/livez answers", limit_s)

    def _is_alive(self) -> bool:
        assert self.process.poll() is None, "\n".join(self.lines)
        with contextlib.suppress(OSError):
            return self.get("/livez")[0] == http.HTTPStatus.OK
        return False

    def stop(self) -> None:
        """Stop it as a service manager does; afterwards there is an exit code."""
        if self.exit_code is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.communicate(timeout=_STOP_S)
            self.exit_code = self.process.returncode


def _read(terminal: int, lines: list[str]) -> None:
    rest = ""
    with contextlib.suppress(OSError):  # Linux's way to say that nobody writes any more
        while part := os.read(terminal, 65536):
            *whole, rest = (rest + part.decode()).split("\n")
            lines += [line.rstrip("\r") for line in whole]
