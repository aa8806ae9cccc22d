"""Two orchestrators with the same name: one leads, the other is on standby and takes over."""

import signal
from pathlib import Path

from livejoin.kafka.cluster import Kafka
from rig.running import until
from rig.world import (
    ExpectLive,
    ExpectOracle,
    Produce,
    WaitOutcome,
    World,
    play,
    request_pair,
    run_world,
    start_second,
)


def test_the_second_takes_over_when_the_leader_is_killed(kafka: Kafka, tmp_path: Path) -> None:
    with run_world(kafka, tmp_path / "one", "two") as world:
        other = start_second(world, tmp_path / "other")
        try:
            other.wait_live()  # it serves the leader's generation
            assert not other.jvms()
            until(lambda: "another livejoin leads" in other.log.read_text(), "it is reported")
            second = World(**{**vars(world), "live": other})
            play(second, [request_pair("two", "b"), WaitOutcome("live"), ExpectLive("b")])
            world.live.kill(world.live.pid)
            play(second, [Produce("b", 20), request_pair("two", "b", joinType="inner")])
            until(other.jvms, "the second leads", 60)
            play(second, [WaitOutcome("live", limit_s=120), ExpectLive("b", "inner")])
            world.live.start()  # the first is on standby now; the watcher is connected to it
            world.live.wait_live()
            assert not world.live.jvms()
            play(world, [ExpectOracle("b", "inner")])
            ids = [int(row_id) for row_id in world.live.table("orchestrator_logs")]
            assert sorted(ids) == list(range(1, len(ids) + 1)), "a line has two writers"
        finally:
            assert other.stop(signal.SIGTERM) == 0
