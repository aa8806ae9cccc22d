"""A5 and A8: topics that are missing, empty, or no longer readable or writable."""

import time
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

from livejoin.kafka.cluster import Kafka
from rig import brokers, figures
from rig.running import descendants, until
from rig.world import (
    ExpectLive,
    ExpectNothingLeft,
    ExpectOracle,
    Produce,
    Send,
    WaitOutcome,
    WaitState,
    World,
    play,
    request_pair,
    run_world,
)

NAME = "a8"
STALL_S = 15
EVERYBODY = "User:ANONYMOUS"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker that checks rights."""
    with brokers.broker(tmp_path_factory.mktemp("guarded"), more=AUTHORIZER) as kafka:
        yield kafka


@pytest.fixture
def world(guarded: Kafka, tmp_path: Path) -> Iterator[World]:
    with run_world(guarded, tmp_path, NAME, build_stall_s=STALL_S) as started:
        yield started


def deny(
    kafka: Kafka,
    name: str,
    what: AclOperation = AclOperation.READ,
    of: ResourceType = ResourceType.TOPIC,
) -> None:
    """Revoke one right. The second rule keeps all others."""
    rules = [_rule(of, name, what, AclPermissionType.DENY)]
    rules += [_rule(of, name, AclOperation.ALL, AclPermissionType.ALLOW)]
    for done in kafka.admin.create_acls(rules).values():
        done.result(10)
    figures.now().landed(rights_taken_away=1)


def allow(kafka: Kafka, name: str, of: ResourceType = ResourceType.TOPIC) -> None:
    """Restore the right."""
    rule = AclBindingFilter(
        of, name, ResourcePatternType.LITERAL, EVERYBODY, "*",
        AclOperation.ANY, AclPermissionType.DENY,
    )  # fmt: skip
    for done in kafka.admin.delete_acls([rule]).values():
        done.result(10)


def _rule(of: ResourceType, name: str, what: AclOperation, kind: AclPermissionType) -> AclBinding:
    return AclBinding(of, name, ResourcePatternType.LITERAL, EVERYBODY, "*", what, kind)


def test_a8_topics_that_cannot_be_read(world: World, guarded: Kafka) -> None:
    users_b = world.topics("b")["users"]
    play(world, [
        Send({"usersTopic": "a8.users.x"}), WaitOutcome("rejected", "does not exist, did you mean"),
        ExpectLive("a"),
    ])  # fmt: skip
    deny(guarded, users_b)
    rejected = WaitOutcome("rejected", "not authorized to read")
    play(world, [request_pair(NAME, "b"), rejected, ExpectLive("a")])
    allow(guarded, users_b)
    # enough records that the right is revoked before all are read
    play(world, [Produce("b", 30_000), request_pair(NAME, "b"), WaitOutcome("building")])
    deny(guarded, users_b)
    play(world, [
        WaitOutcome("failed", "no progress", limit_s=STALL_S * 4), ExpectLive("a"),
        ExpectOracle("a"), ExpectNothingLeft(),
    ])  # fmt: skip
    allow(guarded, users_b)
    for topic in ("a8.empty.users", "a8.empty.accounts"):
        guarded.create_topic(topic)
    empty = {"usersTopic": "a8.empty.users", "accountsTopic": "a8.empty.accounts"}
    play(world, [Send(empty), WaitOutcome("live", limit_s=30)])
    assert world.live.table("final_ui") == {}
    play(world, [request_pair(NAME, "b"), WaitOutcome("live", limit_s=120), ExpectLive("b")])


def test_a8_a_right_that_is_taken_away_and_given_back(guarded: Kafka, tmp_path: Path) -> None:
    with run_world(guarded, tmp_path, "a8b") as world:
        users = world.topics("a")["users"]
        deny(guarded, users)
        play(
            world, [WaitState("restarting", f'not authorized to read topic "{users}"', limit_s=15)]
        )
        assert world.live.table("users_ui"), "the last rows stay"
        world.watcher.replaying = True
        allow(guarded, users)
        play(world, [Produce("a", 50), WaitState("live"), ExpectOracle("a"), ExpectLive("a")])


def test_a8_a_changelog_that_may_not_be_read(guarded: Kafka, tmp_path: Path) -> None:
    with run_world(guarded, tmp_path, "a8c") as world:
        play(world, [ExpectOracle("a")])
        deny(guarded, "a8c.changelog.1")
        message = 'not authorized to read topic "a8c.changelog.1"'
        until(lambda: message in (world.status()["stale"] or ""), "the reason is reported", 15)
        assert world.live.table("users_ui"), "the last rows stay"
        allow(guarded, "a8c.changelog.1")
        play(world, [Produce("a", 50), ExpectOracle("a"), ExpectLive("a")])
        assert not world.status()["stale"]


def test_a8_a_changelog_that_is_deleted(guarded: Kafka, tmp_path: Path) -> None:
    """Only livejoin should delete it; the generation is rebuilt."""
    with run_world(guarded, tmp_path, "a8d") as world:
        play(world, [ExpectOracle("a")])
        world.watcher.replaying = True
        guarded.delete(["a8d.changelog.1"])
        figures.now().landed(topics_deleted=1)
        until(lambda: world.status()["generation"] == 2, "it is rebuilt", 60)
        assert (
            "generation 1 cannot continue: its changelog was deleted" in world.live.log.read_text()
        )
        play(world, [WaitState("live"), ExpectOracle("a"), ExpectLive("a"), ExpectNothingLeft()])


def test_a8_a_transactional_id_that_may_not_be_used_any_more(
    guarded: Kafka, tmp_path: Path
) -> None:
    with run_world(guarded, tmp_path, "a8e") as world:
        play(world, [ExpectOracle("a")])
        transactional_id = "a8e.leader", AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID
        deny(guarded, *transactional_id)
        heartbeat = Send({"joinType": "left"})  # something to write
        play(world, [heartbeat, WaitState("waiting", "the transactional id a8e.leader")])
        assert world.live.exit_code is None
        assert world.live.table("final_ui"), "the last rows stay"
        world.watcher.replaying = True
        allow(guarded, transactional_id[0], transactional_id[2])
        play(world, [WaitState("live"), Produce("a", 50), ExpectOracle("a"), ExpectLive("a")])


def test_a5_a_fault_that_never_goes_away(guarded: Kafka, tmp_path: Path) -> None:
    with run_world(guarded, tmp_path, "a5") as world:
        play(world, [ExpectOracle("a")])
        before = world.live.table("final_ui")
        deny(guarded, "a5.changelog.1", AclOperation.WRITE)
        play(world, [Produce("a", 20), WaitState("failed", "Authorization", limit_s=180)])
        assert world.live.log.read_text().count("restarting: generation 1 died") >= 5
        assert world.status()["stale"], "the rows are not marked stale"
        assert world.live.table("final_ui") == before
        cores = _busy_cores(world)
        figures.now().note(f"idle after giving up: {cores:.2f} cores")
        assert cores < 0.5
        world.watcher.replaying = True
        allow(guarded, "a5.changelog.1")
        play(
            world, [request_pair("a5", "a"), WaitState("live"), ExpectOracle("a"), ExpectLive("a")]
        )
        assert not world.status()["stale"]


def test_a5_a_refused_write_that_nothing_follows(guarded: Kafka, tmp_path: Path) -> None:
    """Spark notices at its next write, or at the end of its batch after 300 s."""
    with run_world(guarded, tmp_path, "a5b") as world:
        play(world, [ExpectOracle("a")])
        deny(guarded, "a5b.changelog.1", AclOperation.WRITE)
        play(
            world, [Produce("a", 1), WaitState("restarting", "not authorized to write", limit_s=15)]
        )
        world.watcher.replaying = True
        allow(guarded, "a5b.changelog.1")
        play(world, [WaitState("live"), ExpectOracle("a"), ExpectLive("a")])
        assert not world.status()["stale"]


def _busy_cores(world: World, over_s: float = 10) -> float:
    """Return the number of cores in use by livejoin and its JVM."""
    pids = [world.live.pid, *descendants(world.live.pid)]
    before = sum(map(_cpu_s, pids))
    time.sleep(over_s)  # the measured time
    return (sum(map(_cpu_s, pids)) - before) / over_s


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
