"""One livejoin with a real broker and Spark: every table equals the oracle."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from livejoin.kafka.cluster import Kafka
from rig import oracle
from rig.produce import Producers
from rig.running import Running, running, until

TOPICS = {"users": "e2e.users", "accounts": "e2e.accounts"}
NOW = 1_700_000_000_000

BAD = {
    "cut JSON": (b'{"userId": "x", "name": ', "value: not valid JSON"),
    "array": (b'[{"userId": "x"}]', "value: expected an object"),
    "scalar": (b"42", "value: expected an object"),
    "null": (b"null", "value: expected an object"),
    "empty": (b"", "value: empty"),
    "bad UTF-8": (b'{"userId": "\xff"}', "value: not UTF-8"),
    "5000 deep": (b'{"a":' * 5000 + b"1" + b"}" * 5000, "value: not valid JSON"),
    "100,000 digits": (b'{"userId": "x", "age": ' + b"9" * 10**5 + b"}", "value: not valid JSON"),
    "NaN": (b'{"userId": "x", "age": NaN}', "value: not valid JSON"),
    "trailing text": (b'{"userId": "x"} {"userId": "y"}', "value: not valid JSON"),
    "trailing bracket": (b'{"userId": "x"}] x', "value: not valid JSON"),
    "larger than 1 MiB": (b'{"userId": "' + b"x" * (1 << 20) + b'"}', "value: larger than 1 MiB"),
    "wrong type": (b'{"userId": "x", "age": "abc"}', 'age: expected int64, got "abc"'),
    "fraction": (b'{"userId": "x", "age": 30.5}', "age: expected int64, got 30.5"),
    "past 64 bits": (b'{"age": 9223372036854775808}', "age: expected int64, got 92233720368547758"),
    "object for a string": (b'{"userId": {"a": 1}}', 'userId: expected string, got {"a":1}'),
    "two wrong fields": (
        b'{"name": [], "age": true}',
        "name: expected string, got []; age: expected int64, got true",
    ),
}
GOOD: tuple[Any, ...] = (
    {"userId": "a", "name": "Ada", "email": "ada@example.com", "age": 36},
    {"userId": "a", "name": "Ada again", "age": "37"},
    {"userId": "b", "name": 123, "email": True, "age": 30.0},
    {"userId": "", "name": "empty id is an id"},
    {"userId": None, "name": "null id"},
    {"name": "no id"},
    {"userId": " a ", "name": "not trimmed"},
    {"userId": "A", "name": "not folded"},
    {"userId": "-users-0", "name": "looks like ours"},
    {"userId": "ünï\u0000 <img onerror=x> =1+1", "name": "\u202eright to left"},
    '{"userId": "first", "userId": "last", "name": "duplicate keys"}',
    '{"userId": 12345678901234567890123456789012345678901234567890, "age": 1e3}',
    {"userId": "extremes", "age": 9223372036854775807},
    {"userId": "extremes", "age": -9223372036854775808},
    {"userid": "other case is another field", "age": None},
    {},
)


def feed(to: Producers) -> None:
    for partition, value in enumerate(GOOD):
        to.send("users", value, partition=partition % 3, timestamp=NOW)
    for partition, (value, _) in enumerate(BAD.values()):
        to.send("users", value, partition=partition % 3, timestamp=NOW)
    # many accounts of one user in several partitions; the newest does not arrive last
    for age in (5, 1, 9, 3, 9, 7):
        for partition in (2, 0, 1):
            account = {"userId": "a", "accountType": f"at {age}", "balance": age + partition / 10}
            to.send("accounts", account, partition=partition, timestamp=NOW + age)
    for user in ("b", "", " a ", "A", "nobody", "-users-0", "last", None):
        to.send("accounts", {"userId": user, "accountType": "one", "balance": 1}, partition=0)
    for balance in ('"1.5"', "1e3", "-0.1", "9007199254740993", '"NaN"', "1e999", "true", "null"):
        to.send("accounts", f'{{"userId": "b", "balance": {balance}}}', partition=1)
    for source in TOPICS:
        for partition in (0, 1, 2):
            to.send(source, None, partition=partition, key="gone")
    to.flush()


@pytest.fixture(scope="module")
def topics(kafka: Kafka) -> None:
    for topic in TOPICS.values():
        # records of 2023 would be deleted by age
        kafka.create_topic(
            topic, {"max.message.bytes": str(8 << 20), "retention.ms": "-1"}, partitions=3
        )


@pytest.fixture(scope="module")
def producers(kafka: Kafka, topics: None) -> Producers:
    new_producers = Producers(kafka, TOPICS)
    feed(new_producers)
    return new_producers


@pytest.fixture(scope="module")
def live(
    kafka: Kafka, producers: Producers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("e2e")
    with running(kafka, folder, name="e2e", topics=TOPICS) as one:
        one.wait_live()
        yield one


def assert_equal(live: Running, producers: Producers) -> None:
    until(lambda: live.records_read() == producers.count, "all records are read")
    truth = oracle.expected(producers.acknowledged)
    found = {name: live.table(name) for name in truth.tables}
    wrong = oracle.differences(found, truth)
    assert not wrong, wrong[:3]
    for name, rows in found.items():  # the oracle knows all columns except these
        columns = [{*row} - {"_id", "topic", "ts"} for row in rows.values()]
        assert all(one == {*truth.tables[name][i]} for i, one in zip(rows, columns, strict=True))
    sources = live.request("api/v1/status")["sources"]
    assert {name: counts["tombstones"] for name, counts in sources.items()} == truth.tombstones


def test_tables_equal_the_oracle(live: Running, producers: Producers) -> None:
    assert_equal(live, producers)


@pytest.mark.parametrize("kind", BAD)
def test_a_reject_has_its_reason(kind: str, live: Running, producers: Producers) -> None:
    value, reason = BAD[kind]
    sent = [one for one in producers.acknowledged["users"] if one.value == value]
    assert len(sent) == 1
    reject = live.table("rejects_ui")[f"users/{sent[0].partition}-{sent[0].offset}"]
    assert reject["reason"].startswith(reason)
    assert (reject["source"], reject["topic"]) == ("users", TOPICS["users"])
    assert reject["ts"] == "2023-11-14T22:13:20.000Z"


def test_a_row_has_the_time_of_the_newest_input_record_it_contains(live: Running) -> None:
    newest = [row["_ts"] for row in live.table("final_ui").values() if row["userId"] == "a"]
    assert newest == ["2023-11-14T22:13:20.009Z"] * 2


def test_later_records_are_joined_too(live: Running, producers: Producers) -> None:
    producers.send(
        "accounts", {"userId": "extremes", "accountType": "late", "balance": 2}, partition=1
    )
    producers.send(
        "accounts", {"userId": "a", "accountType": "older", "balance": 3}, timestamp=NOW - 9
    )
    producers.send("users", {"userId": "nobody", "name": "somebody"}, partition=2)
    producers.send("users", b"no JSON")
    producers.flush()
    assert_equal(live, producers)


def test_the_status_is_one_row_with_the_live_choice(live: Running) -> None:
    (row,) = live.table("orchestrator_status").values()
    assert (row["usersTopic"], row["accountsTopic"]) == tuple(TOPICS.values())
    assert (row["joinType"], row["generation"], row["state"]) == ("left", 1, "live")


def test_the_log_lists_the_steps_in_order(live: Running) -> None:
    steps = [row["msg"].split(":")[0] for _, row in sorted(live.table("orchestrator_logs").items())]
    listening = "listening to e2e.control from 0/0"
    assert steps == ["ready", "building", listening, "building", "caught up", "live"]


def test_a_clean_stop_and_a_restart_continue_the_generation(
    live: Running, producers: Producers
) -> None:
    jvm = live.jvm()
    assert live.stop(signal.SIGTERM) == 0
    until(lambda: not _exists(jvm), "no orphan JVM", 10)
    producers.send("users", {"userId": "while stopped", "name": "x"})
    producers.flush()
    live.start()
    live.wait_live()
    assert_equal(live, producers)
    assert live.request("api/v1/status")["generation"] == 1
    assert live.stop(signal.SIGINT) == 130


def _exists(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").exists()


def test_a_missing_topic_is_waited_for(kafka: Kafka, tmp_path: Path) -> None:
    topics = {"users": "late.users", "accounts": "late.accounts"}
    kafka.create_topic(topics["accounts"])
    with running(kafka, tmp_path, name="late", topics=topics) as one:
        until(lambda: _state(one) == "waiting", "waiting", 90)
        assert 'topic "late.users" does not exist' in one.request("api/v1/status")["message"]
        kafka.create_topic(topics["users"])
        one.wait_live()  # empty topics have nothing to catch up with
        to = Producers(kafka, topics)
        to.send("users", {"userId": "a", "name": "n"})
        to.flush()
        until(lambda: one.records_read() == 1, "the row")
        assert [row["name"] for row in one.table("final_ui").values()] == ["n"]
        assert json.dumps(one.table("rejects_ui")) == "{}"


def _state(livejoin: Running) -> str:
    try:
        return str(livejoin.request("api/v1/status")["state"])
    except AssertionError:
        return ""
