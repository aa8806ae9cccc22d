"""Control requests over HTTP are written to the control topic and answered with their outcome."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition

from livejoin.core import spec
from livejoin.core.control_messages import MAX_BYTES, MessageRules, Request, known_fields
from livejoin.core.decide import decide
from livejoin.core.facts import CaughtUp, HistoryReplayed, LeaderStarted, SourcesResolved
from livejoin.core.generation import Origin, Reading
from livejoin.core.names import Names
from livejoin.core.spec import DEFAULT
from livejoin.core.state import Limits, Outcome, Reply, State
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.clusters import Clusters
from livejoin.tables.http.control_requests import ControlProducer, RequestSigner
from livejoin.tables.ingest.catalog import Catalog
from rig.running import until
from tables.live_server import HttpResponse, RunningServer, run_server

JSON = {"content-type": "application/json"}
TOPICS = ("asking.users", "asking.accounts")


@pytest.fixture(scope="module")
def server(kafka: Kafka) -> Iterator[RunningServer]:
    kafka.create_topic("control")
    for topic in TOPICS:
        kafka.create_topic(topic, partitions=2)
    with run_server(kafka=kafka) as one:
        yield one


def post(server: RunningServer, path: str, body: bytes, **headers: str) -> HttpResponse:
    return server.request(f"/api/v1/{path}", "POST", body, **{**JSON, **headers})


def control_messages(kafka: Kafka) -> list[Message]:
    """Return all messages of the control topic."""
    consumer = kafka.reader("test")
    messages: list[Message] = []
    try:
        consumer.assign([TopicPartition("control", 0, 0)])

        def ended() -> bool:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                messages.append(message)
            return message is not None and message.error() is not None

        until(ended, "the end of the control topic")
    finally:
        consumer.close()
    return messages


def decide_next(
    server: RunningServer,
    kafka: Kafka,
    outcome: Outcome,
    reason: str = "",
    warnings: tuple[str, ...] = (),
) -> threading.Thread:
    """Decide the next message, as a leader would."""
    before = len(control_messages(kafka))

    def decide_on() -> None:
        new = until(lambda: control_messages(kafka)[before:], "the message")
        origin = Origin(new[0].offset() or 0, 1.0, "http", "{}", warnings=warnings)
        reply = Reply(origin, outcome, 1.0, reason, 7)
        row = {**reply.control_raw_row(spec.DEFAULT), "_id": reply.row_id}
        server.run_on_loop(lambda catalog: catalog.system.put_control_messages([row]))

    thread = threading.Thread(target=decide_on)
    thread.start()
    return thread


def test_a_message_is_written_unchanged_with_its_requester(
    server: RunningServer, kafka: Kafka
) -> None:
    thread = decide_next(server, kafka, "accepted")
    response = post(server, "control", b'{ "joinType": "inner" }', **{"livejoin-client": "cli"})
    thread.join()
    (last,) = control_messages(kafka)[-1:]
    assert last.value() == b'{ "joinType": "inner" }'
    assert last.headers() == [("livejoin-by", b"cli 127.0.0.1")]
    assert response.status == 200
    assert response.json() == {
        "partition": 0,
        "offset": last.offset(),
        "outcome": "accepted",
        "reason": None,
        "generation": 7,
        "warnings": [],
    }


@pytest.mark.parametrize(("outcome", "status"), [("accepted", 200), ("rejected", 422)])
def test_the_answer_has_the_warnings_about_the_message(
    server: RunningServer, kafka: Kafka, outcome: Outcome, status: int
) -> None:
    warnings = ('unknown field "colour"', 'unknown field "userstopic"')
    thread = decide_next(server, kafka, outcome, "because", warnings)
    response = post(server, "control", b"{}")
    thread.join()
    assert (response.status, response.json()["warnings"]) == (status, list(warnings))


def test_the_row_of_an_earlier_leader_has_no_warnings(server: RunningServer, kafka: Kafka) -> None:
    row = Reply(Origin(len(control_messages(kafka)), 1.0, "kafka", "{}"), "accepted", 1.0)
    written = {**row.control_raw_row(spec.DEFAULT), "_id": row.row_id}
    del written["warnings"]
    server.run_on_loop(lambda catalog: catalog.system.put_control_messages([written]))
    assert post(server, "control", b"{}").json()["warnings"] == []


def test_a_rejection_is_a_problem_with_its_reason(server: RunningServer, kafka: Kafka) -> None:
    thread = decide_next(server, kafka, "rejected", "because")
    response = post(server, "control", b"{")
    thread.join()
    assert response.status == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"] == "because"
    (last,) = control_messages(kafka)[-1:]
    assert (response.json()["partition"], response.json()["offset"]) == (0, last.offset())


def test_requests_to_a_topic_of_several_partitions_are_in_one_order(
    kafka: Kafka, server: RunningServer
) -> None:
    """All in one partition: those of two could be read in any order."""
    rules = MessageRules(Names("several"), "several.control")
    kafka.create_topic(rules.control, partitions=5)
    signer = RequestSigner(kafka, rules.names)
    producer = ControlProducer(Clusters.single(kafka), rules, Limits(), Catalog(), signer)
    positions = [producer._write(b"{}", "cli") for _ in range(12)]
    assert positions == [(0, offset) for offset in range(12)]


def test_the_outcome_of_another_partition_is_not_taken_for_it(
    server: RunningServer, kafka: Kafka
) -> None:
    offset = len(control_messages(kafka))
    others = [
        {**reply.control_raw_row(spec.DEFAULT), "_id": reply.row_id}
        for partition in (1, 2)
        for reply in [
            Reply(
                Origin(offset, 1.0, "kafka", "{}", partition=partition, read_order=partition),
                "live",
                1.0,
            )
        ]
    ]
    server.run_on_loop(lambda catalog: catalog.system.put_control_messages(others))
    thread = decide_next(server, kafka, "accepted")
    assert post(server, "control", b"{}").json()["outcome"] == "accepted"
    thread.join()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", {"action": "rollback"}),
        (b'{"id": "x"}', {"id": "x", "action": "rollback"}),
        (b'{"expectedGeneration": 3}', {"expectedGeneration": 3, "action": "rollback"}),
    ],
)
def test_a_rollback_is_written_as_a_control_message(
    body: bytes, expected: dict[str, Any], server: RunningServer, kafka: Kafka
) -> None:
    thread = decide_next(server, kafka, "live", "rolled back")
    assert post(server, "rollback", body).json()["outcome"] == "live"
    thread.join()
    assert json.loads(control_messages(kafka)[-1].value() or b"") == expected


def test_a_body_that_is_not_json_is_not_written(server: RunningServer, kafka: Kafka) -> None:
    before = len(control_messages(kafka))
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert post(server, "control", b"{}", **{"content-type": kind}).status == 415
    assert post(server, "control", b" " * (MAX_BYTES + 1)).status == 413
    assert len(control_messages(kafka)) == before


@pytest.mark.parametrize("path", ["control", "preview", "rollback"])
def test_control_routes_do_not_accept_get(path: str, server: RunningServer) -> None:
    assert server.request(f"/api/v1/{path}").status == 405


def live(users: str, accounts: str) -> State:
    state = decide(State(), LeaderStarted(1.0, 1.0, DEFAULT.choice(users, accounts)))
    state = decide(state, HistoryReplayed("t", {0: 0}, Request()))
    reading = Reading("x", "id", {0: 0, 1: 0}, {})
    state = decide(state, SourcesResolved(1, {"users": reading, "accounts": reading}))
    return decide(state, CaughtUp(1, 0))


def test_a_preview_returns_the_plan_and_writes_nothing(server: RunningServer, kafka: Kafka) -> None:
    before = len(control_messages(kafka))
    server.follow(live(*TOPICS))
    plan = post(server, "preview", b'{"joinType": "inner"}').json()
    assert plan["outcome"] == "accepted"
    assert plan["build"] == "generation 2, asking.users inner asking.accounts"
    assert plan["topics"]["asking.users"] == {"exists": True, "partitions": 2, "records": 0}
    assert plan["slots"]["needed"] == 7
    plan = post(server, "preview", b'{"usersTopic": "asking.user"}').json()
    assert (plan["outcome"], plan["reason"]) == (
        "rejected",
        'topic "asking.user" does not exist, did you mean asking.users?',
    )
    assert post(server, "preview", b'{"joinType": 5}').status == 422
    assert len(control_messages(kafka)) == before


def test_a_request_without_kafka_is_a_503_problem() -> None:
    with run_server() as alone:
        response = post(alone, "control", b"{}")
        assert response.status == 503
        assert "cannot write to control topic" in response.json()["detail"]


def test_the_schema_of_control_messages_is_served(server: RunningServer) -> None:
    schema = server.request("/api/v1/schema/control.json").json()
    assert set(schema["properties"]) == set(known_fields(spec.DEFAULT))


def test_generations_are_listed_newest_first(server: RunningServer) -> None:
    rows = {n: {"generation": n, "state": "live", "requestedAt": 1000} for n in (9, 10)}
    server.run_on_loop(lambda catalog: catalog.system.put_generations(rows))
    messages = server.request("/api/v1/generations").json()["generations"]
    assert [row["generation"] for row in messages][:2] == [10, 9]
    assert messages[0]["requestedAt"] == "1970-01-01T00:00:01.000Z"
