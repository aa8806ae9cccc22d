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


class Wired:
    """A session connected to a modelled server."""

    def __init__(self, server: ServerModel | None = None, *tables: str) -> None:
        self.server = server or ServerModel()
        self.session = ClientSession(*(tables or (STATUS, FINAL)))
        self.now = 0.0
        self.changes: list[Change] = []
        self.said: list[dict[str, Any]] = []
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
        self.said.append(json.loads(text))
        self.deliver(self.server.answer(text))

    def lose(self) -> None:
        self.connected = False
        self.session.disconnected("pulled")

    @property
    def held(self) -> Rows:
        whole = self.session.snapshot(FINAL)
        assert whole is not None
        return by_id(whole.rows)

    @property
    def kinds(self) -> list[tuple[str, str]]:
        return [(change.table, change.kind) for change in self.changes]


@pytest.fixture
def wired() -> Wired:
    one = Wired()
    one.server.put("a", "Ada")
    one.connect()
    one.changes.clear()
    return one


def test_the_first_frame_contains_all_tables() -> None:
    one = Wired()
    one.server.put("a", "Ada")
    assert one.session.snapshot(FINAL) is None
    one.connect()
    assert one.said == [{"subscribe": [STATUS, FINAL]}]
    assert one.kinds == [(STATUS, "snapshot"), (FINAL, "snapshot")]
    assert one.held == one.server.rows[FINAL]
    assert (one.session.generation, one.session.seq) == (1, 1)


def test_changes_have_generation_and_seq(wired: Wired) -> None:
    wired.deliver(wired.server.put("b", "Bob"))
    wired.deliver(wired.server.put("a", None))
    assert wired.kinds == [(FINAL, "upsert"), (FINAL, "remove")]
    assert wired.changes[1].rows.to_pylist() == [{"_id": "a"}]
    assert [(one.generation, one.seq) for one in wired.changes] == [(1, 2), (1, 3)]
    assert list(wired.held) == ["b"]


def test_a_cutover_replaces_data_tables_only(wired: Wired) -> None:
    wired.deliver(wired.server.cut_over(["Cy"]))
    assert wired.kinds == [(FINAL, "cutover")]
    assert wired.changes[0].generation == 2
    assert wired.held == wired.server.rows[FINAL]


def test_a_lost_socket_is_resumed(wired: Wired) -> None:
    wired.deliver(wired.server.put("b", "Bob"))
    wired.deliver(wired.server.heartbeat())
    wired.lose()
    wired.server.put("c", "Cy")
    wired.server.put("a", None)
    wired.changes.clear()
    wired.connect()
    assert wired.said[-1]["resume"] == {"generation": 1, "seq": 2}
    assert wired.kinds == [(STATUS, "snapshot"), (FINAL, "upsert"), (FINAL, "remove")]
    assert wired.held == wired.server.rows[FINAL]
    assert wired.session.reconnects == 1


def test_a_heartbeat_advances_the_resume_position(wired: Wired) -> None:
    wired.server.put("u", "of a table that is not ours")
    wired.server.rows[FINAL].pop("u")  # so the heartbeat counts it out
    wired.deliver(wired.server.heartbeat())
    wired.lose()
    wired.connect()
    assert wired.said[-1]["resume"] == {"generation": 1, "seq": 2}


def test_a_server_that_cannot_resume_sends_snapshots(wired: Wired) -> None:
    wired.server.resumes = False
    wired.lose()
    wired.server.put("b", "Bob")
    wired.connect()
    assert wired.kinds == [(STATUS, "snapshot"), (FINAL, "snapshot")]
    assert wired.held == wired.server.rows[FINAL]


def test_a_swap_while_disconnected_is_a_cutover(wired: Wired) -> None:
    wired.lose()
    wired.server.cut_over(["Cy"])
    wired.connect()
    assert wired.kinds == [(STATUS, "snapshot"), (FINAL, "cutover")]


def test_a_changed_set_of_tables_is_not_resumed(wired: Wired) -> None:
    one = Wired(wired.server, STATUS)
    one.connect()
    one.lose()
    assert one.session.add_table(FINAL) is None  # there is no socket to tell
    one.connect()
    assert "resume" not in one.said[-1]
    assert one.held == one.server.rows[FINAL]


def test_adding_a_table_fetches_all_tables_again(wired: Wired) -> None:
    one = Wired(wired.server, STATUS)
    one.connect()
    message = one.session.add_table(FINAL)
    assert message is not None
    assert one.session.add_table(FINAL) is None
    one.deliver(one.server.heartbeat())  # was on its way: about other tables, so of no use
    one._answer(message)
    one.deliver(one.server.put("b", "Bob"))
    assert one.held == one.server.rows[FINAL]
    one.lose()
    one.connect()
    assert one.said[-1]["resume"] == {"generation": 1, "seq": 2}


