"""livejoin's own topics on a broker whose policy forbids some of what they would have."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from livejoin.control.ledger import Ledger
from livejoin.core.names import Names
from livejoin.core.own_topics import MAX_RECORD_BYTES, Kind, OwnTopicRules, lasting_topics
from livejoin.core.state import State
from livejoin.doctor.trial import check_own_prefix
from livejoin.errors import KafkaUnavailable, TopicMisconfigured, TopicMissing, TopicRefused
from livejoin.kafka import own_topics
from livejoin.kafka.cluster import Kafka
from livejoin.tables.auth import access_topics
from rig.limited import BROKER_BYTES, limited_broker
from rig.running import until

RULES = OwnTopicRules()


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker with the policy."""
    more = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with limited_broker(tmp_path_factory.mktemp("limited"), more) as kafka:
        yield kafka


def deny_configs(kafka: Kafka, prefix: str) -> None:
    """Revoke the right to describe these topics' configs; the second rule keeps all others."""
    denied = (AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY)
    allowed = (AclOperation.ALL, AclPermissionType.ALLOW)
    rules = [
        AclBinding(
            ResourceType.TOPIC, prefix, ResourcePatternType.PREFIXED, "User:ANONYMOUS", "*", *rule
        )
        for rule in (denied, allowed)
    ]
    for done in kafka.admin.create_acls(rules).values():
        done.result(15)


def with_rules(kafka: Kafka, rules: OwnTopicRules) -> Kafka:
    return Kafka(kafka.properties, rules)


def configs(kafka: Kafka, topic: str, *names: str) -> list[str | None]:
    return [kafka.topic_config(topic, name) for name in names]


def test_what_the_policy_names_is_left_to_the_broker(limited: Kafka) -> None:
    topic = own_topics.recreate(limited, "known.changelog.1", "changelog")
    assert topic.partitions == (0,)
    names = ("max.message.bytes", "cleanup.policy", "min.compaction.lag.ms")
    assert configs(limited, topic.name, *names) == [str(BROKER_BYTES), "compact", "3600000"]


def test_what_it_does_not_name_stays(limited: Kafka) -> None:
    rules = OwnTopicRules(config={"feed": {"segment.ms": "3600000"}})
    own_topics.recreate(with_rules(limited, rules), "known.feed.1", "feed")
    names = ("max.message.bytes", "segment.ms", "retention.ms", "cleanup.policy")
    expected = [str(BROKER_BYTES), "3600000", "-1", "delete"]
    assert configs(limited, "known.feed.1", *names) == expected


def test_if_it_names_nothing_only_what_is_needed_stays(limited: Kafka) -> None:
    own_topics.recreate(limited, "quiet.feed.1", "feed")
    names = ("max.message.bytes", "retention.ms", "cleanup.policy")
    assert configs(limited, "quiet.feed.1", *names) == [str(BROKER_BYTES), "604800000", "delete"]


def test_a_short_segment_is_left_to_the_broker(limited: Kafka) -> None:
    rules = OwnTopicRules(config={"ledger": {"segment.ms": "60000"}})
    own_topics.create(with_rules(limited, rules), "known.ledger", "ledger")
    expected = ["604800000", "compact"]
    assert configs(limited, "known.ledger", "segment.ms", "cleanup.policy") == expected


def test_a_config_that_the_broker_does_not_know_is_left_out(limited: Kafka) -> None:
    rules = OwnTopicRules(config={"logs": {"segment.minutes": "1"}})
    own_topics.create(with_rules(limited, rules), "known.logs", "logs")
    assert configs(limited, "known.logs", "retention.ms", "segment.minutes") == ["-1", None]


def test_within_the_limits_everything_is_as_the_settings_say(limited: Kafka) -> None:
    rules = OwnTopicRules(replication=1, max_message_bytes=8 << 20)
    topic = own_topics.recreate(with_rules(limited, rules), "known.changelog.2", "changelog")
    assert configs(limited, topic.name, "max.message.bytes") == [str(8 << 20)]


