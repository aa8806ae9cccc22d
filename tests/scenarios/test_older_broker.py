"""Brokers that report neither rights nor topic ids: a swap, kill -9 of everything, a rollback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from livejoin.kafka.cluster import Kafka
from rig import brokers
from rig.older_broker import DESCRIBE_GROUPS, METADATA, Ports, older_broker
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

NAME = "older"
NEWEST = {METADATA: 7, DESCRIBE_GROUPS: 2}  # versions before the authorized operations


@pytest.fixture
def direct(tmp_path: Path) -> Iterator[tuple[Kafka, Kafka]]:
    """The broker as the test sees it, and as livejoin does."""
    ports = Ports()
    with (
        brokers.broker(tmp_path / "broker", more=ports.settings()) as kafka,
        older_broker(ports.outer, ports.inner, NEWEST),
    ):
        yield kafka, Kafka({"bootstrap.servers": f"127.0.0.1:{ports.outer}"})


def test_a_swap_a_kill_and_a_rollback(direct: tuple[Kafka, Kafka], tmp_path: Path) -> None:
    kafka, older = direct
    with run_world(kafka, tmp_path / "run", NAME, through=older) as world:
        play(world, [
            ExpectOracle("a"),
            request_pair(NAME, "b"), WaitOutcome("live"), ExpectLive("b"), ExpectOracle("b"),
            KillDash9("both"), Produce("b", 20), WaitState("live"), ExpectOracle("b"),
            Send({"action": "rollback"}), WaitOutcome("live"), WaitState("live"),
            Produce("a", 20), ExpectLive("a"), ExpectOracle("a"),
            Send({"usersTopic": "missing"}), WaitOutcome("rejected", "does not exist"),
            ExpectNothingLeft(), ExpectReplies(),
        ])  # fmt: skip
        assert world.live.stop() == 0
        logged = world.live.log.read_text()
        assert "Traceback" not in logged
        assert "the brokers report no topic ids" in logged
