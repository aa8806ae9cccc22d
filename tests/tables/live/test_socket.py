import asyncio
import contextlib
import random
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from livejoin.core import spec
from livejoin.tables.ingest.batches import ChangeBatch
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.ingest.store import Store
from livejoin.tables.live import socket as live_socket
from livejoin.tables.live import viewer as viewer_buffer
from livejoin.tables.live.delivery import Delivery
from tables.live_server import LIMIT_S, RunningServer, Viewer, run_server
from tables.samples import DATA_TABLES, SCHEMAS, building, chunk, final, line, live, user


@pytest.fixture
def server() -> Iterator[RunningServer]:
    """Generation 1 with one user and one joined row."""
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 2, user(0, ts=9000), final(0, "Ada")))
    with run_server(catalog) as server:
        yield server


@pytest.fixture
def fast_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_socket, "HEARTBEAT_S", 0.05)


def _close_reason(viewer: Viewer) -> tuple[int, str]:
    """Return the close code and reason."""
    with pytest.raises(ConnectionClosed) as closed:
        viewer.next_frame()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


def _hash(view: dict[str, dict[str, Any]], table: str) -> str:
    """The hash a viewer computes over its rows."""
    store, schema = Store(SCHEMAS[table]), SCHEMAS[table]
    if view:
        columns = [[row[name] for row in view.values()] for name in schema.names]
        batch = pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)],
            schema=schema,
        )
        store.apply(ChangeBatch.from_rows(list(view), batch, 0))
    return store.hash


# --- frames


def test_the_first_frame_is_a_snapshot_of_the_subscribed_tables(server: RunningServer) -> None:
    with server.viewer("final_ui", "users_ui") as viewer:
        frame = viewer.next_frame()
    assert frame.kinds == [("users_ui", "snapshot"), ("final_ui", "snapshot")]
    assert frame.header["type"] == "data"
    assert (frame.header["generation"], frame.header["seq"]) == (1, 2)
    assert abs(frame.header["at"] / 1000 - time.time()) < LIMIT_S
    assert [row["name"] for row in frame.rows("final_ui")] == ["Ada"]


def test_an_empty_table_is_sent_as_an_empty_snapshot(server: RunningServer) -> None:
    with server.viewer("rejects_ui") as viewer:
        assert viewer.next_frame().parts == [("rejects_ui", "snapshot", [])]


def test_changes_are_sent_as_upserts_and_removals(server: RunningServer) -> None:
    with server.viewer("final_ui") as viewer:
        viewer.next_frame()
        server.apply(1, 4, final(0, "Ada L.", 1), final(1, "Alan"))
        frame = viewer.next_frame("data")
        assert frame.kinds == [("final_ui", "upsert")]
        assert [row["name"] for row in frame.rows("final_ui")] == ["Ada L.", "Alan"]
        assert frame.header["seq"] == 4
        server.apply(1, 5, final(0, None, 2))
        assert viewer.next_frame("data").parts == [("final_ui", "remove", [{"_id": "0-0"}])]
        assert [row["name"] for row in viewer.view["final_ui"].values()] == ["Alan"]


def test_changes_of_other_tables_are_not_sent(server: RunningServer) -> None:
    with server.viewer("final_ui") as viewer:
        viewer.next_frame()
        server.apply(1, 3, user(1))
        server.apply(1, 4, final(1, "Alan"))
        frame = viewer.next_frame("data")
        assert (frame.kinds, frame.header["seq"]) == ([("final_ui", "upsert")], 4)


def test_the_status_is_updated_in_place_and_log_lines_are_added(server: RunningServer) -> None:
    with server.viewer("orchestrator_status", "orchestrator_logs") as viewer:
        viewer.next_frame()
        row = {"state": "building", "progress": 42, "message": "…"}
        server.run_on_loop(lambda catalog: catalog.set_status(row))
        assert viewer.next_frame("data").kinds == [("orchestrator_status", "upsert")]
        assert [row["progress"] for row in viewer.view["orchestrator_status"].values()] == [42]
        server.run_on_loop(lambda catalog: catalog.system.add_log_lines([line(1, "hello")]))
        assert viewer.next_frame("data").kinds == [("orchestrator_logs", "upsert")]
        assert [row["msg"] for row in viewer.view["orchestrator_logs"].values()] == ["hello"]


