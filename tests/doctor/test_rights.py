"""A broker with logins and ACLs: failed logins in their own words, and each missing right."""

import contextlib
import json
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from doctor.conftest import Diagnose
from livejoin.core.names import Names
from livejoin.core.rights import Inputs, Role, run_grants
from livejoin.kafka.cluster import Kafka
from rig.authority import Authority
from rig.findings import of, only, problems, severities
from rig.running import until
from rig.secure import PASSWORD, USER, SecureBroker, secure

WITHIN_S = 15.0
NAME = "guarded"
TOPICS = {"users": "guarded-users", "accounts": "guarded-accounts", "control": "guarded-control"}

Right = tuple[ResourceType, str, ResourcePatternType, AclOperation]


def documented(*roles: Role) -> list[Right]:
    """The least rights, as `livejoin topics plan` prints them, one operation each."""
    patterns = {True: ResourcePatternType.PREFIXED, False: ResourcePatternType.LITERAL}
    return [
        (
            ResourceType[grant.resource.replace("-", "_").upper()],
            grant.name,
            patterns[grant.is_prefix],
            AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()],
        )
        for grant in run_grants(
            Names(NAME),
            Inputs((TOPICS["users"], TOPICS["accounts"]), TOPICS["control"]),
            roles,
            creates=True,
        )
        for operation in grant.operations
    ]


EVERYTHING = documented("own", "data", "control")


def right(name: str, operation: AclOperation) -> Right:
    (found,) = [one for one in EVERYTHING if (one[1], one[3]) == (name, operation)
                and one[0] != ResourceType.GROUP]  # fmt: skip
    return found


(GROUP,) = [one for one in EVERYTHING if one[0] == ResourceType.GROUP]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """A broker that checks rights; the test itself has all."""
    more = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with secure(tmp_path_factory.mktemp("secure"), Authority(), more=more) as one:
        for topic in TOPICS.values():
            one.open.create_topic(topic, {"retention.ms": "-1"})
        yield one


def binding(right: Right) -> AclBinding:
    kind, name, pattern, operation = right
    allow = AclPermissionType.ALLOW
    return AclBinding(kind, name, pattern, f"User:{USER}", "*", operation, allow)


def _has(admin: AdminClient, one: AclBindingFilter) -> bool:
    return bool(admin.describe_acls(one).result(10))


@contextlib.contextmanager
def granted(guarded: SecureBroker, rights: list[Right]) -> Iterator[None]:
    """Have the user these rights and no others, until the end of the block."""
    admin = guarded.open.admin
    bindings = list(map(binding, rights))
    for done in admin.create_acls(bindings).values():
        done.result(10)
    filters = [
        AclBindingFilter(
            *(one.restype, one.name, one.resource_pattern_type, one.principal, one.host),
            *(one.operation, one.permission_type),
        )
        for one in bindings
    ]
    for one in filters:
        until(partial(_has, admin, one), "it has the right", 10)
    try:
        yield
    finally:
        for removed in admin.delete_acls(filters).values():
            assert len(removed.result(10)) == 1


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-512", "SSL"])
def test_with_the_least_rights_nothing_is_bad(
    guarded: SecureBroker, diagnose: Diagnose, way: str
) -> None:
    with granted(guarded, EVERYTHING):
        found = diagnose(guarded.settings_for(way), name=NAME, topics=TOPICS)
    assert [one for one in problems(found) if one.check != "settings"] == []
    login = only(found, "login")
    assert login.found.startswith("SSL;" if way == "SSL" else f"SASL_SSL, {way}, {USER};")
    assert "16,777,216 bytes" in only(found, "limits").found
    # what these rights do not include is said
    assert "no right DescribeConfigs" in only(found, "source users").found
    assert only(found, "clock").severity == "ok"
    assert only(found, "transactions").severity == "ok"
    assert PASSWORD not in str(found)


