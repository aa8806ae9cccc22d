"""Faults of the control plane in their long forms. The names of the cases are in their names."""

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
from rig.running import COLD, Running, held_kib, memory_kib, until
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
    moved,
    play,
    to_pair,
    world,
)

SEED = 20261115
MUTATED = 25_000  # 9 ms each: each is decided, and told, in a transaction of its own


@pytest.fixture
def one(request: pytest.FixtureRequest, kafka: Kafka, tmp_path: Path) -> Iterator[World]:
    name = request.node.name.split("_")[1]
    with world(kafka, tmp_path, name, seed=SEED) as made:
        yield made


# --- A2


@pytest.mark.parametrize("point", failpoints.NAMES)
def test_a2_dying_at_a_fail_point(point: str, kafka: Kafka, tmp_path: Path) -> None:
    """Three times: the next start ends where the undisturbed one would."""
    with world(kafka, tmp_path, f"a2.{point}", seed=SEED, spark={"conf": COLD}) as one:
        turn = 0
        once = point == "after-lead"  # in the life of a process
        for visit in (1, 1, 1) if once else (1, 2, 3):
            one.live.stop()
            one.live.start(f"{point}:{visit}")
            turn = _swap_until_dead(one, turn)
            assert one.live.ended == -signal.SIGKILL, f"{point}:{visit} was never reached"
            one.fault(kills=1)
            one.live.start()
            pair, join = _choice(turn)
            until(lambda: _settled(one), "it goes on", 120)
            play(one, [ExpectLive(pair, join), ExpectNothingLeft()])
        play(one, [ExpectOracle(*_choice(turn))])


