"""Large frames: sent in fragments, made when they can be sent, and no more of them than fit."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livejoin.client.protocol import ClientSession
from livejoin.tables.http import connection_limits, server
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.live import delivery, frames
from livejoin.tables.live import socket as live_socket
from livejoin.tables.live.broadcast import FrameCache
from livejoin.tables.live.frames import EncodedPart
from livejoin.tables.live.viewer import BUFFER_BYTES, OutgoingFrame, Subscription, Viewer
from rig.lean import Lean, lean, leave, read_slowly
from rig.running import until
from tables.live_server import LIMIT_S, RunningServer, run_server
from tables.samples import chunk, final, live, user

MANY = 20_000  # rows: 2 MB
NARROW = 16 << 10


def fill(host: Catalog, generation: int) -> None:
    """A large table, and a small one."""
    host.apply_state(live(generation - 1, next_one=generation))
    rows = [final(n, f"name {n} of generation {generation}", 0) for n in range(MANY)]
    host.apply(chunk(generation, MANY + 1, *rows, user(0)))
    host.apply_state(live(generation, ready_at=MANY + 1))


@pytest.fixture
def shown() -> Iterator[RunningServer]:
    host = Catalog(logs_kept=100, rejects_kept=100)
    fill(host, 1)
    with run_server(host, send_buffer=NARROW) as serving:
        yield serving


@given(st.lists(st.binary(max_size=20)), st.integers(1, 9))
def test_fragments_are_all_bytes_in_runs_of_one_size(pieces: list[bytes], most: int) -> None:
    found = [bytes(one) for one in frames.split_fragments(pieces, most)]
    assert b"".join(found) == b"".join(pieces)
    assert all(len(one) == most for one in found[:-1])
    assert all(0 < len(one) <= most for one in found)


@given(st.integers(0, 300 << 20))
def test_a_frame_has_no_more_fragments_than_clients_take(size: int) -> None:
    part = EncodedPart("final_ui", "snapshot", memoryview(bytes(1)) if size < 1 else _zeros(size))
    frame = OutgoingFrame.build({}, [part], None)
    more = [more for _, more in delivery._fragments(frame)]
    assert more == [True] * (len(more) - 1) + [False]
    assert len(more) <= 1001


_ZEROS = memoryview(bytes(300 << 20))


def _zeros(size: int) -> memoryview:
    return _ZEROS[:size]


# --- what is encoded, and how often


def _host() -> Catalog:
    host = Catalog(logs_kept=100, rejects_kept=100)
    fill(host, 1)
    return host


def _told(parts: tuple[EncodedPart, ...]) -> list[tuple[str, str]]:
    return [(part.table, part.kind) for part in parts]


def test_each_table_is_encoded_once_for_all_subscriptions() -> None:
    host = _host()
    now = FrameCache(host)
    one = now.catch_up(Viewer(Subscription(frozenset({"final_ui", "users_ui"}))))
    two = now.catch_up(Viewer(Subscription(frozenset({"final_ui", "generations"}))))
    assert one.parts[1].table == two.parts[0].table == "final_ui"
    assert one.parts[1] is two.parts[0]


def test_after_changes_a_large_table_is_its_snapshot_and_what_changed() -> None:
    host = _host()
    now = FrameCache(host)
    first = now.catch_up(Viewer(Subscription(frozenset({"final_ui", "users_ui"}))))
    host.apply(chunk(1, MANY + 4, final(3, "changed", 1), final(4, None, 1), user(1)))
    now.invalidate()
    second = now.catch_up(Viewer(Subscription(frozenset({"final_ui", "users_ui"}))))
    assert _told(second.parts) == [
        ("users_ui", "snapshot"),  # which is small, and made anew
        ("final_ui", "snapshot"),
        ("final_ui", "upsert"),
        ("final_ui", "remove"),
    ]
    assert second.parts[1] is first.parts[1]
    assert _hashes(second) == {
        table: host.store(table).viewer_digest() for table in _hashes(second)
    }


def test_after_many_changes_a_large_table_is_encoded_anew() -> None:
    host = _host()
    now = FrameCache(host)
    first = now.catch_up(Viewer(Subscription(frozenset({"final_ui"}))))
    changed = [final(n, "changed", 1) for n in range(MANY // 3)]
    host.apply(chunk(1, 2 * MANY, *changed))
    now.invalidate()
    second = now.catch_up(Viewer(Subscription(frozenset({"final_ui"}))))
    assert _told(second.parts) == [("final_ui", "snapshot")]
    assert second.parts[0] is not first.parts[0]


def _hashes(frame: OutgoingFrame) -> dict[str, tuple[int, str]]:
    """What somebody holds who has got this frame alone."""
    session = ClientSession(*{part.table for part in frame.parts})
    session.connected()
    session.receive(b"".join(frame.pieces), 0.0)
    replicas = session._replicas
    return {table: (len(replica), replica.hash) for table, replica in replicas.items()}


def test_a_viewer_never_has_a_large_frame_waiting() -> None:
    viewer = Viewer(Subscription(frozenset({"final_ui"})))
    viewer.start_catch_up()
    viewer.offer(
        OutgoingFrame.build({}, [EncodedPart("final_ui", "upsert", bytes(BUFFER_BYTES))], None)
    )
    assert (viewer.behind, viewer.queued_bytes, len(viewer.queue)) == (True, 0, 0)


# --- on the socket


def test_a_large_frame_is_one_message_with_all_rows(shown: RunningServer) -> None:
    with shown.viewer("final_ui", "users_ui") as viewer:
        frame = viewer.next_frame()
        assert frame.kinds == [("users_ui", "snapshot"), ("final_ui", "snapshot")]
        assert len(viewer.view["final_ui"]) == MANY


def test_a_large_cutover_is_one_message_with_all_tables_and_says_so(shown: RunningServer) -> None:
    with shown.viewer("final_ui", "users_ui") as viewer, shown.viewer("generations") as other:
        viewer.next_frame()
        other.next_frame()
        shown.run_on_loop(lambda host: fill(host, 2))
        frame = viewer.next_frame("cutover")
        assert frame.kinds == [("users_ui", "snapshot"), ("final_ui", "snapshot")]
        assert frame.header["generation"] == 2
        assert len(viewer.view["final_ui"]) == MANY
        assert other.next_frame("cutover").parts == []


def test_the_first_generation_of_a_viewer_that_waited_for_one_is_a_cutover() -> None:
    with run_server() as serving, serving.viewer("final_ui") as viewer:
        assert viewer.next_frame().header["generation"] is None
        serving.run_on_loop(lambda host: fill(host, 1))
        frame = viewer.next_frame("cutover")
        assert (frame.header["generation"], len(viewer.view["final_ui"])) == (1, MANY)


def test_a_viewer_of_a_small_table_does_not_wait_for_those_who_take_large_frames(
    shown: RunningServer,
) -> None:
    async def look() -> None:
        stopped = [await _stopped(shown) for _ in range(20)]
        quick = await lean(shown.port, ["users_ui"])
        await quick.until(1, MANY + 1, LIMIT_S)
        large = await lean(shown.port, ["final_ui"])
        await large.until(1, MANY + 1, LIMIT_S)
        for one in stopped:
            assert not one.headers
            one.transport.resume_reading()
            await one.until(1, MANY + 1, LIMIT_S)
        await leave([*stopped, quick, large])

    asyncio.run(look())


async def _stopped(shown: RunningServer) -> Lean:
    """A viewer in the middle of a large frame."""
    one = await lean(shown.port, ["final_ui"], narrow=True, stop_after=NARROW)
    await one.stopped(LIMIT_S)
    assert not one.headers
    return one


def test_those_who_keep_old_rows_in_memory_are_cut_off_when_others_wait_for_it(
    shown: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "MAX_STALE_BYTES", 1 << 20)
    monkeypatch.setattr(delivery, "GRACE_S", 0.5)

    async def look() -> None:
        stopped = await _stopped(shown)
        same = await lean(shown.port, ["final_ui"])  # takes what the other one holds
        await same.until(1, MANY + 1, LIMIT_S)
        shown.run_on_loop(lambda host: fill(host, 2))
        newer = await lean(shown.port, ["final_ui"])
        await newer.until(2, MANY + 1, LIMIT_S)
        await same.until(2, MANY + 1, LIMIT_S)
        stopped.transport.resume_reading()
        await stopped.gone(LIMIT_S)
        assert not stopped.headers
        assert not same.lost
        await leave([same, newer])

    asyncio.run(look())


def test_whoever_waits_for_a_large_frame_is_told_every_second_that_it_holds_what_it_holds(
    shown: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "MAX_STALE_BYTES", 1 << 20)
    monkeypatch.setattr(delivery, "GRACE_S", 2.0)
    monkeypatch.setattr(live_socket, "HEARTBEAT_S", 0.1)

    async def look() -> None:
        same = await lean(shown.port, ["final_ui"])
        await same.until(1, MANY + 1, LIMIT_S)
        stopped = await _stopped(shown)
        shown.run_on_loop(lambda host: fill(host, 2))
        await same.until(2, MANY + 1, LIMIT_S)
        waited = [h for h in same.headers if h["type"] == "data" and not h["parts"]]
        assert len(waited) > 3
        assert {(told["generation"], told["seq"]) for told in waited} == {(1, MANY + 1)}
        assert same.headers[-1]["generation"] == 2
        await leave([same, stopped])

    asyncio.run(look())


def test_a_bad_subscription_in_the_middle_of_a_frame_ends_the_socket_with_a_reason(
    shown: RunningServer,
) -> None:
    async def look() -> None:
        one = await _stopped(shown)
        one.ask("nothing")
        one.transport.resume_reading()
        await one.gone(LIMIT_S)
        assert one.closed is not None
        code, reason = one.closed
        assert code == 1008
        assert "there is no table 'nothing'" in reason

    asyncio.run(look())


def test_one_that_asks_for_nonsense_and_takes_nothing_is_cut_off(shown: RunningServer) -> None:
    def nobody_left() -> bool:
        return bool(shown.request("/api/v1/status").json()["viewers"] == 0)

    async def look() -> None:
        one = await _stopped(shown)
        one.ask("nothing")
        await asyncio.to_thread(until, nobody_left, "the server has let go of it", LIMIT_S)
        await leave([one])

    asyncio.run(look())


def test_other_tables_may_be_asked_for_in_the_middle_of_a_frame(shown: RunningServer) -> None:
    async def look() -> None:
        one = await _stopped(shown)
        one.ask("users_ui")
        one.transport.resume_reading()
        await one.when(lambda: len(one.headers) > 1, LIMIT_S)
        first, second = ([part["table"] for part in told["parts"]] for told in one.headers[:2])
        assert (first, second) == (["final_ui"], ["users_ui"])
        await leave([one])

    asyncio.run(look())


def test_a_server_that_stops_does_not_wait_for_a_frame_that_nobody_takes() -> None:
    host = Catalog(logs_kept=100, rejects_kept=100)
    fill(host, 1)

    async def read_on(one: Lean) -> None:
        one.transport.resume_reading()
        await one.gone(LIMIT_S)

    with asyncio.Runner() as runner:
        with run_server(host, send_buffer=NARROW) as serving:
            one = runner.run(_stopped(serving))
        runner.run(read_on(one))
    assert not one.headers


def test_a_ping_is_not_waited_for_while_a_slow_viewer_takes_what_is_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = server._config

    def pinging(*given: Any) -> Any:
        made = config(*given)
        made.ws_ping_interval, made.ws_ping_timeout = 0.1, 2.0
        return made

    monkeypatch.setattr(server, "_config", pinging)
    monkeypatch.setattr(connection_limits, "WRITE_TIMEOUT_S", 2.0)
    host = Catalog(logs_kept=100, rejects_kept=100)
    fill(host, 1)

    async def look(port: int) -> None:
        one = await lean(port, ["final_ui"], narrow=True)
        one.answers = False  # as if it had not come to the ping yet
        began = time.monotonic()
        reading = asyncio.create_task(read_slowly(one, 0.25))
        await one.until(1, MANY + 1, LIMIT_S)
        assert time.monotonic() - began > 2.5  # longer than a ping is waited for
        await one.gone(LIMIT_S)  # it has taken everything, and still does not answer
        await reading

    with run_server(host, send_buffer=NARROW) as serving:
        asyncio.run(look(serving.port))