@pytest.mark.parametrize(
    ("missing", "check", "said"),
    [
        (right(TOPICS["users"], AclOperation.READ), "source users", "not authorized to read"),
        (
            *(right(TOPICS["control"], AclOperation.WRITE), "control topic"),
            f"no right Write on {TOPICS['control']}",
        ),
        (
            *(right(f"{NAME}.", AclOperation.CREATE), "own prefix"),
            f'not authorized to create topic "{NAME}.changelog.0"',
        ),
        (
            *(right(f"{NAME}.", AclOperation.WRITE), "own prefix"),
            f'not authorized to write topic "{NAME}.feed.0"',
        ),
        (
            *(right(f"{NAME}.", AclOperation.DELETE), "own prefix"),
            f'not authorized to delete topic "{NAME}.feed.0"',
        ),
        (GROUP, "group", f"no right Read on consumer group {NAME}.leader"),
        (
            *(right(f"{NAME}.leader", AclOperation.WRITE), "transactions"),
            f"no right Write on transactional id {NAME}.leader",
        ),
    ],
)
def test_a_missing_right_is_named(
    guarded: SecureBroker, diagnose: Diagnose, missing: Right, check: str, said: str
) -> None:
    with granted(guarded, [one for one in EVERYTHING if one != missing]):
        found = diagnose(guarded.settings_for("PLAIN"), name=NAME, topics=TOPICS)
    bad = [one for one in found if one.severity == "BAD"]
    assert {one.check for one in bad} == {check}
    assert any(said in one.found for one in bad), bad
    assert all(one.advice for one in bad)
    guarded.open.delete([f"{NAME}.changelog.0", f"{NAME}.feed.0"])  # where it must not


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("wrong password", "uthentication failed"),
        ("no TLS", "the broker speaks TLS there, and security.protocol has none"),
        ("EXPIRED", "certificate has expired"),
        ("ELSEWHERE", "certificate is not valid for '127.0.0.1'"),
        ("unknown authority", "certificate verify failed"),
    ],
)
def test_a_failed_login_is_reported_in_its_own_words(
    guarded: SecureBroker, diagnose: Diagnose, tmp_path: Path, how: str, words: str
) -> None:
    block = guarded.settings_for("PLAIN")
    if how == "wrong password":
        block["sasl.password"] = "canary-wrong"
    elif how == "no TLS":
        block = {"bootstrap.servers": block["bootstrap.servers"]}
    elif how == "unknown authority":
        Authority().file(tmp_path / "other.pem")
        block["ssl.ca.location"] = str(tmp_path / "other.pem")
    else:
        block = guarded.bad_certificate(how)
    began = time.monotonic()
    found = diagnose(block, name=NAME, topics=TOPICS)
    assert time.monotonic() - began < WITHIN_S
    login = only(found, "login")
    assert login.severity == "BAD"
    assert words in login.found
    assert "security.protocol" in login.advice
    later = severities(found, "kafka (")[3:]
    assert {severity for _, severity in later} == {"skipped"}
    assert "canary-wrong" not in json.dumps(found)


def test_without_the_right_to_describe_configs_limits_are_not_reported(
    guarded: SecureBroker, diagnose: Diagnose
) -> None:
    missing = right(f"{NAME}.", AclOperation.DESCRIBE_CONFIGS)
    with granted(guarded, [one for one in EVERYTHING if one != missing]):
        found = diagnose(guarded.settings_for("PLAIN"), name=NAME, topics=TOPICS)
    assert "no right DescribeConfigs" in only(found, "limits").found
    assert [one for one in problems(found) if one.check != "settings"] == []


@pytest.mark.parametrize(
    ("role", "checks"),
    [
        ("data", ["clock", "group", "source users", "source accounts"]),
        ("control", ["clock", "group", "own topics", "control topic"]),
    ],
)
def test_a_cluster_of_its_own_needs_only_the_rights_of_its_role(
    kafka: Kafka, guarded: SecureBroker, diagnose: Diagnose, role: Role, checks: list[str]
) -> None:
    section = f"kafka_{role}"
    for topic in ("users", "accounts"):
        kafka.create_topic(TOPICS[topic], {"retention.ms": "-1"})
    guarded.open.create_topic(f"{NAME}.replies")
    least = documented(role)
    block: dict[str, Any] = {section: guarded.settings_for("PLAIN")}
    with granted(guarded, least):
        found = diagnose(kafka, name=NAME, topics=TOPICS, **block)
    assert [one for one in problems(found) if one.check != "settings"] == []
    assert [check for check, _ in severities(found, section)] == [
        *("resolve", "connect", "login", "advertised", *checks)
    ]
    assert of(found, "clusters") == []
    with granted(guarded, [one for one in least if one != GROUP]):
        found = diagnose(kafka, name=NAME, topics=TOPICS, **block)
    denied = only(found, "group", section)
    assert (denied.severity, "no right Read on consumer group" in denied.found) == ("BAD", True)
