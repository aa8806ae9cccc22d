"""Checks of the rights to lead: the consumer group of the election, and the transactional id."""

from collections.abc import Iterator

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation

from livejoin.core.names import Names
from livejoin.doctor.findings import Finding, bad, ok, skipped
from livejoin.errors import KafkaUnavailable
from livejoin.kafka.cluster import REQUEST_TIMEOUT_S, Kafka

_ADVICE = "`livejoin topics plan` prints the rights that livejoin needs."


def check_election(kafka: Kafka, names: Names) -> Iterator[Finding]:
    """Check whether this user may take part in the election, and write as the leader."""
    group = names.group("leader")
    (future,) = kafka.admin.describe_consumer_groups(
        [group], include_authorized_operations=True, request_timeout=REQUEST_TIMEOUT_S
    ).values()
    try:
        found = future.result(REQUEST_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise KafkaUnavailable(f"group {group}: {error.args[0].str()}") from error
        yield bad("group", f"no right Read on consumer group {group}", _ADVICE)
        yield skipped("transactions", "not checked: a leader needs that group")
        return
    except TimeoutError as error:
        raise KafkaUnavailable(f"group {group}: no answer") from error
    operations = found.authorized_operations
    if operations is None:
        yield ok("group", f"{group}: rights not reported by the brokers")
    elif AclOperation.READ in operations:
        yield ok("group", f"{group} can be used")
    else:
        yield bad("group", f"no right Read on consumer group {group}", _ADVICE)
    yield _check_transactions(kafka, names, is_led=bool(found.members))


def _check_transactions(kafka: Kafka, names: Names, *, is_led: bool) -> Finding:
    """Become the producer of the ledger, as a start does; not while another process may lead."""
    if is_led:
        return skipped(
            "transactions", "not checked: a livejoin of this name runs, which trying would stop"
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
