"""The audit has a row for every action and refusal; repeats are counted."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from livejoin.core import spec
from livejoin.core.names import Names
from livejoin.kafka.cluster import Kafka
from livejoin.kafka.records import Record
from livejoin.tables.auth.audit import Audit, RepeatCounter, audit_row
from livejoin.tables.auth.token_follower import _decode_audit_row
from livejoin.tables.ingest.catalog import Catalog
from tables.auth_fixture import AuthFixture
from tables.fake_kafka import FakeKafka, Message
from tables.live_server import RunningServer, run_server
from tables.samples import live, plain

pytestmark = pytest.mark.usefixtures("short_waits")
JSON = {"content-type": "application/json"}


@pytest.fixture
def auth() -> AuthFixture:
    return AuthFixture()


@pytest.fixture
def server(auth: AuthFixture) -> Iterator[RunningServer]:
    catalog = Catalog()
    catalog.apply_state(live(1))
    kafka = FakeKafka({"users": {0: [Message(0, 0)]}, "accounts": {0: []}})
    with run_server(catalog, kafka=kafka, access=auth.access()) as one:
        yield one


def _refusal(**cells: str) -> dict[str, Any]:
    named = {"who": "", "address": "1.2.3.4", "action": "GET /x", "outcome": "refused: 401"}
    return audit_row(**{"role": "", **named, **cells})


def test_a_row_has_the_columns_of_the_table_and_is_truncated() -> None:
    made = audit_row("me", "operator", "::1", "control", "live", before="x" * 5000, detail="")
    columns = [column.name for column in spec.RESTRICTED[spec.AUDIT].columns]
    assert [*made, "_id"] == columns
    assert len(made["before"]) == 1024
    assert made["detail"] is None


def test_a_request_is_audited_with_requester_address_before_after_and_outcome(
    server: RunningServer, auth: AuthFixture
) -> None:
    asked = b'{"joinType": "inner"}'
    assert (
        server.request("/api/v1/preview", "POST", asked, **JSON, **auth.bearer("operator")).status
        == 200
    )
    assert (
        server.request("/api/v1/preview", "POST", b"{}", **JSON, **auth.bearer("operator")).status
        == 422
    )
    good, bad = auth.audit.rows
    assert {
        name: good[name] for name in ("who", "role", "address", "action", "before", "after")
    } == {
        "who": "operator",
        "role": "operator",
        "address": "127.0.0.1",
        "action": "preview",
        "before": "generation 1: users left accounts",
        "after": asked.decode(),
    }
    assert good["outcome"] == "accepted"
    assert (bad["outcome"], "no known field" in bad["detail"]) == ("rejected", True)


def test_a_failed_request_is_audited(auth: AuthFixture) -> None:
    with run_server(access=auth.access()) as server:  # without Kafka
        response = server.request("/api/v1/rollback", "POST", b"", **auth.bearer("operator"))
        assert response.status == 503
    [row] = auth.audit.rows
    assert (row["action"], row["outcome"], row["before"]) == (
        "roll back",
        "failed",
        "nothing is live",
    )
    assert "cannot write to control topic" in row["detail"]


@pytest.mark.parametrize(
    ("headers", "outcome"),
    [
        ({}, "refused: 401"),
        ({"Authorization": "Bearer lj_x_y"}, "refused: 401"),
        ({"Host": "evil.example"}, "refused: another site"),
        ({"Origin": "https://evil.example"}, "refused: another site"),
        ({"Origin": "null"}, "refused: another site"),
    ],
)
def test_a_refusal_is_audited_without_the_credentials(
    server: RunningServer, auth: AuthFixture, headers: dict[str, str], outcome: str
) -> None:
    server.request("/api/v1/status?ticket=secret", **headers)
    [row] = auth.audit.rows
    assert (row["outcome"], row["action"]) == (outcome, "GET /api/v1/status")
    assert "secret" not in json.dumps(row)
    assert "lj_x_y" not in json.dumps(row)


def test_a_refusal_for_the_role_names_the_caller(server: RunningServer, auth: AuthFixture) -> None:
    server.request("/api/v1/control", "POST", b"{}", **JSON, **auth.bearer("viewer"))
    server.request("/api/v1/tables/audit", **auth.bearer("viewer"))
    assert [(row["who"], row["role"], row["outcome"]) for row in auth.audit.rows] == [
        ("viewer", "viewer", "refused: 403")
    ] * 2


# --- floods


def test_repeated_refusals_are_counted_in_one_row() -> None:
    now = 0.0
    repeats = RepeatCounter(lambda: now)
    assert repeats.add(_refusal())
    assert [repeats.add(_refusal()) for _ in range(999)] == [None] * 999
    assert repeats.add(_refusal(address="5.6.7.8"))
    assert repeats.drain() == []
    now = 10.0
    [counted] = repeats.drain()
    assert (counted["times"], counted["address"]) == (999, "1.2.3.4")
    assert repeats.drain() == []
    assert repeats.add(_refusal())


def test_a_flood_of_different_refusals_adds_one_row() -> None:
    now = 0.0
    repeats = RepeatCounter(lambda: now)
    written = [repeats.add(_refusal(action=f"GET /{n}")) for n in range(10_000)]
    assert len([one for one in written if one]) == 50
    now = 10.0
    [counted] = repeats.drain()
    assert counted["times"] == 10_000 - 50
    assert counted["action"] == "many different requests"
    assert counted["address"] is None


def test_rows_that_wait_for_the_topic_are_bounded() -> None:
    audit = Audit(Kafka({"bootstrap.servers": "127.0.0.1:1"}), Names("x"))
    for _ in range(1500):
        audit.append(_refusal())
    assert (len(audit._pending), audit.lost) == (1000, 500)


# --- records of the topic


def test_a_record_becomes_a_row_of_the_table() -> None:
    made = audit_row("me", "operator", "::1", "control", "live")
    shown = _decode_audit_row(Record("x.audit", 7, b"", json.dumps(made).encode()))
    assert shown == {**made, "_id": "000000000007"}
    catalog = Catalog()
    catalog.system.add_audit_rows([shown])
    assert plain(catalog.store(spec.AUDIT).snapshot()) == [shown]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"5",
        b"\xff",
        b"{",
        b'{"ts": "x", "who": 5, "times": 1.5, "more": []}',
        b"[" * 9999,
    ],
)
def test_malformed_records_break_nothing(value: bytes) -> None:
    catalog = Catalog()
    catalog.system.add_audit_rows([_decode_audit_row(Record("x.audit", 1, b"", value))])
    assert len(catalog.store(spec.AUDIT)) == 1
