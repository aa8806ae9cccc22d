"""D4: every login mechanism with the documented rights, and tokens that expire."""

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from livejoin.errors import KafkaUnavailable
from rig import granting
from rig.authority import Authority
from rig.provider import Provider, provider
from rig.running import COLD, until
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
        **granting.CHECKS_RIGHTS,
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


# --- every login method


def grant_documented(guarded: SecureBroker, name: str) -> None:
    """Grant what the page says, for both pairs of sources."""
    for pair in ("a", "b"):
        inputs = {"users": f"{name}.users.{pair}", "accounts": f"{name}.accounts.{pair}"}
        inputs["control"] = f"{name}.control"
        found = granting.documented(granting.ONE, name, inputs)
        granting.grant(guarded.open, [right.binding for right in found])


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "SSL", "OAUTHBEARER"])
def test_d4_a_swap_with_the_documented_rights_over(
    way: str, guarded: SecureBroker, tmp_path: Path
) -> None:
    name = f"d4-{way.lower()}"
    grant_documented(guarded, name)
    with run_world(guarded.kafka_for(way), tmp_path, name, spark={"conf": COLD}) as world:
        play(world, [
            Produce("b", 50), request_pair(name, "b", joinType="inner"), WaitOutcome("live"),
            ExpectLive("b", "inner"), ExpectOracle("b", "inner"),
        ])  # fmt: skip


def test_d4_a_swap_with_a_login_for_each_block(guarded: SecureBroker, tmp_path: Path) -> None:
    name = "d4-blocks"
    grant_documented(guarded, name)
    others: dict[str, Any] = {
        "kafka_data": dict(guarded.kafka_for("SCRAM-SHA-512").properties),
        "kafka_control": dict(guarded.kafka_for("SSL").properties),
    }
    kafka = guarded.kafka_for("OAUTHBEARER")
    with run_world(kafka, tmp_path, name, spark={"conf": COLD}, **others) as world:
        play(world, [
            Produce("b", 50), request_pair(name, "b", joinType="inner"), WaitOutcome("live"),
            ExpectLive("b", "inner"), ExpectOracle("b", "inner"),
        ])  # fmt: skip


# --- tokens with a life of one minute


def test_d4_tokens_expire_and_the_provider_goes_and_comes_back(
    guarded: SecureBroker, identities: tuple[Authority, Provider], tmp_path: Path
) -> None:
    outlast_tokens(guarded, identities, tmp_path, "d4", {})


def test_d4_tokens_of_three_blocks_expire_and_the_provider_goes_and_comes_back(
    guarded: SecureBroker, identities: tuple[Authority, Provider], tmp_path: Path
) -> None:
    blocks = {
        section: dict(guarded.kafka_for("OAUTHBEARER", **{"client.id": section}).properties)
        for section in ("kafka_data", "kafka_control")
    }
    outlast_tokens(guarded, identities, tmp_path, "d4-three", blocks)


def outlast_tokens(
    guarded: SecureBroker,
    identities: tuple[Authority, Provider],
    folder: Path,
    name: str,
    blocks: Mapping[str, Any],
) -> None:
    """Tokens expire; the provider goes for longer than their life and comes back with new keys."""
    _, identity_provider = identities
    grant_documented(guarded, name)
    kafka = guarded.kafka_for("OAUTHBEARER", debug="broker,security")
    with run_world(kafka, folder, name, spark={"conf": logins_logged(folder)}, **blocks) as world:
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
