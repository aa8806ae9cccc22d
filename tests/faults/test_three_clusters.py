"""A20: each of three clusters (own, sources, control) is away for a minute, killed and frozen."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from livejoin.core.names import Names
from livejoin.kafka.clusters import ROLES, SECTIONS, Section
from rig import figures
from rig.apart import ThreeClusters, three_clusters
from rig.replies import ExpectReplies, kept_in_ledger
from rig.running import until
from rig.world import (
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
    play,
    request_pair,
    run_world,
)

SEED = 20261119
NAME = "a20"
AWAY_S = 60
NAMED_S = 15
BACK_S = 90
STALL_S = 20
IDS: dict[Section, str] = {"kafka": "own", "kafka_data": "data", "kafka_control": "control"}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeClusters]:
    with three_clusters(tmp_path_factory.mktemp("clusters")) as clusters:
        yield clusters


@contextlib.contextmanager
def away(three: ThreeClusters, section: Section, how: str) -> Iterator[None]:
    """Take a cluster away, and bring it back at the end of the block."""
    broker = three.brokers[section]
    leave, come_back = {
        "killed": (broker.kill, broker.restart),
        "frozen": (broker.freeze, broker.thaw),
    }[how]
    leave()
    try:
        yield
    finally:
        come_back()


def status_message(world: World) -> str:
    """The message of the row of `orchestrator_status`, and why rows are stale."""
    with contextlib.suppress(AssertionError):  # it may be busy
        (row,) = world.live.table("orchestrator_status").values()
        return f"{row['message']} {world.live.request('api/v1/status')['stale'] or ''}"
    return ""


def failing_checks(world: World) -> dict[str, str]:
    """What `/readyz?verbose` says about each cluster."""
    with contextlib.suppress(AssertionError):
        checks: list[dict[str, Any]] = world.live.request("readyz?verbose")["checks"]
        return {one["name"]: one["why"] for one in checks if one["name"] in SECTIONS and one["why"]}
    return {}


def expect_named(world: World, section: Section) -> None:
    """The cluster is named by its role, in status and `/readyz`, and no other one is."""
    began, role = time.monotonic(), ROLES[section]
    until(lambda: role in status_message(world), f"the {role} is named in the status", NAMED_S)
    in_status_s = time.monotonic() - began
    until(
        lambda: role in failing_checks(world).get(section, ""),
        f"the {role} is named in /readyz",
        NAMED_S - in_status_s,
    )
    in_both_s = time.monotonic() - began
    assert failing_checks(world).keys() == {section}
    figures.now().note(
        f"the {role} was named in the status after {in_status_s:.1f} s,"
        f" in /readyz after {in_both_s:.1f} s at the latest"
    )


def expect_cleared(world: World, section: Section) -> None:
    """Everything is well again, and nothing names the cluster any more."""

    def is_well() -> bool:
        status = world.status()
        return (
            status["state"] == "live"
            and not status["stale"]
            and not failing_checks(world)
            and ROLES[section] not in status_message(world)
        )

    until(is_well, f"it has recovered: {world.status()}", BACK_S)


class LateRequest:
    """A request that is sent while a cluster is away, perhaps that of the control topic."""

    def __init__(self, world: World, pair: str) -> None:
        self._world = world
        self._done: list[tuple[Any, Any]] = []
        message = {"action": "preview", **_topic_fields(world, pair)}
        world.control.produce(
            f"{world.name}.control",
            json.dumps(message),
            on_delivery=lambda error, record: self._done.append((error, record)),
        )

    def offset(self, limit_s: float = BACK_S) -> int:
        """Its offset, once it is acknowledged."""
        assert self._world.control.flush(limit_s) == 0
        (error, record), *_ = self._done
        assert error is None, error
        return int(record.offset())


def _topic_fields(world: World, pair: str) -> dict[str, str]:
    names = world.topics(pair)
    return {"usersTopic": names["users"], "accountsTopic": names["accounts"]}


@pytest.mark.parametrize("section", SECTIONS, ids=list(IDS.values()))
def test_a20_a_cluster_is_away(section: Section, three: ThreeClusters, tmp_path: Path) -> None:
    name = f"{NAME}-{IDS[section]}"
    with run_world(three.clusters, tmp_path, name, seed=SEED) as world:
        play(world, [Traffic(per_second=10, user_count=200), ExpectLive("a")])
        for how, join in (("killed", "left_outer"), ("frozen", "inner")):
            generation = world.status()["generation"]
            play(world, [Send({"joinType": join, "id": f"before-{how}"}), WaitOutcome("accepted")])
            before = world.offset
            world.fault(kills=how == "killed", freezes=how == "frozen")
            began = time.monotonic()
            with away(three, section, how):
                late = LateRequest(world, "b")
                expect_named(world, section)
                least = 1
                while time.monotonic() < began + AWAY_S:
                    rows = len(world.live.table("users_ui"))
                    assert rows >= least, "rows stay served"
                    least = rows
                    if section != "kafka_control":
                        assert world.outcome(late.offset()) is None, "decided without its cluster"
                    time.sleep(1)  # the length of the outage
            back_at = time.monotonic()
            world.offset = late.offset()
            play(world, [WaitOutcome("live", offset=before), WaitOutcome("previewed")])
            expect_cleared(world, section)
            world.broken_at, recovered_s = None, time.monotonic() - back_at
            figures.now().recovered(recovered_s)
            print(f"{section} {how}: recovered after {recovered_s:.1f} s")
            play(world, [ExpectLive("a", join), ExpectReplies()])
            assert world.status()["generation"] == generation + 1, "nothing was built twice"
        play(world, [StopTraffic(), ExpectOracle("a", "inner"), ExpectNothingLeft()])


@pytest.mark.parametrize(
    ("join", "phase"),
    [("inner", "reads"), ("left", "reads"), ("inner", "starts")],
    ids=["by stream", "by batch", "before it is resolved"],
)
def test_a20_a_build_waits_for_its_sources(
    join: str, phase: str, three: ThreeClusters, tmp_path: Path
) -> None:
    """The time in which their cluster is away does not count as one without progress."""
    name = f"{NAME}-{join}-{phase}"
    with run_world(three.clusters, tmp_path, name, seed=SEED, build_stall_s=STALL_S) as world:
        pair = "b" if phase == "reads" else "a"
        play(world, [Produce(pair, 2000)])
        if phase == "reads":
            play(world, [request_pair(name, pair, joinType=join), WaitOutcome("accepted")])
        world.fault(kills=1)
        began = time.monotonic()
        with away(three, "kafka_data", "killed"):
            expect_named(world, "kafka_data")
            if phase == "starts":  # it names no topic, so it is decided
                play(world, [Send({"joinType": join}), WaitOutcome("accepted")])
            while time.monotonic() < began + 3 * STALL_S:
                assert world.live.table("final_ui"), "rows stay served"
                time.sleep(1)  # the length of the outage
        back_at = time.monotonic()
        play(world, [WaitOutcome("live"), WaitState("live")])
        figures.now().recovered(time.monotonic() - back_at)
        play(world, [ExpectOracle(pair, join), ExpectLive(pair, join), ExpectReplies()])
        assert world.status()["generation"] == 2, "it was built once"
        states = [row["state"] for row in world.generations()]
        assert "failed" not in states, world.generations()


def test_a20_replies_outlive_kill_9_while_their_cluster_is_away(
    three: ThreeClusters, tmp_path: Path
) -> None:
    name, own = f"{NAME}-kill", three.clusters.own
    with run_world(three.clusters, tmp_path, name, seed=SEED) as world:
        play(world, [request_pair(name, "b"), WaitOutcome("accepted")])
        world.fault(kills=1)
        with away(three, "kafka_control", "killed"):
            play(world, [WaitOutcome("live"), ExpectLive("b")])
            kept = kept_in_ledger(own, Names(name))
            assert kept, "the outcomes of this swap wait in the ledger"
            play(world, [KillDash9("both"), WaitState("live"), ExpectOracle("b")])
            expect_named(world, "kafka_control")
            assert kept_in_ledger(own, Names(name)) == kept
        expect_cleared(world, "kafka_control")
        play(world, [Send({"action": "rollback"}), WaitOutcome("live"), ExpectReplies()])
        until(lambda: not kept_in_ledger(own, Names(name)), "all are acknowledged", BACK_S)
        play(world, [ExpectLive("a"), ExpectOracle("a"), ExpectNothingLeft()])
