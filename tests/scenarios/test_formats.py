"""Data of an older livejoin is taken over, data of a newer one is refused with the reason."""

import contextlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from livejoin.control.leadership import SESSION_S
from livejoin.core import format_versions
from livejoin.core.generation import Generation
from livejoin.core.ledger_format import to_json
from livejoin.core.names import Names
from livejoin.core.state import STATE_KEY, STATUS_KEY, State
from livejoin.errors import NewerFormat
from livejoin.kafka.cluster import Kafka
from livejoin.tables.auth import access_topics
from rig import oracle, recording
from rig.heartbeats import heartbeat, stale
from rig.ledgered import FakeLeader, row
from rig.oracle import Sent
from rig.running import Running, running, until

FIXTURES = Path(__file__).parents[1] / "fixtures"
NEWER = "the ledger has format 5, this livejoin knows up to 4"


def _sent(recorded: dict[str, Any], pair: str) -> dict[str, list[Sent]]:
    return {
        source: [
            Sent(partition, offset, at, None if value is None else value.encode())
            for partition, offset, at, _, value, _ in recorded["topics"][topic]["records"]
        ]
        for source, topic in recording.TOPICS[pair].items()
    }


def _expect_equal_oracle(live: Running, sent: dict[str, list[Sent]]) -> None:
    until(lambda: live.records_read() == sum(map(len, sent.values())), "all records are read")
    truth = oracle.expected(sent)
    assert oracle.differences({name: live.table(name) for name in truth.tables}, truth) == []


def test_data_of_the_first_format_is_taken_over(kafka: Kafka, tmp_path: Path) -> None:
    """Without its checkpoints, as after a move; topic ids were not recorded in that format."""
    recorded = json.loads((FIXTURES / "format-1.json").read_text())
    name, names = recorded["name"], Names(recorded["name"])
    recording.restore(kafka, recorded["topics"])
    with running(
        kafka,
        tmp_path,
        name=name,
        token=recorded["token"],
        topics=recording.TOPICS["b"],  # the stored choice takes precedence
        http={"insecure": False},
        spark={"history_records": 30},
    ) as live:
        # the old rows are served at once, marked as stale, until the same choice is rebuilt
        until(lambda: "earlier livejoin" in _status(live)["stale"], "it is reported")
        assert _status(live)["generation"] == 1
        _expect_equal_oracle(live, _sent(recorded, "a"))
        until(lambda: _status(live)["generation"] == 3, "it is rebuilt")
        live.wait_live()
        _expect_equal_oracle(live, _sent(recorded, "a"))
        assert _status(live)["usersTopic"] == recording.TOPICS["a"]["users"]
        log = live.log.read_text()
        assert "migrating the ledger from format 1 to 4; the live generation is rebuilt" in log
        until(lambda: _numbers(kafka, names) == {3}, "leftover topics are removed")
        # outcomes stay as they were, and no message is applied again
        outcomes = {r["offset"]: r["outcome"] for r in live.table("control_raw").values()}
        assert outcomes == {
            0: "retired",
            1: "live",
        }  # the swap and the rollback
        states = {r["generation"]: r["state"] for r in live.table("generations").values()}
        assert states == {1: "retired", 2: "retired", 3: "live"}
        # it continues from there
        request = {f"{source}Topic": t for source, t in recording.TOPICS["b"].items()}
        live.request("api/v1/control", request)
        until(lambda: _status(live)["generation"] == 4, "a swap")
        _expect_equal_oracle(live, _sent(recorded, "b"))


def _numbers(kafka: Kafka, names: Names) -> set[int]:
    return {n for topic in kafka.topics() if (n := names.generation_of(topic)) is not None}


def _status(live: Running) -> dict[str, Any]:
    try:
        found: dict[str, Any] = live.request("api/v1/status")
    except AssertionError:
        return {"generation": None, "stale": "", "message": ""}
    return {**found, "stale": found["stale"] or ""}


@pytest.fixture
def names(request: pytest.FixtureRequest) -> Names:
    return Names(f"format-{abs(hash(request.node.name)):x}")


@pytest.fixture
def leader(names: Names, kafka: Kafka, tmp_path: Path) -> FakeLeader:
    return FakeLeader(kafka, tmp_path, names.prefix)


def _write(kafka: Kafka, names: Names, state: dict[str, Any], status: Any = None) -> None:
    """Write to the ledger as a leader of another format would."""
    producer = kafka.producer()
    producer.produce(names.ledger, json.dumps(state), STATE_KEY)
    producer.produce(names.ledger, json.dumps(status or ["what is this?"]), STATUS_KEY)
    assert producer.flush(20) == 0


@contextlib.contextmanager
def _candidate(kafka: Kafka, names: Names) -> Iterator[Consumer]:
    """Yield one more candidate of the election."""
    member = kafka.group_consumer(names.group("leader"), SESSION_S)
    try:
        member.subscribe([names.leader])
        yield member
    finally:
        member.close()


def _is_elected(member: Consumer) -> bool:
    member.poll(0.2)  # takes part in the election
    return bool(member.assignment())


