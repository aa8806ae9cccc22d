"""The same product on a Spark cluster: one master, two workers, a swap, a worker that is killed."""

from pathlib import Path

from livejoin.kafka import Kafka
from rig.cluster import cluster, kill
from rig.world import (
    ExpectLive,
    ExpectNothingLeft,
    ExpectOracle,
    StopTraffic,
    Traffic,
    WaitOutcome,
    WaitState,
    play,
    to_pair,
    world,
)

CORES = 16


def test_cluster_a_swap_and_the_loss_of_a_worker(kafka: Kafka, tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster") as spark:
        workers = [spark.worker(f"worker-{number}", CORES) for number in (1, 2)]
        settings = {
            "master": spark.master,
            "slots": CORES,  # of the workers that must remain
            "conf": {
                "spark.driver.host": "127.0.0.1",
                "spark.executor.memory": "768m",
                "spark.ui.enabled": "false",
            },
        }
        with world(kafka, tmp_path / "run", "cluster", spark=settings) as one:
            play(one, [
                Traffic(per_second=20), to_pair("cluster", "b", joinType="inner"),
                WaitOutcome("live"), ExpectLive("b", "inner"),
            ])  # fmt: skip
            one.watcher.replaying = True
            kill(workers[0])
            play(one, [
                WaitState("restarting"), WaitState("live"), StopTraffic(),
                ExpectOracle("b", "inner"),
                ExpectLive("b", "inner"), ExpectNothingLeft(),
            ])  # fmt: skip
            assert one.status()["generation"] == 2
