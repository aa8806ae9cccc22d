"""The topic list and peeks, and how few messages a peek reads.

The calls to Kafka itself are tested with a real broker, in tests/scenarios/test_topics.py.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livejoin.core.control_messages import MessageRules
from livejoin.core.names import Names
from livejoin.kafka.cluster import Topic
from livejoin.kafka.records import OffsetRange
from livejoin.tables.http import topic_browser
from livejoin.tables.http.topic_rows import (
    PeekedMessage,
    TopicSize,
    decode_text,
    message_row,
    newest_first,
    parse_value,
    topic_kind,
    topic_row,
    unknown_topic,
)
from tables.fake_kafka import FakeConsumer, FakeKafka, Message, Partitions
from tables.live_server import run_server

RULES = MessageRules(Names("livejoin"), "control")
FEW = MessageRules(Names("livejoin"), "control", ("crm.*",))


# --- rows


@pytest.mark.parametrize(
    ("topic", "every", "few"),
    [
        ("users", "data", None),
        ("crm.users", "data", "data"),
        ("control", "control", "control"),
        ("livejoin.ledger", "livejoin", "livejoin"),
        ("livejoin.changelog.7", "livejoin", "livejoin"),
        ("livejoin.of.others", "data", None),
        ("__consumer_offsets", None, None),
        ("_schemas", "data", None),
    ],
)
def test_the_kind_of_a_topic(topic: str, every: str | None, few: str | None) -> None:
    assert (topic_kind(topic, RULES), topic_kind(topic, FEW)) == (every, few)


def test_the_row_of_a_topic() -> None:
    assert topic_row(Topic("users", "id", (0, 1)), TopicSize(5, 1_700_000_000_123), RULES) == {
        "name": "users",
        "kind": "data",
        "partitions": 2,
        "records": 5,
        "newest": "2023-11-14T22:13:20.123Z",
        "trouble": None,
    }


def test_the_row_of_an_unreadable_topic_has_the_reason() -> None:
    found = topic_row(Topic("users", "id", (0,), readable=False), TopicSize(0, None), RULES)
    assert (found["newest"], found["trouble"]) == (None, 'not authorized to read topic "users"')


def test_the_error_for_an_unknown_topic_suggests_a_visible_one() -> None:
    assert str(unknown_topic("usres", ["users", "accounts"])) == (
        'topic "usres" does not exist. Did you mean users?'
    )
    assert "`livejoin topics`" in str(unknown_topic("xyzzy", ["users"]))


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (None, None),
        (b"", ""),
        ("ä€😀".encode(), "ä€😀"),
        (b"a\xffb", "a\\xffb"),
        (b"cut \xe2\x82", "cut \\xe2\\x82"),
        (b"x" * 5000, "x" * 4096),
        (b"x" * 4095 + "€".encode() + b"y", "x" * 4095),
        (b"x" * 4093 + "€".encode(), "x" * 4093 + "€"),
    ],
    ids=["null", "empty", "text", "a byte", "half a character", "long", "divided", "just fits"],
)
def test_bytes_are_decoded_for_display(raw: bytes | None, shown: str | None) -> None:
    assert decode_text(raw) == shown


@pytest.mark.parametrize(
    ("value", "found", "reason"),
    [
        (b'{"userId": "u1", "age": 3}', {"userId": "u1", "age": 3}, None),
        (b' {"a": 1, "a": 2} ', {"a": 2}, None),
        (b'{"a": 9223372036854775808}', {"a": 9223372036854775808}, None),
        (b'{"a": 1e999}', {"a": "1e999"}, None),
        (b'{"a": "\\ud800"}', {"a": "\ud800"}, None),
        (None, None, "null: a tombstone, which is counted and ignored"),
        (b"", None, "value: empty"),
        (b"\xff", None, "value: not UTF-8"),
        (b'{"a": ', None, "value: not valid JSON: Expecting value: line 1 column 7 (char 6)"),
        (b'{"a": NaN}', None, "value: not valid JSON: NaN is not a JSON number"),
        (b"[1]", None, "value: expected an object, got [1]"),
        (b"null", None, "value: expected an object, got null"),
        (b'"' + b"x" * 500 + b'"', None, 'value: expected an object, got "' + "x" * 79 + "…"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, None, "not parsed: nested more than 100 levels deep"),
        (b"[" * 60_000, None, "not parsed: nested more than 100 levels deep"),
        (b"x" * 70_000, None, "not parsed: 70000 bytes, more than 64 KiB"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_value_is_parsed_or_has_a_reason(
    value: bytes | None, found: dict[str, Any] | None, reason: str | None
) -> None:
    assert parse_value(value) == (found, reason)


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    found, reason = parse_value(b'{"a": ' + b"9" * 50_000 + b"}")
    assert found is None
    assert reason is not None
    assert reason.startswith("value: not valid JSON: Exceeds the limit")


@given(st.none() | st.binary(max_size=300), st.none() | st.binary(max_size=300))
def test_any_message_can_be_encoded(key: bytes | None, value: bytes | None) -> None:
    found = message_row(PeekedMessage(0, 1, None, key, value))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["parsed"] is None) == (found["reason"] is not None)


def test_messages_of_all_partitions_are_sorted_newest_first() -> None:
    tails = [
        [PeekedMessage(0, 0, 10, None, None), PeekedMessage(0, 1, 30, None, None)],
        [PeekedMessage(1, 7, 20, None, None), PeekedMessage(1, 8, 20, None, None)],
        [PeekedMessage(2, 0, None, None, None)],
    ]
    newest = [(one.partition, one.offset) for one in newest_first(tails, 4)]
    assert newest == [(0, 1), (1, 8), (1, 7), (0, 0)]


# --- reading tails


def _partitions(offsets: dict[int, list[int]]) -> dict[str, dict[int, list[Message]]]:
    return {"t": {p: [Message(p, at) for at in there] for p, there in offsets.items()}}


def _last(consumer: FakeConsumer, starts: dict[int, int], count: int) -> tuple[Any, bool]:
    spans = {p: OffsetRange(start, consumer.ends[p]) for p, start in starts.items()}
    tails, complete = topic_browser.read_tails(consumer, "t", spans, count)  # type: ignore[arg-type]
    return {p: [seen.offset for seen in tail] for p, tail in tails.items()}, complete


def test_only_the_last_messages_of_each_partition_are_read() -> None:
    consumer = FakeConsumer(
        _partitions({0: list(range(1000)), 1: list(range(5, 8))}), {0: 1000, 1: 8}
    )
    assert _last(consumer, {0: 0, 1: 5}, 4) == ({0: [996, 997, 998, 999], 1: [5, 6, 7]}, True)
    assert len(consumer.read) == 7


def test_gaps_are_read_across() -> None:
    consumer = FakeConsumer(_partitions({0: [0, 1, 2, 500], 1: []}), {0: 1000, 1: 100})
    assert _last(consumer, {0: 0, 1: 0}, 3) == ({0: [1, 2, 500], 1: []}, True)


def test_messages_after_the_end_offset_are_skipped() -> None:
    consumer = FakeConsumer(_partitions({0: list(range(20))}), {0: 10})
    assert _last(consumer, {0: 0}, 2) == ({0: [8, 9]}, True)


def test_a_silent_broker_makes_the_peek_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = FakeConsumer(_partitions({0: [0]}), {0: 1}, silent=True)
    assert _last(consumer, {0: 0}, 1) == ({0: []}, False)
    monkeypatch.setattr(topic_browser, "_PEEK_S", 0)
    assert _last(FakeConsumer(_partitions({0: [0]}), {0: 1}), {0: 0}, 1) == ({0: []}, False)


def test_large_messages_make_the_peek_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_browser, "_PEEK_BYTES", 4)
    consumer = FakeConsumer(_partitions({0: list(range(10))}), {0: 10})
    assert _last(consumer, {0: 0}, 10) == ({0: [0, 1]}, False)


# --- over HTTP

USER = b'{"userId": "u1"}'
CLUSTER: dict[str, Partitions] = {
    "users": {
        0: [Message(0, 4, USER, 1000), Message(0, 5, b"[", 3000)],
        1: [Message(1, 0, None, 2000)],
    },
    "accounts": {0: []},
    "crm.users": {0: []},
    "control": {0: []},
    "livejoin.ledger": {0: [Message(0, 0)]},
    "__consumer_offsets": {0: [Message(0, 0)]},
}


def test_topics_are_listed_with_their_size() -> None:
    with run_server(kafka=FakeKafka(CLUSTER)) as server:
        body = server.request("/api/v1/topics").json()
    assert body["total"] == 5
    assert [(one["name"], one["kind"], one["records"]) for one in body["topics"]] == [
        ("accounts", "data", 0),
        ("control", "control", 0),
        ("crm.users", "data", 0),
        ("livejoin.ledger", "livejoin", 1),
        ("users", "data", 3),
    ]
    assert body["topics"][4] == {
        "name": "users",
        "kind": "data",
        "partitions": 2,
        "records": 3,
        "newest": "1970-01-01T00:00:03.000Z",
        "trouble": None,
    }


def test_an_error_on_one_topic_does_not_affect_the_others() -> None:
    with run_server(kafka=FakeKafka(CLUSTER, broken=["users"])) as server:
        rows = {one["name"]: one for one in server.request("/api/v1/topics").json()["topics"]}
    assert (rows["users"]["records"], rows["users"]["newest"]) == (None, None)
    assert 'Kafka failed on topic "users"' in rows["users"]["trouble"]
    assert (rows["accounts"]["records"], rows["accounts"]["trouble"]) == (0, None)


def test_a_cluster_without_topics_has_an_empty_list() -> None:
    with run_server(kafka=FakeKafka({})) as server:
        assert server.request("/api/v1/topics").json() == {"total": 0, "topics": []}


def test_the_list_of_topics_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_browser, "MAX_TOPICS", 2)
    with run_server(kafka=FakeKafka(CLUSTER)) as server:
        body = server.request("/api/v1/topics").json()
    assert (body["total"], [one["name"] for one in body["topics"]]) == (5, ["accounts", "control"])


def test_topics_outside_the_allowed_ones_are_hidden() -> None:
    with run_server(kafka=FakeKafka(CLUSTER), rules=FEW) as server:
        rows = server.request("/api/v1/topics").json()["topics"]
        hidden = server.request("/api/v1/topics/users/peek")
    assert [row["name"] for row in rows] == ["control", "crm.users", "livejoin.ledger"]
    assert hidden.status == 404
    assert hidden.json()["detail"] == 'topic "users" does not exist. Did you mean crm.users?'


def test_a_peek_returns_the_newest_messages_of_all_partitions() -> None:
    with run_server(kafka=FakeKafka(CLUSTER)) as server:
        body = server.request("/api/v1/topics/users/peek").json()
        two = server.request("/api/v1/topics/users/peek?count=2").json()
        none = server.request("/api/v1/topics/accounts/peek").json()
    assert (body["topic"], body["complete"]) == ("users", True)
    places = [(one["partition"], one["offset"]) for one in body["messages"]]
    assert places == [(0, 5), (1, 0), (0, 4)]
    assert body["messages"][2] == {
        "partition": 0,
        "offset": 4,
        "timestamp": "1970-01-01T00:00:01.000Z",
        "key": None,
        "value": USER.decode(),
        "valueBytes": len(USER),
        "parsed": {"userId": "u1"},
        "reason": None,
    }
    assert two["messages"] == body["messages"][:2]
    assert none == {"topic": "accounts", "complete": True, "messages": []}


def test_a_lone_surrogate_in_a_message_is_served() -> None:
    half = {"users": {0: [Message(0, 0, b'{"a": "\\ud800"}')]}}
    with run_server(kafka=FakeKafka(half)) as server:
        (one,) = server.request("/api/v1/topics/users/peek").json()["messages"]
    assert one["parsed"] == {"a": "\ud800"}


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("usres", 'topic "usres" does not exist. Did you mean users?'),
        ("xyzzy", "`livejoin topics` lists them."),
    ],
)
def test_a_missing_topic_is_a_problem_with_a_suggestion(topic: str, message: str) -> None:
    with run_server(kafka=FakeKafka(CLUSTER)) as server:
        response = server.request(f"/api/v1/topics/{topic}/peek")
    assert response.status == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert message in response.json()["detail"]


def test_a_topic_that_kafka_denies_is_not_a_missing_one() -> None:
    with run_server(kafka=FakeKafka(CLUSTER, unreadable=["users"])) as server:
        response = server.request("/api/v1/topics/users/peek")
    assert response.status == 502
    assert response.json()["title"] == "Kafka denied access"
    assert response.json()["detail"] == (
        'not authorized to read topic "users".'
        " Grant livejoin's Kafka user DESCRIBE and READ on it."
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("topics/a%20b/peek", '"a b" is not a valid topic name. Use 1 to 249 letters'),
        ("topics/__consumer_offsets/peek", "is not a valid topic name"),
        ("topics/users/peek?count=0", 'count: expected a whole number from 1 to 100, got "0"'),
        ("topics/users/peek?count=101", "count: expected a whole number from 1 to 100"),
        ("topics/users/peek?cont=1", "Did you mean count?"),
        ("topics?x=1", 'unknown parameter "x"'),
    ],
)
def test_an_invalid_request_is_refused_without_kafka(path: str, message: str) -> None:
    with run_server() as server:
        response = server.request(f"/api/v1/{path}")
    assert response.status == 400
    assert message in response.json()["detail"]
