"""The npm lock files: every package has a checksum, none an address: they work behind a mirror."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ["package-lock.json", "clients/angular/package-lock.json"]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_npm_package_is_locked_by_checksum_without_an_address(lock: str) -> None:
    packages = json.loads((ROOT / lock).read_text())["packages"]
    installed = {name: entry for name, entry in packages.items() if name}
    assert installed
    for name, entry in installed.items():
        assert entry["integrity"].startswith("sha512-"), name
        assert "resolved" not in entry, name


@pytest.mark.parametrize("lock", LOCKS)
def test_the_wanted_npm_packages_are_those_that_are_locked(lock: str) -> None:
    wanted = json.loads((ROOT / lock).with_name("package.json").read_text())
    locked = json.loads((ROOT / lock).read_text())["packages"]
    for kind in ("dependencies", "devDependencies"):
        assert wanted.get(kind, {}) == locked[""].get(kind, {})
        for name, version in wanted.get(kind, {}).items():
            assert locked[f"node_modules/{name}"]["version"] == version
