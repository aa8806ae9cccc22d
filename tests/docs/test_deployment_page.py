"""`docs/deployment.md`: its files exist, its options fit the Containerfile and the units."""

import re
import shlex
from pathlib import Path

import pytest

from livejoin.runtime import jars
from rig.containerfile import instructions

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deployment.md").read_text()
COMMANDS = [
    shlex.split(line, comments=True)
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
]
IMAGE = dict(instructions((ROOT / "deploy" / "container" / "Containerfile").read_text()))


def _command(*beginning: str) -> list[str]:
    (found,) = (one for one in COMMANDS if one[: len(beginning)] == list(beginning))
    return found


def test_every_file_of_the_clone_that_a_command_names_exists() -> None:
    named = {word for command in COMMANDS for word in command if word.startswith("deploy/")}
    assert len(named) >= 3
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_every_delivered_folder_is_described() -> None:
    text = (ROOT / "deploy" / "README.md").read_text()
    folders = [one.name for one in (ROOT / "deploy").iterdir() if one.is_dir()]
    assert [name for name in folders if f"[{name}]({name})" not in text] == []


def test_the_container_gets_its_volumes_and_can_write_nothing_else() -> None:
    run = _command("podman", "run")
    mounts = [run[i + 1].split(":") for i, word in enumerate(run) if word == "-v"]
    writable = {mount[1] for mount in mounts if mount[2:] != ["ro"]}
    assert writable == set(re.findall(r'"([^"]+)"', IMAGE["VOLUME"]))
    settings = re.findall(r'"(/etc[^"]+)"', IMAGE["CMD"])[0]
    assert str(Path(settings).parent) in {mount[1] for mount in mounts}
    assert {"--read-only", "--init"} <= set(run)
    assert "exec" in run[run.index("--tmpfs") + 1].partition(":")[2].split(",")
    assert run[run.index("-p") + 1].endswith(f":{IMAGE['EXPOSE']}")
    assert int(run[run.index("--stop-timeout") + 1]) > 20  # livejoin takes up to 20 s


def test_the_image_is_built_with_arguments_that_it_has() -> None:
    build = _command("podman", "build")
    given = build[build.index("--build-arg") + 1]
    assert given == IMAGE["ARG"]
    assert build[-1] == "."


@pytest.mark.parametrize("unit", ["livejoin.service", "livejoin-serve.service"])
def test_the_units_are_named(unit: str) -> None:
    assert f"`{unit}`" in PAGE


def test_the_numbers_of_jars_are_right() -> None:
    groups = [jar.group for jar in jars.read_lock_file() if jar.group in jars.RUNTIME_GROUPS]
    assert f"{groups.count('spark')} for `run` and {len(groups)} for `demo`" in PAGE
