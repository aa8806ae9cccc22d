"""C3 to C6 and D3: many viewers, slow ones, short-lived ones, and swaps under all of them.

Viewers of full frames compare every cell, by the hash of each heartbeat, and at the end with the
hash of the written rows. Compared rows are counted once, however many viewers hold them.
"""

import asyncio
import json
import socket as sockets
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from websockets.asyncio.client import ClientConnection, connect

from livejoin import row_hash
from livejoin.client.protocol import ClientSession
from livejoin.core.generation import Generation
from livejoin.kafka.cluster import Kafka
from rig import polling
from rig.cells import Checker, PartCache
from rig.delays import GRAIN_S, delays_of_changes, p99, send_changes
from rig.figures import Figures
from rig.lean import LightViewer, connect_viewer, disconnect_all
from rig.ledgered import DATA, SUBPROTOCOL, Audience, FakeLeader, row
from rig.protocol import header
from rig.running import Running, memory_kib, until
from tables.fuzzing import fuzz
from tables.many_viewers import expect_bounded
from tables.samples import SCHEMAS

LIMIT_S = 120
ROWS = 100_000
MANY_ROWS = 1_000_000
WIDE = "changed " + 4000 * "x"  # large rows, so that few fit into the buffers of a slow viewer
TableSum = tuple[int, str]  # of a table: rows and hash


def handles(server: Running) -> int:
    return len(list(Path(f"/proc/{server.pid}/fd").iterdir()))


def threads(server: Running) -> int:
    return len(list(Path(f"/proc/{server.pid}/task").iterdir()))


def expect_written(case: Figures, tables: dict[str, list[TableSum]], texts: dict[int, str]) -> None:
    """Check that all viewers of a table hold the rows that were written, with these texts."""
    for table, sums in tables.items():
        written = [row(table, number, text) for number, text in texts.items()]
        rows = [{**one.row, "_id": one.id, "_ts": one.ts} for one in written if one.row]
        batches = pa.Table.from_pylist(rows, SCHEMAS[table]).to_batches()
        total = sum(row_hash.sum_hashes(row_hash.hash_rows(batch)) for batch in batches)
        wrong = [one for one in sums if one != (len(rows), row_hash.to_hex(total))]
        case.checked(
            len(rows), len(rows) * (len(SCHEMAS[table]) - 1), wrong=len(wrong)
        )  # without _id
        assert sums
        assert not wrong, f"{table}: {len(wrong)} of {len(sums)} viewers hold {wrong[0]}"


def changed(rows: int, count: int, text: str = "changed") -> dict[int, str]:
    """Return the texts of the first generation after `count` changes."""
    return dict.fromkeys(range(rows), "generation 1") | dict.fromkeys(range(min(count, 1000)), text)


class CheckingViewer:
    """A viewer that records when each part of the changelog arrived, and checks its cells."""

    def __init__(self, cells: PartCache) -> None:
        self.checker = Checker(cells)
        self.arrivals: list[tuple[int, float]] = []  # seq and time
        self.cutovers: list[int] = []
        self.viewer: LightViewer

    async def join(self, server: Running, tables: tuple[str, ...]) -> None:
        self.viewer = await connect_viewer(server.port, tables, on_frame=self._take)
        await self.viewer.wait_until_at(1, 0, LIMIT_S)

    def _take(self, sums: dict[str, Any], parts: list[memoryview]) -> None:
        self.arrivals.append((sums["seq"], time.monotonic()))
        self.checker.on_frame(sums, parts)
        if sums["type"] == "cutover":
            self.cutovers.append(sums["generation"])
        if parts:  # all tables are of the generation of the frame
            notes = {
                checked_table.snapshot.note for checked_table in self.checker.tables.values()
            } - {None}
            assert notes == {sums["generation"]}

    async def wait_heartbeat(self, generation: int, seq: int) -> None:
        """Wait for a heartbeat at or after this position."""
        headers = self.viewer.headers

        def arrived() -> bool:
            return headers[-1]["type"] == "heartbeat" and self.viewer.is_at(generation, seq)

        await self.viewer.wait_for(arrived, LIMIT_S)

    @property
    def frames(self) -> int:
        """The number of frames received, each of which was checked."""
        return len(self.viewer.headers)

    def sums(self) -> dict[str, TableSum]:
        """Rows and hash of each table held."""
        return {
            table: (checked_table.count, checked_table.hash)
            for table, checked_table in self.checker.tables.items()
        }


