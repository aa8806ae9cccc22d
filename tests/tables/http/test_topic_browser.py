"""The topic list and peeks: their rows, parameters and errors. Scans: tests/kafka/test_scan.py.

The calls to Kafka itself are tested with a real broker, in tests/scenarios/test_topics.py.
"""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livejoin.core.changelog import ChangelogRecord
from livejoin.core.control_messages import MessageRules
from livejoin.core.names import Names
from livejoin.kafka.cluster import Topic
from livejoin.kafka.range_reader import ScanLimits, ScannedRecord
from livejoin.tables.http import topic_browser
from livejoin.tables.http.topic_rows import (
    TopicSize,
    decode_text,
    message_row,
    parse_value,
    topic_kind,
    topic_row,
    unknown_topic,
)
from livejoin.tables.ingest.catalog import Catalog
from rig.running import until
from tables.fake_kafka import FakeKafka, Message, Partitions
from tables.live_server import LIMIT_S, RunningServer, run_server
from tables.samples import chunk, live

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
    found = message_row(ScannedRecord(0, 1, None, key, value))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["parsed"] is None) == (found["reason"] is not None)


def test_headers_are_text_or_base64() -> None:
    headers = (("by", b"ada"), ("raw", b"\xff\x00"), ("none", None), ("long", b"x" * 2000))
    row = message_row(ScannedRecord(0, 0, None, None, None, headers))
    assert row["headers"] == [
        {"name": "by", "text": "ada", "base64": None, "bytes": 3},
        {"name": "raw", "text": None, "base64": "/wA=", "bytes": 2},
        {"name": "none", "text": None, "base64": None, "bytes": None},
        {"name": "long", "text": "x" * 1024, "base64": None, "bytes": 2000},
    ]
    many = message_row(ScannedRecord(0, 0, None, None, None, headers[:1] * 60))
    assert (len(many["headers"]), many["headersLeftOut"]) == (50, 10)


@pytest.mark.parametrize("size", [4096, 4097])
def test_what_is_cut_is_marked(size: int) -> None:
    for key, value in ((b"x" * size, None), (None, b"x" * size)):
        row = message_row(ScannedRecord(0, 0, None, key, value))
        assert row["cut"] is (size > 4096)
        assert {row["keyBytes"], row["valueBytes"]} == {size, None}
        assert {len(row["key"] or ""), len(row["value"] or "")} == {4096, 0}


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
        "keyBytes": None,
        "value": USER.decode(),
        "valueBytes": len(USER),
        "cut": False,
        "headers": [],
        "headersLeftOut": 0,
        "parsed": {"userId": "u1"},
        "reason": None,
    }
    assert two["messages"] == body["messages"][:2]
    assert none == {
        "topic": "accounts",
        "complete": True,
        "scanned": 0,
        "reached": None,
        "older": None,
        "newer": "0:0",
        "partitions": [{"partition": 0, "start": 0, "end": 0}],
        "messages": [],
    }


EVENTS: dict[str, Partitions] = {
    "events": {
        0: [
            Message(0, at, b'{"name": "Ada %d"}' % at, 1000 * at, raw_key=b"k%d" % at)
            for at in range(100, 160)
        ],
        1: [Message(1, at, b"\xff<Bela>", 1000 * at + 100_000) for at in range(20)],
        2: [],
    }
}


@pytest.fixture(scope="module")
def events() -> Iterator[RunningServer]:
    with run_server(kafka=FakeKafka(EVENTS)) as server:
        yield server


def _peek(server: RunningServer, **parameters: object) -> dict[str, Any]:
    query = urlencode(parameters)
    response = server.request(f"/api/v1/topics/events/peek?{query}")
    assert response.status == 200, response.body
    body: dict[str, Any] = response.json()
    return body


def _positions(body: dict[str, Any]) -> list[str]:
    return [f"{one['partition']}/{one['offset']}" for one in body["messages"]]


def test_a_peek_from_an_offset_on_is_oldest_first(events: RunningServer) -> None:
    body = _peek(events, partition=0, offset=120, count=3)
    assert _positions(body) == ["0/120", "0/121", "0/122"]
    assert (body["older"], body["newer"]) == ("0:120", "0:123")
    assert body["partitions"] == [{"partition": 0, "start": 100, "end": 160}]
    assert body["messages"][0]["key"] == "k120"


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("1970-01-01T00:01:58Z", ["0/118", "1/18", "0/119"]),
        ("earliest", ["0/100", "1/0", "0/101"]),
        ("latest", ["0/159", "0/158", "0/157"]),
        ("1h", []),
    ],
)
def test_a_peek_from_a_time_on_reads_all_partitions(
    events: RunningServer, time: str, expected: list[str]
) -> None:
    assert _positions(_peek(events, time=time, count=3)) == expected


def test_one_partition_from_a_time_on(events: RunningServer) -> None:
    body = _peek(events, time="1970-01-01T00:01:58Z", partition=1, count=9)
    assert _positions(body) == ["1/18", "1/19"]


def test_pages_lead_to_older_and_newer_messages(events: RunningServer) -> None:
    pages = [_peek(events, count=30)]
    while pages[-1]["older"] is not None:
        pages.append(_peek(events, count=30, older=pages[-1]["older"]))
    seen = [position for page in pages for position in _positions(page)]
    assert len(seen) == len(set(seen)) == 80
    assert [len(page["messages"]) for page in pages] == [30, 30, 20]
    back = _peek(events, count=100, newer=pages[1]["newer"])
    assert sorted(_positions(back)) == sorted(_positions(pages[0]))
    assert _peek(events, newer=back["newer"])["messages"] == []


