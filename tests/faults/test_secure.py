"""D4: every login mechanism, and tokens that expire. D7: the minimum set of rights."""

import contextlib
import json
import re
import shlex
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from livejoin.errors import KafkaUnavailable
from rig.authority import Authority
from rig.provider import Provider, provider
from rig.running import COLD, Running, running, until
from rig.secure import USER, SecureBroker, secure
from rig.world import (
    ExpectLive,
    ExpectOracle,
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

LIFE_S = 60
REAUTHENTICATED_S = 180
OUTAGE_S = 300
PAGE = Path(__file__).parents[2] / "docs/security-kafka.md"


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Authority, Provider]]:
    authority = Authority()
    folder = tmp_path_factory.mktemp("provider")
    with provider(folder, authority, subject=USER, life_s=LIFE_S) as one:
        yield authority, one


@pytest.fixture(scope="module")
def guarded(
    identities: tuple[Authority, Provider], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureBroker]:
    """A broker that requires re-authentication regularly, and checks rights."""
    more = {
        "connections.max.reauth.ms": str(LIFE_S * 1000),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",  # the test itself
    }
    with secure(tmp_path_factory.mktemp("secure"), *identities, more=more) as one:
        yield one


LOGINS_LOGGED = """
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1}: %m%n%ex
logger.sasl.name = org.apache.kafka.common.security.authenticator
logger.sasl.level = debug
"""


# --- # --- the documented rights


def documented_rights(
    name: str, users: str, accounts: str, control: str = "", of: str = "livejoin"
) -> list[AclBinding]:
    """Return the rights of the page for another name and other inputs, one operation each."""
    found = []
    words = {"users": users, "accounts": accounts, "control": control or f"{name}.control"}
    words |= {f"livejoin.{end}": f"{name}.{end}" for end in ("", "leader", "audit", "access")}
    lines = rf"(?m)^kafka-acls --add --allow-principal User:{of} (.*)$"
    for line in re.findall(lines, PAGE.read_text()):
        options = shlex.split(line)
        pairs = list(zip(options[::2], options[1::2], strict=True))
        options_by_name = dict(pairs)
        kind = next(k for k in ("--topic", "--group", "--transactional-id") if k in options_by_name)
        pattern = options_by_name.get("--resource-pattern-type", "literal").upper()
        found += [
            AclBinding(
                ResourceType[kind.strip("-").replace("-", "_").upper()],
                words[options_by_name[kind]],
                ResourcePatternType[pattern],
                f"User:{USER}",
                "*",
                AclOperation[operation.upper()],
                AclPermissionType.ALLOW,
            )
            for option, operation in pairs
            if option == "--operation"
        ]
    return found


def grant(guarded: SecureBroker, rights: list[AclBinding]) -> None:
    for done in guarded.open.admin.create_acls(rights).values():
        done.result(10)


def revoke_right(guarded: SecureBroker, right: AclBinding) -> None:
    one = AclBindingFilter(
        right.restype, right.name, right.resource_pattern_type, right.principal, right.host,
        right.operation, right.permission_type,
    )  # fmt: skip
    for done in guarded.open.admin.delete_acls([one]).values():
        assert len(done.result(10)) == 1, right


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "SSL", "OAUTHBEARER"])
def test_d4_a_swap_with_the_documented_rights_over(
    way: str, guarded: SecureBroker, tmp_path: Path
) -> None:
    name = f"d4-{way.lower()}"
    for pair in ("a", "b"):
        grant(guarded, documented_rights(name, f"{name}.users.{pair}", f"{name}.accounts.{pair}"))
    with run_world(guarded.kafka_for(way), tmp_path, name, spark={"conf": COLD}) as world:
        play(world, [
            Produce("b", 50), request_pair(name, "b", joinType="inner"), WaitOutcome("live"),
            ExpectLive("b", "inner"), ExpectOracle("b", "inner"),
        ])  # fmt: skip


# --- # --- tokens with a life of one minute


def test_d4_tokens_expire_and_the_provider_goes_and_comes_back(
    guarded: SecureBroker, identities: tuple[Authority, Provider], tmp_path: Path
) -> None:
    name, (_, identity_provider) = "d4", identities
    for pair in ("a", "b"):
        grant(guarded, documented_rights(name, f"{name}.users.{pair}", f"{name}.accounts.{pair}"))
    kafka = guarded.kafka_for("OAUTHBEARER", debug="broker,security")
    with run_world(kafka, tmp_path, name, spark={"conf": logins_logged(tmp_path)}) as world:
        play(world, [Traffic(10)])
        stale, ends = 0, time.monotonic() + REAUTHENTICATED_S
        while time.monotonic() < ends:  # re-authentications take time
            stale += bool(world.status()["stale"])
            time.sleep(1)
        rdkafka, java = reauthenticated(world)
        print(f"re-authentications in {REAUTHENTICATED_S} s: librdkafka {rdkafka}, JVM {java}")
        assert rdkafka >= 2
        assert java >= 2
        assert stale == 0, "stale although the provider was up"
        identity_provider.stop()
        stopped = time.monotonic()
        refusal_text = until(lambda: refusal(world), "the status has the reason", LIFE_S * 2 + 15)
        print(f"named {time.monotonic() - stopped:.0f} s after the provider went: {refusal_text}")
        world.watcher.replaying = True
        time.sleep(max(0.0, stopped + OUTAGE_S - time.monotonic()))  # the length of the outage
        assert world.live.table("final_ui"), "the last rows stay"
        assert refusal(world)
        identity_provider.rotate()
        identity_provider.start()
        began = time.monotonic()
        count = world.producers["a"].count
        until(lambda: has_read(world, count), "the missed records are read", 60)
        print(f"recovered {time.monotonic() - began:.0f} s after the provider came back")
        play(world, [
            WaitState("live"), StopTraffic(), ExpectOracle("a"), request_pair(name, "b"),
            WaitOutcome("live"),
        ])  # fmt: skip
        assert not world.status()["stale"]


