"""From the wheel to a live demo with one command in an empty home folder."""

import json
from http import HTTPStatus
from pathlib import Path

import pytest

from livejoin.runtime import jars
from rig.bare_root import BareRoot
from rig.installed import Installed
from rig.running import START_S, until


@pytest.fixture
def root(tmp_path: Path) -> BareRoot:
    """What the demo gets of this machine: Java, and a repository of jars."""
    return BareRoot(tmp_path)


def test_the_demo_downloads_its_jars_and_goes_live(
    root: BareRoot, livejoin: Installed, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    command = [str(livejoin.livejoin), "demo", "--port", str(root.port)]
    with root.start(command, root.environment({"HOME": str(home)})) as demo:

        def show(*words: str) -> str:
            """Run a command in another terminal, without the demo's token or address."""
            done = livejoin.run(livejoin.livejoin, *words, "--output", "json", HOME=str(home))
            return done.stdout if done.returncode == 0 else "{}"

        demo.wait_until_alive(START_S)
        until(lambda: demo.get("/readyz")[0] == HTTPStatus.OK, "it is live", START_S)
        url = ("--url", f"http://127.0.0.1:{root.port}/")
        assert json.loads(show("status", *url))["state"] == "live"
        rows = json.loads(show("show", "final_ui", "--limit", "1000", *url))["rows"]
        assert len(rows) >= 400
        assert {row["userId"][:2] for row in rows} == {"a-"}
        assert json.loads(show("doctor")), "it finds the demo by itself"
    assert demo.exit_code == 0
    wanted = [jar for jar in jars.read_lock_file() if jar.group in jars.RUNTIME_GROUPS]
    cached = home / ".cache" / "livejoin" / "jars"
    assert {file.name for file in cached.iterdir()} == {jar.file.name for jar in wanted}
    progress = [line.split()[0] for line in demo.lines if line.startswith("  ")]
    expected = [
        f"{number}/{count}"
        for count in (
            len([jar for jar in wanted if jar.group == group]) for group in ("broker", "spark")
        )
        for number in range(1, count + 1)
    ]
    assert progress == expected
    assert {path.name for path in home.iterdir()} == {".cache", ".config", ".local"}
