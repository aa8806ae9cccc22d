import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from livejoin.errors import MachineError
from livejoin.runtime import jars
from livejoin.runtime.jars import Group, Jar

CONTENT = b"a jar"
RIGHT, WRONG = hashlib.sha256(CONTENT).hexdigest(), "0" * 64


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no Java."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no java"))
    return tmp_path / "cache" / "livejoin" / "jars"


@pytest.fixture
def _repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository that contains only a:b:1."""

    def resolve(wanted: Iterable[tuple[Group, str, bool]], work: Path) -> dict[str, Path]:
        found = [coordinate for _, coordinate, _ in wanted if coordinate == "a:b:1"]
        for coordinate in found:
            (work / coordinate).write_bytes(CONTENT)
        return {coordinate: work / coordinate for coordinate in found}

    monkeypatch.setattr(jars, "_resolve", resolve)


def test_every_locked_jar_has_a_group_a_coordinate_and_a_checksum() -> None:
    locked = jars.read_lock_file()
    assert {jar.group for jar in locked} == {"spark", "broker", "oidc"}
    for jar in locked:
        assert re.fullmatch(r"[\w.-]+:[\w.-]+:[\w.-]+", jar.coordinate), jar
        assert re.fullmatch(r"[0-9a-f]{64}", jar.sha256), jar


def test_no_jar_is_locked_twice_in_a_group() -> None:
    names = [(jar.group, jar.coordinate.rpartition(":")[0]) for jar in jars.read_lock_file()]
    assert len(set(names)) == len(names)


def test_all_direct_dependencies_are_locked() -> None:
    locked = {(jar.group, jar.coordinate) for jar in jars.read_lock_file()}
    assert {(group, coordinate) for group, coordinate, _ in jars.WANTED} <= locked


@pytest.mark.usefixtures("_repository")
def test_a_jar_with_the_locked_checksum_is_cached(cache: Path) -> None:
    jar = Jar("spark", "a:b:1", RIGHT)
    jars._download([jar])
    assert jar.file == cache / "a--b--1.jar"
    assert jar.file.read_bytes() == CONTENT
    assert list(cache.iterdir()) == [jar.file]


@pytest.mark.usefixtures("_repository")
def test_a_jar_with_another_checksum_is_refused(cache: Path) -> None:
    with pytest.raises(MachineError) as refused:
        jars._download([Jar("spark", "a:b:1", WRONG)])
    assert refused.value.message == f"a:b:1 has sha256 {RIGHT}, not {WRONG}"
    assert "do not use it" in refused.value.hint
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("_repository")
def test_a_jar_that_cannot_be_found_is_named(cache: Path) -> None:
    with pytest.raises(MachineError, match=r"c:d:2 was not found.*LIVEJOIN_IVY_SETTINGS"):
        jars._download([Jar("spark", "c:d:2", RIGHT)])
    assert list(cache.iterdir()) == []


def test_cached_jars_need_no_java_and_no_network(cache: Path) -> None:
    cache.mkdir(parents=True)
    wanted = [jar.file for jar in jars.read_lock_file() if jar.group == "spark"]
    for file in wanted:
        file.write_bytes(CONTENT)
    assert jars.jars("spark") == wanted


def test_missing_jars_need_java() -> None:
    with pytest.raises(MachineError, match="there is no java"):
        jars.jars("spark")