def test_a_needed_setting_that_is_refused_is_named_with_its_topic(limited: Kafka) -> None:
    with pytest.raises(TopicRefused) as error:
        own_topics.recreate(limited, "strict.changelog.1", "changelog")
    said = str(error.value)
    assert 'topic "strict.changelog.1", which needs cleanup.policy=compact: ' in said
    assert "cleanup.policy is the platform team's" in said
    assert "own_topics.config" in said
    assert "broker runs" not in said
    assert limited.describe(["strict.changelog.1"]) == {}


def test_a_refused_name_is_an_error_that_quotes_the_policy(limited: Kafka) -> None:
    with pytest.raises(TopicRefused, match=r"the name other\.replies is not registered"):
        own_topics.create(limited, "other.replies", "replies")
    with pytest.raises(TopicRefused, match=r"one partition: .*the name other\.ledger is not"):
        Ledger(limited, Names("other")).take_over()


def test_a_refusal_is_not_a_broker_that_does_not_run(limited: Kafka) -> None:
    with pytest.raises(TopicRefused) as error:
        limited.create_topic("other.topic")
    assert not isinstance(error.value, KafkaUnavailable)
    assert "broker is running" not in str(error.value)
    assert 'refused to create topic "other.topic"' in str(error.value)


def test_replication_that_brokers_cannot_give_is_an_error_that_names_the_setting(
    limited: Kafka,
) -> None:
    kafka = with_rules(limited, OwnTopicRules(replication=3))
    with pytest.raises(TopicRefused, match=r'own_topics.replication=3 for topic "known.leader"'):
        own_topics.create(kafka, "known.leader", "leader")
    assert limited.describe(["known.leader"]) == {}


def test_the_size_of_input_records_follows_from_the_topics(limited: Kafka) -> None:
    own_topics.recreate(limited, "known.changelog.3", "changelog")  # gets the broker's 1 MiB
    limits = own_topics.record_limits(limited, ["known.changelog.3"])
    assert limits.value_bytes == (BROKER_BYTES - (16 << 10)) // 2
    rules = OwnTopicRules(max_message_bytes=256 << 10)
    kafka = with_rules(limited, rules)
    own_topics.recreate(kafka, "known.feed.3", "feed")
    both = own_topics.record_limits(kafka, ["known.changelog.3", "known.feed.3"])
    assert both.value_bytes == 120 << 10  # of the smaller one


def test_without_the_right_to_describe_configs_the_requested_size_counts(limited: Kafka) -> None:
    deny_configs(limited, "known.hidden.")
    kafka = with_rules(limited, OwnTopicRules(max_message_bytes=128 << 10))
    own_topics.recreate(kafka, "known.hidden.changelog.1", "changelog")
    assert configs(kafka, "known.hidden.changelog.1", "max.message.bytes") == [None]
    limits = own_topics.record_limits(kafka, ["known.hidden.changelog.1"])
    assert limits.value_bytes == 56 << 10
    assert Ledger(kafka, Names("known.hidden")).take_over() == State()
    access_topics.create_topics(kafka, Names("known.hidden"))


def test_a_refused_size_that_cannot_be_read_afterwards_is_named(limited: Kafka) -> None:
    deny_configs(limited, "known.unseen.")
    with pytest.raises(TopicRefused) as error:
        own_topics.recreate(limited, "known.unseen.changelog.1", "changelog")
    assert 'own_topics.max_message_bytes=16777216 for topic "known.unseen' in str(error.value)
    assert "DESCRIBE_CONFIGS" in str(error.value)


def test_topics_that_are_too_small_are_named(limited: Kafka) -> None:
    limited.create_topic("known.small", {"max.message.bytes": "20000"})
    with pytest.raises(TopicMisconfigured, match=r'known\.small" has max\.message\.bytes=20000'):
        own_topics.record_limits(limited, ["known.small"])


