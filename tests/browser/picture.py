"""Take the README's picture: the demo's page with live rows."""

import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from browser import chrome
from livejoin.broker import free_port
from rig.running import LIVEJOIN, until

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "page.png"


def main() -> None:
    """Run the demo and take the picture once a few records have trickled in."""
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        options = ["--data", folder, "--port", str(port), "--insecure"]
        demo = subprocess.Popen([LIVEJOIN, "demo", *options])
        try:
            wait_for(port)
            with chrome.page(f"http://127.0.0.1:{port}/") as (page, trouble):
                page.wait_for_selector("#strip[data-state=live]", timeout=90_000)
                page.wait_for_timeout(5000)
                page.screenshot(path=PICTURE)
                assert not trouble, trouble
        finally:
            demo.terminate()
            demo.wait(30)


def wait_for(port: int) -> None:
    """Wait until the demo answers."""

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=5):
                return True
        except OSError:
            return False

    until(answers, "the demo answers", 90)


if __name__ == "__main__":
    main()