def test_d4_the_providers_key_changes(
    guarded: SecureBroker, identities: tuple[Authority, Provider]
) -> None:
    _, identity_provider = identities
    before = identity_provider.keys()
    guarded.kafka_for("OAUTHBEARER").topics()
    identity_provider.stop()
    identity_provider.rotate()
    identity_provider.start()
    assert identity_provider.keys() != before

    def logged_in() -> bool:
        with contextlib.suppress(KafkaUnavailable):
            guarded.kafka_for("OAUTHBEARER").topics()
            return True
        return False

    until(logged_in, "a login with a token of the new key", 60)


def logins_logged(folder: Path) -> dict[str, str]:
    """Return Spark options that log every login of its Kafka clients, and little else."""
    file = folder / "log4j2.properties"
    file.write_text(LOGINS_LOGGED)
    key, cold = next(iter(COLD.items()))
    return {key: f"{cold} -Dlog4j2.configurationFile={file}"}


def reauthenticated(world: World) -> tuple[int, int]:
    """Return the number of re-authentications on open connections, of librdkafka and of the JVM."""
    livejoin_log = world.live.log.read_text(errors="replace")
    spark = (world.live.folder / "checkpoints/spark.log").read_text(errors="replace")
    return livejoin_log.count("REAUTH -> "), len(
        re.findall(r"Finished re-?authentication with", spark)
    )


def refusal(world: World) -> str:
    """Return the message of the status about a failed login, or nothing."""
    status = world.status()
    refusal_text = f"{status['message']} {status['stale']}"
    return (
        refusal_text if re.search(r"TLS handshake or login|uthenticat|token", refusal_text) else ""
    )


def has_read(world: World, count: int) -> bool:
    with contextlib.suppress(AssertionError):  # it may be busy
        return world.live.records_read() >= count
    return False


# --- # --- D7: each right missing in turn


@dataclass(frozen=True)
class Missing:
    """A missing right, and the words that report it."""

    operation: str
    resource: str
    words: str
    swap: bool = False  # whether it shows only when a swap is requested

    @property
    def kind(self) -> ResourceType:
        kinds = {"group": ResourceType.GROUP, "id": ResourceType.TRANSACTIONAL_ID}
        return kinds.get(self.resource, ResourceType.TOPIC)

    @property
    def what(self) -> AclOperation:
        return AclOperation[self.operation]


MISSING = (
    Missing("READ", "in.users", 'not authorized to read topic "{in.users}"'),
    Missing("READ", "in.accounts", 'not authorized to read topic "{in.accounts}"'),
    Missing("READ", "in.control", 'not authorized to read topic "{in.control}"'),
    Missing("WRITE", "in.control", "cannot write to control topic", swap=True),
    Missing("CREATE", "in.control", 'not authorized to create topic "{in.control}"'),
    Missing("CREATE", "own", "not authorized to create"),
    Missing("DELETE", "own", "not authorized to delete", swap=True),
    Missing("READ", "own", "not authorized to read"),
    Missing("WRITE", "own", "uthorization"),
    Missing("READ", "group", "not authorized to use consumer group"),
    Missing("WRITE", "id", "uthorization"),
)


def resource_names(name: str) -> dict[str, str]:
    """Return the resources of the rights. Names of inputs do not begin with livejoin's name."""
    inputs = {f"in.{one}": f"in-{name}.{one}" for one in ("users", "accounts", "control")}
    return inputs | {"own": f"{name}.", "group": f"{name}.", "id": f"{name}.leader"}


def prepared_livejoin(guarded: SecureBroker, folder: Path, name: str) -> Running:
    """Return a livejoin with a few records in its inputs and the documented rights."""
    resources = resource_names(name)
    producer = guarded.open.producer()
    for source in ("users", "accounts"):
        guarded.open.create_topic(resources[f"in.{source}"])
        producer.produce(resources[f"in.{source}"], b'{"userId": "a"}')
    assert producer.flush(20) == 0
    grant(
        guarded,
        documented_rights(
            name, resources["in.users"], resources["in.accounts"], resources["in.control"]
        ),
    )
    topics = {source: resources[f"in.{source}"] for source in ("users", "accounts", "control")}
    return Running(guarded.kafka_for("PLAIN"), folder, name=name, topics=topics, standby_s=0)