def test_with_create_false_missing_topics_are_named_and_existing_ones_used(limited: Kafka) -> None:
    kafka = with_rules(limited, OwnTopicRules(create=False))
    names = Names("known.made")
    with pytest.raises(TopicMissing, match=r'topic "known\.made\.ledger" .*livejoin topics plan'):
        Ledger(kafka, names).take_over()
    lasting = lasting_topics(names, "known.made.control")
    for kind, topic in lasting.items():
        config = {k: v for k, v in RULES.config_of(kind).items() if v != "-1"}
        limited.create_topic(topic, config)
    ids = {name: found.id for name, found in limited.describe(lasting.values()).items()}
    assert Ledger(kafka, names).take_over() == State()
    access_topics.create_topics(kafka, names)
    assert {n: one.id for n, one in limited.describe(lasting.values()).items()} == ids
    made = own_topics.recreate(kafka, "known.made.changelog.1", "changelog")  # not a lasting one
    assert made.partitions == (0,)


def test_with_create_false_a_wrong_topic_is_not_replaced(limited: Kafka) -> None:
    kafka = with_rules(limited, OwnTopicRules(create=False))
    names = Names("known.wrong")
    for kind, topic in lasting_topics(names, "known.wrong.control").items():
        limited.create_topic(topic, partitions=2 if kind == "replies" else 1)
    with pytest.raises(TopicMisconfigured, match=r'known\.wrong\.ledger" needs one partition and'):
        Ledger(kafka, names).take_over()


@pytest.mark.parametrize("kind", ["tokens", "access", "audit"])
def test_an_auto_created_topic_gets_one_partition_and_its_policy(
    limited: Kafka, kind: Kind
) -> None:
    topic = f"known.auto.{kind}"
    limited.create_topic(topic, partitions=3)  # as a broker with num.partitions=3 does
    own_topics.ensure(limited, topic, kind)
    assert limited.describe([topic])[topic].partitions == (0,)
    wanted = [RULES.config_of(kind).get("cleanup.policy", "delete")]
    assert configs(limited, topic, "cleanup.policy") == wanted
    limited.create_topic(f"{topic}.one")
    own_topics.ensure(limited, f"{topic}.one", kind)
    # the controller has acknowledged it, but a broker that applies metadata later answers
    until(
        lambda: configs(limited, f"{topic}.one", "cleanup.policy") == wanted,
        "the policy of a topic that was there",
        15,
    )


def test_an_auto_created_topic_with_records_is_an_error(limited: Kafka) -> None:
    limited.create_topic("known.full.tokens", partitions=2)
    producer = limited.producer()
    producer.produce("known.full.tokens", b"x", b"k", partition=1)
    assert producer.flush(15) == 0
    with pytest.raises(TopicMisconfigured, match=r"full\.tokens has more than one partition"):
        own_topics.ensure(limited, "known.full.tokens", "tokens")


def test_default_topics_take_records_of_a_mebibyte(kafka: Kafka) -> None:
    own_topics.recreate(kafka, "sized.changelog.1", "changelog")
    assert own_topics.record_limits(kafka, ["sized.changelog.1"]).value_bytes == 1 << 20
    assert configs(kafka, "sized.changelog.1", "max.message.bytes") == [str(MAX_RECORD_BYTES)]


def test_doctor_says_what_own_topics_get_instead(limited: Kafka) -> None:
    found = {one.check: one for one in check_own_prefix(limited, Names("known"))}
    assert {name: one.severity for name, one in found.items()} == {
        "own prefix": "ok",
        "limits": "warning",
        "clock": "ok",
    }
    assert f"records of {BROKER_BYTES:,} bytes, so inputs of up to 504 KiB" in found["limits"].found
    assert f"requested: max.message.bytes={BROKER_BYTES}" in found["limits"].found


def test_doctor_quotes_a_policy_that_refuses_an_own_topic(limited: Kafka) -> None:
    found = {one.check: one for one in check_own_prefix(limited, Names("other"))}
    assert found["own prefix"].severity == "BAD"
    assert "the name other.changelog.0 is not registered" in found["own prefix"].found
    assert (found["limits"].severity, found["clock"].severity) == ("skipped", "skipped")
