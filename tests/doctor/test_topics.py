"""A real broker: topics, clock, limits; two blocks for one cluster; other answers of brokers."""

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from doctor.conftest import Diagnose
from livejoin.control.leadership import Leadership, Term
from livejoin.core.names import Names
from livejoin.core.own_topics import OwnTopicRules, lasting_topics
from livejoin.doctor import trial
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.runtime.broker import free_port
from rig import brokers
from rig.findings import of, only, problems, severities
from rig.older_broker import DESCRIBE_GROUPS, METADATA, Ports, older_broker
from rig.running import until

DAY_MS = 86_400_000
NO_OPERATIONS = 7  # newest version of Metadata without the authorized operations
KEPT = {"retention.ms": "-1"}


@pytest.fixture
def topics(kafka: Kafka, request: pytest.FixtureRequest) -> dict[str, str]:
    """Sources that keep everything, and a name for a control topic, for one test."""
    prefix = f"doctor.{abs(hash(request.node.name)) % 10**8}"
    found = {role: f"{prefix}.{role}" for role in ("users", "accounts", "control")}
    kafka.create_topic(found["users"], KEPT, 3)
    kafka.create_topic(found["accounts"], KEPT, 2)
    return found


def own_name(topics: Mapping[str, str]) -> str:
    return topics["users"].removesuffix(".users")


def _topics(kafka: Kafka) -> list[str]:
    """All topics but those of the brokers themselves."""
    return [topic for topic in kafka.topics() if not topic.startswith("__")]


def test_before_the_first_start_everything_is_ok(
    kafka: Kafka, topics: dict[str, str], diagnose: Diagnose
) -> None:
    name = own_name(topics)
    before = _topics(kafka)
    found = diagnose(kafka, name=name, topics=topics)
    assert problems(found) == []
    assert severities(found, "kafka (own topics, sources, control)") == [
        ("resolve", "ok"),
        ("connect", "ok"),
        ("login", "ok"),
        ("advertised", "ok"),
        ("own prefix", "ok"),
        ("limits", "ok"),
        ("clock", "ok"),
        ("own topics", "ok"),
        ("group", "ok"),
        ("transactions", "ok"),
        ("source users", "ok"),
        ("source accounts", "ok"),
        ("control topic", "ok"),
    ]
    assert "PLAINTEXT; cluster " in only(found, "login").found
    assert ", 1 broker" in only(found, "login").found
    users = only(found, "source users").found
    assert users == f"{name}.users has 3 partitions; keeps everything, timestamps are CreateTime"
    assert only(found, "control topic").found == f"{name}.control is created at the first start"
    assert f"{name}.ledger is created at the first start" in only(found, "own topics").found
    assert "a generation takes 8 of 512: 64 fit" in only(found, "task slots").found
    assert "16,777,216 bytes, so inputs of up to 1 MiB" in only(found, "limits").found
    until(lambda: _topics(kafka) == before, "nothing is left", 30)


def test_clocks_of_one_machine_do_not_differ(kafka: Kafka) -> None:
    kafka.create_topic("doctor.clock", {"message.timestamp.type": "LogAppendTime"})
    measured = trial.measure_clock(kafka, "doctor.clock")
    assert measured is not None
    assert abs(measured.seconds) <= measured.uncertainty_s
    kafka.create_topic("doctor.no-clock")
    assert trial.measure_clock(kafka, "doctor.no-clock") is None


@pytest.mark.parametrize(
    "case",
    [(90.0, "warning", "1.5 min ahead of"), (-90.0, "warning", "1.5 min behind"),
     (2.0, "ok", "2 s ahead of")],
)  # fmt: skip
def test_a_clock_that_differs_by_more_than_seconds_is_a_warning(
    kafka: Kafka,
    topics: dict[str, str],
    diagnose: Diagnose,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[float, str, str],
) -> None:
    ahead_s, severity, said = case
    monkeypatch.setattr(trial, "_now", lambda: time.time() + ahead_s)
    clock = only(diagnose(kafka, name=own_name(topics), topics=topics), "clock")
    assert clock.severity == severity
    assert f"this machine is {said} the broker" in clock.found
    assert ("NTP" in clock.advice) == (severity == "warning")


