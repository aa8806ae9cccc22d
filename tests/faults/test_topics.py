"""Topics that are missing, empty, or that one may not read or write any more: A5, A8."""

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
    to_pair,
    world,
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
    """A broker that looks at rights."""
    with brokers.broker(tmp_path_factory.mktemp("guarded"), more=AUTHORIZER) as kafka:
        yield kafka


@pytest.fixture
def one(guarded: Kafka, tmp_path: Path) -> Iterator[World]:
    with world(guarded, tmp_path, NAME, build_stall_s=STALL_S) as made:
        yield made


def deny(
    kafka: Kafka,
    name: str,
    what: AclOperation = AclOperation.READ,
    of: ResourceType = ResourceType.TOPIC,
) -> None:
    """Take one right away. Without the other rule all would be gone."""
    rules = [_rule(of, name, what, AclPermissionType.DENY)]
    rules += [_rule(of, name, AclOperation.ALL, AclPermissionType.ALLOW)]
    for done in kafka.admin.create_acls(rules).values():
        done.result(10)
    figures.now().landed(rights_taken_away=1)


def allow(kafka: Kafka, name: str, of: ResourceType = ResourceType.TOPIC) -> None:
    """Give it back."""
    rule = AclBindingFilter(
        of, name, ResourcePatternType.LITERAL, EVERYBODY, "*",
        AclOperation.ANY, AclPermissionType.DENY,
    )  # fmt: skip
    for done in kafka.admin.delete_acls([rule]).values():
        done.result(10)


def _rule(of: ResourceType, name: str, what: AclOperation, kind: AclPermissionType) -> AclBinding:
    return AclBinding(of, name, ResourcePatternType.LITERAL, EVERYBODY, "*", what, kind)


def test_a8_topics_that_cannot_be_read(one: World, guarded: Kafka) -> None:
    users_b = one.topics("b")["users"]
    play(one, [
        Send({"usersTopic": "a8.users.x"}), WaitOutcome("rejected", "does not exist, did you mean"),
        ExpectLive("a"),
    ])  # fmt: skip
    deny(guarded, users_b)
    rejected = WaitOutcome("rejected", "not authorized to read")
    play(one, [to_pair(NAME, "b"), rejected, ExpectLive("a")])
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
        guarded.create_topic(topic)
    empty = {"usersTopic": "a8.empty.users", "accountsTopic": "a8.empty.accounts"}
    play(one, [Send(empty), WaitOutcome("live", limit_s=30)])
    assert one.live.table("final_ui") == {}
    play(one, [to_pair(NAME, "b"), WaitOutcome("live", limit_s=120), ExpectLive("b")])


def test_a8_a_right_that_is_taken_away_and_given_back(guarded: Kafka, tmp_path: Path) -> None:
    with world(guarded, tmp_path, "a8b") as one:
        users = one.topics("a")["users"]
        deny(guarded, users)
        play(one, [WaitState("restarting", f'not authorized to read topic "{users}"', limit_s=15)])
        assert one.live.table("users_ui"), "the last rows stay"
        one.watcher.replaying = True
        allow(guarded, users)
        play(one, [Produce("a", 50), WaitState("live"), ExpectOracle("a"), ExpectLive("a")])


def test_a8_a_changelog_that_may_not_be_read(guarded: Kafka, tmp_path: Path) -> None:
    with world(guarded, tmp_path, "a8c") as one:
        play(one, [ExpectOracle("a")])
        deny(guarded, "a8c.changelog.1")
        said = 'not authorized to read topic "a8c.changelog.1"'
        until(lambda: said in (one.status()["stale"] or ""), "it is named", 15)
        assert one.live.table("users_ui"), "the last rows stay"
        allow(guarded, "a8c.changelog.1")
        play(one, [Produce("a", 50), ExpectOracle("a"), ExpectLive("a")])
        assert not one.status()["stale"]


def test_a8_a_changelog_that_is_deleted(guarded: Kafka, tmp_path: Path) -> None:
    """Nobody but livejoin should: what it held is built anew."""
    with world(guarded, tmp_path, "a8d") as one:
        play(one, [ExpectOracle("a")])
        one.watcher.replaying = True
        guarded.delete(["a8d.changelog.1"])
        figures.now().landed(topics_deleted=1)
        until(lambda: one.status()["generation"] == 2, "it is built anew", 60)
        assert "generation 1 cannot continue: its changelog was deleted" in one.live.log.read_text()
        play(one, [WaitState("live"), ExpectOracle("a"), ExpectLive("a"), ExpectNothingLeft()])


def test_a8_a_transactional_id_that_may_not_be_used_any_more(
    guarded: Kafka, tmp_path: Path
) -> None:
    with world(guarded, tmp_path, "a8e") as one:
        play(one, [ExpectOracle("a")])
        mine = "a8e.leader", AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID
        deny(guarded, *mine)
        heartbeat = Send({"joinType": "left"})  # something to write
        play(one, [heartbeat, WaitState("waiting", "the transactional id a8e.leader")])
        assert one.live.ended is None
        assert one.live.table("final_ui"), "the last rows stay"
        one.watcher.replaying = True
        allow(guarded, mine[0], mine[2])
        play(one, [WaitState("live"), Produce("a", 50), ExpectOracle("a"), ExpectLive("a")])


def test_a5_a_fault_that_never_goes_away(guarded: Kafka, tmp_path: Path) -> None:
    with world(guarded, tmp_path, "a5") as one:
        play(one, [ExpectOracle("a")])
        before = one.live.table("final_ui")
        deny(guarded, "a5.changelog.1", AclOperation.WRITE)
        play(one, [Produce("a", 20), WaitState("failed", "Authorization", limit_s=180)])
        assert one.live.log.read_text().count("restarting: generation 1 died") >= 5
        assert one.status()["stale"], "the rows are not marked stale"
        assert one.live.table("final_ui") == before
        busy = _busy(one)
        figures.now().note(f"idle after giving up: {busy:.2f} cores")
        assert busy < 0.5
        one.watcher.replaying = True
        allow(guarded, "a5.changelog.1")
        play(one, [to_pair("a5", "a"), WaitState("live"), ExpectOracle("a"), ExpectLive("a")])
        assert not one.status()["stale"]


def test_a5_a_refused_write_that_nothing_follows(guarded: Kafka, tmp_path: Path) -> None:
    """Spark learns of it when it writes again, or when its batch ends, in 300 s."""
    with world(guarded, tmp_path, "a5b") as one:
        play(one, [ExpectOracle("a")])
        deny(guarded, "a5b.changelog.1", AclOperation.WRITE)
        play(one, [Produce("a", 1), WaitState("restarting", "not authorized to write", limit_s=15)])
        one.watcher.replaying = True
        allow(guarded, "a5b.changelog.1")
        play(one, [WaitState("live"), ExpectOracle("a"), ExpectLive("a")])
        assert not one.status()["stale"]


def _busy(one: World, over_s: float = 10) -> float:
    """How many cores livejoin and its JVM use."""
    pids = [one.live.pid, *descendants(one.live.pid)]
    before = sum(map(_cpu_s, pids))
    time.sleep(over_s)  # what is measured takes time
    return (sum(map(_cpu_s, pids)) - before) / over_s


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
