"""Both kinds of connection against a real table server."""

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from websockets.http11 import Request

import livejoin
from client.conftest import sample_catalog
from client.pretender import fake_server
from livejoin.client import Connection, Outcome, aconnect, connect, protocol
from livejoin.errors import (
    KafkaUnavailable,
    MachineError,
    NotLive,
    Rejected,
    RequestError,
    TookTooLong,
    Unreachable,
)
from livejoin.tables.http.control_requests import ControlProducer
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.live import socket as live_socket
from rig.running import until
from tables.live_server import LIMIT_S, RunningServer, run_server
from tables.samples import building, chunk, final, live, user


@pytest.fixture
def connection(server: RunningServer) -> Iterator[Connection]:
    with connect(url(server)) as connection:
        yield connection


def url(server: RunningServer) -> str:
    return f"http://127.0.0.1:{server.port}/"


def names(rows: pa.Table) -> list[str]:
    return sorted(rows.column("name").to_pylist())


def swap(server: RunningServer, *user_names: str) -> None:
    """Make generation 2 live."""
    server.follow(live(1, next_one=2))
    changes = [final(n, name) for n, name in enumerate(user_names)]
    server.apply(2, len(changes), *changes)
    server.follow(replace(live(2, ready_at=len(changes)), standby=live(1).live))


# --- reading


def test_rows_are_arrow_with_their_types(connection: Connection) -> None:
    rows = connection.table("users_ui").to_arrow()
    assert rows.column_names == ["userId", "name", "email", "age", "_id", "_ts"]
    assert rows.to_pylist()[0]["age"] == 2**53 + 1
    assert rows.schema.field("_ts").type == pa.timestamp("ms", "UTC")


def test_rows_are_kept_up_to_date(connection: Connection, server: RunningServer) -> None:
    table = connection.table("final_ui")
    assert names(table.to_arrow()) == ["Ada"]
    server.apply(1, 4, final(0, "Ada L.", 1), final(1, "Alan"))
    until(lambda: names(table.to_arrow()) == ["Ada L.", "Alan"], "the change", LIMIT_S)
    assert table.total == 2
    assert connection.generation == 1


def test_changes_arrive_in_order_through_a_cutover(
    connection: Connection, server: RunningServer
) -> None:
    received = []
    for change in connection.table("final_ui").changes():
        received.append((change.kind, change.generation, change.rows.column("_id").to_pylist()))
        if change.kind == "snapshot":
            server.apply(1, 3, final(1, "Alan"))
        elif change.kind == "upsert":
            server.apply(1, 4, final(0, None, 1))
        elif change.kind == "remove":
            swap(server, "Grace")
        else:
            break
    assert received == [
        ("snapshot", 1, ["0-0"]),
        ("upsert", 1, ["0-1"]),
        ("remove", 1, ["0-0"]),
        ("cutover", 2, ["0-0"]),
    ]
    assert connection._change_queues == []  # an abandoned iterator leaves no queue


def test_one_thread_reads_while_another_iterates(
    connection: Connection, server: RunningServer
) -> None:
    table = connection.table("final_ui")
    kinds: list[str] = []

    def iterate() -> None:
        kinds.extend(change.kind for change in table.changes())

    thread = threading.Thread(target=iterate)
    thread.start()
    until(lambda: kinds, "the snapshot", LIMIT_S)
    for n in range(50):
        server.apply(1, n + 3, final(n, f"name {n}", n + 1))
    until(lambda: len(table.to_arrow()) == 50, "all rows", LIMIT_S)
    connection.close()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert set(kinds[1:]) == {"upsert"}
    assert len(table.to_arrow()) == 50  # the rows stay readable after close


def test_two_tables_of_a_connection_show_one_generation(
    connection: Connection, server: RunningServer
) -> None:
    users, finals = connection.table("users_ui"), connection.table("final_ui")
    users.to_arrow()
    swap(server, "Grace")
    assert connection.wait_for_swap(after=1, timeout_s=LIMIT_S) == 2
    assert (len(users.to_arrow()), names(finals.to_arrow())) == (0, ["Grace"])