def test_a_search_finds_keys_and_values_in_either_case(events: RunningServer) -> None:
    assert _positions(_peek(events, search="ada 14", count=2)) == ["0/149", "0/148"]
    assert _positions(_peek(events, search="K15", count=2, time="earliest")) == ["0/150", "0/151"]
    assert _positions(_peek(events, search="<bela>", count=1)) == ["1/19"]
    nothing = _peek(events, search="Dora")
    assert (nothing["messages"], nothing["complete"], nothing["scanned"]) == ([], True, 80)
    assert (nothing["older"], nothing["reached"]) == (None, None)


def test_a_search_that_is_limited_can_go_on(
    events: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ScanLimits(seconds=5, records=30, size=1 << 20)
    monkeypatch.setattr(topic_browser, "LIMITS", limits)
    pages = [_peek(events, search="ada 101", count=1, partition=0)]
    assert (pages[0]["messages"], pages[0]["complete"]) == ([], False)
    assert pages[0]["reached"] == f"1970-01-01T00:02:{int(pages[0]['older'][2:]) - 120}.000Z"
    while not pages[-1]["messages"]:
        pages.append(_peek(events, search="ada 101", count=1, older=pages[-1]["older"]))
    assert _positions(pages[-1]) == ["0/101"]


def test_messages_that_were_rejected_have_the_reason_of_the_pipeline() -> None:
    """Only where the topic is read: elsewhere the same position is another message."""
    catalog = Catalog()
    catalog.apply_state(live(1))
    reason = 'age: expected int64, got "abc"'
    at = {"source": "users", "topic": "users", "partition": 0, "offset": 4, "ts": 1000}
    row = {**at, "reason": reason, "raw": None}
    catalog.apply(chunk(1, 1, ChangelogRecord("rejects_ui", "users/0-4", row, 1)))
    topics = {"users": CLUSTER["users"], "users_b": CLUSTER["users"]}
    with run_server(catalog, kafka=FakeKafka(topics)) as server:
        read, other = (
            server.request(f"/api/v1/topics/{topic}/peek?partition=0").json()["messages"]
            for topic in topics
        )
    assert [one["reason"] for one in read] == [other[0]["reason"], reason]
    assert [one["parsed"] for one in read] == [None, {"userId": "u1"}]
    assert other[1]["reason"] is None


def test_a_peek_stops_when_its_client_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """And so does one that waits for its turn; they would keep everybody else waiting."""
    limits = ScanLimits(seconds=600, records=1000, size=1 << 20)
    monkeypatch.setattr(topic_browser, "LIMITS", limits)
    kafka = FakeKafka(EVENTS, silent=True)
    with run_server(kafka=kafka) as server:
        host = f"127.0.0.1:{server.port}"
        request = f"GET /api/v1/topics/events/peek HTTP/1.1\r\nHost: {host}\r\n\r\n"
        clients = [server.connect_tcp() for _ in range(4)]
        for client in clients:
            client.sendall(request.encode())
        until(lambda: len(kafka.readers) == 2, "two peeks are reading", LIMIT_S)
        for client in clients:
            client.close()
        until(lambda: all(reader.closed for reader in kafka.readers), "they stop", LIMIT_S)
        assert server.request("/api/v1/topics").status == 200, "others have their turn"
        assert len(kafka.readers) == 2, "those that waited have read nothing"


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
        ("topics/users/peek?partition=x", "partition: expected a whole number"),
        ("topics/users/peek?offset=1", "offset: given without partition"),
        ("topics/users/peek?partition=0&offset=-1", "offset: expected a whole number"),
        ("topics/users/peek?time=yesterday", 'or an age such as 1h, got "yesterday"'),
        ("topics/users/peek?older=0:1&newer=0:1", "older and newer exclude each other"),
        ("topics/users/peek?time=1h&offset=1&partition=0", "offset and time exclude each other"),
        ("topics/users/peek?older=1", "older: expected partitions and offsets such as 0:120"),
        ("topics/users/peek?newer=0:1&partition=1", "newer: names no offset of partition 1"),
        (f"topics/users/peek?search={'x' * 201}", "search: longer than 200 characters"),
        ("topics?x=1", 'unknown parameter "x"'),
    ],
)
def test_an_invalid_request_is_refused_without_kafka(path: str, message: str) -> None:
    with run_server() as server:
        response = server.request(f"/api/v1/{path}")
    assert response.status == 400
    assert message in response.json()["detail"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("partition=3", 'topic "events" has no partition 3, it has partitions 0 to 2'),
        ("older=0:120,7:1", 'topic "events" has no partition 7'),
        (
            "partition=0&offset=99",
            'offset 99 is not in partition 0 of topic "events". There are offsets 100 to 159.',
        ),
        ("partition=0&offset=160", "There are offsets 100 to 159."),
        ("partition=2&offset=0", 'partition 2 of topic "events" has no records'),
    ],
)
def test_what_a_topic_does_not_have_is_refused(
    events: RunningServer, query: str, message: str
) -> None:
    response = events.request(f"/api/v1/topics/events/peek?{query}")
    assert response.status == 400
    assert message in response.json()["detail"]


def test_a_page_whose_messages_were_deleted_meanwhile_is_empty(events: RunningServer) -> None:
    assert _peek(events, older="0:50")["messages"] == []
    assert _positions(_peek(events, newer="0:50", count=1)) == ["0/100"]
    assert _peek(events, newer="0:9999999999999999999")["messages"] == []
