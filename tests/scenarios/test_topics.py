"""The topic list and peeks on a real broker: what only Kafka can answer. Without Spark."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from confluent_kafka import TopicPartition
from typer.testing import CliRunner

from livejoin.cli import main
from livejoin.core.control_messages import MessageRules
from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.tables.http import topic_browser
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
    body = _read(server, topic, count=count)
    assert body["complete"] is True
    messages: list[dict[str, Any]] = body["messages"]
    return messages


def _read(server: RunningServer, topic: str, **parameters: object) -> dict[str, Any]:
    answer = server.request(f"/api/v1/topics/{topic}/peek?{urlencode(parameters)}")
    assert answer.status == 200, answer.body
    body: dict[str, Any] = answer.json()
    return body


def _positions(body: dict[str, Any]) -> list[str]:
    return [f"{one['partition']}/{one['offset']}" for one in body["messages"]]


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
        "keyBytes": 3,
        "value": '{"userId": "u29"}',
        "valueBytes": 17,
        "cut": False,
        "headers": [],
        "headersLeftOut": 0,
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


def test_a_peek_seeks_an_offset_and_a_time(server: RunningServer) -> None:
    """Record n is in partition n % 3 and n ms younger than the first."""
    from_offset = _read(server, "peek.users", partition=1, offset=4, count=3)
    assert _positions(from_offset) == ["1/4", "1/5", "1/6"]
    assert from_offset["partitions"] == [{"partition": 1, "start": 0, "end": 10}]
    at = datetime.fromtimestamp((NOW + 16) / 1000, UTC).isoformat()
    assert _positions(_read(server, "peek.users", time=at, count=3)) == ["1/5", "2/5", "0/6"]
    assert _positions(_read(server, "peek.users", time=at, partition=2, count=1)) == ["2/5"]
    first = _read(server, "peek.users", time="earliest", count=4)
    assert _positions(first) == ["0/0", "1/0", "2/0", "0/1"]
    assert _read(server, "peek.users", time="1h")["messages"] == []


def test_pages_lead_back_to_the_first_record_and_forward_again(server: RunningServer) -> None:
    pages = [_read(server, "peek.users", count=7)]
    while pages[-1]["older"] is not None:
        pages.append(_read(server, "peek.users", count=7, older=pages[-1]["older"]))
    keys = [message["key"] for page in pages for message in page["messages"]]
    assert keys == [f"k{number}" for number in reversed(range(30))]
    forward = [_read(server, "peek.users", count=7, newer=pages[-1]["newer"])]
    while forward[-1]["messages"]:
        forward.append(_read(server, "peek.users", count=7, newer=forward[-1]["newer"]))
    keys = [message["key"] for page in forward for message in page["messages"]]
    assert keys == [f"k{number}" for number in range(2, 30)]


def test_a_search_goes_back_through_a_long_topic(
    kafka: Kafka, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one request, and in several where a request is limited to less."""
    kafka.create_topic("peek.long", FOREVER, partitions=2)
    producer = kafka.producer(**{"linger.ms": 5, "batch.size": 1 << 20})
    for number in range(20_000):
        value = json.dumps({"userId": f"u{number}", "name": "Ada" if number == 3 else "Bela"})
        at = NOW + number
        producer.produce("peek.long", value, f"k{number}", partition=number % 2, timestamp=at)
        producer.poll(0)
    assert producer.flush(30) == 0
    ada = _read(server, "peek.long", search="ADA", count=1)
    assert [one["key"] for one in ada["messages"]] == ["k3"]
    assert ada["scanned"] >= 19_990
    forward = _read(server, "peek.long", search='"u1999', time="earliest", count=3)
    assert [one["key"] for one in forward["messages"]] == ["k1999", "k19990", "k19991"]
    monkeypatch.setattr(topic_browser, "LIMITS", replace(topic_browser.LIMITS, records=12_000))
    pages = [_read(server, "peek.long", search="ada", count=1)]
    assert (pages[0]["messages"], pages[0]["complete"]) == ([], False)
    assert pages[0]["reached"] > "2023-11-14T22:13:20"
    while not pages[-1]["messages"]:
        older = pages[-1]["older"]
        pages.append(_read(server, "peek.long", search="ada", count=1, older=older))
    assert [one["key"] for one in pages[-1]["messages"]] == ["k3"]
    assert sum(page["scanned"] for page in pages) < 40_000, "nothing is read over and over"


def test_headers_and_positions_that_do_not_exist(kafka: Kafka, server: RunningServer) -> None:
    kafka.create_topic("peek.deleted", FOREVER)
    headers: list[tuple[str, bytes | None]] = [("by", b"ada"), ("raw", b"\xff"), ("none", None)]
    producer = kafka.producer()
    for _ in range(5):
        producer.produce("peek.deleted", b"{}", headers=headers)  # type: ignore[arg-type]
    assert producer.flush(30) == 0
    deleted = kafka.admin.delete_records([TopicPartition("peek.deleted", 0, 3)])
    assert [one.result(30).low_watermark for one in deleted.values()] == [3]
    body = _read(server, "peek.deleted", time="earliest")
    assert _positions(body) == ["0/3", "0/4"]
    assert [tuple(one.values()) for one in body["messages"][0]["headers"]] == [
        ("by", "ada", None, 3),
        ("raw", None, "/w==", 1),
        ("none", None, None, None),
    ]
    for query, reason in (
        ("partition=0&offset=2", "offset 2 is not in partition 0"),
        ("partition=0&offset=5", "There are offsets 3 to 4."),
        ("partition=1", "has no partition 1, it has partition 0 only"),
    ):
        refused = server.request(f"/api/v1/topics/peek.deleted/peek?{query}")
        assert refused.status == 400
        assert reason in refused.json()["detail"]


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
    sought = ["--partition", "1", "--offset", "4", "--search", "U1", "--raw", *url]
    raw = CliRunner().invoke(main.cli, ["peek", "peek.users", *sought])
    values = [json.loads(line)["userId"] for line in raw.stdout.splitlines()]
    assert values == ["u13", "u16", "u19"]


def test_an_outage_is_reported() -> None:
    with run_server(
        kafka=Kafka({"bootstrap.servers": "127.0.0.1:1"}), rules=RULES
    ) as running_server:
        answer = running_server.request("/api/v1/topics")
    assert answer.status == 503
    assert "cannot be reached" in answer.json()["detail"]
