"""Two orchestrators of one name: one leads, the other stands by and takes over."""

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
    beside,
    play,
    to_pair,
    world,
)


def test_the_second_takes_over_when_the_leader_is_killed(kafka: Kafka, tmp_path: Path) -> None:
    with world(kafka, tmp_path / "one", "two") as one:
        other = beside(one, tmp_path / "other")
        try:
            other.wait_live()  # it serves what the leader makes
            assert not other.jvms()
            until(lambda: "another livejoin leads" in other.log.read_text(), "it says so")
            second = World(**{**vars(one), "live": other})
            play(second, [to_pair("two", "b"), WaitOutcome("live"), ExpectLive("b")])
            one.live.kill(one.live.pid)
            play(second, [Produce("b", 20), to_pair("two", "b", joinType="inner")])
            until(other.jvms, "the second leads", 60)
            play(second, [WaitOutcome("live", limit_s=120), ExpectLive("b", "inner")])
            one.live.start()  # the first stands by now; the watcher looks at its tables
            one.live.wait_live()
            assert not one.live.jvms()
            play(one, [ExpectOracle("b", "inner")])
            ids = [int(row_id) for row_id in one.live.table("orchestrator_logs")]
            assert sorted(ids) == list(range(1, len(ids) + 1)), "each line has one writer"
        finally:
            assert other.stop(signal.SIGTERM) == 0