@pytest.mark.usefixtures("fast_heartbeats")
def test_a_heartbeat_carries_rows_and_hash_of_each_table(server: RunningServer) -> None:
    with server.viewer("final_ui", "users_ui") as viewer:
        header = viewer.next_frame("heartbeat").header
        expected = {
            name: {"rows": 1, "hash": _hash(viewer.view[name], name)}
            for name in ("final_ui", "users_ui")
        }
    assert header["tables"] == expected
    assert (header["generation"], header["seq"], header["newest"]) == (1, 2, 9000)
    assert header["stale"] is None
    assert header["parts"] == []


@pytest.mark.usefixtures("fast_heartbeats")
def test_a_heartbeat_carries_the_stale_reason(server: RunningServer) -> None:
    with server.viewer("final_ui") as viewer:
        viewer.next_frame()
        server.run_on_loop(lambda catalog: catalog.set_trouble("no broker"))
        while (stale := viewer.next_frame("heartbeat").header["stale"]) is None:
            pass
        assert stale == "no broker"


@pytest.mark.usefixtures("fast_heartbeats")
def test_a_heartbeat_names_the_capped_tables_and_their_oldest_time() -> None:
    catalog = Catalog()
    catalog.apply_state(live(1, max_rows=2))
    catalog.apply(chunk(1, 3, user(0, ts=5000), user(1, ts=6000), final(0, "Ada")))
    with run_server(catalog) as full, full.viewer("users_ui") as viewer:
        assert "capped" not in viewer.next_frame("heartbeat").header, "exactly full, no row evicted"
        full.apply(1, 4, user(2, ts=7000))
        while "capped" not in (header := viewer.next_frame("heartbeat").header):
            pass
        assert header["capped"] == {"users_ui": {"rows": 2, "from": 6000}}
        assert header["tables"]["users_ui"]["rows"] == 2
        assert sorted(viewer.view["users_ui"]) == ["0-1", "0-2"]
        full.apply(1, 5, user(3, ts=8000))
        while (
            since := viewer.next_frame("heartbeat").header["capped"]["users_ui"]["from"]
        ) == 6000:
            pass
        assert since == 7000


@pytest.mark.usefixtures("fast_heartbeats")
def test_every_heartbeat_matches_the_viewers_rows_at_that_moment(server: RunningServer) -> None:
    dice = random.Random(7)
    with server.viewer("final_ui") as viewer:
        viewer.next_frame()
        for seq in range(3, 203):
            name = None if dice.random() < 0.3 else f"name {seq}"
            change = final(dice.randrange(20), name, dice.randrange(seq))
            server.apply(1, seq, change)
        seq_received = 0
        while seq_received < 202:
            header = viewer.next_frame("heartbeat").header
            view = viewer.view["final_ui"]
            assert header["tables"]["final_ui"] == {
                "rows": len(view),
                "hash": _hash(view, "final_ui"),
            }
            seq_received = header["seq"]


def test_a_cutover_is_one_frame_with_all_data_tables(server: RunningServer) -> None:
    with server.viewer(*spec.DEFAULT.tables) as viewer:
        viewer.next_frame()
        server.follow(live(1, next_one=2))
        server.apply(2, 2, user(7), final(7, "Grace"))
        server.follow(live(2, ready_at=2))
        frame = viewer.next_frame()
        assert frame.header["type"] == "cutover"
        assert (frame.header["generation"], frame.header["seq"]) == (2, 2)
        assert frame.kinds == [(table, "snapshot") for table in DATA_TABLES]
        assert [row["name"] for row in frame.rows("final_ui")] == ["Grace"]
        assert [row["userId"] for row in frame.rows("users_ui")] == ["u7"]


def test_a_cutover_carries_only_the_subscribed_tables(server: RunningServer) -> None:
    with server.viewer("users_ui", "orchestrator_status") as viewer:
        viewer.next_frame()
        server.follow(live(2))
        assert viewer.next_frame("cutover").parts == [("users_ui", "snapshot", [])]


