"""Apart from the pipeline's other tests: pyspark knows one JVM per process, and they share it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.java_gateway import launch_gateway

from livejoin import processes
from livejoin.errors import QueryFailed
from livejoin.pipeline import session as sessions
from livejoin.pipeline.session import Session
from livejoin.sections import Spark


def test_a_jvm_that_is_killed_while_it_starts_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[[], Any] = launch_gateway
    with (
        processes.only_one(tmp_path / "lock", "folder") as lock,
        Session(Spark(), lock=lock, log=tmp_path / "spark.log") as session,
    ):

        def launch_and_kill() -> Any:
            gateway = real()
            jvm = session._jvm
            assert jvm is not None
            jvm.close(grace_s=5)
            return gateway

        monkeypatch.setattr(sessions, "launch_gateway", launch_and_kill)
        with pytest.raises(QueryFailed, match="Spark's JVM ended"):
            session.spark()
        assert not session.alive