def test_a_large_table_has_its_newest_rows_and_total(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_socket, "HEARTBEAT_S", 0.05)
    catalog = Catalog(logs_kept=100, rejects_kept=100, viewer_rows=3)
    catalog.apply_state(live(1))
    catalog.apply(chunk(1, 10, *(final(n, f"{n}") for n in range(10))))
    with run_server(catalog) as server, connect(url(server)) as other:
        table = other.table("final_ui")
        assert names(table.to_arrow()) == ["7", "8", "9"]
        assert table.total == 10
        server.apply(1, 11, final(10, "A"))
        until(lambda: names(table.to_arrow()) == ["8", "9", "A"], "the newest", LIMIT_S)
        until(lambda: table.total == 11, "the total", LIMIT_S)
        assert other.mismatches == 0  # the hash covers the rows of this viewer


def test_a_lost_row_is_detected_and_repaired(
    connection: Connection, server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    table = connection.table("final_ui")
    table.to_arrow()
    with connection._changed:
        connection._session._replicas["final_ui"].remove(pa.table({"_id": ["0-0"]}))
    until(lambda: names(table.to_arrow()) == ["Ada"], "a fresh snapshot", LIMIT_S)
    assert connection.mismatches == 1
    assert "fetching them again" in caplog.text


# --- failures


def test_stale_gives_the_reason_of_the_server(
    connection: Connection, server: RunningServer
) -> None:
    connection.table("final_ui").to_arrow()
    until(lambda: connection.heartbeat_age_s is not None, "a heartbeat", LIMIT_S)
    assert connection.stale is None
    server.run_on_loop(lambda catalog: catalog.set_trouble("no broker"))
    until(lambda: connection.stale == "no broker", "the reason", LIMIT_S)


def test_it_reconnects_to_a_restarted_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_socket, "HEARTBEAT_S", 0.05)
    with contextlib.ExitStack() as stack:
        with run_server(sample_catalog()) as server:
            other = stack.enter_context(connect(url(server)))
            table = other.table("final_ui")
            kinds: list[str] = []
            thread = threading.Thread(
                target=lambda: kinds.extend(change.kind for change in table.changes())
            )
            thread.start()
            stack.callback(thread.join, LIMIT_S)
            stack.callback(other.close)
            assert names(table.to_arrow()) == ["Ada"]
        until(
            lambda: str(other.stale).startswith("not connected"), "the connection is lost", LIMIT_S
        )
        assert names(table.to_arrow()) == ["Ada"]
        with run_server(
            port=server.port
        ) as restarted:  # a restarted server without a live generation
            until(lambda: "last rows are kept" in str(other.stale), "it is reconnected", LIMIT_S)
            assert names(table.to_arrow()) == ["Ada"]
            restarted.follow(building(2))
            restarted.apply(2, 1, final(0, "Grace"))
            restarted.follow(live(2, ready_at=1))
            until(lambda: names(table.to_arrow()) == ["Grace"], "new rows", LIMIT_S)
            assert (other.reconnects, other.mismatches) == (1, 0)
            until(lambda: kinds == ["snapshot", "cutover"], "the iterator", LIMIT_S)


def test_a_lost_socket_is_resumed(connection: Connection, server: RunningServer) -> None:
    server.apply(
        1, 52, *(final(n, "Bob", 1) for n in range(50))
    )  # so that a delta is smaller than a snapshot
    table = connection.table("final_ui")
    kinds = []
    for change in table.changes():
        kinds.append(change.kind)
        if change.kind == "snapshot":
            until(lambda: connection.heartbeat_age_s is not None, "a heartbeat", LIMIT_S)
            assert connection._socket is not None
            connection._socket.close()
            server.apply(1, 54, final(0, None, 2), final(1, "Alan", 2))
        if "Alan" in names(table.to_arrow()) and len(table.to_arrow()) == 49:
            break
    assert (kinds[0], set(kinds[1:])) == ("snapshot", {"upsert"})
    assert (connection.reconnects, connection.mismatches) == (1, 0)