def test_a_table_can_be_added_before_the_first_frame(wired: Wired) -> None:
    one = Wired(wired.server, STATUS)
    first = one.session.connected()
    second = one.session.add_table(FINAL)
    assert second is not None
    one._answer(first)
    assert one.session.snapshot(FINAL) is None
    one._answer(second)
    assert one.held == one.server.rows[FINAL]
    one.deliver(one.server.heartbeat())
    assert one.session.mismatches == 0


def test_a_hash_mismatch_is_counted_and_fetches_snapshots(wired: Wired) -> None:
    wired.server.put("b", "lost on the way")
    wired.deliver(wired.server.heartbeat())
    assert wired.session.mismatches == 1
    assert "resume" not in wired.said[-1]
    assert wired.held == wired.server.rows[FINAL]
    wired.deliver(wired.server.heartbeat())
    assert wired.session.mismatches == 1


def test_an_equal_row_count_is_not_enough(wired: Wired) -> None:
    wired.server.put("a", "Ada L.")
    wired.deliver(wired.server.heartbeat())
    assert wired.session.mismatches == 1
    assert wired.held["a"]["name"] == "Ada L."


def test_repeated_mismatches_back_off(wired: Wired) -> None:
    wrong = {FINAL: {"rows": 1, "hash": "0" * 16}}
    for _ in range(100):
        wired.deliver(wired.server.heartbeat(tables=wrong))
    assert wired.session.mismatches > 50
    assert len(wired.said) < 12


def test_rows_are_kept_when_a_server_restarts_empty(wired: Wired) -> None:
    before = wired.held
    wired.deliver(wired.server.forget())
    assert wired.held == before
    assert wired.session.stale_reason(wired.now) == "nothing is live; the last rows are kept"
    wired.lose()
    wired.connect()
    wired.deliver(wired.server.heartbeat())
    assert wired.held == before
    assert wired.said[-1]["resume"] == {"generation": 1, "seq": 1}
    wired.deliver(wired.server.cut_over(["Cy"]))
    assert wired.kinds[-1] == (FINAL, "cutover")
    assert wired.held == wired.server.rows[FINAL]
    assert wired.session.stale_reason(wired.now) is None


def test_missed_changes_arrive_once_something_is_live_again(wired: Wired) -> None:
    wired.lose()
    wired.server.forget()
    wired.connect()
    assert wired.said[-1]["resume"] == {"generation": 1, "seq": 1}
    assert wired.kinds == [(STATUS, "snapshot")]
    wired.deliver(wired.server.go_live(("b", "Bob"), ("a", None)))
    assert wired.kinds[-2:] == [(FINAL, "upsert"), (FINAL, "remove")]
    assert wired.held == wired.server.rows[FINAL]
    wired.deliver(wired.server.heartbeat())
    assert (wired.session.mismatches, len(wired.said)) == (0, 2)


def test_a_table_received_while_nothing_was_live_is_not_resumed(wired: Wired) -> None:
    one = Wired(wired.server, STATUS)
    one.connect()  # generation 1
    one.deliver(one.server.forget())
    message = one.session.add_table(FINAL)
    assert message is not None
    one._answer(message)
    assert one.held == {}
    one.lose()
    one.connect()
    assert "resume" not in one.said[-1]


def test_the_total_of_a_large_table_is_known(wired: Wired) -> None:
    assert wired.session.total(FINAL) == 1
    wired.server.total = 1_000_000
    wired.deliver(wired.server.heartbeat())
    assert wired.session.total(FINAL) == 1_000_000
    wired.deliver(wired.server.put("b", "Bob"))
    assert wired.session.total(FINAL) == 1_000_000
    wired.server.total = None
    wired.deliver(wired.server.cut_over(["Cy"]))
    assert wired.session.total(FINAL) == 1


def test_stale_reason_says_why_rows_may_be_stale(wired: Wired) -> None:
    session = ClientSession(STATUS)
    assert session.stale_reason(0) == "not connected: not opened yet"
    session.connected()
    assert session.stale_reason(0) == "waiting for the first rows"
    wired.deliver(wired.server.heartbeat(stale="no broker"))
    assert wired.session.stale_reason(wired.now) == "no broker"
    assert wired.session.stale_reason(wired.now + SILENCE_S + 1) == "no heartbeat for 6 s"
    wired.lose()
    assert wired.session.stale_reason(wired.now) == "not connected: pulled"


