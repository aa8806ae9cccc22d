"""livejoin on a Spark cluster: one master, two workers, a swap, and the loss of a worker."""

import re
from pathlib import Path

from livejoin.kafka.cluster import Kafka
from rig.cluster import Cluster, cluster, kill
from rig.running import descendants
from rig.spark_rpc import RESPONSE, ask, request
from rig.world import (
    ExpectLive,
    ExpectNothingLeft,
    ExpectOracle,
    StopTraffic,
    Traffic,
    WaitOutcome,
    WaitState,
    World,
    play,
    request_pair,
    run_world,
)

CORES = 16


def _expect_strangers_refused(spark: Cluster, world: World) -> None:
    """Check that executors are in use and that a client without the secret learns nothing."""
    command_lines = spark.command_lines()
    assert "CoarseGrainedExecutorBackend" in command_lines
    assert spark.secret not in command_lines
    for pid in (world.live.pid, *descendants(world.live.pid)):
        assert spark.secret.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    (driver,) = re.findall(r"--driver-url spark://\S+@127\.0\.0\.1:(\d+)", command_lines)[:1]
    for port in (int(driver), int(spark.master.rpartition(":")[2])):
        kind, response = ask(port, request(port, "nobody"))
        assert kind != RESPONSE
        assert b"nobody" not in response, response


def test_cluster_a_swap_and_the_loss_of_a_worker(kafka: Kafka, tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster") as spark:
        workers = [spark.worker(f"worker-{number}", CORES) for number in (1, 2)]
        settings = {
            "master": spark.master,
            "slots": CORES,  # the capacity of the remaining worker
            "conf": {
                "spark.driver.host": "127.0.0.1",
                "spark.executor.memory": "768m",
                "spark.ui.enabled": "false",
                "spark.authenticate.secret": spark.secret,
            },
        }
        with run_world(kafka, tmp_path / "run", "cluster", spark=settings) as world:
            play(world, [
                Traffic(per_second=20), request_pair("cluster", "b", joinType="inner"),
                WaitOutcome("live"), ExpectLive("b", "inner"),
            ])  # fmt: skip
            _expect_strangers_refused(spark, world)
            kill(workers[0])
            world.fault(kills=1)
            play(world, [
                WaitState("restarting"), WaitState("live"), StopTraffic(),
                ExpectOracle("b", "inner"),
                ExpectLive("b", "inner"), ExpectNothingLeft(),
            ])  # fmt: skip
            assert world.status()["generation"] == 2
