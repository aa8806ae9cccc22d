"""Fixtures that are slow to start, once per session: a broker, and Spark in this process."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from livejoin.config.sections import SparkSettings
from livejoin.kafka.cluster import Kafka
from livejoin.pipeline.spark_driver import SparkDriver
from livejoin.runtime import processes
from rig import brokers, figures
from rig.reporting import case, pytest_runtest_makereport, pytest_runtest_setup
from rig.running import COLD

# hooks and a fixture, which pytest looks for here
__all__ = ["case", "pytest_runtest_makereport", "pytest_runtest_setup"]

for _name in ("LIVEJOIN_URL", "LIVEJOIN_TOKEN"):
    os.environ.pop(_name, None)
# Spark's Python workers must run this interpreter
os.environ["PYSPARK_PYTHON"] = sys.executable
settings.register_profile("livejoin", deadline=None)  # a busy machine must not fail a test
settings.load_profile("livejoin")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A real broker."""
    with brokers.broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(autouse=True)
def _auto_creation_is_noted() -> None:
    """Record in the results that the broker creates topics automatically."""
    if brokers.AUTO_CREATE:
        figures.now().note("brokers with auto.create.topics.enable")


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    """A real Spark session, in this process."""
    folder: Path = tmp_path_factory.mktemp("spark")
    with (
        processes.file_lock(folder / "lock", "folder") as lock,
        SparkDriver(SparkSettings(conf=COLD), lock=lock, log=folder / "spark.log") as one,
    ):
        yield one


Java = Callable[[str], Path]


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """Returns a function that writes a fake `java` script and points JAVA_HOME at it."""

    def create(script: str) -> Path:
        file = tmp_path / "jdk" / "bin" / "java"
        file.parent.mkdir(parents=True)
        file.write_text(script)
        file.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
        return file

    return create


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes all LIVEJOIN_ variables from the environment."""
    for name in os.environ:
        if name.upper().startswith("LIVEJOIN_"):
            monkeypatch.delenv(name)