def test_sources_that_do_not_exist_are_bad_with_a_suggestion(
    kafka: Kafka, topics: dict[str, str], diagnose: Diagnose
) -> None:
    wrong = {**topics, "users": topics["users"].replace("users", "usres")}
    found = diagnose(kafka, name=own_name(topics), topics=wrong)
    users = only(found, "source users")
    assert users.severity == "BAD"
    assert f"does not exist, did you mean {topics['users']}?" in users.found
    assert "topics.users" in users.advice
    assert only(found, "source accounts").severity == "ok"
    assert only(found, "task slots").severity == "skipped"


@pytest.mark.parametrize(
    "case",
    [
        ({"retention.ms": "3600000"}, "earliest", ["keeps records for 1 h only"]),
        ({"retention.ms": str(7 * DAY_MS)}, "earliest", []),
        ({"retention.ms": "3600000"}, "latest", []),
        ({"retention.ms": "3600000"}, "30m", []),
        ({"retention.ms": "3600000"}, "2h", ["keeps records for 1 h only"]),
        ({"cleanup.policy": "compact"}, "earliest", ["is compacted"]),
        ({"retention.bytes": "1048576", **KEPT}, "earliest", ["keeps 1,048,576 bytes"]),
        (
            {"cleanup.policy": "compact,delete", "retention.ms": "60000"},
            "earliest",
            ["is compacted", "keeps records for 1 min only"],
        ),
    ],
)
def test_a_source_that_forgets_what_a_build_reads_is_a_warning(
    kafka: Kafka,
    topics: dict[str, str],
    diagnose: Diagnose,
    case: tuple[dict[str, str], str, list[str]],
) -> None:
    config, start, said = case
    brokers.delete(kafka, topics["users"])
    kafka.create_topic(topics["users"], config)
    found = of(diagnose(kafka, name=own_name(topics), topics=topics, start=start), "source users")
    assert [one.severity for one in found] == ["ok", *("warning" for _ in said)]
    for one, text in zip(found[1:], said, strict=True):
        assert text in one.found
        assert "Every build reads the topic anew" in one.advice


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"cleanup.policy": "compact"}, ["is compacted: it refuses messages without a key"]),
        ({"retention.ms": "60000"}, ["keeps messages for 1 min only"]),
        ({"cleanup.policy": "compact,delete", "retention.ms": "60000"},
         ["is compacted", "keeps messages for 1 min only"]),
        ({"retention.ms": str(DAY_MS)}, []),
    ],
)  # fmt: skip
def test_a_control_topic_that_forgets_messages_is_a_warning(
    kafka: Kafka,
    topics: dict[str, str],
    diagnose: Diagnose,
    config: dict[str, str],
    said: list[str],
) -> None:
    kafka.create_topic(topics["control"], config, 3)
    found = of(diagnose(kafka, name=own_name(topics), topics=topics), "control topic")
    assert found[0].found == f"{topics['control']} has 3 partitions"
    assert [one.severity for one in found] == ["ok", *("warning" for _ in said)]
    for one, text in zip(found[1:], said, strict=True):
        assert text in one.found
        assert "on it" in one.advice
    warned = Clusters.single(kafka).warnings(topics["control"], 5)  # as a start logs them
    assert [one.what for one in warned] == [one.found for one in found[1:]]


def test_missing_own_topics_are_bad_where_an_administrator_creates_them(
    kafka: Kafka, topics: dict[str, str], diagnose: Diagnose
) -> None:
    name, rules = own_name(topics), OwnTopicRules()
    by_others: dict[str, Any] = {"own_topics": {"create": False}}
    found = diagnose(kafka, name=name, topics=topics, **by_others)
    missing = of(found, "own topics")
    assert [one.severity for one in missing] == ["BAD"] * 7
    assert f'topic "{name}.ledger" does not exist' in [one.found for one in missing]
    assert {one.advice for one in missing} == {
        "own_topics.create is false: `livejoin topics plan` prints the command."
    }
    assert only(found, "control topic").severity == "BAD"
    assert only(found, "own prefix").severity == "ok"  # those of generations are always created
    for kind, topic in lasting_topics(Names(name), topics["control"]).items():
        kafka.create_topic(topic, rules.config_of(kind))
    again = diagnose(kafka, name=name, topics=topics, **by_others)
    assert problems(again) == []
    assert f"{name}.ledger has 1 partition" in only(again, "own topics").found


