"""The Containerfile, carried out below a folder: the image starts, is healthy, and stops."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from livejoin.runtime import processes
from rig.authority import Authority
from rig.bare_root import SETTINGS, BareRoot
from rig.containerfile import Build, Stage
from rig.installed import ROOT, bare_environment, link_dependencies, site_packages

FILE = ROOT / "deploy" / "container" / "Containerfile"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> BareRoot:
    """What stands for the root of the container."""
    return BareRoot(tmp_path_factory.mktemp("container"))


@pytest.fixture(scope="module")
def build(root: BareRoot, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """The built stages; `python3` is this Python's."""
    folder = tmp_path_factory.mktemp("builder")
    (folder / "python3").symlink_to(Path(sys.executable).resolve())
    env = bare_environment(folder, PIP_NO_INDEX="1")
    env["PATH"] = os.pathsep.join([str(folder), "/usr/sbin", env["PATH"]])

    def prepare(venv: Path) -> None:
        link_dependencies(wheel, site_packages(venv), "pip", "setuptools")
        pip = venv / "bin" / "pip"
        pip.write_text(f'#!/bin/sh\nexec {venv}/bin/python -m pip "$@"\n')
        pip.chmod(0o755)

    made = Build(root, ROOT, prepare, env)
    made.carry_out(FILE.read_text())
    return made


@pytest.fixture(scope="module")
def image(build: Build) -> Stage:
    """The last stage."""
    return list(build.stages.values())[-1]


def test_nothing_is_installed_without_its_hash_and_from_no_named_address(build: Build) -> None:
    installs = [command for command in build.ran if "pip install" in command]
    assert [one for one in installs if "--require-hashes" not in one] == [
        "/opt/livejoin/bin/pip install --no-deps --no-index /dist/livejoin-*.whl"
    ]
    assert len(installs) == 3
    # neither a URL nor an image with a host before its name
    assert "://" not in FILE.read_text()
    assert [s.base for s in build.stages.values() if re.search(r"[.:].*/|localhost", s.base)] == []


def test_the_image_has_what_livejoin_needs(image: Stage) -> None:
    java = next(re.finditer(r"openjdk-(\d+)-jre-headless", " ".join(image.packages)))
    assert int(java[1]) >= processes.MIN_JAVA
    assert {"python3", "ca-certificates"} <= image.packages
    assert not image.packages & {"gcc", "make", "git", "python3-venv"}


def test_it_runs_as_a_user_who_owns_its_volumes(root: BareRoot, build: Build, image: Stage) -> None:
    if shutil.which("useradd", path=build.env["PATH"]) is None:
        pytest.skip("there is no useradd")
    user = image.last["USER"]
    entries = [line.split(":") for line in root.path("/etc/passwd").read_text().splitlines()]
    (entry,) = (one for one in entries if one[0] == user)
    assert int(entry[2]) > 0
    assert entry[5] == image.env["HOME"] == image.last.get("WORKDIR", image.workdir)
    assert entry[6].endswith("nologin")
    assert image.owned == dict.fromkeys(image.exec_form("VOLUME"), user)


def test_it_starts_is_healthy_and_writes_to_its_volumes_only(
    root: BareRoot, image: Stage, tmp_path: Path
) -> None:
    certificate = Authority().sign("livejoin").keystore(tmp_path / "tls.pem")
    root.write_settings(host="0.0.0.0", tls={"certificate": str(certificate)})
    assert SETTINGS in image.exec_form("CMD")
    env = root.environment(image.env)
    health = [root.map(word) for word in image.exec_form("HEALTHCHECK")]

    def check() -> subprocess.CompletedProcess[str]:
        return subprocess.run(health, env=env, capture_output=True, text=True, check=False)

    dead = check()
    assert dead.returncode == 1
    assert dead.stderr.startswith(f"livejoin: no answer at port {root.port}: ")
    before = root.files()
    command = [*image.exec_form("ENTRYPOINT"), *image.exec_form("CMD")]
    with root.start(command, env, tls=True) as service:
        service.wait_until_alive()
        alive = check()
        assert (alive.returncode, alive.stderr) == (0, "")
    assert service.exit_code == 0
    volumes = tuple(volume.removeprefix("/") for volume in image.exec_form("VOLUME"))
    assert [path for path in root.files() - before if not str(path).startswith(volumes)] == []
    assert list(root.path("/var/cache/livejoin/jars").iterdir())


def test_the_health_check_names_a_wrong_setting(root: BareRoot, image: Stage) -> None:
    root.write_settings(prot=1)
    health = [root.map(word) for word in image.exec_form("HEALTHCHECK")]
    env = root.environment(image.env)
    done = subprocess.run(health, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "livejoin: unknown setting http.prot: did you mean port?\n"
