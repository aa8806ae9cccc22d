"""Missing rights are named where a request says less than that, or something else."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from livejoin.core.own_topics import OwnTopicRules
from livejoin.errors import NotAuthorized
from livejoin.kafka import own_topics
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import read_to_end
from rig.authority import Authority
from rig.granting import CHECKS_RIGHTS, grant
from rig.running import until
from rig.secure import USER, SecureBroker, secure


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """A broker that checks rights."""
    with secure(tmp_path_factory.mktemp("secure"), Authority(), more=CHECKS_RIGHTS) as one:
        yield one


def _may_read(kind: ResourceType, name: str) -> AclBinding:
    return AclBinding(
        kind, name, ResourcePatternType.PREFIXED, f"User:{USER}", "*",
        AclOperation.READ, AclPermissionType.ALLOW,
    )  # fmt: skip


def _allowed(kafka: Kafka, group: str) -> bool:
    try:
        kafka.check_group(group)
    except NotAuthorized:
        return False
    return True


def test_a_missing_right_on_a_group_is_named_by_the_group(guarded: SecureBroker) -> None:
    kafka = Kafka(guarded.settings_for("PLAIN"))
    with pytest.raises(NotAuthorized, match=r"not authorized to use consumer group crm\.pins"):
        kafka.check_group("crm.pins")
    grant(guarded.open, [_may_read(ResourceType.GROUP, "crm.")])
    until(lambda: _allowed(kafka, "crm.pins"), "the right is granted", 10)
    assert not _allowed(kafka, "crmx")


def test_a_reader_that_notices_it_says_so(guarded: SecureBroker) -> None:
    guarded.open.create_topic("noticed")
    grant(guarded.open, [_may_read(ResourceType.TOPIC, "noticed")])
    kafka = Kafka(guarded.settings_for("PLAIN"))
    until(lambda: kafka.describe(["noticed"])["noticed"].readable, "the right is granted", 10)
    consumer: Consumer = kafka.reader("other.pins")
    try:
        # nothing is assigned, so the first thing that it learns is the missing right
        with pytest.raises(NotAuthorized, match="livejoin's consumer groups"):
            list(read_to_end(consumer, "noticed"))
        consumer.assign([TopicPartition("noticed", 0, 0)])
        assert list(read_to_end(consumer, "noticed")) == []
    finally:
        consumer.close()


def test_other_answers_about_groups_are_left_to_the_reader(guarded: SecureBroker) -> None:
    guarded.open.check_group("never-used")


def test_a_topic_that_is_only_written_needs_the_right_to_write(guarded: SecureBroker) -> None:
    guarded.open.create_topic("crm.replies")
    kafka = Kafka(guarded.settings_for("PLAIN"), OwnTopicRules(create=False))
    with pytest.raises(NotAuthorized, match=r'not authorized to write topic "crm\.replies"'):
        own_topics.create(kafka, "crm.replies", "replies")
    with pytest.raises(NotAuthorized, match=r'not authorized to read topic "crm\.replies"'):
        own_topics.create(kafka, "crm.replies", "ledger")
