"""Hot swaps under traffic, checked on every frame: one livejoin, one scenario after the other."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from rig.produce import Producers
from rig.running import LIVEJOIN, until
from rig.world import (
    Action,
    Do,
    ExpectAtMost,
    ExpectLive,
    ExpectNothingLeft,
    ExpectOracle,
    KillDash9,
    Pause,
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
    topics,
)

NAME = "swap"
TO_A, TO_B = request_pair(NAME, "a", joinType="left"), request_pair(NAME, "b", joinType="left")
STALL_S = 15
BURST = 50


@pytest.fixture(scope="module")
def world(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("swap")
    with run_world(kafka, folder, NAME, build_stall_s=STALL_S) as started:
        play(started, [Traffic(40)])
        yield started
        assert started.watcher.frames > 100
        assert not started.watcher.wrong


def burst(world: World) -> None:
    """Fifty messages, half of them invalid; the last valid one requests pair b, inner."""
    for number in range(BURST):
        request = request_pair(NAME, "ab"[number % 2], joinType=("left", "inner")[number // 2 % 2])
        (request if number % 3 else Send(b'{"usersTopic": 1}')).do(world)
        ExpectAtMost(3).do(world)
    request_pair(NAME, "b", joinType="inner").do(world)
    last = world.offset
    Send({"joinType": "sideways"}).do(world)
    world.offset = last


def note_next(world: World) -> None:
    world.notes["next"] = max(row["generation"] for row in world.generations()) + 1


def break_next_changelog(world: World) -> None:
    """Make the new changelog reject every record, so that its query dies at every write."""
    changelog = Names(NAME).changelog(world.notes["next"])
    until(lambda: changelog in world.kafka.topics(), "it is made")
    assert world.kafka.ensure_topic_config(changelog, "max.message.bytes", "1")


def fill_big(world: World) -> None:
    """Fill a pair of topics that takes a while to read."""
    for topic in topics(NAME, "big").values():
        world.kafka.create_topic(topic)
    to = Producers(world.kafka, topics(NAME, "big"), tag="big")
    for _ in range(30_000):
        to.send_random(world.dice, users=0.5)
    to.flush()


def wait_build_reads(world: World) -> None:
    """Wait until the build has read some records, but not all."""
    until(lambda: 0 < world.status()["progress"] < 100, "the build reads")


def one_connection(world: World) -> None:
    assert world.watcher.connects == 1, "the viewer was dropped"


def command(*words: str, code: int = 0, output: str = "") -> Do:
    """Run a command, and check its exit code and output."""

    def run(world: World) -> None:
        arguments = [str(LIVEJOIN), *words, "--url", world.live.url]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, output in done.stdout + done.stderr) == (code, True), done

    return Do(run)


SCENARIOS: dict[str, Sequence[Action]] = {
    "a swap moves all tables to other topics": [
        TO_B, WaitOutcome("accepted"), WaitOutcome("live"),
        ExpectLive("b"), ExpectAtMost(2), Do(one_connection),
    ],
    "a rollback is back on the old rows, and forward again": [
        Send({"action": "rollback"}), WaitOutcome("live", "rolled back"), ExpectLive("a"),
        Send({"action": "rollback"}), WaitOutcome("live", "rolled back"), ExpectLive("b"),
    ],
    "a swap of the join alone": [
        Send({"joinType": "inner"}), WaitOutcome("live"), ExpectLive("b", "inner"),
    ],
    "people ask from the command line": [
        command("send", "--join", "left", output="live: generation"), ExpectLive("b"),
        command("preview", "--join", "inner", output="builds       generation"), ExpectLive("b"),
        command("rollback", output="(rolled back)"), ExpectLive("b", "inner"),
        command("send", "--join", "sideways", code=1, output="rejected: joinType: unknown join"),
        command("send", "--users-topic", "nope", code=1, output="does not exist"),
    ],
    "the same again is a heartbeat": [
        Send({"joinType": " INNER "}), WaitOutcome("live", "no change"), ExpectLive("b", "inner"),
    ],
    "what is wrong is rejected with a reason, and nothing changes": [
        Send({"userTopic": "x"}), WaitOutcome("rejected", "did you mean usersTopic?"),
        Send({"usersTopic": f"{NAME}.users.c"}), WaitOutcome("rejected", "does not exist, did you"),
        Send({"joinType": "sideways"}), WaitOutcome("rejected", "unknown join"),
        Send(b"{"), WaitOutcome("rejected", "not valid JSON"),
        Send({"usersTopic": f"{NAME}.ledger"}), WaitOutcome("rejected", "own topics"),
        ExpectLive("b", "inner"),
    ],
    "asking for what is live cancels a build": [
        TO_A, WaitOutcome("building"), Send({"usersTopic": f"{NAME}.users.b",
        "accountsTopic": f"{NAME}.accounts.b", "joinType": "inner"}),
        WaitOutcome("live", "cancelled"), ExpectLive("b", "inner"),
    ],
    "another request supersedes a build": [
        TO_A, WaitOutcome("building"), TO_B, WaitOutcome("live"), ExpectLive("b"),
    ],
    "a build that fails leaves the live one alone": [
        Do(note_next), TO_A, Do(break_next_changelog), WaitOutcome("failed", "no progress"),
        ExpectLive("b"), ExpectNothingLeft(),
    ],
    "a build that stalls leaves the live one alone": [
        Do(fill_big), request_pair(NAME, "big"), WaitOutcome("building"), Do(wait_build_reads),
        Pause(lambda w: (w.outcome(w.offset) or {}).get("outcome") == "failed", "it failed"),
        ExpectLive("b"), ExpectNothingLeft(),
    ],
    "of a burst the last valid message wins": [
        Do(burst), WaitOutcome("live"), ExpectLive("b", "inner"), ExpectAtMost(3),
        Do(one_connection),
    ],
    "killed while building, it goes on building": [
        TO_A, WaitOutcome("building"), KillDash9("both"), WaitOutcome("live", limit_s=120),
        ExpectLive("a"),
    ],
    "a standby outlives a kill": [
        KillDash9("both"), WaitState("live"), Send({"action": "rollback"}),
        WaitOutcome("live", "rolled back"), ExpectLive("b", "inner"),
    ],
    "in the end all is as the oracle says, and nothing is left behind": [
        StopTraffic(), Produce("b", 20), ExpectOracle("b", "inner"), ExpectNothingLeft(),
    ],
}  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario: str, world: World) -> None:
    play(world, SCENARIOS[scenario])


def test_every_message_is_recorded(world: World) -> None:
    rows = world.live.table("control_raw")
    assert [row["offset"] for _, row in sorted(rows.items())] == list(range(len(rows)))
    assert {row["by"] for row in rows.values()} == {"kafka", "cli 127.0.0.1"}
    assert all(row["reason"] for row in rows.values() if row["outcome"] == "rejected")
    messages = [row["msg"] for _, row in sorted(world.live.table("orchestrator_logs").items())]
    for offset in range(len(rows)):
        own_messages = [
            msg
            for msg in messages
            if f"control 0/{offset} " in msg or f"control 0/{offset}:" in msg
        ]
        assert len(own_messages) >= 3, (offset, own_messages)
    until(lambda: world.status()["state"] == "live", "live")
