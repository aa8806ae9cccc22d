"""livejoin over three clusters with three logins: a swap, kill -9 of everything, a rollback."""

from pathlib import Path

from livejoin.core.names import Names
from rig.apart import three_clusters
from rig.replies import ExpectReplies
from rig.world import (
    ExpectLive,
    ExpectNothingLeft,
    ExpectOracle,
    KillDash9,
    Produce,
    Send,
    WaitOutcome,
    WaitState,
    play,
    request_pair,
    run_world,
)

NAME = "apart"


def test_a_swap_a_kill_and_a_rollback_over_three_clusters(tmp_path: Path) -> None:
    with (
        three_clusters(tmp_path / "clusters") as three,
        run_world(three.clusters, tmp_path / "run", NAME) as world,
    ):
        play(world, [
            ExpectOracle("a"),
            request_pair(NAME, "b", joinType="inner", id="swap"), WaitOutcome("live"),
            ExpectLive("b", "inner"), ExpectOracle("b", "inner"),
            KillDash9("both"), Produce("b", 20), WaitState("live"), ExpectOracle("b", "inner"),
            Send({"action": "rollback"}), WaitOutcome("live"), WaitState("live"),
            Produce("a", 20), ExpectLive("a"), ExpectOracle("a"),
            Send(b"[]"), WaitOutcome("rejected"),
            ExpectNothingLeft(), ExpectReplies(),
        ])  # fmt: skip
        assert world.live.stop() == 0
        own, data, control = (cluster.topics() for cluster in three.clusters.each)
        names, sources = Names(NAME), {t for pair in "ab" for t in world.topics(pair).values()}
        assert {topic for topic in data if not topic.startswith("__")} == sources
        assert {t for t in control if not t.startswith("__")} == {f"{NAME}.control", names.replies}
        assert names.ledger in own
        assert not {names.replies, f"{NAME}.control", *sources} & set(own)