def test_a_silent_server_causes_a_reconnect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_socket, "HEARTBEAT_S", 3600)
    monkeypatch.setattr(protocol, "SILENCE_S", 0.1)
    with run_server(sample_catalog()) as server, connect(url(server)) as other:
        table = other.table("final_ui")
        until(lambda: other.reconnects >= 2, "another try", LIMIT_S)
        assert names(table.to_arrow()) == ["Ada"]


def test_an_unknown_table_is_named(connection: Connection) -> None:
    with pytest.raises(RequestError, match=r"no table 'finalui'.*accounts_ui"):
        connection.table("finalui")


def test_an_unreachable_server_is_an_error_at_once() -> None:
    with run_server() as server:
        pass
    with pytest.raises(Unreachable, match="no livejoin responds"):
        connect(url(server))
    with pytest.raises(RequestError, match="not an HTTP URL"):
        connect("127.0.0.1:10000")


def test_waiting_times_out_with_a_reason(connection: Connection) -> None:
    with pytest.raises(TookTooLong, match="waited 0 s for a generation after 1"):
        connection.wait_for_swap(after=1, timeout_s=0.2)


def test_close_is_idempotent_and_leaves_no_thread(connection: Connection) -> None:
    table = connection.table("final_ui")
    table.to_arrow()
    connection.close()
    connection.close()
    assert [other for other in threading.enumerate() if other.name == "livejoin"] == []
    assert list(table.changes())[1:] == []
    with pytest.raises(RequestError, match="closed"):
        connection.table("users_ui")