def all_sums(connected: list[CheckingViewer]) -> dict[str, list[TableSum]]:
    """Rows and hashes of all viewers, by table."""
    return {table: [one.sums()[table] for one in connected] for table in connected[0].sums()}


async def connect_checking(
    server: Running, count: int, tables: tuple[str, ...]
) -> list[CheckingViewer]:
    """Connect viewers that check every cell, and wait for their snapshots."""
    cells = PartCache(_generation_of)
    connected: list[CheckingViewer] = []
    for start in range(0, count, 50):
        batch = [CheckingViewer(cells) for _ in range(min(50, count - start))]
        await asyncio.gather(*(one.join(server, tables) for one in batch))
        connected += batch
    return connected


def _generation_of(_table: str, rows: pa.Table) -> int | None:
    """Return the generation that all names belong to."""
    if "name" not in rows.column_names or not rows.num_rows:
        return None
    number = int(rows.column("name")[0].as_py().rpartition(" ")[2])
    assert pc.all(pc.ends_with(rows.column("name"), f", generation {number}")).as_py()
    return number


# 1.2 GB and 12 GB pass through this machine's memory, at both ends.
@pytest.mark.parametrize(("rows", "join_s"), [(10_000, 30), (100_000, 120)])
def test_c3_a_thousand_viewers(
    kafka: Kafka, tmp_path: Path, case: Figures, rows: int, join_s: float
) -> None:
    leader = FakeLeader(kafka, tmp_path, f"c3-{rows}")
    leader.set_live(leader.write_generation(1, rows))
    with leader.server() as server:
        before = memory_kib(server.pid)

        async def scenario() -> tuple[float, list[float], int, list[CheckingViewer]]:
            started = time.monotonic()
            connected = await connect_checking(server, 1000, ("final_ui",))
            took_s = time.monotonic() - started
            first = leader.ends[1]
            sent = await send_changes(leader, 300, 10)
            await asyncio.gather(*(one.wait_heartbeat(1, first + 300) for one in connected))
            memory = memory_kib(server.pid, "VmHWM")
            case.viewers_dropped(sum(one.viewer.lost for one in connected))
            await disconnect_all([one.viewer for one in connected])
            took = [age for one in connected for age in ages(one.arrivals, first, sent)]
            return took_s, took, memory, connected

        joined_s, took, memory, connected = asyncio.run(scenario())
    each = (memory - before) / 1000
    case.landed(
        viewers=len(connected), changes=300, frames=sum(one.frames for one in connected)
    ).note(
        f"{rows:,} rows: joined in {joined_s:.1f} s, p99 {p99(took) * 1000:.0f} ms,"
        f" {each:.0f} KiB each at most,"
        f" {sum(one.checker.checked for one in connected):,} heartbeats checked"
    )
    print(case.notes[-1])
    expect_written(case, all_sums(connected), changed(rows, 300))
    assert joined_s < join_s
    assert p99(took) < 1
    assert each <= 200


def ages(arrivals: list[tuple[int, float]], first: int, sent: list[float]) -> list[float]:
    """Return the seconds from sending each change to its arrival at a viewer."""
    took, known = [], first
    for seq, at in arrivals:
        took += [at - sent[offset - first] for offset in range(known, seq)]
        known = max(known, seq)
    assert len(took) == len(sent)
    return took


