"""Faults of the control plane, in their long form. The case is in the name of the test."""

import contextlib
import json
import os
import random
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.mutations import answered
from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.runtime import failpoints
from livejoin.runtime.broker import free_port
from rig import figures
from rig.figures import Figures
from rig.mutated import expect_rejected
from rig.records import expect_one_writer
from rig.running import COLD, Running, jvm_memory_kib, memory_kib, until
from rig.sampling import Sampler
from rig.world import (
    Do,
    ExpectLive,
    ExpectNothingLeft,
    ExpectOracle,
    KillDash9,
    Produce,
    Send,
    StopTraffic,
    Traffic,
    WaitOutcome,
    WaitState,
    World,
    cutover_seconds,
    play,
    request_pair,
    run_world,
)

SEED = 20261115
MUTATED = 25_000  # 9 ms each, since each is decided and answered in its own transaction


@pytest.fixture
def world(request: pytest.FixtureRequest, kafka: Kafka, tmp_path: Path) -> Iterator[World]:
    name = request.node.name.split("_")[1]
    with run_world(kafka, tmp_path, name, seed=SEED) as started:
        yield started


# --- A2


@pytest.mark.parametrize("point", failpoints.NAMES)
def test_a2_dying_at_a_fail_point(point: str, kafka: Kafka, tmp_path: Path) -> None:
    """Dies three times at the point; each restart arrives where an undisturbed run would."""
    with run_world(kafka, tmp_path, f"a2.{point}", seed=SEED, spark={"conf": COLD}) as world:
        turn = 0
        once = point == "after-lead"  # reached once per process
        for visit in (1, 1, 1) if once else (1, 2, 3):
            world.live.stop()
            world.live.start(f"{point}:{visit}")
            turn = _swap_until_exit(world, turn)
            assert world.live.exit_code == -signal.SIGKILL, f"{point}:{visit} was never reached"
            world.fault(kills=1)
            world.live.start()
            pair, join = _choice(turn)
            until(lambda: _settled(world), "it has recovered", 120)
            play(world, [ExpectLive(pair, join), ExpectNothingLeft()])
        play(world, [ExpectOracle(*_choice(turn))])


