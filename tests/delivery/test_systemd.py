"""The units: what systemd makes of them, and what they start, with their paths below a folder."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from livejoin.runtime import jars
from rig.bare_root import SETTINGS, BareRoot
from rig.installed import ROOT, Installed

FOLDER = ROOT / "deploy" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
ANALYZE = shutil.which("systemd-analyze")
SYSUSERS = shutil.which("systemd-sysusers")
MOST_EXPOSED = 20  # of 100; 15 as delivered, and a service without hardening has 96

# Every directive that the units use; a misspelt one would be ignored by systemd.
KNOWN = {
    "Unit": "Description Documentation Wants After StartLimitIntervalSec StartLimitBurst",
    "Service": """Type User Group ExecStart StateDirectory StateDirectoryMode CacheDirectory
        Environment WorkingDirectory UMask KillMode TimeoutStopSec Restart RestartSec
        RestartPreventExitStatus OOMPolicy LimitNOFILE NoNewPrivileges CapabilityBoundingSet
        AmbientCapabilities ProtectSystem ProtectHome PrivateTmp PrivateDevices PrivateMounts
        ProtectProc ProtectClock ProtectHostname ProtectControlGroups ProtectKernelLogs
        ProtectKernelModules ProtectKernelTunables RemoveIPC RestrictAddressFamilies
        RestrictNamespaces RestrictRealtime RestrictSUIDSGID LockPersonality
        SystemCallArchitectures SystemCallFilter SystemCallErrorNumber""",
    "Install": "WantedBy",
}
each_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda file: file.name)


def directives(unit: Path) -> Iterator[tuple[str, str, str]]:
    """Section, name and value of each line."""
    section = ""
    for line in unit.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            section = line.strip("[]")
            continue
        name, equals, value = line.partition("=")
        assert equals, line
        yield section, name, value


def values(unit: Path, wanted: str) -> list[str]:
    return [value for _, name, value in directives(unit) if name == wanted]


def environment(unit: Path) -> dict[str, str]:
    pairs = (one.partition("=") for one in values(unit, "Environment"))
    return {name: value for name, _, value in pairs}


@pytest.fixture
def root(tmp_path: Path, livejoin: Installed) -> BareRoot:
    """A machine with the wheel in /opt/livejoin and nothing else."""
    made = BareRoot(tmp_path)
    made.path("/opt").mkdir()
    made.path("/opt/livejoin").symlink_to(livejoin.venv)
    return made


def test_there_is_a_unit_for_each_way_to_run() -> None:
    assert [unit.name for unit in UNITS] == ["livejoin-serve.service", "livejoin.service"]


@each_unit
def test_every_directive_is_known_and_stands_in_its_section(unit: Path) -> None:
    found = list(directives(unit))
    assert {section for section, _, _ in found} == set(KNOWN)
    assert [one for one in found if one[1] not in KNOWN[one[0]].split()] == []


@each_unit
def test_its_folders_are_those_that_livejoin_uses(
    unit: Path, root: BareRoot, livejoin: Installed
) -> None:
    code = "from livejoin.runtime import processes as p; print(p.state_folder(), p.cache_folder())"
    done = livejoin.run(livejoin.venv / "bin" / "python", "-c", code, **environment(unit))
    (state,), (cache,) = values(unit, "StateDirectory"), values(unit, "CacheDirectory")
    assert done.stdout.split() == [f"/var/lib/{state}", f"/var/cache/{cache}"], done.stderr
    assert environment(unit)["HOME"] == f"/var/lib/{state}" == values(unit, "WorkingDirectory")[0]
    paths = set(re.findall(r"(?<![\w/])/[\w/.-]+", " ".join(v for *_, v in directives(unit))))
    roots = ("/opt/livejoin/bin/livejoin", SETTINGS, "/var/lib", "/var/cache")
    assert [path for path in paths if not path.startswith(roots)] == []


@each_unit
def test_its_user_is_made_by_the_file_next_to_it(unit: Path) -> None:
    lines = (FOLDER / "livejoin.sysusers").read_text().splitlines()
    (made,) = (shlex.split(line) for line in lines if not line.startswith("#"))
    (state,) = values(unit, "StateDirectory")
    assert made[:2] == ["u", values(unit, "User")[0]] == ["u", values(unit, "Group")[0]]
    assert made[4] == f"/var/lib/{state}"


@pytest.mark.skipif(SYSUSERS is None, reason="systemd is not installed")
def test_systemd_accepts_the_user() -> None:
    command = [str(SYSUSERS), "--dry-run", str(FOLDER / "livejoin.sysusers")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd has no dry run")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed")
@each_unit
def test_systemd_accepts_it(unit: Path, tmp_path: Path, livejoin: Installed) -> None:
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/livejoin/", f"{livejoin.venv}/"))
    command = [str(ANALYZE), "verify", "--man=no", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed")
@each_unit
def test_it_is_hardened(unit: Path) -> None:
    options = ["--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager"]
    command = [str(ANALYZE), "security", *options, str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd cannot judge a unit offline")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_first_start_downloads_jars_and_serves_the_page(
    root: BareRoot, livejoin: Installed
) -> None:
    unit = FOLDER / "livejoin.service"
    root.write_settings(insecure=True)
    env = root.environment(environment(unit))
    (command,) = values(unit, "ExecStart")
    with root.start(shlex.split(command), env) as service:
        service.wait_until_alive()
        static = ROOT / "src" / "livejoin" / "tables" / "static"
        engine = livejoin.site / "perspective/widget/static/perspective-anywidget.js"
        for path, file in {
            "/": static / "index.html",
            "/static/livejoin.js": static / "livejoin.js",
            "/engine/perspective-anywidget.js": engine,
        }.items():
            assert service.get(path) == (200, file.read_bytes()), path
    assert service.exit_code == 0
    wanted = [jar for jar in jars.read_lock_file() if jar.group == "spark"]
    downloaded = {file.name for file in root.path("/var/cache/livejoin/jars").iterdir()}
    assert downloaded == {jar.file.name for jar in wanted}
    progress = [line for line in service.lines if line.startswith("  ")]
    assert service.lines[0] == f"Downloading {len(wanted)} jars for spark, once per user …"
    assert [line.split()[0] for line in progress] == ["1/4", "2/4", "3/4", "4/4"]


def test_a_table_server_starts_without_java(root: BareRoot) -> None:
    unit = FOLDER / "livejoin-serve.service"
    root.write_settings(insecure=True)
    env = root.environment(environment(unit), java=False)
    (command,) = values(unit, "ExecStart")
    with root.start(shlex.split(command), env) as service:
        service.wait_until_alive()
        assert service.get("/readyz")[0] == 503
    assert service.exit_code == 0


def test_wrong_settings_end_it_with_the_code_that_prevents_restarts(
    root: BareRoot, livejoin: Installed
) -> None:
    unit = FOLDER / "livejoin.service"
    root.write_settings(prot=1)
    (command,) = values(unit, "ExecStart")
    done = livejoin.run(*shlex.split(root.map(command)), **environment(unit))
    assert done.returncode == int(values(unit, "RestartPreventExitStatus")[0])
    assert done.stderr == "livejoin: unknown setting http.prot: did you mean port?\n"