def test_changes_just_before_a_cutover_are_not_sent_after_it(server: RunningServer) -> None:
    def change_and_cut_over(catalog: Catalog) -> None:
        catalog.apply(chunk(1, 3, final(5, "of generation 1")))
        catalog.apply_state(live(2))

    with server.viewer("final_ui") as viewer:
        viewer.next_frame()
        server.run_on_loop(change_and_cut_over)
        assert viewer.next_frame("cutover").parts == [("final_ui", "snapshot", [])]
        server.apply(2, 1, final(6, "of generation 2"))
        viewer.next_frame("data")
        assert [row["name"] for row in viewer.view["final_ui"].values()] == ["of generation 2"]


def test_a_viewer_can_subscribe_to_other_tables_and_gets_snapshots(server: RunningServer) -> None:
    with server.viewer("final_ui") as viewer:
        viewer.next_frame()
        viewer.subscribe("users_ui")
        assert viewer.next_frame("data").kinds == [("users_ui", "snapshot")]
        server.apply(1, 4, final(1, "Alan"), user(1))
        assert viewer.next_frame("data").kinds == [("users_ui", "upsert")]


def test_before_the_first_generation_is_live_a_viewer_gets_empty_tables_and_then_the_cutover() -> (
    None
):
    with run_server() as server, server.viewer("users_ui", "orchestrator_status") as viewer:
        frame = viewer.next_frame()
        assert frame.header["generation"] is None
        assert frame.rows("users_ui") == []
        assert [row["state"] for row in frame.rows("orchestrator_status")] == ["starting"]
        server.follow(building(1))
        server.apply(1, 1, user(0))
        server.follow(live(1, ready_at=1))
        assert [row["_id"] for row in viewer.next_frame("cutover").rows("users_ui")] == ["0-0"]


# --- slow viewers


@pytest.mark.parametrize(
    ("others", "kind"), [(0, "snapshot"), (100, "upsert")], ids=["all rows", "some rows"]
)
def test_a_viewer_that_does_not_read_gets_each_changed_row_once_and_delays_nobody(
    monkeypatch: pytest.MonkeyPatch, others: int, kind: str
) -> None:
    monkeypatch.setattr(viewer_buffer, "BUFFER_BYTES", 100_000)
    catalog, rounds, text = Catalog(logs_kept=100, rejects_kept=100), 60, "x" * 20_000
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, others, *(final(100 + n, "another") for n in range(others))))
    with run_server(catalog, send_buffer=4096) as server:
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        narrow.connect(("127.0.0.1", server.port))
        with (
            server.viewer("final_ui", sock=narrow, max_queue=1) as slow,
            server.viewer("final_ui") as other,
        ):
            slow.next_frame()
            other.next_frame()
            for n in range(rounds):
                change = final(n % 3, f"{n} {text}", n)
                server.apply(1, others + n + 1, change)
                frame = other.next_frame("data")
                assert frame.kinds == [("final_ui", "upsert")]
                assert frame.header["seq"] == others + n + 1
            parts_received, last = 0, frame
            while slow.view != other.view:
                last = slow.next_frame("data")
                parts_received += len(last.parts)
    assert last.kinds == [("final_ui", kind)]
    assert len(last.rows("final_ui")) == 3  # each changed row once
    assert last.header["resumed"] is True
    assert parts_received < rounds / 2  # intermediate versions were never sent


