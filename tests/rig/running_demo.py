"""A `livejoin demo` in a process of its own, as a user starts it."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from livejoin.runtime.broker import free_port
from rig.running import LIVEJOIN, START_S, until


@dataclass(frozen=True)
class Demo:
    """A running demo."""

    pid: int
    env: dict[str, str]  # of the user who started it, in another terminal
    log: Path

    @property
    def url(self) -> str:
        return self.env["LIVEJOIN_URL"]

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in another terminal of that user."""
        command = [str(LIVEJOIN), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, env=self.env, check=False, timeout=60
        )


@contextlib.contextmanager
def running_demo(folder: Path, *options: str) -> Iterator[Demo]:
    """Start a demo with its data in a folder; it is live."""
    port = free_port()
    own = {"XDG_STATE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    env = {**os.environ, **own, "LIVEJOIN_URL": f"http://127.0.0.1:{port}/"}
    log = folder / "demo.log"
    with log.open("wb") as file:
        command = [str(LIVEJOIN), "demo", "--port", str(port), *options]
        process = subprocess.Popen(command, stdout=file, stderr=file, env=os.environ | own)
    demo = Demo(process.pid, env, log)

    def live() -> bool:
        done = demo.command("status", "--output", "json")
        return done.returncode == 0 and json.loads(done.stdout)["state"] == "live"

    try:
        until(live, "the demo is live", START_S)
        yield demo
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert list((folder / "livejoin" / "running-demos").iterdir()) == []