def _choice(turn: int) -> tuple[str, str]:
    return "ab"[turn % 2], ("left", "inner")[turn // 2 % 2]


def _swap_until_exit(world: World, turn: int) -> int:
    """Request one swap after the other until the process dies; returns the last turn."""
    for _ in range(6):
        until(
            lambda: world.live.exit_code is not None or _settled(world), "it settles or dies", 120
        )
        if world.live.exit_code is not None:
            return turn
        turn += 1
        pair, join = _choice(turn)
        request_pair(world.name, pair, joinType=join).do(world)
    until(lambda: world.live.exit_code is not None or _settled(world), "it settles or dies", 120)
    return turn


def _settled(world: World) -> bool:
    if world.status()["state"] != "live":
        return False
    with contextlib.suppress(AssertionError):
        row = world.outcome(world.offset) if world.offset >= 0 else None
        return world.offset < 0 or (row is not None and row["outcome"] == "live")
    return False


# --- A6


def test_a6_two_hundred_messages_in_ten_seconds(
    kafka: Kafka, tmp_path: Path, case: Figures
) -> None:
    port = free_port()
    conf = {"spark.ui.enabled": "true", "spark.ui.port": str(port)}
    # batches too short for a warm-up, which would be one more query
    with run_world(kafka, tmp_path, "a6", seed=SEED, spark={"batch_s": 30, "conf": conf}) as world:
        with Sampler(kafka, "a6", f"http://127.0.0.1:{port}") as sampler:
            began = time.monotonic()
            last, valid = _burst(world)
            sent_s = time.monotonic() - began
            began, world.offset = time.monotonic(), valid
            play(world, [WaitOutcome("live", limit_s=120), ExpectLive(*last)])
            case.recovered(time.monotonic() - began)
            play(world, [ExpectOracle(*last)])
        assert 9 < sent_s < 12, f"200 messages were sent in {sent_s:.1f} s, not in 10"
        case.landed(messages=200).note(
            f"sent in {sent_s:.1f} s; at one time there were at most"
            f" {len(sampler.most_changelogs)} changelogs, in"
            f" {sampler.samples['topics']} samples, and {len(sampler.most_queries)} queries, in"
            f" {sampler.samples['queries']}"
        )
        assert min(sampler.samples.values()) > 50, "too few samples"
        assert len(sampler.most_queries) >= 2, "no queries were sampled"
        assert len(sampler.most_changelogs) <= 3, sorted(sampler.most_changelogs)
        assert len(sampler.most_queries) <= 3, sorted(sampler.most_queries)
        assert world.watcher.connects == 1
        rows = world.live.table("control_raw").values()
        assert sum(row["outcome"] == "rejected" for row in rows) > 50
        play(world, [ExpectNothingLeft()])


def _burst(world: World) -> tuple[tuple[str, str], int]:
    """Send valid and invalid messages; returns the last valid choice and its offset."""
    dice = random.Random(SEED)
    bad: list[Any] = [b"{", {"joinType": "x"}, {"usersTopic": "nope"}, b"[]", {"users": 1}]
    for number in range(200):
        began = time.monotonic()
        if dice.random() < 0.6:
            pair, join = dice.choice("ab"), dice.choice(["left", "inner", "left_outer"])
            request_pair(world.name, pair, joinType=join).do(world)
            last, valid = (pair, join), world.offset
        else:
            Send(dice.choice(bad)).do(world)
        if number < 199:
            time.sleep(max(0, 0.05 - (time.monotonic() - began)))  # the rate of the load
    return last, valid


# --- B6


def test_b6_a_hundred_thousand_mutated_messages_in_the_core(case: Figures) -> None:
    answered(100_000)
    case.landed(messages=100_000)


@pytest.mark.timeout(1800)
def test_b6_mutated_messages_over_the_broker(world: World, case: Figures) -> None:
    began = time.monotonic()
    topics_named = expect_rejected(world, MUTATED, SEED)
    names = Names(world.name)
    own = (names.ledger, names.logs, names.replies, names.changelog(1), f"{world.name}.control")
    assert min(topics_named[topic] for topic in own) >= 10, topics_named
    case.landed(messages=MUTATED, own_topics_named=topics_named.total()).note(
        f"{MUTATED:,} of the 100,000 messages over the broker,"
        f" in {time.monotonic() - began:.0f} s; all of them in the core"
    )
    play(world, [ExpectLive("a"), ExpectOracle("a"), ExpectNothingLeft()])


# --- A7


def test_a7_the_same_message_again(world: World, case: Figures) -> None:
    to_b = request_pair(world.name, "b", id="once")
    play(world, [to_b, WaitOutcome("live"), ExpectLive("b")])
    number = world.status()["generation"]
    for _ in range(20):
        to_b.do(world)
    request_pair(world.name, "a", id="once").do(world)
    play(world, [WaitOutcome("repeated"), KillDash9("both"), WaitState("live")])
    play(world, [to_b, WaitOutcome("repeated"), ExpectLive("b"), ExpectOracle("b")])
    assert max(row["generation"] for row in world.generations()) == number
    case.landed(messages_repeated=22)


def test_a7_the_same_records_again_and_out_of_order(
    kafka: Kafka, tmp_path: Path, case: Figures
) -> None:
    """The consumer of the control topic is reset to its first record, behind newer ones."""
    with run_world(kafka, tmp_path, "a7again", seed=SEED) as world:
        _deliver_again(world, case)


def _deliver_again(world: World, case: Figures) -> None:
    play(world, [
        request_pair(world.name, "b", joinType="inner"), WaitOutcome("live"),
        Send(b"{"), Send({"joinType": "left"}), WaitOutcome("live"),
        Send({"action": "rollback"}), WaitOutcome("live"), ExpectLive("b", "inner"),
    ])  # fmt: skip
    assert world.live.stop() == 0
    world.watcher.replaying = True
    world.live.start("read-control:2")
    play(world, [WaitState("live")])
    before, number = _outcomes(world), world.status()["generation"]
    play(world, [Send({"joinType": "inner"}), WaitOutcome("live", "no change")])
    play(world, [Send({"joinType": "sideways"}), WaitOutcome("rejected")])
    delivered_again = "all control messages are read again"
    until(
        lambda: delivered_again in world.live.log.read_text(), "the records are delivered again", 30
    )
    # a later message was read, so the earlier ones were
    play(world, [Send({"joinType": "inner"}), WaitOutcome("live", "no change")])
    assert {offset: _outcomes(world)[offset] for offset in before} == before
    assert world.status()["generation"] == number
    assert max(row["generation"] for row in world.generations()) == 3
    play(world, [ExpectLive("b", "inner"), ExpectOracle("b", "inner"), ExpectNothingLeft()])
    case.landed(records_repeated=len(before) + 2)


def _outcomes(world: World) -> dict[int, tuple[Any, ...]]:
    """Outcome and reason of each message."""
    rows = world.live.table("control_raw").values()
    return {row["offset"]: (row["outcome"], row["reason"]) for row in rows}


# --- A9


def test_a9_rollback_a_second_after_the_cutover(world: World, case: Figures) -> None:
    play(world, [Traffic(100)])
    took = []
    for turn in range(10):
        pair = "ba"[turn % 2]
        play(world, [request_pair(world.name, pair), WaitOutcome("live")])
        time.sleep(1)  # one second, as in the case
        took.append(cutover_seconds(world, Send({"action": "rollback"}), 10))
        play(world, [WaitOutcome("live"), ExpectLive("ab"[turn % 2])])
        play(world, [Send({"action": "rollback"}), WaitOutcome("live"), ExpectLive(pair)])
    play(world, [StopTraffic(), ExpectOracle("a")])
    assert max(took) < 1.0, took
    case.landed(rollbacks=20).recovered(max(took))
    print(f"rollback took {sorted(took)} s")


# --- A14


def test_a14_two_orchestrators(world: World, kafka: Kafka, tmp_path: Path, case: Figures) -> None:
    settings = (world.live.folder / "livejoin.yaml").read_text()
    other = Running(kafka, tmp_path / "other")
    for own_setting, other_setting in (
        (f"port: {world.live.port}", f"port: {other.port}"),
        # as on another machine: on this one it would wait for the folder lock of the frozen one
        (str(world.live.folder / "checkpoints"), str(other.folder / "checkpoints")),
    ):
        assert own_setting in settings
        settings = settings.replace(own_setting, other_setting)
    (other.folder / "livejoin.yaml").write_text(settings)
    other.start()
    try:
        other.wait_live()  # it serves the same tables
        assert not other.jvms(), "only the leader has queries"
        play(world, [request_pair(world.name, "b"), WaitOutcome("live"), ExpectLive("b")])
        os.kill(world.live.pid, signal.SIGSTOP)
        jvm = world.live.jvm()
        os.kill(jvm, signal.SIGKILL)  # its sink cannot be fenced, so it must be dead
        case.landed(freezes=1, kills=1)
        try:
            until(other.jvms, "the other one leads", 60)
        finally:
            os.kill(world.live.pid, signal.SIGCONT)
        until(
            lambda: world.live.exit_code is not None or not world.live.jvms(),
            "the first gives up the lead",
            60,
        )
        other.wait_live()
        second = World(**{**vars(world), "live": other})
        play(second, [request_pair(world.name, "a"), WaitOutcome("live"), ExpectLive("a")])
        play(second, [Produce("a", 50), Do(lambda w: until(lambda: w.live.records_read() ==
             w.producers["a"].count, "all records are read"))])  # fmt: skip
        lines = expect_one_writer(kafka, world.name)
        case.note(f"{lines} lines of the log, each written once")
    finally:
        other.stop(signal.SIGKILL)


# --- A16


def test_a16_stopped_in_the_middle_of_a_swap(world: World) -> None:
    play(world, [Traffic(50), request_pair(world.name, "b"), WaitOutcome("building")])
    began = time.monotonic()
    assert world.live.stop(signal.SIGTERM) == 0
    took = time.monotonic() - began
    assert took < 20
    until(lambda: world.watcher.closed, "the viewer is disconnected", 5)
    assert set(world.watcher.closed) == {1001}
    world.live.start()
    play(world, [
        WaitOutcome("live", limit_s=120), ExpectLive("b"), StopTraffic(), ExpectOracle("b"),
        ExpectNothingLeft(),
    ])  # fmt: skip
    figures.now().landed(stops=1).note(f"stopped within {took:.1f} s")
    print(json.dumps({"stopped_s": round(took, 1)}))


# --- C7


def test_c7_two_hundred_swaps(world: World) -> None:
    """The last swaps are as fast as the first, and memory does not grow."""
    play(world, [Traffic(2)])  # new rows take memory too
    took: list[float] = []
    sizes: list[tuple[int, int]] = []  # of livejoin and of Spark's JVM
    for turn in range(200):
        began = time.monotonic()
        play(world, [request_pair(world.name, "ba"[turn % 2]), WaitOutcome("live", limit_s=120)])
        took.append(time.monotonic() - began)
        play(world, [ExpectLive("ba"[turn % 2])])
        if turn % 20 == 19:
            sizes.append((memory_kib(world.live.pid), jvm_memory_kib(world.live.jvm())))
    play(world, [StopTraffic(), ExpectOracle("a"), ExpectNothingLeft()])
    assert world.watcher.connects == 1
    # the first builds fill caches and compile code
    grown = (sum(sizes[-1]) - sum(sizes[0])) / (20 * (len(sizes) - 1))
    print(f"\nC7: KiB of livejoin and of Spark: {sizes}")
    first, last = statistics.median(took[10:20]), statistics.median(took[-10:])
    summary = f"{first:.2f} s at first, {last:.2f} s at last, {grown:.0f} KiB more per swap"
    figures.now().note(summary)
    print(f"\nC7: {summary}")
    assert grown < 1024
    assert last < 1.5 * first
