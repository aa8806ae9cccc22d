"""Checks of the rights on consumer groups, and on the transactional id of the leader."""

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation

from livejoin.core.names import Names
from livejoin.doctor.findings import Finding, bad, ok, skipped
from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import REQUEST_TIMEOUT_S, Kafka

_COORDINATOR_S = 10.0
_POLL_S = 0.2
# some brokers report a group without members as unknown
_ANSWERS = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.GROUP_ID_NOT_FOUND)
# for seconds after the first use of any group, and after the death of a broker
_NO_COORDINATOR = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
_ADVICE = "`livejoin topics plan` prints the rights that livejoin needs."


def check_group(kafka: Kafka, group: str) -> Finding:
    """Check whether this user may use a consumer group."""
    return _group_finding(group, _describe_group(kafka, group))


def check_election(kafka: Kafka, names: Names) -> Iterator[Finding]:
    """Check whether this user may take part in the election, and write as the leader."""
    group = names.group("leader")
    found = _describe_group(kafka, group)
    finding = _group_finding(group, found)
    yield finding
    if finding.severity == "BAD":
        yield skipped("transactions", "not checked: a leader needs that group")
        return
    yield _check_transactions(kafka, names, is_led=bool(getattr(found, "members", ())))


def _describe_group(kafka: Kafka, group: str) -> Any:
    """Its description; its error code where it cannot be described."""
    until = time.monotonic() + _COORDINATOR_S
    while True:
        (future,) = kafka.admin.describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=REQUEST_TIMEOUT_S
        ).values()
        try:
            return future.result(REQUEST_TIMEOUT_S)
        except KafkaException as error:
            cause = error.args[0]
            if cause.code() in _ANSWERS:
                return cause.code()
            if cause.code() not in _NO_COORDINATOR or time.monotonic() > until:
                raise KafkaUnavailable(f"group {group}: {cause.str()} ({cause.name()})") from error
        except TimeoutError as error:
            raise KafkaUnavailable(f"group {group}: no answer") from error
        time.sleep(_POLL_S)


def _group_finding(group: str, found: Any) -> Finding:
    operations = getattr(found, "authorized_operations", None)
    denied = operations is not None and AclOperation.READ not in operations
    if denied or found == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return bad("group", f"no right Read on consumer group {group}", _ADVICE)
    if operations is None:
        return ok("group", f"{group}: rights not reported by the brokers")
    return ok("group", f"{group} can be used")


def _check_transactions(kafka: Kafka, names: Names, *, is_led: bool) -> Finding:
    """Become the producer of the ledger, as a start does; not while another process may lead."""
    if is_led:
        return skipped(
            "transactions", "not checked: a livejoin of this name runs, and the check would stop it"
        )
    producer = kafka.producer(**{"transactional.id": names.leader})
    try:
        producer.init_transactions(REQUEST_TIMEOUT_S)
    except KafkaException as error:
        cause = error.args[0]
        if cause.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return bad(
                "transactions", f"no right Write on transactional id {names.leader}", _ADVICE
            )
        raise KafkaUnavailable(f"transactional id {names.leader}: {cause.str()}") from error
    return ok("transactions", f"transactional id {names.leader} can be used")