def test_c4_slow_and_stopped_viewers_delay_nobody(
    kafka: Kafka, tmp_path: Path, case: Figures
) -> None:
    leader = FakeLeader(kafka, tmp_path, "c4")
    leader.set_live(leader.write_generation(1, ROWS))
    count, rate = 1500, 50.0
    with leader.server() as server:

        async def scenario() -> tuple[list[float], list[float], int, int]:
            audience = Audience(server)
            await audience.join(130, ("final_ui",))
            alone = await delays_of_changes(leader, audience, count, rate, text=WIDE)
            slow = [await _open_small_buffer(server) for _ in range(70)]  # 20 of them stop reading
            # joining is not measured
            frames_by_viewer = [[await _frame(one)] for one in slow[:50]] + [[] for _ in slow[50:]]
            stop, before = asyncio.Event(), memory_kib(server.pid)
            reading = [
                asyncio.create_task(_read_slowly(one, frames, stop))
                for one, frames in zip(slow[:50], frames_by_viewer[:50], strict=True)
            ]
            with_others = await delays_of_changes(leader, audience, count, rate, text=WIDE)
            after = memory_kib(server.pid)
            stop.set()
            await audience.leave()
            await asyncio.gather(*reading)
            end = leader.ends[1]
            await asyncio.gather(
                *(_read_to_end(*it, end) for it in zip(slow, frames_by_viewer, strict=True))
            )
            await asyncio.gather(*(one.close() for one in slow))
            received.extend(frames_by_viewer)
            return alone, with_others, before, after

        received: list[list[bytes]] = []
        alone, with_others, before, after = asyncio.run(scenario())
    resumed = [sum("resumed" in header(frame) for frame in frames) for frames in received]
    frames_by_viewer = [len(frames) for frames in received]
    case.landed(
        viewers=200, slow=50, stopped=20, changes=2 * count, frames=sum(frames_by_viewer)
    ).note(
        f"p99 alone {p99(alone) * 1000:.1f} ms, beside slow ones {p99(with_others) * 1000:.1f} ms;"
        f" memory {before:,} to {after:,} KiB; a slow one took {min(frames_by_viewer)}"
        f" to {max(frames_by_viewer)} frames, and got {min(resumed)}"
        f" to {max(resumed)} times only what it had missed"
    )
    print(case.notes[-1])
    assert min(resumed) >= 1, "a viewer was not slow: it missed nothing"
    expect_written(
        case, {"final_ui": [_sum_of(frames) for frames in received]}, changed(ROWS, count, WIDE)
    )
    assert (
        p99(with_others) < 1.2 * p99(alone) + 0.005
    )  # below the time of one frame, differences do not count
    assert after - before < 70 * 2048


async def _open_small_buffer(server: Running) -> ClientConnection:
    """A viewer with small socket buffers."""
    raw_socket = sockets.socket()
    raw_socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 8192)
    raw_socket.connect(("127.0.0.1", server.port))
    raw_socket.setblocking(False)  # noqa: FBT003 - the standard library's
    one = await connect(
        server.url.replace("http", "ws") + "api/v1/live",
        sock=raw_socket,
        subprotocols=[SUBPROTOCOL],
        max_size=None,
        max_queue=1,
        compression=None,
        ping_interval=None,
    )
    await one.send(json.dumps({"subscribe": ["final_ui"]}))
    return one


async def _frame(one: ClientConnection) -> bytes:
    frame = await one.recv()
    assert isinstance(frame, bytes)
    return frame


async def _read_slowly(one: ClientConnection, frames: list[bytes], stop: asyncio.Event) -> None:
    """Read a frame now and then; they are checked later, so that only the server works now."""
    while not stop.is_set():
        await asyncio.sleep(0.5)
        frames.append(await _frame(one))


