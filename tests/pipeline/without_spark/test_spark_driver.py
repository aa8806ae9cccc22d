"""Starts and kills of the JVM. Separate, since pyspark has one JVM per process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.java_gateway import launch_gateway

from livejoin.config.sections import SparkSettings
from livejoin.errors import QueryFailed
from livejoin.pipeline import spark_driver as sessions
from livejoin.pipeline.spark_driver import SparkDriver
from livejoin.runtime import processes


def test_a_jvm_killed_during_its_start_is_a_query_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[[], Any] = launch_gateway
    with (
        processes.file_lock(tmp_path / "lock", "folder") as lock,
        SparkDriver(SparkSettings(), lock=lock, log=tmp_path / "spark.log") as session,
    ):

        def launch_and_kill() -> Any:
            gateway = real()
            jvm = session._jvm
            assert jvm is not None
            jvm.close(grace_s=5)
            return gateway

        monkeypatch.setattr(sessions, "launch_gateway", launch_and_kill)
        with pytest.raises(QueryFailed, match="Spark's JVM exited"):
            session.spark()
        assert not session.alive


@pytest.mark.parametrize("when", ["while it starts", "once it runs"])
def test_a_killed_jvm_exits_at_once_and_is_not_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    real: Callable[[], Any] = launch_gateway
    with (
        processes.file_lock(tmp_path / "lock", "folder") as lock,
        SparkDriver(SparkSettings(), lock=lock, log=tmp_path / "spark.log", silent_s=7) as session,
    ):
        if when == "while it starts":

            def launch_and_kill() -> Any:
                gateway = real()
                session.kill()
                return gateway

            monkeypatch.setattr(sessions, "launch_gateway", launch_and_kill)
            with pytest.raises(QueryFailed, match="Spark's JVM exited"):
                session.spark()
        else:
            session.spark()
            session.kill()
        assert not session.alive
        with pytest.raises(QueryFailed, match="Spark was stopped"):
            session.spark()
    with processes.file_lock(tmp_path / "lock", "folder", limit_s=5):  # it is released
        pass