def test_d7_the_documented_rights_are_enough(guarded: SecureBroker, tmp_path: Path) -> None:
    one = prepared_livejoin(guarded, tmp_path, "d7")
    one.start()
    try:
        one.wait_live()
        assert one.request("api/v1/control", {"joinType": "inner"})["outcome"] in (
            "accepted",
            "building",
        )
        until(lambda: one.request("api/v1/status")["joinType"] == "inner", "the other join")
        until(lambda: "d7.changelog.1" not in guarded.open.topics(), "the old one is removed")
    finally:
        assert one.stop() == 0


def test_d7_a_further_server_needs_less(guarded: SecureBroker, tmp_path: Path) -> None:
    one, resources = (
        prepared_livejoin(guarded, tmp_path / "run", "d7-serve"),
        resource_names("d7-serve"),
    )
    one.start()
    try:
        one.wait_live()
    finally:
        assert one.stop() == 0
    inputs = (resources["in.users"], resources["in.accounts"], resources["in.control"])
    for right in documented_rights("d7-serve", *inputs):
        revoke_right(guarded, right)
    grant(guarded, documented_rights("d7-serve", *inputs, of="livejoin-serve"))
    topics = {source: resources[f"in.{source}"] for source in ("users", "accounts", "control")}
    way, folder = guarded.kafka_for("PLAIN"), tmp_path / "serve"
    with running(way, folder, command="serve", name="d7-serve", topics=topics) as server:
        server.wait_live()
        assert len(server.table("final_ui")) == 1
        written_topics = (resources["in.control"], "d7-serve.audit", "d7-serve.access")
        before = [record_count(guarded, topic) for topic in written_topics]
        request_join(server)
        for topic, count_before in zip(written_topics, before, strict=True):
            until(lambda: record_count(guarded, topic) > count_before, f"it is written to {topic}")  # noqa: B023
        assert "lost" not in server.log.read_text()


def record_count(guarded: SecureBroker, topic: str) -> int:
    """Return the number of records in a topic."""
    found = guarded.open.offsets(guarded.open.describe([topic]).values(), OffsetSpec.latest())
    return sum(found[topic].values())


def test_d7_every_documented_right_has_its_case(guarded: SecureBroker) -> None:
    resources = resource_names("d7")
    rights = documented_rights(
        "d7", resources["in.users"], resources["in.accounts"], resources["in.control"]
    )
    cases = {(missing.kind, resources[missing.resource], missing.what) for missing in MISSING}
    assert cases == {(right.restype, right.name, right.operation) for right in rights}


@pytest.mark.parametrize("missing", MISSING, ids=lambda m: f"{m.operation}-{m.resource}".lower())
def test_d7_without(missing: Missing, guarded: SecureBroker, tmp_path: Path) -> None:
    name = f"d7-{missing.operation}-{missing.resource.replace('.', '-')}".lower()
    one, resources = prepared_livejoin(guarded, tmp_path, name), resource_names(name)
    rights = documented_rights(
        name, resources["in.users"], resources["in.accounts"], resources["in.control"]
    )
    wanted = (missing.kind, resources[missing.resource], missing.what)
    found = [right for right in rights if (right.restype, right.name, right.operation) == wanted]
    revoke_right(guarded, found[0])
    words = missing.words
    for key, value in resources.items():
        words = words.replace(f"{{{key}}}", value)
    one.start()
    try:
        if missing.operation == "DELETE":  # it shows once there is something to delete
            one.wait_live()
        if missing.swap:
            until(lambda: "listening to" in log_and_status(one), "it listens")
            request_join(one)
        until(lambda: words in log_and_status(one), f"{words!r} is reported", 60)
        # livejoin continues by itself after the right is granted
        grant(guarded, [found[0]])
        until(lambda: words not in status(one), "it is no longer reported", 60)
    finally:
        print(log_and_status(one)[-1500:])
        assert one.stop() == 0, "it did not stop"


def request_join(livejoin: Running) -> None:
    """Request another join; the error in the response is appended to the log."""
    json_type = {"content-type": "application/json"}
    request = urllib.request.Request(
        f"{livejoin.url}api/v1/control", b'{"joinType": "inner"}', json_type
    )
    try:
        urllib.request.urlopen(request, timeout=30).close()
    except urllib.error.HTTPError as error:
        with livejoin.log.open("ab") as log:
            log.write(error.read())


def log_and_status(livejoin: Running) -> str:
    """The log and the status."""
    return livejoin.log.read_text() + status(livejoin)


def status(livejoin: Running) -> str:
    with contextlib.suppress(AssertionError):
        return json.dumps(livejoin.request("api/v1/status"), ensure_ascii=False).replace('\\"', '"')
    return ""