def test_the_first_frame_has_a_longer_timeout(wired: Wired) -> None:
    assert wired.session.receive_timeout_s == SILENCE_S
    wired.lose()
    wired.session.connected()
    assert wired.session.receive_timeout_s == FIRST_FRAME_S


def test_backoff_doubles_up_to_five_seconds_until_a_heartbeat(wired: Wired) -> None:
    waits = [wired.session.disconnected("down") for _ in range(7)]
    assert waits == [0.25, 0.5, 1, 2, 4, 5, 5]
    wired.connect()
    wired.deliver(wired.server.heartbeat())
    assert wired.session.disconnected("down", 1.5) == 0.375


def test_an_error_frame_refuses_the_subscription(wired: Wired) -> None:
    data = wired.server.frame("error", [], message="there is no table 'x'")
    assert wired.session.receive(data, 1.0) == [SubscriptionRefused("there is no table 'x'")]


def test_a_frame_of_a_newer_format_is_refused_before_parsing(wired: Wired) -> None:
    head = json.dumps({"format": 2, "columns": "all that is here means something else"}).encode()
    (refused,) = wired.session.receive(len(head).to_bytes(4, "big") + head, 1.0)
    assert isinstance(refused, SubscriptionRefused)
    assert refused.reason.startswith("a frame has format 2, this livejoin knows up to 1")


def test_an_unknown_frame_type_is_ignored(wired: Wired) -> None:
    assert wired.session.receive(wired.server.frame("news", []), 1.0) == []


def test_a_first_frame_without_a_table_is_a_violation(wired: Wired) -> None:
    wired.lose()
    wired.session.connected()
    with pytest.raises(ProtocolViolation, match="first frame"):
        wired.deliver(wired.server.put("b", "Bob"))
    wired.lose()
    wired.connect()
    assert "resume" not in wired.said[-1]  # who knows what was applied
    assert wired.held == wired.server.rows[FINAL]


@given(st.binary())
def test_random_bytes_are_a_violation(data: bytes) -> None:
    wired = Wired()
    wired.connect()
    with pytest.raises(ProtocolViolation):
        wired.session.receive(data, 1.0)


@given(st.integers(0))
def test_a_truncated_frame_is_a_violation(at: int) -> None:
    wired = Wired()
    wired.connect()
    whole = wired.server.put("a", "Ada")
    with pytest.raises(ProtocolViolation):
        wired.session.receive(
            whole[: at % (len(whole) - 8)], 1.0
        )  # without Arrow's end it is whole


WRONG = [
    (field, wrong)
    for field in ("type", "generation", "seq", "parts", "tables", "limited")
    for wrong in (True, [1], {"a": 1}, "x", 1.5)
    if (field, wrong) != ("type", "x")  # that would be of a later version
]


@pytest.mark.parametrize(("field", "wrong"), WRONG, ids=repr)
def test_a_header_with_a_wrong_field_is_a_violation(
    field: str, wrong: object, wired: Wired
) -> None:
    header = {"type": "heartbeat", "generation": 1, "seq": 1, "parts": [], field: wrong}
    head = json.dumps(header).encode()
    with pytest.raises(ProtocolViolation):
        wired.session.receive(len(head).to_bytes(4, "big") + head, 1.0)


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
    wired = Wired(ServerModel(resumes=resumes))
    wired.connect()
    feed: Rows = {}  # what somebody makes of the changes alone
    for name, *rest in steps:
        _step(wired, name, *rest)
        feed = _followed(feed, wired)
    if wired.server.generation is None:
        _step(wired, "cut over", [])
    if not wired.connected:
        wired.connect()
    wired.now += 1000  # any back-off is over
    wired.deliver(wired.server.heartbeat())
    assert wired.held == _followed(feed, wired) == wired.server.rows[FINAL]
    before = wired.session.mismatches
    wired.deliver(wired.server.heartbeat())
    assert wired.session.mismatches == before


def _step(wired: Wired, name: str, *rest: Any) -> None:
    server, frame = wired.server, b""
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
    elif name == "disconnect" and wired.connected:
        wired.lose()
    elif name == "connect" and not wired.connected:
        wired.connect()
    if frame and wired.connected:
        wired.deliver(frame)


def _followed(rows: Rows, wired: Wired) -> Rows:
    for change in wired.changes:
        if change.table == FINAL and change.kind == "remove":
            gone = change.rows.column("_id").to_pylist()
            rows = {row_id: one for row_id, one in rows.items() if row_id not in gone}
        elif change.table == FINAL:
            rows = (
                by_id(change.rows)
                if change.kind in ("snapshot", "cutover")
                else {**rows, **by_id(change.rows)}
            )
    wired.changes.clear()
    return rows