async def _read_to_end(one: ClientConnection, frames: list[bytes], end: int) -> None:
    """Read at full speed up to a heartbeat after the last change."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            frames.append(await _frame(one))
            sums = header(frames[-1])
            if sums["type"] == "heartbeat" and sums["seq"] >= end:
                return


def _sum_of(frames: list[bytes]) -> TableSum:
    """Return the rows and hash of a client with these frames; every heartbeat matched them."""
    session = ClientSession("final_ui")
    session.connected()
    for frame in frames:
        session.receive(frame, time.monotonic())
    assert session.heartbeat_at is not None
    assert session.mismatches == 0
    replica = session._replicas["final_ui"]
    return len(replica), replica.hash


def test_c4_readers_of_a_million_rows_delay_no_viewer(
    kafka: Kafka, tmp_path: Path, case: Figures
) -> None:
    """Ten readers of whole tables as JSON, Arrow and CSV, and of sorted and filtered rows."""
    leader = FakeLeader(kafka, tmp_path, "c4-readers")
    leader.set_live(leader.write_generation(1, MANY_ROWS, ("final_ui",)))
    count, rate = 3000, 100.0
    # idle priority: on a separate machine, readers would not use this CPU
    idle = ("chrt", "--idle", "0")
    with leader.server(viewer_rows=5000) as server:

        async def scenario() -> tuple[list[float], list[float], list[polling.Response]]:
            audience = Audience(server)
            await audience.join(10, ("final_ui",))
            # viewers have the newest rows
            newest = {"row_from": MANY_ROWS - 1000}
            alone = await delays_of_changes(leader, audience, count, rate, **newest)
            with polling.polling(server.port, "final_ui", MANY_ROWS, idle) as answers:
                with_others = await delays_of_changes(leader, audience, count, rate, **newest)

                def all_answered() -> bool:
                    return len({answer.reader for answer in answers}) == polling.READERS

                # a slow response was processed during the changes
                await asyncio.to_thread(until, all_answered, "every reader has a response", LIMIT_S)
            await audience.leave()
            return alone, with_others, answers

        alone, with_others, answers = asyncio.run(scenario())
    each = Counter(answer.reader for answer in answers)
    slowest = {
        query: max(answer.took_s for answer in answers if answer.query == query)
        for query in polling.QUERIES
    }
    case.landed(viewers=10, changes=2 * count, readers=len(each), answers=len(answers)).note(
        f"p99 alone {p99(alone) * 1000:.1f} ms, beside {len(each)} readers of {MANY_ROWS:,} rows"
        f" {p99(with_others) * 1000:.1f} ms; {len(answers)} answers with"
        f" {sum(answer.rows for answer in answers):,} rows; longest, s:"
        f" {', '.join(f'{query} {took_s:.1f}' for query, took_s in slowest.items())}"
    )
    print(case.notes[-1])
    assert p99(with_others) <= 2 * max(p99(alone), GRAIN_S)


def test_c5_viewers_that_come_and_go(kafka: Kafka, tmp_path: Path, case: Figures) -> None:
    leader = FakeLeader(kafka, tmp_path, "c5")
    leader.set_live(leader.write_generation(1, ROWS))
    full_sums: list[TableSum] = []  # of viewers that received the whole frame
    with leader.server() as server:

        async def come_and_go(count: int) -> None:
            """Most disconnect abruptly in the middle of their first frame; a few read all of it."""
            cells = PartCache(_generation_of)
            for start in range(0, count, 50):
                reader = CheckingViewer(cells)
                stay = asyncio.create_task(reader.join(server, ("final_ui",)))
                batch = [
                    await connect_viewer(
                        server.port, ("final_ui",), small_buffer=True, stop_after=1 << 14
                    )
                    for _ in range(start, min(start + 49, count))
                ]
                await asyncio.gather(*(one.wait_paused(LIMIT_S) for one in batch))
                await disconnect_all(batch)
                await stay
                await reader.wait_heartbeat(1, leader.ends[1])
                full_sums.append(reader.sums()["final_ui"])
                case.landed(connections=1 + len(batch), frames=reader.frames)
                case.viewers_dropped(reader.viewer.lost)
                await disconnect_all([reader.viewer])

        def half_open(count: int) -> None:
            for _ in range(count):
                with sockets.create_connection(("127.0.0.1", server.port)) as one:
                    one.sendall(b"GET /api/v1/live HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgr")
            case.landed(half_open=count)

        def nobody_left() -> bool:
            return bool(server.request("api/v1/status")["viewers"] == 0)

        asyncio.run(come_and_go(500))  # the first ones allocate memory that is kept
        until(nobody_left, "no viewer is left", LIMIT_S)
        memory, files, running = memory_kib(server.pid), handles(server), threads(server)
        for _ in range(19):
            asyncio.run(come_and_go(500))
            half_open(25)
        until(nobody_left, "no viewer is left", LIMIT_S)
        until(lambda: handles(server) <= files + 5, "all sockets are closed", LIMIT_S)
        until(lambda: threads(server) <= running, "no thread is left behind", LIMIT_S)
        grown = memory_kib(server.pid) - memory
    case.note(
        f"memory grew by {grown:,} KiB of {memory:,}; {running} threads and {files} files before"
    )
    print(case.notes[-1])
    expect_written(case, {"final_ui": full_sums}, changed(ROWS, 0))
    assert case.faults["connections"] == 10_000
    assert grown < 0.1 * memory


def test_c6_viewers_through_fifty_swaps(kafka: Kafka, tmp_path: Path, case: Figures) -> None:
    """Ten new generations, each followed by four rollbacks.

    Of swaps in quick succession a viewer may get only the last one. After the others, the test
    waits until all viewers have got them.
    """
    viewers, builds, moves = 200, 10, 5
    quick_moves = (2, 3)  # these swaps of each generation are not waited for
    leader = FakeLeader(kafka, tmp_path, "c6")
    old = leader.write_generation(1, ROWS)
    leader.set_live(old)
    with leader.server() as server:

        async def swap(connected: list[CheckingViewer]) -> Generation:
            live = old
            for number in range(2, 2 + builds):
                new = await asyncio.to_thread(leader.write_generation, number, ROWS)
                for move in range(moves):
                    leader.set_live(new, standby=live)
                    live, new = new, live
                    until_s = time.monotonic() + LIMIT_S
                    while server.request("api/v1/tables")["generation"] != live.number:
                        assert time.monotonic() < until_s
                        await asyncio.sleep(0.05)
                    assert not any(one.viewer.lost for one in connected)
                    if move not in quick_moves:
                        await asyncio.gather(*(arrived(one, live) for one in connected))
            return live

        async def arrived(one: CheckingViewer, live: Generation) -> None:
            """Wait for a heartbeat of this generation, which checks the rows."""

            def heartbeat_arrived() -> bool:
                last = one.viewer.headers[-1]
                return (last["type"], last["generation"]) == ("heartbeat", live.number)

            await one.viewer.wait_for(
                heartbeat_arrived, 4 * LIMIT_S
            )  # 4 GB for all viewers together

        async def scenario() -> tuple[list[CheckingViewer], Generation]:
            connected = await connect_checking(server, viewers, DATA)
            last = await swap(connected)
            case.viewers_dropped(sum(one.viewer.lost for one in connected))
            await disconnect_all([one.viewer for one in connected])
            return connected, last

        connected, last = asyncio.run(scenario())
    moved = [len(one.cutovers) for one in connected]
    checked = sum(one.checker.checked for one in connected)
    frames = sum(one.frames for one in connected)
    case.landed(viewers=viewers, swaps=builds * moves, frames=frames).note(
        f"cutovers seen by each: {min(moved)} to {max(moved)}; {checked:,} heartbeats checked"
    )
    print(case.notes[-1])
    for one in connected:
        assert one.cutovers[-1] == last.number  # it may miss some cutovers, but never the last one
        assert len(one.cutovers) >= builds * (moves - len(quick_moves))
        assert set(one.cutovers) >= set(range(2, 2 + builds)), "each generation was shown"
    expect_written(
        case, all_sums(connected), dict.fromkeys(range(ROWS), f"generation {last.number}")
    )


def test_d3_a_hundred_thousand_fuzzed_frames(case: Figures) -> None:
    fuzz(100_000)
    case.landed(frames=100_000)


def test_c4_240_different_subscriptions_to_200_000_rows_take_less_than_500_mb(
    case: Figures,
) -> None:
    expect_bounded(200_000, 500 << 20)
    case.landed(viewers=240, swaps=2)