def test_own_topics_with_several_partitions_or_another_policy_are_named(
    kafka: Kafka, topics: dict[str, str], diagnose: Diagnose
) -> None:
    names = Names(own_name(topics))
    kafka.create_topic(names.leader, partitions=2)
    kafka.create_topic(names.logs, partitions=2)
    kafka.create_topic(names.replies, partitions=2)
    kafka.create_topic(names.tokens, {"cleanup.policy": "delete"})
    producer = kafka.producer()
    producer.produce(names.logs, b"x", partition=1)
    assert producer.flush(15) == 0
    own = of(diagnose(kafka, name=names.prefix, topics=topics), "own topics")
    found = {one.found.split()[0]: one for one in own if one.severity != "ok"}
    assert found[names.leader].severity == "BAD"
    assert "several processes could lead" in found[names.leader].found
    assert (found[names.logs].severity, "has records" in found[names.logs].found) == ("BAD", True)
    assert found[names.replies].severity == "warning"
    assert "the next start recreates it" in found[names.replies].advice
    assert found[names.tokens].severity == "warning"
    assert f"{names.tokens} has cleanup.policy=delete, and needs compact" in str(found)


def test_trying_does_not_disturb_a_running_leader(
    kafka: Kafka, topics: dict[str, str], diagnose: Diagnose
) -> None:
    names, over, leads = Names(own_name(topics)), threading.Event(), threading.Event()

    def lead(term: Term) -> None:
        leads.set()
        term.over.wait()

    leadership = Leadership(kafka, names, lead)
    thread = threading.Thread(target=leadership.run, args=(over,))
    thread.start()
    try:
        until(leads.is_set, "it leads", 30)
        found = diagnose(kafka, name=names.prefix, topics=topics)
    finally:
        over.set()
        thread.join()
    assert problems(found) == []
    transactions = only(found, "transactions")
    assert transactions.severity == "skipped"
    assert "a livejoin of this name runs" in transactions.found


def test_two_logins_to_one_cluster_are_a_warning_by_its_id(
    kafka: Kafka, topics: dict[str, str], diagnose: Diagnose
) -> None:
    port = int(kafka.address.rpartition(":")[2])
    with older_broker(other := free_port(), port, {}):  # the same cluster at another address
        block = {"bootstrap.servers": f"127.0.0.1:{other}", "client.id": "other"}
        found = diagnose(kafka, name=own_name(topics), topics=topics, kafka_control=block)
    same = only(found, "clusters")
    assert same.severity == "warning"
    assert same.found.startswith("kafka and kafka_control are one cluster (")
    assert "Leave kafka_control out" in same.advice
    assert [one for one in problems(found) if one.check != "clusters"] == []
    no_clock = only(found, "clock", "kafka_control (control)")
    assert (no_clock.severity, "not checked" in no_clock.found) == ("skipped", True)
    (replies,) = of(found, "own topics", "kafka_control")
    assert replies.found == f"{own_name(topics)}.replies is created at the first start"
    assert "replies" not in only(found, "own topics", "kafka (own").found


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    """A broker that another address stands for, and one that advertises what nobody answers at."""
    ports = Ports()
    with brokers.broker(tmp_path_factory.mktemp("broker"), more=ports.settings()) as one:
        for topic in ("users", "accounts"):
            one.create_topic(topic, KEPT)
        yield ports


def test_an_advertised_address_that_leads_nowhere_is_bad(ports: Ports, diagnose: Diagnose) -> None:
    found = diagnose({"bootstrap.servers": f"127.0.0.1:{ports.bootstrap}"})
    assert only(found, "login").severity == "ok"
    advertised = only(found, "advertised")
    assert advertised.severity == "BAD"
    assert f"advertises 127.0.0.1:{ports.nowhere}, which cannot be reached" in advertised.found
    assert "advertised.listeners" in advertised.advice
    assert only(found, "sources").found == "not tried: advertised failed"


def test_rights_that_brokers_do_not_report_are_said_as_such(
    ports: Ports, diagnose: Diagnose
) -> None:
    with older_broker(ports.outer, ports.inner, {METADATA: NO_OPERATIONS, DESCRIBE_GROUPS: 2}):
        found = diagnose({"bootstrap.servers": f"127.0.0.1:{ports.outer}"})
    assert problems(found) == []
    users = only(found, "source users").found
    assert users.startswith("users has 1 partition, rights not reported by the brokers;")
