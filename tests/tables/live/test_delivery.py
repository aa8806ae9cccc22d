"""Large frames: sent in fragments, encoded only when they can be sent, within the memory limit."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livejoin.client.protocol import ClientSession
from livejoin.tables.http import connection_limits
from livejoin.tables.http import server as http_server
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.live import delivery, frames
from livejoin.tables.live import socket as live_socket
from livejoin.tables.live.broadcast import FrameCache
from livejoin.tables.live.frames import EncodedPart
from livejoin.tables.live.viewer import BUFFER_BYTES, OutgoingFrame, Subscription, Viewer
from rig.lean import LightViewer, connect_viewer, disconnect_all, read_slowly
from rig.running import until
from tables.live_server import LIMIT_S, RunningServer, run_server
from tables.samples import chunk, final, live, user

ROWS = 20_000  # 2 MB
SEND_BUFFER = 16 << 10


def serve_large_generation(catalog: Catalog, generation: int) -> None:
    """Serve a generation with one large and one small table."""
    catalog.apply_state(live(generation - 1, next_one=generation))
    rows = [final(n, f"name {n} of generation {generation}", 0) for n in range(ROWS)]
    catalog.apply(chunk(generation, ROWS + 1, *rows, user(0)))
    catalog.apply_state(live(generation, ready_at=ROWS + 1))


@pytest.fixture
def server() -> Iterator[RunningServer]:
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    serve_large_generation(catalog, 1)
    with run_server(catalog, send_buffer=SEND_BUFFER) as server:
        yield server


@given(st.lists(st.binary(max_size=20)), st.integers(1, 9))
def test_fragments_hold_all_bytes_in_pieces_of_equal_size(pieces: list[bytes], size: int) -> None:
    found = [bytes(viewer) for viewer in frames.split_fragments(pieces, size)]
    assert b"".join(found) == b"".join(pieces)
    assert all(len(viewer) == size for viewer in found[:-1])
    assert all(0 < len(viewer) <= size for viewer in found)


@given(st.integers(0, 300 << 20))
def test_a_frame_has_no_more_fragments_than_clients_accept(size: int) -> None:
    part = EncodedPart("final_ui", "snapshot", memoryview(bytes(1)) if size < 1 else _zeros(size))
    frame = OutgoingFrame.build({}, [part], None)
    more = [more for _, more in delivery._fragments(frame)]
    assert more == [True] * (len(more) - 1) + [False]
    assert len(more) <= 1001


_ZEROS = memoryview(bytes(300 << 20))


def _zeros(size: int) -> memoryview:
    return _ZEROS[:size]


# --- encoding and caching


def _catalog() -> Catalog:
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    serve_large_generation(catalog, 1)
    return catalog


def _kinds(parts: tuple[EncodedPart, ...]) -> list[tuple[str, str]]:
    return [(part.table, part.kind) for part in parts]


def test_each_table_is_encoded_once_for_all_subscriptions() -> None:
    catalog = _catalog()
    cache = FrameCache(catalog)
    viewer = cache.catch_up(Viewer(Subscription(frozenset({"final_ui", "users_ui"}))))
    two = cache.catch_up(Viewer(Subscription(frozenset({"final_ui", "generations"}))))
    assert viewer.parts[1].table == two.parts[0].table == "final_ui"
    assert viewer.parts[1] is two.parts[0]


def test_after_few_changes_a_large_table_is_sent_as_the_cached_snapshot_and_deltas() -> None:
    catalog = _catalog()
    cache = FrameCache(catalog)
    first = cache.catch_up(Viewer(Subscription(frozenset({"final_ui", "users_ui"}))))
    catalog.apply(chunk(1, ROWS + 4, final(3, "changed", 1), final(4, None, 1), user(1)))
    cache.invalidate()
    second = cache.catch_up(Viewer(Subscription(frozenset({"final_ui", "users_ui"}))))
    assert _kinds(second.parts) == [
        ("users_ui", "snapshot"),  # small, so encoded again
        ("final_ui", "snapshot"),
        ("final_ui", "upsert"),
        ("final_ui", "remove"),
    ]
    assert second.parts[1] is first.parts[1]
    assert _hashes(second) == {
        table: catalog.store(table).viewer_digest() for table in _hashes(second)
    }


def test_after_many_changes_a_large_table_is_encoded_again() -> None:
    catalog = _catalog()
    cache = FrameCache(catalog)
    first = cache.catch_up(Viewer(Subscription(frozenset({"final_ui"}))))
    changed = [final(n, "changed", 1) for n in range(ROWS // 3)]
    catalog.apply(chunk(1, 2 * ROWS, *changed))
    cache.invalidate()
    second = cache.catch_up(Viewer(Subscription(frozenset({"final_ui"}))))
    assert _kinds(second.parts) == [("final_ui", "snapshot")]
    assert second.parts[0] is not first.parts[0]


def _hashes(frame: OutgoingFrame) -> dict[str, tuple[int, str]]:
    """Rows and hash of each table at a client that received only this frame."""
    session = ClientSession(*{part.table for part in frame.parts})
    session.connected()
    session.receive(b"".join(frame.pieces), 0.0)
    replicas = session._replicas
    return {table: (len(replica), replica.hash) for table, replica in replicas.items()}


def test_no_large_frame_is_queued_for_a_viewer() -> None:
    viewer = Viewer(Subscription(frozenset({"final_ui"})))
    viewer.start_catch_up()
    viewer.offer(
        OutgoingFrame.build({}, [EncodedPart("final_ui", "upsert", bytes(BUFFER_BYTES))], None)
    )
    assert (viewer.behind, viewer.queued_bytes, len(viewer.queue)) == (True, 0, 0)


# --- on the socket


def test_a_large_snapshot_is_one_message_with_all_rows(server: RunningServer) -> None:
    with server.viewer("final_ui", "users_ui") as viewer:
        frame = viewer.next_frame()
        assert frame.kinds == [("users_ui", "snapshot"), ("final_ui", "snapshot")]
        assert len(viewer.view["final_ui"]) == ROWS


def test_a_large_cutover_is_one_message_of_type_cutover_with_all_tables(
    server: RunningServer,
) -> None:
    with server.viewer("final_ui", "users_ui") as viewer, server.viewer("generations") as other:
        viewer.next_frame()
        other.next_frame()
        server.run_on_loop(lambda catalog: serve_large_generation(catalog, 2))
        frame = viewer.next_frame("cutover")
        assert frame.kinds == [("users_ui", "snapshot"), ("final_ui", "snapshot")]
        assert frame.header["generation"] == 2
        assert len(viewer.view["final_ui"]) == ROWS
        assert other.next_frame("cutover").parts == []


def test_the_first_generation_arrives_as_a_cutover_at_a_waiting_viewer() -> None:
    with run_server() as server, server.viewer("final_ui") as viewer:
        assert viewer.next_frame().header["generation"] is None
        server.run_on_loop(lambda catalog: serve_large_generation(catalog, 1))
        frame = viewer.next_frame("cutover")
        assert (frame.header["generation"], len(viewer.view["final_ui"])) == (1, ROWS)


def test_large_frames_of_others_do_not_delay_a_viewer_of_a_small_table(
    server: RunningServer,
) -> None:
    async def scenario() -> None:
        stopped_viewers = [await _stopped_viewer(server) for _ in range(20)]
        small_viewer = await connect_viewer(server.port, ["users_ui"])
        await small_viewer.wait_until_at(1, ROWS + 1, LIMIT_S)
        large_viewer = await connect_viewer(server.port, ["final_ui"])
        await large_viewer.wait_until_at(1, ROWS + 1, LIMIT_S)
        for viewer in stopped_viewers:
            assert not viewer.headers
            viewer.transport.resume_reading()
            await viewer.wait_until_at(1, ROWS + 1, LIMIT_S)
        await disconnect_all([*stopped_viewers, small_viewer, large_viewer])

    asyncio.run(scenario())


async def _stopped_viewer(server: RunningServer) -> LightViewer:
    """A viewer that stopped reading in the middle of a large frame."""
    viewer = await connect_viewer(
        server.port, ["final_ui"], small_buffer=True, stop_after=SEND_BUFFER
    )
    await viewer.wait_paused(LIMIT_S)
    assert not viewer.headers
    return viewer


def test_viewers_that_pin_stale_rows_are_disconnected_when_others_need_the_memory(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "MAX_STALE_BYTES", 1 << 20)
    monkeypatch.setattr(delivery, "GRACE_S", 0.5)

    async def scenario() -> None:
        stopped_viewers = await _stopped_viewer(server)
        same_frame_viewer = await connect_viewer(
            server.port, ["final_ui"]
        )  # shares the frame that the stopped viewer holds
        await same_frame_viewer.wait_until_at(1, ROWS + 1, LIMIT_S)
        server.run_on_loop(lambda catalog: serve_large_generation(catalog, 2))
        newer_viewer = await connect_viewer(server.port, ["final_ui"])
        await newer_viewer.wait_until_at(2, ROWS + 1, LIMIT_S)
        await same_frame_viewer.wait_until_at(2, ROWS + 1, LIMIT_S)
        stopped_viewers.transport.resume_reading()
        await stopped_viewers.wait_closed(LIMIT_S)
        assert not stopped_viewers.headers
        assert not same_frame_viewer.lost
        await disconnect_all([same_frame_viewer, newer_viewer])

    asyncio.run(scenario())


def test_a_viewer_waiting_for_a_large_frame_gets_empty_frames_with_its_own_cursor(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "MAX_STALE_BYTES", 1 << 20)
    monkeypatch.setattr(delivery, "GRACE_S", 2.0)
    monkeypatch.setattr(live_socket, "HEARTBEAT_S", 0.1)

    async def scenario() -> None:
        same_frame_viewer = await connect_viewer(server.port, ["final_ui"])
        await same_frame_viewer.wait_until_at(1, ROWS + 1, LIMIT_S)
        stopped_viewers = await _stopped_viewer(server)
        server.run_on_loop(lambda catalog: serve_large_generation(catalog, 2))
        await same_frame_viewer.wait_until_at(2, ROWS + 1, LIMIT_S)
        empty_frames = [
            h for h in same_frame_viewer.headers if h["type"] == "data" and not h["parts"]
        ]
        assert len(empty_frames) > 3
        assert {(header["generation"], header["seq"]) for header in empty_frames} == {(1, ROWS + 1)}
        assert same_frame_viewer.headers[-1]["generation"] == 2
        await disconnect_all([same_frame_viewer, stopped_viewers])

    asyncio.run(scenario())


def test_a_bad_subscription_in_the_middle_of_a_frame_closes_the_socket_with_a_reason(
    server: RunningServer,
) -> None:
    async def scenario() -> None:
        viewer = await _stopped_viewer(server)
        viewer.subscribe("nothing")
        viewer.transport.resume_reading()
        await viewer.wait_closed(LIMIT_S)
        assert viewer.closed is not None
        code, reason = viewer.closed
        assert code == 1008
        assert "there is no table 'nothing'" in reason

    asyncio.run(scenario())


def test_a_viewer_with_a_bad_subscription_that_reads_nothing_is_disconnected(
    server: RunningServer,
) -> None:
    def no_viewers() -> bool:
        return bool(server.request("/api/v1/status").json()["viewers"] == 0)

    async def scenario() -> None:
        viewer = await _stopped_viewer(server)
        viewer.subscribe("nothing")
        await asyncio.to_thread(until, no_viewers, "the server has disconnected it", LIMIT_S)
        await disconnect_all([viewer])

    asyncio.run(scenario())


def test_a_new_subscription_in_the_middle_of_a_frame_takes_effect_after_it(
    server: RunningServer,
) -> None:
    async def scenario() -> None:
        viewer = await _stopped_viewer(server)
        viewer.subscribe("users_ui")
        viewer.transport.resume_reading()
        await viewer.wait_for(lambda: len(viewer.headers) > 1, LIMIT_S)
        first, second = (
            [part["table"] for part in header["parts"]] for header in viewer.headers[:2]
        )
        assert (first, second) == (["final_ui"], ["users_ui"])
        await disconnect_all([viewer])

    asyncio.run(scenario())


def test_a_stopping_server_does_not_wait_for_a_viewer_that_reads_nothing() -> None:
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    serve_large_generation(catalog, 1)

    async def read_to_end(viewer: LightViewer) -> None:
        viewer.transport.resume_reading()
        await viewer.wait_closed(LIMIT_S)

    with asyncio.Runner() as runner:
        with run_server(catalog, send_buffer=SEND_BUFFER) as server:
            viewer = runner.run(_stopped_viewer(server))
        runner.run(read_to_end(viewer))
    assert not viewer.headers


def test_a_slow_reader_is_not_disconnected_for_a_ping_behind_buffered_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = http_server._config

    def fast_ping_config(*args: Any) -> Any:
        settings = config(*args)
        settings.ws_ping_interval, settings.ws_ping_timeout = 0.1, 2.0
        return settings

    monkeypatch.setattr(http_server, "_config", fast_ping_config)
    monkeypatch.setattr(connection_limits, "WRITE_TIMEOUT_S", 2.0)
    catalog = Catalog(logs_kept=100, rejects_kept=100)
    serve_large_generation(catalog, 1)

    async def scenario(port: int) -> None:
        viewer = await connect_viewer(port, ["final_ui"], small_buffer=True)
        viewer.answers_pings = False  # as if the ping had not arrived yet
        started = time.monotonic()
        reading = asyncio.create_task(read_slowly(viewer, 0.25))
        await viewer.wait_until_at(1, ROWS + 1, LIMIT_S)
        assert time.monotonic() - started > 2.5  # longer than the ping timeout
        await viewer.wait_closed(LIMIT_S)  # it has read everything and still sends no pong
        await reading

    with run_server(catalog, send_buffer=SEND_BUFFER) as server:
        asyncio.run(scenario(server.port))