# --- refused messages and handshakes


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("not JSON", 'expected {"subscribe"'),
        ("[]", 'expected {"subscribe"'),
        ('"users_ui"', 'expected {"subscribe"'),
        ("{}", 'expected {"subscribe"'),
        ("[" * 10_000, 'expected {"subscribe"'),
        ('{"subscribe": []}', "at least one table"),
        ('{"subscribe": "users_ui"}', "at least one table"),
        ('{"subscribe": [1]}', "at least one table"),
        ('{"subscribe": ["users_ui", "nope"]}', "there is no table 'nope'"),
        ('{"subscribe": ["users_ui"], "resume": 7}', "resume must be"),
        ('{"subscribe": ["users_ui"], "resume": {"generation": 1}}', "resume must be"),
        (
            '{"subscribe": ["users_ui"], "resume": {"generation": 1, "seq": true}}',
            "resume must be",
        ),
        (b'{"subscribe": ["users_ui"]}', "expected a subscription as text"),
        pytest.param(
            '{"subscribe": ["' + "ä" * 200 + '"]}',
            "there is no table 'ää",
        ),
    ],
    ids=[
        "not JSON",
        "a list",
        "a string",
        "an empty object",
        "deeply nested",
        "no table",
        "no list",
        "no names",
        "an unknown table",
        "resume: no object",
        "resume: no seq",
        "resume: no number",
        "a binary frame",
        "an unknown table with a long name beyond ASCII",
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["at first", "later"])
def test_a_bad_subscription_closes_only_that_socket_with_a_reason(
    server: RunningServer, message: str | bytes, why: str, *, first: bool
) -> None:
    with server.viewer("final_ui") as other, server.viewer() as viewer:
        other.next_frame()
        if not first:
            viewer.subscribe("final_ui")
            viewer.next_frame()
        viewer.connection.send(message)
        header = viewer.next_frame("error").header
        assert why in header["message"]
        assert (header["generation"], header["seq"]) == (1, 2)
        code, reason = _close_reason(viewer)
        assert code == 1008
        assert header["message"].startswith(reason)
        server.apply(1, 3, final(1, "Alan"))
        assert other.next_frame("data").kinds == [("final_ui", "upsert")]


def test_a_viewer_that_does_not_subscribe_in_time_is_disconnected(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_socket, "_FIRST_MESSAGE_S", 0.05)
    with server.viewer() as viewer:
        assert "expected a subscription" in viewer.next_frame("error").header["message"]
        assert _close_reason(viewer)[0] == 1008


def test_an_oversized_message_closes_the_socket(server: RunningServer) -> None:
    with server.viewer() as viewer:
        viewer.connection.send('{"subscribe": ["' + "x" * (64 << 10) + '"]}')
        assert _close_reason(viewer)[0] == 1009


@pytest.mark.parametrize("spoken", [None, ["livejoin.v2"]], ids=["none", "another"])
def test_a_viewer_without_the_subprotocol_is_refused(
    server: RunningServer, spoken: list[str] | None
) -> None:
    with pytest.raises(InvalidStatus) as refused, server.viewer(subprotocols=spoken):
        pass
    assert refused.value.response.status_code == 403


def test_the_subprotocol_is_negotiated(server: RunningServer) -> None:
    with server.viewer(subprotocols=["other", "livejoin.v1"]) as viewer:
        assert viewer.connection.subprotocol == "livejoin.v1"


def test_a_disconnected_viewer_is_not_counted(server: RunningServer) -> None:
    with server.viewer("final_ui") as viewer:
        viewer.next_frame()
        assert server.request("/api/v1/status").json()["viewers"] == 1
    until = time.monotonic() + LIMIT_S
    while server.request("/api/v1/status").json()["viewers"]:
        assert time.monotonic() < until


# --- shutdown


def test_viewers_are_disconnected_when_the_server_stops() -> None:
    with contextlib.ExitStack() as sockets:
        with run_server() as server:
            viewer = sockets.enter_context(server.viewer("users_ui"))
            viewer.next_frame()
        assert _close_reason(viewer) == (1001, "livejoin is stopping")


def test_viewers_in_the_middle_of_a_frame_are_disconnected_with_the_same_code_when_the_server_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """uvicorn stops within 0.1 s and would close with its own code."""
    sending = threading.Event()
    send = Delivery.send_catch_up

    async def delayed_send(*args: Any) -> Any:
        sending.set()
        await asyncio.sleep(0.5)
        return await send(*args)

    monkeypatch.setattr(Delivery, "send_catch_up", delayed_send)
    with contextlib.ExitStack() as sockets:
        with run_server() as server:
            viewer = sockets.enter_context(server.viewer("users_ui"))
            assert sending.wait(LIMIT_S)
        viewer.next_frame()
        assert _close_reason(viewer) == (1001, "livejoin is stopping")
