"""Provide a browser: an installed one, else the system's package, else Playwright's own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def installed() -> str | None:
    """An installed browser."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def bundled() -> bool:
    """Whether Playwright has downloaded its own."""
    folders = (Path.home() / ".cache/ms-playwright", Path.home() / "Library/Caches/ms-playwright")
    return any(any(folder.glob("chromium*")) for folder in folders if folder.exists())


def main() -> None:
    """Install a browser if there is none."""
    if installed() or bundled():
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        print("Installing chromium for the tests …", file=sys.stderr)
        quiet = {
            "stdout": subprocess.DEVNULL,
            "env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        }
        for command in (
            ["apt-get", "update", "-qq"],
            ["apt-get", "install", "-y", "-qq", "chromium"],
        ):
            if subprocess.run(command, check=False, **quiet).returncode:  # type: ignore[call-overload]
                break
        if installed():
            return
    print("Downloading a browser for the tests …", file=sys.stderr)
    done = subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False)
    if done.returncode:
        sys.exit("livejoin: no browser for the tests; install chromium with your package manager")


if __name__ == "__main__":
    main()
