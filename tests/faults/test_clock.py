"""A19: the wall clock of a real livejoin is stepped by hours and days."""

import signal
import time
from datetime import datetime
from pathlib import Path

from livejoin.core.state import Limits
from livejoin.kafka.cluster import Kafka
from rig.clock import Clock
from rig.figures import Figures
from rig.running import until
from rig.world import (
    ExpectLive,
    ExpectOracle,
    KillDash9,
    Send,
    StopTraffic,
    Traffic,
    WaitOutcome,
    WaitState,
    World,
    play,
    request_pair,
    run_world,
)

SEED = 20261119
HOUR, DAY = 3600, 86400


def test_a19_the_clock_is_set(kafka: Kafka, tmp_path: Path, case: Figures) -> None:
    clock = Clock(tmp_path / "clock")
    with run_world(kafka, tmp_path / "one", "a19", seed=SEED, env=clock.env) as world:
        play(
            world,
            [Traffic(20), request_pair(world.name, "b"), WaitOutcome("live"), ExpectLive("b")],
        )
        swapped = time.monotonic()
        before = world.status()["generation"]
        for step in (-HOUR, HOUR, -DAY, DAY):
            clock.set(step)
            _expect_clock_stepped(world, step)
            case.landed(clock_steps=1)
            _kill_jvm(world)
            rows = {row["state"]: row["generation"] for row in world.generations()}
            assert rows["live"] == before, step
            assert rows["standby"] == before - 1, step
            left = world.live.request("api/v1/figures")["standbySeconds"]
            elapsed = time.monotonic() - swapped
            assert abs(Limits().standby_s - elapsed - left) < 30, step
        play(world, [Send({"action": "rollback"}), WaitOutcome("live"), ExpectLive("a")])
        play(world, [StopTraffic(), ExpectOracle("a")])
        assert world.live.stop(signal.SIGTERM) == 0


def _expect_clock_stepped(world: World, step: int) -> None:
    """Check that the clock was stepped, by the time of the rejection of a message."""
    play(world, [Send({"joinType": "sideways"}), WaitOutcome("rejected")])
    _, newest = max(world.live.table("orchestrator_logs").items())
    logged_at = datetime.fromisoformat(newest["ts"]).timestamp()
    assert abs(logged_at - (time.time() + step)) < HOUR / 2


def _kill_jvm(world: World) -> None:
    """Kill the JVM; the query is live again after the restart of a JVM."""
    play(world, [KillDash9("jvm")])
    until(lambda: world.status()["state"] == "restarting", "it is detected", 15)
    play(world, [WaitState("live")])
