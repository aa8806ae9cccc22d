"""The client session without a socket: it always ends with the rows of the server."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.modelled import FINAL, STATUS, Rows, ServerModel, by_id
from livejoin.client.protocol import (
    FIRST_FRAME_S,
    SILENCE_S,
    Change,
    ClientSession,
    Send,
    SubscriptionRefused,
)
from livejoin.errors import ProtocolViolation


class SessionFixture:
    """A session connected to a modelled server."""

    def __init__(self, server: ServerModel | None = None, *tables: str) -> None:
        self.server = server or ServerModel()
        self.session = ClientSession(*(tables or (STATUS, FINAL)))
        self.now = 0.0
        self.changes: list[Change] = []
        self.sent: list[dict[str, Any]] = []
        self.connected = False

    def connect(self) -> None:
        self.connected = True
        self._answer(self.session.connected())

    def deliver(self, data: bytes) -> None:
        """Deliver a frame, and answer what the session then sends."""
        self.now += 1
        for event in self.session.receive(data, self.now):
            if isinstance(event, Change):
                self.changes.append(event)
            elif isinstance(event, Send):
                self._answer(event.text)

    def _answer(self, text: str) -> None:
        self.sent.append(json.loads(text))
        self.deliver(self.server.answer(text))

    def disconnect(self) -> None:
        self.connected = False
        self.session.disconnected("pulled")

    @property
    def rows(self) -> Rows:
        frame = self.session.snapshot(FINAL)
        assert frame is not None
        return by_id(frame.rows)

    @property
    def kinds(self) -> list[tuple[str, str]]:
        return [(change.table, change.kind) for change in self.changes]


@pytest.fixture
def fixture() -> SessionFixture:
    other = SessionFixture()
    other.server.put("a", "Ada")
    other.connect()
    other.changes.clear()
    return other


def test_the_first_frame_contains_all_tables() -> None:
    other = SessionFixture()
    other.server.put("a", "Ada")
    assert other.session.snapshot(FINAL) is None
    other.connect()
    assert other.sent == [{"subscribe": [STATUS, FINAL], "wait": True}]
    assert other.kinds == [(STATUS, "snapshot"), (FINAL, "snapshot")]
    assert other.rows == other.server.rows[FINAL]
    assert (other.session.generation, other.session.seq) == (1, 1)


def test_changes_have_generation_and_seq(fixture: SessionFixture) -> None:
    fixture.deliver(fixture.server.put("b", "Bob"))
    fixture.deliver(fixture.server.put("a", None))
    assert fixture.kinds == [(FINAL, "upsert"), (FINAL, "remove")]
    assert fixture.changes[1].rows.to_pylist() == [{"_id": "a"}]
    assert [(change.generation, change.seq) for change in fixture.changes] == [(1, 2), (1, 3)]
    assert list(fixture.rows) == ["b"]


def test_a_cutover_replaces_data_tables_only(fixture: SessionFixture) -> None:
    fixture.deliver(fixture.server.cut_over(["Cy"]))
    assert fixture.kinds == [(FINAL, "cutover")]
    assert fixture.changes[0].generation == 2
    assert fixture.rows == fixture.server.rows[FINAL]


def test_a_lost_socket_is_resumed(fixture: SessionFixture) -> None:
    fixture.deliver(fixture.server.put("b", "Bob"))
    fixture.deliver(fixture.server.heartbeat())
    fixture.disconnect()
    fixture.server.put("c", "Cy")
    fixture.server.put("a", None)
    fixture.changes.clear()
    fixture.connect()
    assert fixture.sent[-1]["resume"] == {"generation": 1, "seq": 2}
    assert fixture.kinds == [(STATUS, "snapshot"), (FINAL, "upsert"), (FINAL, "remove")]
    assert fixture.rows == fixture.server.rows[FINAL]
    assert fixture.session.reconnects == 1


def test_a_heartbeat_advances_the_resume_position(fixture: SessionFixture) -> None:
    fixture.server.put("u", "of a table without subscription")
    fixture.server.rows[FINAL].pop("u")  # so that the row count of the heartbeat matches
    fixture.deliver(fixture.server.heartbeat())
    fixture.disconnect()
    fixture.connect()
    assert fixture.sent[-1]["resume"] == {"generation": 1, "seq": 2}


def test_a_server_that_cannot_resume_sends_snapshots(fixture: SessionFixture) -> None:
    fixture.server.resumes = False
    fixture.disconnect()
    fixture.server.put("b", "Bob")
    fixture.connect()
    assert fixture.kinds == [(STATUS, "snapshot"), (FINAL, "snapshot")]
    assert fixture.rows == fixture.server.rows[FINAL]


def test_a_swap_while_disconnected_is_a_cutover(fixture: SessionFixture) -> None:
    fixture.disconnect()
    fixture.server.cut_over(["Cy"])
    fixture.connect()
    assert fixture.kinds == [(STATUS, "snapshot"), (FINAL, "cutover")]


def test_a_changed_set_of_tables_is_not_resumed(fixture: SessionFixture) -> None:
    other = SessionFixture(fixture.server, STATUS)
    other.connect()
    other.disconnect()
    assert other.session.add_table(FINAL) is None  # no socket is open
    other.connect()
    assert "resume" not in other.sent[-1]
    assert other.rows == other.server.rows[FINAL]


def test_adding_a_table_fetches_all_tables_again(fixture: SessionFixture) -> None:
    other = SessionFixture(fixture.server, STATUS)
    other.connect()
    message = other.session.add_table(FINAL)
    assert message is not None
    assert other.session.add_table(FINAL) is None
    other.deliver(other.server.heartbeat())  # a heartbeat on its way, about the earlier tables
    other._answer(message)
    other.deliver(other.server.put("b", "Bob"))
    assert other.rows == other.server.rows[FINAL]
    other.disconnect()
    other.connect()
    assert other.sent[-1]["resume"] == {"generation": 1, "seq": 2}


def test_a_table_can_be_added_before_the_first_frame(fixture: SessionFixture) -> None:
    other = SessionFixture(fixture.server, STATUS)
    first = other.session.connected()
    second = other.session.add_table(FINAL)
    assert second is not None
    other._answer(first)
    assert other.session.snapshot(FINAL) is None
    other._answer(second)
    assert other.rows == other.server.rows[FINAL]
    other.deliver(other.server.heartbeat())
    assert other.session.mismatches == 0


def test_a_hash_mismatch_is_counted_and_fetches_snapshots(fixture: SessionFixture) -> None:
    fixture.server.put("b", "lost on the way")
    fixture.deliver(fixture.server.heartbeat())
    assert fixture.session.mismatches == 1
    assert "resume" not in fixture.sent[-1]
    assert fixture.rows == fixture.server.rows[FINAL]
    fixture.deliver(fixture.server.heartbeat())
    assert fixture.session.mismatches == 1


def test_an_equal_row_count_is_not_enough(fixture: SessionFixture) -> None:
    fixture.server.put("a", "Ada L.")
    fixture.deliver(fixture.server.heartbeat())
    assert fixture.session.mismatches == 1
    assert fixture.rows["a"]["name"] == "Ada L."


def test_repeated_mismatches_back_off(fixture: SessionFixture) -> None:
    invalid = {FINAL: {"rows": 1, "hash": "0" * 16}}
    for _ in range(100):
        fixture.deliver(fixture.server.heartbeat(tables=invalid))
    assert fixture.session.mismatches > 50
    assert len(fixture.sent) < 12


def test_rows_are_kept_when_a_server_restarts_empty(fixture: SessionFixture) -> None:
    before = fixture.rows
    fixture.deliver(fixture.server.forget())
    assert fixture.rows == before
    assert fixture.session.stale_reason(fixture.now) == "nothing is live; the last rows are kept"
    fixture.disconnect()
    fixture.connect()
    fixture.deliver(fixture.server.heartbeat())
    assert fixture.rows == before
    assert fixture.sent[-1]["resume"] == {"generation": 1, "seq": 1}
    fixture.deliver(fixture.server.cut_over(["Cy"]))
    assert fixture.kinds[-1] == (FINAL, "cutover")
    assert fixture.rows == fixture.server.rows[FINAL]
    assert fixture.session.stale_reason(fixture.now) is None


def test_missed_changes_arrive_once_something_is_live_again(fixture: SessionFixture) -> None:
    fixture.disconnect()
    fixture.server.forget()
    fixture.connect()
    assert fixture.sent[-1]["resume"] == {"generation": 1, "seq": 1}
    assert fixture.kinds == [(STATUS, "snapshot")]
    fixture.deliver(fixture.server.go_live(("b", "Bob"), ("a", None)))
    assert fixture.kinds[-2:] == [(FINAL, "upsert"), (FINAL, "remove")]
    assert fixture.rows == fixture.server.rows[FINAL]
    fixture.deliver(fixture.server.heartbeat())
    assert (fixture.session.mismatches, len(fixture.sent)) == (0, 2)


def test_a_table_received_while_nothing_was_live_is_not_resumed(fixture: SessionFixture) -> None:
    other = SessionFixture(fixture.server, STATUS)
    other.connect()  # generation 1
    other.deliver(other.server.forget())
    message = other.session.add_table(FINAL)
    assert message is not None
    other._answer(message)
    assert other.rows == {}
    other.disconnect()
    other.connect()
    assert "resume" not in other.sent[-1]


def test_the_total_of_a_large_table_is_known(fixture: SessionFixture) -> None:
    assert fixture.session.total(FINAL) == 1
    fixture.server.total = 1_000_000
    fixture.deliver(fixture.server.heartbeat())
    assert fixture.session.total(FINAL) == 1_000_000
    fixture.deliver(fixture.server.put("b", "Bob"))
    assert fixture.session.total(FINAL) == 1_000_000
    fixture.server.total = None
    fixture.deliver(fixture.server.cut_over(["Cy"]))
    assert fixture.session.total(FINAL) == 1


def test_stale_reason_says_why_rows_may_be_stale(fixture: SessionFixture) -> None:
    session = ClientSession(STATUS)
    assert session.stale_reason(0) == "not connected: not opened yet"
    session.connected()
    assert session.stale_reason(0) == "waiting for the first rows"
    fixture.deliver(fixture.server.heartbeat(stale="no broker"))
    assert fixture.session.stale_reason(fixture.now) == "no broker"
    assert fixture.session.stale_reason(fixture.now + SILENCE_S + 1) == "no heartbeat for 6 s"
    fixture.disconnect()
    assert fixture.session.stale_reason(fixture.now) == "not connected: pulled"


def test_the_first_frame_has_a_longer_timeout(fixture: SessionFixture) -> None:
    assert fixture.session.receive_timeout_s == SILENCE_S
    fixture.disconnect()
    fixture.session.connected()
    assert fixture.session.receive_timeout_s == FIRST_FRAME_S


def test_backoff_doubles_up_to_five_seconds_until_a_heartbeat(fixture: SessionFixture) -> None:
    waits = [fixture.session.disconnected("down") for _ in range(7)]
    assert waits == [0.25, 0.5, 1, 2, 4, 5, 5]
    fixture.connect()
    fixture.deliver(fixture.server.heartbeat())
    assert fixture.session.disconnected("down", 1.5) == 0.375


def test_an_error_frame_refuses_the_subscription(fixture: SessionFixture) -> None:
    data = fixture.server.frame("error", [], message="there is no table 'x'")
    assert fixture.session.receive(data, 1.0) == [SubscriptionRefused("there is no table 'x'")]


def test_a_frame_of_a_newer_format_is_refused_before_parsing(fixture: SessionFixture) -> None:
    header_bytes = json.dumps({"format": 2, "columns": "an unknown meaning"}).encode()
    (refused,) = fixture.session.receive(len(header_bytes).to_bytes(4, "big") + header_bytes, 1.0)
    assert isinstance(refused, SubscriptionRefused)
    assert refused.reason.startswith("a frame has format 2, this livejoin knows up to 1")


def test_an_unknown_frame_type_is_ignored(fixture: SessionFixture) -> None:
    assert fixture.session.receive(fixture.server.frame("news", []), 1.0) == []


def test_a_first_frame_without_a_table_is_a_violation(fixture: SessionFixture) -> None:
    fixture.disconnect()
    fixture.session.connected()
    with pytest.raises(ProtocolViolation, match="first frame"):
        fixture.deliver(fixture.server.put("b", "Bob"))
    fixture.disconnect()
    fixture.connect()
    assert "resume" not in fixture.sent[-1]  # which changes were applied is unknown
    assert fixture.rows == fixture.server.rows[FINAL]


@given(st.binary())
def test_random_bytes_are_a_violation(data: bytes) -> None:
    fixture = SessionFixture()
    fixture.connect()
    with pytest.raises(ProtocolViolation):
        fixture.session.receive(data, 1.0)


@given(st.integers(0))
def test_a_truncated_frame_is_a_violation(at: int) -> None:
    fixture = SessionFixture()
    fixture.connect()
    frame = fixture.server.put("a", "Ada")
    with pytest.raises(ProtocolViolation):
        fixture.session.receive(
            frame[: at % (len(frame) - 8)], 1.0
        )  # without its end-of-stream marker a frame is complete


WRONG = [
    (field, invalid)
    for field in ("type", "generation", "seq", "parts", "tables", "limited")
    for invalid in (True, [1], {"a": 1}, "x", 1.5)
    if (field, invalid) != ("type", "x")  # an unknown frame type is ignored, not a violation
]


@pytest.mark.parametrize(("field", "invalid"), WRONG, ids=repr)
def test_a_header_with_a_wrong_field_is_a_violation(
    field: str, invalid: object, fixture: SessionFixture
) -> None:
    header = {"type": "heartbeat", "generation": 1, "seq": 1, "parts": [], field: invalid}
    header_bytes = json.dumps(header).encode()
    with pytest.raises(ProtocolViolation):
        fixture.session.receive(len(header_bytes).to_bytes(4, "big") + header_bytes, 1.0)


IDS = st.sampled_from("abcdef")
NAMES = st.text("xyz", max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), IDS, st.none() | NAMES),
        st.tuples(st.just("lose a frame"), IDS, st.none() | NAMES),
        st.tuples(st.just("cut over"), st.lists(NAMES, max_size=4)),
        st.tuples(st.just("come back empty")),
        st.tuples(st.just("come live"), st.lists(st.tuples(IDS, st.none() | NAMES), max_size=3)),
        st.tuples(st.just("beat")),
        st.tuples(st.just("disconnect")),
        st.tuples(st.just("connect")),
    ),
    max_size=40,
)


@given(STEPS, st.booleans())
def test_any_sequence_of_events_ends_with_the_rows_of_the_server(
    steps: list[tuple[Any, ...]],
    resumes: bool,  # noqa: FBT001 - drawn
) -> None:
    fixture = SessionFixture(ServerModel(resumes=resumes))
    fixture.connect()
    rows_by_changes: Rows = {}  # rows according to the changes alone
    for name, *rest in steps:
        _step(fixture, name, *rest)
        rows_by_changes = _apply_changes(rows_by_changes, fixture)
    if fixture.server.generation is None:
        _step(fixture, "cut over", [])
    if not fixture.connected:
        fixture.connect()
    fixture.now += 1000  # any back-off is over
    fixture.deliver(fixture.server.heartbeat())
    assert fixture.rows == _apply_changes(rows_by_changes, fixture) == fixture.server.rows[FINAL]
    before = fixture.session.mismatches
    fixture.deliver(fixture.server.heartbeat())
    assert fixture.session.mismatches == before


def _step(fixture: SessionFixture, name: str, *rest: Any) -> None:
    server, frame = fixture.server, b""
    if name in ("put", "lose a frame") and server.generation is not None:
        frame = server.put(*rest)
        frame = b"" if name != "put" else frame
    elif name == "cut over":
        frame = server.cut_over(*rest)
    elif name == "come back empty":
        frame = server.forget()
    elif name == "come live" and server.generation is None:
        frame = server.go_live(*rest[0])
    elif name == "beat":
        frame = server.heartbeat()
    elif name == "disconnect" and fixture.connected:
        fixture.disconnect()
    elif name == "connect" and not fixture.connected:
        fixture.connect()
    if frame and fixture.connected:
        fixture.deliver(frame)


def _apply_changes(rows: Rows, fixture: SessionFixture) -> Rows:
    for change in fixture.changes:
        if change.table == FINAL and change.kind == "remove":
            removed = change.rows.column("_id").to_pylist()
            rows = {row_id: other for row_id, other in rows.items() if row_id not in removed}
        elif change.table == FINAL:
            rows = (
                by_id(change.rows)
                if change.kind in ("snapshot", "cutover")
                else {**rows, **by_id(change.rows)}
            )
    fixture.changes.clear()
    return rows
