"""The topic list and peeks on a real broker: what only Kafka can answer. Without Spark."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from livejoin.cli import main
from livejoin.core.control_messages import MessageRules
from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from rig.produce import Producers
from tables.live_server import RunningServer, run_server

TOPICS = {"users": "peek.users", "accounts": "peek.accounts"}
RULES = MessageRules(Names("peek"), "peek.control", ("peek.*",))
NOW = 1_700_000_000_000
FOREVER = {"retention.ms": "-1"}  # records of 2023 would be deleted by age


@pytest.fixture(scope="module")
def producers(kafka: Kafka) -> Producers:
    kafka.create_topic(TOPICS["users"], FOREVER, partitions=3)
    kafka.create_topic(TOPICS["accounts"], FOREVER)
    for name in ("peek.control", "peek.ledger", "peek.empty", "elsewhere.users"):
        kafka.create_topic(name)
    new_producers = Producers(kafka, TOPICS)
    for number in range(30):
        user = {"userId": f"u{number}"}
        new_producers.send(
            "users", user, partition=number % 3, timestamp=NOW + number, key=f"k{number}"
        )
    new_producers.flush()
    return new_producers


@pytest.fixture(scope="module")
def server(kafka: Kafka, producers: Producers) -> Iterator[RunningServer]:
    with run_server(kafka=kafka, rules=RULES) as running_server:
        yield running_server


def _topics(server: RunningServer) -> dict[str, dict[str, Any]]:
    answer = server.request("/api/v1/topics")
    assert answer.status == 200
    return {one["name"]: one for one in answer.json()["topics"]}


def _peek(server: RunningServer, topic: str, count: int = 10) -> list[dict[str, Any]]:
    answer = server.request(f"/api/v1/topics/{topic}/peek?count={count}")
    assert answer.status == 200
    body = answer.json()
    assert body["complete"] is True
    messages: list[dict[str, Any]] = body["messages"]
    return messages


def test_topics_are_listed_with_the_brokers_data(server: RunningServer) -> None:
    topics = _topics(server)
    assert topics["peek.users"] == {
        "name": "peek.users",
        "kind": "data",
        "partitions": 3,
        "records": 30,
        "newest": "2023-11-14T22:13:20.029Z",
        "trouble": None,
    }
    assert (topics["peek.empty"]["records"], topics["peek.empty"]["newest"]) == (0, None)
    assert topics["peek.control"]["kind"] == "control"
    assert topics["peek.ledger"]["kind"] == "livejoin"
    assert "elsewhere.users" not in topics
    assert not any(name.startswith("__") for name in topics)


def test_a_peek_returns_the_newest_records_of_all_partitions(server: RunningServer) -> None:
    messages = _peek(server, "peek.users", 4)
    assert [message["parsed"]["userId"] for message in messages] == ["u29", "u28", "u27", "u26"]
    assert messages[0] == {
        "partition": 2,
        "offset": 9,
        "timestamp": "2023-11-14T22:13:20.029Z",
        "key": "k29",
        "value": '{"userId": "u29"}',
        "valueBytes": 17,
        "parsed": {"userId": "u29"},
        "reason": None,
    }
    assert len(_peek(server, "peek.users", 100)) == 30


def test_a_peek_at_an_empty_topic_is_empty(server: RunningServer) -> None:
    assert _peek(server, "peek.empty") == []


def test_a_peek_finds_the_records_before_transaction_markers(
    kafka: Kafka, server: RunningServer
) -> None:
    """The topic ends with many markers and aborted records; the newest record is before them."""
    kafka.create_topic("peek.transactions", FOREVER)
    producer = kafka.producer(**{"transactional.id": "peek.transactions"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("peek.transactions", b'{"a": 1}')
    producer.commit_transaction(30)
    for _ in range(20):
        producer.begin_transaction()
        producer.produce("peek.transactions", b'{"a": 2}')
        producer.flush(30)
        producer.abort_transaction(30)
    (one,) = _peek(server, "peek.transactions", 3)
    assert one["parsed"] == {"a": 1}


def test_any_bytes_can_be_peeked_at(server: RunningServer, producers: Producers) -> None:
    values: list[bytes | None] = [
        b"\xff\x00",
        None,
        b"",
        b"x" * 100_000,
        b'{"a": "\\ud800"}',
        b"[1]",
    ]
    for number, value in enumerate(values):
        producers.send("accounts", value, timestamp=NOW + number)
    producers.flush()
    found = _peek(server, "peek.accounts", len(values))[::-1]
    assert [one["value"] for one in found[:3]] == ["\\xff\x00", None, ""]
    assert [one["valueBytes"] for one in found] == [2, None, 0, 100_000, 15, 3]
    assert len(found[3]["value"]) == 4096
    assert [one["reason"] for one in found] == [
        "value: not UTF-8",
        "null: a tombstone, which is counted and ignored",
        "value: empty",
        "not parsed: 100000 bytes, more than 64 KiB",
        None,
        "value: expected an object, got [1]",
    ]


@pytest.mark.parametrize("topic", ["peek.usres", "elsewhere.users"])
def test_missing_or_forbidden_topics_are_not_found(server: RunningServer, topic: str) -> None:
    answer = server.request(f"/api/v1/topics/{topic}/peek")
    assert answer.status == 404
    assert f'topic "{topic}" does not exist. Did you mean peek.users?' in answer.json()["detail"]


def test_a_peek_leaves_no_topic_or_group_behind(kafka: Kafka, server: RunningServer) -> None:
    before = kafka.topics()
    _peek(server, "peek.users")
    assert kafka.topics() == before
    groups = kafka.admin.list_consumer_groups(request_timeout=15).result()
    assert [one.group_id for one in groups.valid if one.group_id == "peek.peek"] == []


def test_the_commands_print_topics_and_messages(server: RunningServer) -> None:
    url = ["--url", f"http://127.0.0.1:{server.port}"]
    listed = CliRunner().invoke(main.cli, ["topics", *url])
    lines = [line.split() for line in listed.stdout.splitlines()]
    assert ["peek.users", "data", "3", "30", "2023-11-14T22:13:20.029Z"] in lines
    peeked = CliRunner().invoke(main.cli, ["peek", "peek.users", "--output", "json", *url])
    assert len(json.loads(peeked.stdout)["messages"]) == 10


def test_an_outage_is_reported() -> None:
    with run_server(
        kafka=Kafka({"bootstrap.servers": "127.0.0.1:1"}), rules=RULES
    ) as running_server:
        answer = running_server.request("/api/v1/topics")
    assert answer.status == 503
    assert "cannot be reached" in answer.json()["detail"]
