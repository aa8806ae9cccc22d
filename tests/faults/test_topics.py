"""A8: swaps to topics that are missing, may not be read, stop being readable, or are empty."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from livejoin import broker
from livejoin.kafka import Kafka
from rig.world import (
    ExpectLive,
    ExpectNothingLeft,
    ExpectOracle,
    Produce,
    Send,
    WaitOutcome,
    World,
    play,
    to_pair,
    world,
)

NAME = "a8"
STALL_S = 15
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker that looks at rights."""
    with broker.broker(tmp_path_factory.mktemp("guarded"), more=AUTHORIZER) as kafka:
        yield kafka


@pytest.fixture
def one(guarded: Kafka, tmp_path: Path) -> Iterator[World]:
    with world(guarded, tmp_path, NAME, build_stall_s=STALL_S) as made:
        yield made


def deny(kafka: Kafka, topic: str) -> None:
    rule = AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*",
        AclOperation.READ, AclPermissionType.DENY,
    )  # fmt: skip
    for done in kafka.admin.create_acls([rule]).values():
        done.result(10)


def allow(kafka: Kafka, topic: str) -> None:
    rule = AclBindingFilter(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*",
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    for done in kafka.admin.delete_acls([rule]).values():
        done.result(10)


def test_a8_topics_that_cannot_be_read(one: World, guarded: Kafka) -> None:
    users_b = one.topics("b")["users"]
    play(one, [
        Send({"usersTopic": "a8.users.x"}), WaitOutcome("rejected", "does not exist, did you mean"),
        ExpectLive("a"),
    ])  # fmt: skip
    deny(guarded, users_b)
    play(one, [to_pair(NAME, "b"), WaitOutcome("rejected", "may not be read"), ExpectLive("a")])
    allow(guarded, users_b)
    # so many that reading them takes longer than taking the right away
    play(one, [Produce("b", 30_000), to_pair(NAME, "b"), WaitOutcome("building")])
    deny(guarded, users_b)
    play(one, [
        WaitOutcome("failed", "no progress", limit_s=STALL_S * 4), ExpectLive("a"),
        ExpectOracle("a"), ExpectNothingLeft(),
    ])  # fmt: skip
    allow(guarded, users_b)
    for topic in ("a8.empty.users", "a8.empty.accounts"):
        guarded.make(topic)
    empty = {"usersTopic": "a8.empty.users", "accountsTopic": "a8.empty.accounts"}
    play(one, [Send(empty), WaitOutcome("live", limit_s=30)])
    assert one.live.table("final_ui") == {}
    play(one, [to_pair(NAME, "b"), WaitOutcome("live", limit_s=120), ExpectLive("b")])
