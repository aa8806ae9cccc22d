"""A1 and A4: queries and processes are killed."""

import os
import random
import re
import signal
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from livejoin.core import changelog as rows
from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import read_to_end
from livejoin.runtime.broker import free_port
from rig import figures
from rig.running import COLD, alive, descendants, until
from rig.sampling import running_jobs
from rig.world import (
    ExpectAtMost,
    ExpectLive,
    ExpectNothingLeft,
    ExpectOracle,
    KillDash9,
    Produce,
    StopTraffic,
    Traffic,
    WaitOutcome,
    WaitState,
    World,
    play,
    request_pair,
    run_world,
)

SEED = 20261115
KILLS = 20
BACK_S = 60


# --- A1


def test_a1_kills_at_random_points_half_of_them_during_a_swap(kafka: Kafka, tmp_path: Path) -> None:
    with run_world(kafka, tmp_path, "a1", seed=SEED, spark={"batch_s": 5, "conf": COLD}) as world:
        dice = random.Random(SEED)
        play(world, [Traffic(per_second=250, user_count=20_000)])  # for each of the two pairs
        pair, join, repeated, took = "a", "left", 0, []
        for number in range(KILLS):
            if number % 2:
                pair, join = "ab"[number // 2 % 2], ("inner", "left")[number // 4 % 2]
                play(world, [request_pair("a1", pair, joinType=join), WaitOutcome("accepted")])
            time.sleep(dice.uniform(0, 3))  # the random point
            generation, who = world.status()["generation"], dice.choice(["python", "jvm", "both"])
            play(world, [KillDash9(who)])
            began = time.monotonic()
            until(lambda: _is_serving(world), f"kill {number} of {who}: it serves again", BACK_S)
            took.append(time.monotonic() - began)
            figures.now().recovered(took[-1])
            world.broken_at = None  # the following wait is for the swap
            play(world, [WaitOutcome("live")] if number % 2 else [])
            play(
                world, [WaitState("live", limit_s=BACK_S), ExpectLive(pair, join), ExpectAtMost(2)]
            )
            repeated += _written_twice(kafka, "a1", generation)
        play(world, [StopTraffic(), ExpectOracle(pair, join), ExpectNothingLeft()])
        print(
            f"seed {SEED}: back after {sorted(round(s, 1) for s in took)} s; {repeated} marks twice"
        )
        assert repeated, "no record was written twice: the kills missed"
        assert len([row for row in world.generations() if row["state"] == "live"]) == 1
        pids = [world.live.pid, *descendants(world.live.pid)]
    until(lambda: not any(map(alive, pids)), "no orphan process")


def _is_serving(world: World) -> bool:
    status = world.status()
    return status["generation"] is not None and status["state"] != ""


def _written_twice(kafka: Kafka, name: str, generation: int) -> int:
    changelog = Names(name).changelog(generation)
    if changelog not in kafka.describe([changelog]):
        return 0  # it was retired meanwhile
    consumer = kafka.reader("test")
    try:
        consumer.assign([TopicPartition(changelog, 0, 0)])
        marks = [
            one.key for one in read_to_end(consumer, changelog) if rows.marked_position(one.key)
        ]
        return len(marks) - len(set(marks))
    finally:
        consumer.close()


# --- A4


@pytest.fixture
def world_with_ui(kafka: Kafka, tmp_path: Path) -> Iterator[tuple[World, str]]:
    """A livejoin with a Spark UI, which can kill jobs over HTTP."""
    port = free_port()
    conf = {"spark.ui.enabled": "true", "spark.ui.port": str(port)}
    with run_world(kafka, tmp_path, "a4", seed=SEED, spark={"conf": conf}) as world:
        yield world, f"http://127.0.0.1:{port}"


def test_a4_a_query_killed_fifty_times(world_with_ui: tuple[World, str]) -> None:
    one, ui = world_with_ui
    play(one, [Traffic(per_second=50)])
    took = []
    for _ in range(50):
        began = time.monotonic()
        _kill_jobs(ui)
        one.fault(kills=1)
        play(one, [WaitState("restarting", limit_s=10), WaitState("live", limit_s=10)])
        took.append(time.monotonic() - began)
    print(f"back after {min(took):.1f} to {max(took):.1f} s")
    play(one, [StopTraffic(), ExpectOracle("a"), ExpectLive("a"), ExpectNothingLeft()])
    assert one.watcher.connects == 1
    assert one.status()["generation"] == 1


def _kill_jobs(ui: str) -> None:
    jobs = until(lambda: running_jobs(ui), "a job runs")
    with urllib.request.urlopen(f"{ui}/jobs/", timeout=10) as page:
        inputs = re.findall(r"<input[^>]*>", page.read().decode())
    # Spark accepts only requests from its own page
    token = next(dict(re.findall(r'(name|value)="([^"]*)"', i)) for i in inputs if "csrf" in i)
    for job in jobs:
        form = urllib.parse.urlencode({"id": job["jobId"], token["name"]: token["value"]})
        kill = urllib.request.Request(f"{ui}/jobs/job/kill/", form.encode())
        urllib.request.urlopen(kill, timeout=10).close()


def test_a4_a_jvm_that_stands_still_is_replaced(kafka: Kafka, tmp_path: Path) -> None:
    with run_world(kafka, tmp_path, "a4b", seed=SEED) as world:
        jvm = world.live.jvm()
        os.kill(jvm, signal.SIGSTOP)
        until(lambda: not alive(jvm), "it is ended", 120)
        world.fault(freezes=1)
        play(world, [Produce("a", 20), WaitState("live"), ExpectOracle("a"), ExpectLive("a")])
        assert world.live.jvm() != jvm


def test_a1_a_state_of_many_batches_comes_back_from_its_snapshots(
    kafka: Kafka, tmp_path: Path
) -> None:
    """Without snapshots, Spark would replay the changes of every batch since the first."""
    frequent_snapshots = {
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
        "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
    }
    spark = {"batch_s": 5, "conf": COLD | frequent_snapshots}
    with run_world(kafka, tmp_path, "a1s", seed=SEED, spark=spark) as world:
        play(world, [Traffic(per_second=50)])
        states = world.live.folder / "checkpoints" / "1"
        until(lambda: len({at.parent for at in states.glob("*/state/0/*/*.zip")}) == 2, "snapshots")
        play(world, [KillDash9("both"), WaitState("live"), StopTraffic()])
        play(world, [ExpectOracle("a"), ExpectLive("a"), ExpectNothingLeft()])