def _choice(turn: int) -> tuple[str, str]:
    return "ab"[turn % 2], ("left", "inner")[turn // 2 % 2]


def _swap_until_dead(one: World, turn: int) -> int:
    """Ask for one swap after the other; the last one that was asked for."""
    for _ in range(6):
        until(lambda: one.live.ended is not None or _settled(one), "it settles or dies", 120)
        if one.live.ended is not None:
            return turn
        turn += 1
        pair, join = _choice(turn)
        to_pair(one.name, pair, joinType=join).do(one)
    until(lambda: one.live.ended is not None or _settled(one), "it settles or dies", 120)
    return turn


def _settled(one: World) -> bool:
    if one.status()["state"] != "live":
        return False
    with contextlib.suppress(AssertionError):
        row = one.outcome(one.offset) if one.offset >= 0 else None
        return one.offset < 0 or (row is not None and row["outcome"] == "live")
    return False


# --- A6


def test_a6_two_hundred_messages_in_ten_seconds(
    kafka: Kafka, tmp_path: Path, case: Figures
) -> None:
    port = free_port()
    conf = {"spark.ui.enabled": "true", "spark.ui.port": str(port)}
    # batches so short that none is rehearsed: that would be one more query
    with world(kafka, tmp_path, "a6", seed=SEED, spark={"batch_s": 30, "conf": conf}) as one:
        with Sampler(kafka, "a6", f"http://127.0.0.1:{port}") as most:
            began = time.monotonic()
            last, valid = _burst(one)
            sent_s = time.monotonic() - began
            began, one.offset = time.monotonic(), valid
            play(one, [WaitOutcome("live", limit_s=120), ExpectLive(*last)])
            case.recovered(time.monotonic() - began)
            play(one, [ExpectOracle(*last)])
        assert 9 < sent_s < 12, f"200 messages were sent in {sent_s:.1f} s, not in 10"
        case.landed(messages=200).note(
            f"sent in {sent_s:.1f} s; at one time there were at most"
            f" {len(most.most_changelogs)} changelogs, in"
            f" {most.samples['topics']} looks, and {len(most.most_queries)} queries, in"
            f" {most.samples['queries']}"
        )
        assert min(most.samples.values()) > 50, "nobody looked"
        assert len(most.most_queries) >= 2, "the queries were not seen"
        assert len(most.most_changelogs) <= 3, sorted(most.most_changelogs)
        assert len(most.most_queries) <= 3, sorted(most.most_queries)
        assert one.watcher.connects == 1
        rows = one.live.table("control_raw").values()
        assert sum(row["outcome"] == "rejected" for row in rows) > 50
        play(one, [ExpectNothingLeft()])


def _burst(one: World) -> tuple[tuple[str, str], int]:
    """Good and bad messages; what the last good one asked for, and its offset."""
    dice = random.Random(SEED)
    bad: list[Any] = [b"{", {"joinType": "x"}, {"usersTopic": "nope"}, b"[]", {"users": 1}]
    for number in range(200):
        began = time.monotonic()
        if dice.random() < 0.6:
            pair, join = dice.choice("ab"), dice.choice(["left", "inner", "left_outer"])
            to_pair(one.name, pair, joinType=join).do(one)
            last, valid = (pair, join), one.offset
        else:
            Send(dice.choice(bad)).do(one)
        if number < 199:
            time.sleep(max(0, 0.05 - (time.monotonic() - began)))  # the clock of the load
    return last, valid


# --- B6


def test_b6_a_hundred_thousand_mutated_messages_in_the_core(case: Figures) -> None:
    answered(100_000)
    case.landed(messages=100_000)


@pytest.mark.timeout(1800)
def test_b6_mutated_messages_over_the_broker(one: World, case: Figures) -> None:
    began = time.monotonic()
    named = expect_rejected(one, MUTATED, SEED)
    names = Names(one.name)
    own = (names.ledger, names.logs, names.replies, names.changelog(1), f"{one.name}.control")
    assert min(named[topic] for topic in own) >= 10, named
    case.landed(messages=MUTATED, own_topics_named=named.total()).note(
        f"{MUTATED:,} of the 100,000 messages over the broker,"
        f" in {time.monotonic() - began:.0f} s; all of them in the core"
    )
    play(one, [ExpectLive("a"), ExpectOracle("a"), ExpectNothingLeft()])


# --- A7


def test_a7_the_same_message_again(one: World, case: Figures) -> None:
    to_b = to_pair(one.name, "b", id="once")
    play(one, [to_b, WaitOutcome("live"), ExpectLive("b")])
    number = one.status()["generation"]
    for _ in range(20):
        to_b.do(one)
    to_pair(one.name, "a", id="once").do(one)
    play(one, [WaitOutcome("repeated"), KillDash9("both"), WaitState("live")])
    play(one, [to_b, WaitOutcome("repeated"), ExpectLive("b"), ExpectOracle("b")])
    assert max(row["generation"] for row in one.generations()) == number
    case.landed(messages_repeated=22)


def test_a7_the_same_records_again_and_out_of_order(
    kafka: Kafka, tmp_path: Path, case: Figures
) -> None:
    """The reader of the control topic goes back to its first record, behind newer ones."""
    with world(kafka, tmp_path, "a7again", seed=SEED) as one:
        _deliver_again(one, case)


def _deliver_again(one: World, case: Figures) -> None:
    play(one, [
        to_pair(one.name, "b", joinType="inner"), WaitOutcome("live"),
        Send(b"{"), Send({"joinType": "left"}), WaitOutcome("live"),
        Send({"action": "rollback"}), WaitOutcome("live"), ExpectLive("b", "inner"),
    ])  # fmt: skip
    assert one.live.stop() == 0
    one.watcher.replaying = True
    one.live.start("read-control:2")
    play(one, [WaitState("live")])
    before, number = _outcomes(one), one.status()["generation"]
    play(one, [Send({"joinType": "inner"}), WaitOutcome("live", "no change")])
    play(one, [Send({"joinType": "sideways"}), WaitOutcome("rejected")])
    again = "all control messages are read again"
    until(lambda: again in one.live.log.read_text(), "the records are delivered again", 30)
    # what comes behind them is read, so they have been
    play(one, [Send({"joinType": "inner"}), WaitOutcome("live", "no change")])
    assert {offset: _outcomes(one)[offset] for offset in before} == before
    assert one.status()["generation"] == number
    assert max(row["generation"] for row in one.generations()) == 3
    play(one, [ExpectLive("b", "inner"), ExpectOracle("b", "inner"), ExpectNothingLeft()])
    case.landed(records_repeated=len(before) + 2)


def _outcomes(one: World) -> dict[int, tuple[Any, ...]]:
    """What became of each message; of the generations that others asked for, not when."""
    rows = one.live.table("control_raw").values()
    return {row["offset"]: (row["outcome"], row["reason"]) for row in rows}


# --- A9


def test_a9_rollback_a_second_after_the_cutover(one: World, case: Figures) -> None:
    play(one, [Traffic(100)])
    took = []
    for turn in range(10):
        pair = "ba"[turn % 2]
        play(one, [to_pair(one.name, pair), WaitOutcome("live")])
        time.sleep(1)  # the case says a second
        took.append(moved(one, Send({"action": "rollback"}), 10))
        play(one, [WaitOutcome("live"), ExpectLive("ab"[turn % 2])])
        play(one, [Send({"action": "rollback"}), WaitOutcome("live"), ExpectLive(pair)])
    play(one, [StopTraffic(), ExpectOracle("a")])
    assert max(took) < 1.0, took
    case.landed(rollbacks=20).recovered(max(took))
    print(f"rollback took {sorted(took)} s")


# --- A14


def test_a14_two_orchestrators(one: World, kafka: Kafka, tmp_path: Path, case: Figures) -> None:
    settings = (one.live.folder / "livejoin.yaml").read_text()
    other = Running(kafka, tmp_path / "other")
    for mine, its in (
        (f"port: {one.live.port}", f"port: {other.port}"),
        # as on another machine: here it would wait for the frozen one to let go of the folder
        (str(one.live.folder / "checkpoints"), str(other.folder / "checkpoints")),
    ):
        assert mine in settings
        settings = settings.replace(mine, its)
    (other.folder / "livejoin.yaml").write_text(settings)
    other.start()
    try:
        other.wait_live()  # it serves the same tables
        assert not other.jvms(), "only the leader has queries"
        play(one, [to_pair(one.name, "b"), WaitOutcome("live"), ExpectLive("b")])
        os.kill(one.live.pid, signal.SIGSTOP)
        jvm = one.live.jvm()
        os.kill(jvm, signal.SIGKILL)  # its sink cannot be fenced, and must be dead
        case.landed(freezes=1, kills=1)
        try:
            until(other.jvms, "the other one leads", 60)
        finally:
            os.kill(one.live.pid, signal.SIGCONT)
        until(lambda: one.live.ended is not None or not one.live.jvms(), "the first gives up", 60)
        other.wait_live()
        second = World(**{**vars(one), "live": other})
        play(second, [to_pair(one.name, "a"), WaitOutcome("live"), ExpectLive("a")])
        play(second, [Produce("a", 50), Do(lambda w: until(lambda: w.live.read() ==
             w.producers["a"].count, "all records are read"))])  # fmt: skip
        lines = expect_one_writer(kafka, one.name)
        case.note(f"{lines} lines of the log, each written once")
    finally:
        other.stop(signal.SIGKILL)


# --- A16


def test_a16_stopped_in_the_middle_of_a_swap(one: World) -> None:
    play(one, [Traffic(50), to_pair(one.name, "b"), WaitOutcome("building")])
    began = time.monotonic()
    assert one.live.stop(signal.SIGTERM) == 0
    took = time.monotonic() - began
    assert took < 20
    until(lambda: one.watcher.closed, "the viewer was told", 5)
    assert set(one.watcher.closed) == {1001}
    one.live.start()
    play(one, [
        WaitOutcome("live", limit_s=120), ExpectLive("b"), StopTraffic(), ExpectOracle("b"),
        ExpectNothingLeft(),
    ])  # fmt: skip
    figures.now().landed(stops=1).note(f"stopped within {took:.1f} s")
    print(json.dumps({"stopped_s": round(took, 1)}))


# --- C7


def test_c7_two_hundred_swaps(one: World) -> None:
    """The last ones are as fast as the first, and nothing grows."""
    play(one, [Traffic(2)])  # rows that are new take memory too
    took: list[float] = []
    sizes: list[tuple[int, int]] = []  # of livejoin, and of Spark's JVM
    for turn in range(200):
        began = time.monotonic()
        play(one, [to_pair(one.name, "ba"[turn % 2]), WaitOutcome("live", limit_s=120)])
        took.append(time.monotonic() - began)
        play(one, [ExpectLive("ba"[turn % 2])])
        if turn % 20 == 19:
            sizes.append((memory_kib(one.live.pid), held_kib(one.live.jvm())))
    play(one, [StopTraffic(), ExpectOracle("a"), ExpectNothingLeft()])
    assert one.watcher.connects == 1
    # the first builds fill caches and compile
    grown = (sum(sizes[-1]) - sum(sizes[0])) / (20 * (len(sizes) - 1))
    print(f"\nC7: KiB of livejoin and of Spark: {sizes}")
    first, last = statistics.median(took[10:20]), statistics.median(took[-10:])
    told = f"{first:.2f} s at first, {last:.2f} s at last, {grown:.0f} KiB more per swap"
    figures.now().note(told)
    print(f"\nC7: {told}")
    assert grown < 1024
    assert last < 1.5 * first