def test_an_internal_error_is_raised(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(protocol.ClientSession, "_apply", broken)
    with pytest.raises(RequestError, match="internal error") as raised:
        connection.table("final_ui").to_arrow()
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


# --- tokens


TABLES = json.dumps({"tables": [{"name": "final_ui"}]})


def test_every_request_has_the_token_and_a_401_is_final() -> None:
    def answer(request: Request) -> tuple[int, str]:
        return (200, TABLES) if request.path.endswith("tables") else (401, "")

    with fake_server(answer) as (address, received), connect(address, token="s3cret") as other:
        with pytest.raises(RequestError, match="denied access: 401"):
            other.table("final_ui").to_arrow()
        assert "s3cret" not in repr(other._endpoint)
    assert [request.path for request in received] == ["/api/v1/tables", "/api/v1/live"]
    assert {request.headers["Authorization"] for request in received} == {"Bearer s3cret"}


def test_redirects_are_not_followed() -> None:
    with (
        fake_server(lambda _: (302, "")) as (address, received),
        pytest.raises(Unreachable, match="302"),
    ):
        connect(address, token="s3cret")
    assert len(received) == 1


@pytest.mark.parametrize("body", ["<html>", "[]", "{}"])
def test_another_server_is_unreachable(body: str) -> None:
    with fake_server(lambda _: (200, body)) as (address, _), pytest.raises(Unreachable):
        connect(address)


# --- requests


@pytest.fixture
def leader(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """A fake leader: an inner join goes live, a left join fails."""
    messages: list[bytes] = []

    async def send(_: ControlProducer, raw: bytes, by: str) -> dict[str, Any]:
        assert by == "python 127.0.0.1"
        messages.append(raw)
        message = json.loads(raw)
        position = {"partition": 0, "offset": len(messages)}
        answer: dict[str, Any] = {
            **position,
            "outcome": "accepted",
            "reason": None,
            "generation": 2,
            "warnings": [],
        }
        if "id" in message:
            return {**answer, "outcome": "repeated", "reason": "seen before", "generation": None}
        if message.get("joinType") == "nope":
            return {**answer, "outcome": "rejected", "reason": "unknown join"}
        if message.get("action") == "rollback":
            rolled_back = replace(live(1), standby=live(2).live)
            threading.Thread(target=server.follow, args=(rolled_back,)).start()
            return {**answer, "outcome": "live", "generation": 1}
        state = "failed" if message["joinType"] == "left" else "live"
        threading.Thread(target=decide, args=(state,)).start()
        return answer

    def decide(state: str) -> None:
        row = {"generation": 2, "message": "boom" if state == "failed" else ""}
        server.run_on_loop(
            lambda catalog: catalog.system.put_generations({2: {**row, "state": "building"}})
        )
        server.run_on_loop(
            lambda catalog: catalog.system.put_generations({2: {**row, "state": state}})
        )
        if state == "live":
            swap(server, "Grace")

    monkeypatch.setattr(ControlProducer, "send", send)
    return messages


def test_control_waits_for_the_swap(connection: Connection, leader: list[bytes]) -> None:
    table = connection.table("final_ui")
    assert names(table.to_arrow()) == ["Ada"]
    outcome = connection.control(joinType="inner", wait=True, timeout_s=LIMIT_S)
    assert outcome == Outcome("live", "", 2, 1)
    assert names(table.to_arrow()) == ["Grace"]  # at once: the client waits for its own tables
    assert json.loads(leader[0]) == {"joinType": "inner"}
    assert connection.rollback(wait=True, timeout_s=LIMIT_S).generation == 1
    assert names(table.to_arrow()) == ["Ada"]


def test_control_without_wait_returns_at_once(connection: Connection, leader: list[bytes]) -> None:
    assert connection.control(joinType="inner").outcome == "accepted"
    assert connection.wait_for_swap(after=1, timeout_s=LIMIT_S) == 2


def test_control_does_not_wait_if_nothing_goes_live(
    connection: Connection, leader: list[bytes]
) -> None:
    connection.table("final_ui").to_arrow()
    assert connection.control(id="again", wait=True, timeout_s=LIMIT_S).outcome == "repeated"


def test_failures_and_rejections_are_raised(connection: Connection, leader: list[bytes]) -> None:
    with pytest.raises(NotLive, match="failed, boom"):
        connection.control(joinType="left", wait=True, timeout_s=LIMIT_S)
    with pytest.raises(Rejected, match="unknown join"):
        connection.control(joinType="nope")


def test_preview_and_status_return_the_response(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def preview(_: ControlProducer, raw: bytes) -> dict[str, Any]:
        return {"outcome": "accepted", "asked": json.loads(raw)}

    monkeypatch.setattr(ControlProducer, "preview", preview)
    assert connection.preview(joinType="inner")["asked"] == {"joinType": "inner"}
    assert connection.status()["sources"]["users"]["rows"] == 1


def test_without_kafka_the_reason_is_raised(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def send(*_: object) -> dict[str, Any]:
        raise KafkaUnavailable("control topic cannot be written")

    monkeypatch.setattr(ControlProducer, "send", send)
    with pytest.raises(RequestError, match="cannot be written"):
        connection.control(joinType="inner")


# --- asyncio


def test_tables_changes_and_swaps_with_asyncio(server: RunningServer, leader: list[bytes]) -> None:
    async def follow() -> list[tuple[str, int | None]]:
        received: list[tuple[str, int | None]] = []
        async with aconnect(url(server)) as other:
            table = await other.table("final_ui")
            assert names(await table.to_arrow()) == ["Ada"]
            assert (await other.status())["viewers"] == 1
            async for change in table.changes():
                received.append((change.kind, change.generation))
                if change.kind == "snapshot":
                    await asyncio.to_thread(server.apply, 1, 3, final(1, "Alan"))
                elif change.kind == "upsert":
                    outcome = await other.control(joinType="inner", wait=True, timeout_s=LIMIT_S)
                    assert outcome.generation == 2
                    assert names(await table.to_arrow()) == ["Grace"]
                elif change.generation == 2:
                    await other.rollback(wait=True, timeout_s=LIMIT_S)
                else:
                    break
            assert await other.wait_for_swap(after=2) == 1
            assert (other.mismatches, other.reconnects, table.total) == (0, 0, 2)
            with pytest.raises(Rejected):
                await other.control(joinType="nope")
        return received

    assert asyncio.run(follow()) == [
        ("snapshot", 1),
        ("upsert", 1),
        ("cutover", 2),
        ("cutover", 1),
    ]


def test_an_awaited_connection_is_closed_explicitly(server: RunningServer) -> None:
    async def follow() -> list[str]:
        other = await aconnect(url(server))
        users, finals = await other.table("users_ui"), await other.table("final_ui")
        assert (await users.to_arrow()).num_rows == 1

        async def iterate() -> list[str]:
            return [change.kind async for change in finals.changes()]

        task = asyncio.create_task(iterate())
        await finals.to_arrow()
        with pytest.raises(TookTooLong, match="a generation after 1"):
            await other.wait_for_swap(after=1, timeout_s=0.2)
        assert other.stale is None
        await other.close()
        await other.close()
        with pytest.raises(RequestError, match="closed"):
            await other.table("rejects_ui")
        return await task

    kinds = asyncio.run(follow())
    assert set(kinds) == {"snapshot"}


def test_it_reconnects_with_asyncio(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_socket, "HEARTBEAT_S", 0.05)

    async def follow() -> None:
        first = run_server(sample_catalog())  # in threads, since each server runs an event loop
        server = await asyncio.to_thread(first.__enter__)
        other = await aconnect(url(server))
        table = await other.table("final_ui")
        await table.to_arrow()
        await asyncio.to_thread(first.__exit__, None, None, None)
        second = run_server(sample_catalog(), port=server.port)
        restarted = await asyncio.to_thread(second.__enter__)
        await asyncio.to_thread(restarted.apply, 1, 3, final(1, "Alan"))
        async for _ in table.changes():
            if names(await table.to_arrow()) == ["Ada", "Alan"]:
                break
        assert other.reconnects == 1
        await other.close()
        await asyncio.to_thread(second.__exit__, None, None, None)

    asyncio.run(follow())


def test_a_403_is_final_with_asyncio() -> None:
    def answer(request: Request) -> tuple[int, str]:
        return (200, TABLES) if request.path.endswith("tables") else (403, "")

    async def follow(address: str) -> None:
        async with aconnect(address) as other:
            table = await other.table("final_ui")
            with pytest.raises(RequestError, match=r"denied access: 403.*token"):
                await table.to_arrow()

    with fake_server(answer) as (address, _):
        asyncio.run(follow(address))


# --- other libraries


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_missing_library_is_named(
    name: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MachineError, match=f"pip install {name}"):
        getattr(connection.table("users_ui"), f"to_{name}")()


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_integers_stay_integers_in(
    name: str, connection: Connection, server: RunningServer
) -> None:
    server.apply(1, 3, user(1, age=None))
    table = connection.table("users_ui")
    until(lambda: len(table.to_arrow()) == 2, "both", LIMIT_S)
    frame = getattr(table, f"to_{name}")()
    assert str(frame["age"].dtype) == "Int64"  # nullable integers in both libraries
    assert frame["age"].max() == 2**53 + 1


def test_the_client_imports_no_heavy_modules() -> None:
    heavy = "pyspark confluent_kafka starlette uvicorn perspective pandas polars pydantic typer"
    code = f"import sys, livejoin.client; print([n for n in {heavy.split()!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_the_client_is_typed() -> None:
    assert Path(livejoin.__file__).with_name("py.typed").exists()
