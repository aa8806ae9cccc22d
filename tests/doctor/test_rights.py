"""A broker with logins and ACLs: failed logins in their own words, and each missing right."""

import contextlib
import json
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

from doctor.conftest import Diagnose
from livejoin.kafka.cluster import Kafka
from rig.authority import Authority
from rig.findings import of, only, problems, severities
from rig.running import until
from rig.secure import PASSWORD, USER, SecureBroker, secure

WITHIN_S = 15.0
NAME = "guarded"
TOPICS = {"users": "guarded-users", "accounts": "guarded-accounts", "control": "guarded-control"}

Right = tuple[ResourceType, str, ResourcePatternType, AclOperation]
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
TRANSACTIONS = ResourceType.TRANSACTIONAL_ID
RIGHTS: tuple[Right, ...] = (
    (TOPIC, TOPICS["users"], LITERAL, AclOperation.READ),
    (TOPIC, TOPICS["accounts"], LITERAL, AclOperation.READ),
    (TOPIC, TOPICS["control"], LITERAL, AclOperation.READ),
    (TOPIC, TOPICS["control"], LITERAL, AclOperation.WRITE),
    (TOPIC, f"{NAME}.", PREFIXED, AclOperation.READ),
    (TOPIC, f"{NAME}.", PREFIXED, AclOperation.WRITE),
    (TOPIC, f"{NAME}.", PREFIXED, AclOperation.CREATE),
    (TOPIC, f"{NAME}.", PREFIXED, AclOperation.DELETE),
    (GROUP, f"{NAME}.", PREFIXED, AclOperation.READ),
    (TRANSACTIONS, f"{NAME}.leader", LITERAL, AclOperation.WRITE),
)


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


@contextlib.contextmanager
def granted(guarded: SecureBroker, *left_out: Right) -> Iterator[None]:
    """Have the user these rights, but for some, and no others, until the end of the block."""
    admin = guarded.open.admin
    bindings = [binding(right) for right in RIGHTS if right not in left_out]
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
        until(lambda one=one: admin.describe_acls(one).result(10), "it has the right", 10)
    try:
        yield
    finally:
        for removed in admin.delete_acls(filters).values():
            assert len(removed.result(10)) == 1


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-512", "SSL"])
def test_with_the_least_rights_nothing_is_bad(
    guarded: SecureBroker, diagnose: Diagnose, way: str
) -> None:
    with granted(guarded):
        found = diagnose(guarded.settings_for(way), name=NAME, topics=TOPICS)
    assert [one for one in problems(found) if one.check != "settings"] == []
    login = only(found, "login")
    assert login.found.startswith("SSL;" if way == "SSL" else f"SASL_SSL, {way}, {USER};")
    # what these rights do not include is said
    assert "no right DescribeConfigs" in only(found, "limits").found
    assert "no right DescribeConfigs" in only(found, "source users").found
    assert only(found, "clock").severity == "ok"
    assert only(found, "transactions").severity == "ok"
    assert PASSWORD not in str(found)


@pytest.mark.parametrize(
    ("missing", "check", "said"),
    [
        (RIGHTS[0], "source users", "not authorized to read"),
        (RIGHTS[3], "control topic", f"no right Write on {TOPICS['control']}"),
        (RIGHTS[6], "own prefix", f'not authorized to create topic "{NAME}.changelog.0"'),
        (RIGHTS[5], "own prefix", f'not authorized to write topic "{NAME}.feed.0"'),
        (RIGHTS[7], "own prefix", f'not authorized to delete topic "{NAME}.feed.0"'),
        (RIGHTS[8], "group", f"no right Read on consumer group {NAME}.leader"),
        (RIGHTS[9], "transactions", f"no right Write on transactional id {NAME}.leader"),
    ],
)
def test_a_missing_right_is_named(
    guarded: SecureBroker, diagnose: Diagnose, missing: Right, check: str, said: str
) -> None:
    with granted(guarded, missing):
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


def test_sources_on_a_cluster_of_their_own_need_only_the_right_to_read(
    kafka: Kafka, guarded: SecureBroker, diagnose: Diagnose
) -> None:
    data = guarded.settings_for("PLAIN")
    with granted(guarded, *RIGHTS[2:]):
        found = diagnose(kafka, name=NAME, topics=TOPICS, kafka_data=data)
    assert [one for one in problems(found) if one.check != "settings"] == []
    assert [check for check, _ in severities(found, "kafka_data (sources)")] == [
        *("resolve", "connect", "login", "advertised", "clock", "source users", "source accounts")
    ]
    assert of(found, "clusters") == []