def test_a_leader_refuses_a_newer_ledger_and_changes_nothing(
    kafka: Kafka, tmp_path: Path, names: Names
) -> None:
    FakeLeader(kafka, tmp_path, names.prefix)
    for topic in (names.replies, names.tokens, names.audit):
        kafka.create_topic(topic)
    other = kafka.producer(**{"transactional.id": names.leader})
    other.init_transactions(20)
    _write(kafka, names, {"format": 5, "live": "means something else"})
    own_topics = [t for t in kafka.topics() if t.startswith(names.prefix)]
    before = {topic: kafka.end_offset(topic) for topic in own_topics}
    with running(kafka, tmp_path / "run", name=names.prefix) as live:
        # the table server reports it too, in other words; it retries the leadership after 30 s
        why = f"{names.ledger}: {NEWER}"
        until(lambda: why in _status(live)["message"], "it reports why it does not lead", 60)
        until(lambda: "not leading" in live.log.read_text(), "its log reports it too")
        assert live.exit_code is None
        with _candidate(kafka, names) as other_member:
            until(
                lambda: _is_elected(other_member),
                "it has given up the lead, and another member can get it",
            )
        assert live.exit_code is None
        assert live.jvms() == []
    assert {topic: kafka.end_offset(topic) for topic in own_topics} == before
    assert [t for t in kafka.topics() if t.startswith(names.prefix)] == own_topics
    other.begin_transaction()
    other.produce(names.ledger, b"1", b"test")
    other.commit_transaction(20)  # the other producer was not fenced


def test_a_table_server_next_to_a_newer_leader_reports_it_and_serves_its_rows(
    leader: FakeLeader, names: Names
) -> None:
    live = leader.write_generation(1, 20)
    leader.set_live(live)
    with leader.server() as server:
        _write(leader.kafka, names, {"format": 5, "live": {"number": 2}})
        until(lambda: stale(server) == NEWER, "it is reported")
        assert heartbeat(server)["stale"] == NEWER
        checks = {check["name"]: check for check in server.request("readyz?verbose")["checks"]}
        assert checks["format"]["why"] == NEWER
        assert len(server.table("final_ui")) == 20
        leader.write(1, row("final_ui", 20, "later"))
        leader.flush()
        until(lambda: len(server.table("final_ui")) == 21, "the served generation is updated")
        leader.set_live(live)
        until(lambda: not stale(server), "a leader with a known format")


def test_a_changelog_of_a_newer_format_is_not_read(leader: FakeLeader, names: Names) -> None:
    live = leader.write_generation(1, 20)
    leader.set_live(live)
    with leader.server() as server:
        state = to_json(
            State(last_number=2, live=_newer(leader.write_generation(2, 5)), standby=live)
        )
        _write(leader.kafka, names, state, {"state": "live", "generation": 2})
        why = "the changelog of generation 2 has format 3, this livejoin knows up to 2"
        until(lambda: stale(server) == why, "it is reported")
        assert len(server.table("final_ui")) == 20
        assert server.request("api/v1/tables/final_ui")["generation"] == 1


def _newer(generation: Generation) -> Generation:
    return Generation(**{**vars(generation), "changelog_format": format_versions.CHANGELOG + 1})


def test_a_server_started_next_to_a_newer_leader_reports_why_it_has_no_rows(
    leader: FakeLeader, names: Names, tmp_path: Path
) -> None:
    _write(leader.kafka, names, {"format": 5})
    folder = tmp_path / "serve"
    with running(leader.kafka, folder, command="serve", name=names.prefix) as server:
        until(partial(_reports_newer_format, server), "it is reported")


def _reports_newer_format(server: Running) -> bool:
    return bool(_status(server)["message"] == NEWER)


def test_a_token_of_a_newer_format_cannot_be_revoked_here(kafka: Kafka) -> None:
    names = Names("format-tokens")
    access_topics.create_topics(kafka, names)
    producer = kafka.producer()
    producer.produce(names.tokens, b'{"format": 2}', b"00c0ffee")
    assert producer.flush(20) == 0
    with pytest.raises(NewerFormat, match="token 00c0ffee has format 2"):
        access_topics.revoke(kafka, names, "00c0ffee")
    assert access_topics.create_first_tokens(kafka, names) == [], "there was a token before"


def test_rows_of_a_recreated_changelog_are_not_served(leader: FakeLeader, names: Names) -> None:
    """A changelog belongs to its generation by topic id."""
    kafka = leader.kafka
    live = leader.write_generation(1, 20)
    topic_id = kafka.describe([names.changelog(1)])[names.changelog(1)].id
    leader.set_live(Generation(**{**vars(live), "changelog_id": topic_id}))
    with leader.server() as server:
        assert len(server.table("final_ui")) == 20
        kafka.recreate_topic(names.changelog(1))
        for number in range(30):
            leader.write(1, row("final_ui", number, "of another changelog"))
        leader.flush()
        assert len(server.table("final_ui")) == 20
    with running(kafka, server.folder / "late", command="serve", name=names.prefix) as late:
        until(lambda: _status(late)["generation"] == 1, "it has read the ledger")
        assert late.table("final_ui") == {}
