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
from client.conftest import filled
from client.pretender import pretender
from livejoin.client import Connection, Outcome, aconnect, connect, protocol
from livejoin.errors import (
    AskError,
    KafkaUnavailable,
    MachineError,
    NotLive,
    Rejected,
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
def joined(shown: RunningServer) -> Iterator[Connection]:
    with connect(url(shown)) as one:
        yield one


def url(shown: RunningServer) -> str:
    return f"http://127.0.0.1:{shown.port}/"


def names(rows: pa.Table) -> list[str]:
    return sorted(rows.column("name").to_pylist())


def swap(shown: RunningServer, *people: str) -> None:
    """Generation 2 goes live."""
    shown.follow(live(1, next_one=2))
    changes = [final(n, name) for n, name in enumerate(people)]
    shown.apply(2, len(changes), *changes)
    shown.follow(replace(live(2, ready_at=len(changes)), standby=live(1).live))


# --- reading


def test_rows_are_arrow_with_their_types(joined: Connection) -> None:
    rows = joined.table("users_ui").to_arrow()
    assert rows.column_names == ["userId", "name", "email", "age", "_id", "_ts"]
    assert rows.to_pylist()[0]["age"] == 2**53 + 1
    assert rows.schema.field("_ts").type == pa.timestamp("ms", "UTC")


def test_rows_are_kept_up_to_date(joined: Connection, shown: RunningServer) -> None:
    table = joined.table("final_ui")
    assert names(table.to_arrow()) == ["Ada"]
    shown.apply(1, 4, final(0, "Ada L.", 1), final(1, "Alan"))
    until(lambda: names(table.to_arrow()) == ["Ada L.", "Alan"], "the change", LIMIT_S)
    assert table.total == 2
    assert joined.generation == 1


def test_changes_arrive_in_order_through_a_cutover(
    joined: Connection, shown: RunningServer
) -> None:
    found = []
    for change in joined.table("final_ui").changes():
        found.append((change.kind, change.generation, change.rows.column("_id").to_pylist()))
        if change.kind == "snapshot":
            shown.apply(1, 3, final(1, "Alan"))
        elif change.kind == "upsert":
            shown.apply(1, 4, final(0, None, 1))
        elif change.kind == "remove":
            swap(shown, "Grace")
        else:
            break
    assert found == [
        ("snapshot", 1, ["0-0"]),
        ("upsert", 1, ["0-1"]),
        ("remove", 1, ["0-0"]),
        ("cutover", 2, ["0-0"]),
    ]
    assert joined._change_queues == []  # an iterator that is let go costs nothing


def test_one_thread_reads_while_another_iterates(joined: Connection, shown: RunningServer) -> None:
    table = joined.table("final_ui")
    seen: list[str] = []

    def iterate() -> None:
        seen.extend(change.kind for change in table.changes())

    thread = threading.Thread(target=iterate)
    thread.start()
    until(lambda: seen, "the snapshot", LIMIT_S)
    for n in range(50):
        shown.apply(1, n + 3, final(n, f"name {n}", n + 1))
    until(lambda: len(table.to_arrow()) == 50, "all rows", LIMIT_S)
    joined.close()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert set(seen[1:]) == {"upsert"}
    assert len(table.to_arrow()) == 50  # what was held stays readable


def test_two_tables_of_a_connection_show_one_generation(
    joined: Connection, shown: RunningServer
) -> None:
    users, finals = joined.table("users_ui"), joined.table("final_ui")
    users.to_arrow()
    swap(shown, "Grace")
    assert joined.wait_for_swap(after=1, timeout_s=LIMIT_S) == 2
    assert (len(users.to_arrow()), names(finals.to_arrow())) == (0, ["Grace"])


def test_a_large_table_has_its_newest_rows_and_total(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_socket, "HEARTBEAT_S", 0.05)
    host = Catalog(logs_kept=100, rejects_kept=100, viewer_rows=3)
    host.apply_state(live(1))
    host.apply(chunk(1, 10, *(final(n, f"{n}") for n in range(10))))
    with run_server(host) as shown, connect(url(shown)) as one:
        table = one.table("final_ui")
        assert names(table.to_arrow()) == ["7", "8", "9"]
        assert table.total == 10
        shown.apply(1, 11, final(10, "A"))
        until(lambda: names(table.to_arrow()) == ["8", "9", "A"], "the newest", LIMIT_S)
        until(lambda: table.total == 11, "the total", LIMIT_S)
        assert one.mismatches == 0  # the hash is that of these rows


def test_a_lost_row_is_detected_and_repaired(
    joined: Connection, shown: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    table = joined.table("final_ui")
    table.to_arrow()
    with joined._changed:
        joined._session._replicas["final_ui"].remove(pa.table({"_id": ["0-0"]}))
    until(lambda: names(table.to_arrow()) == ["Ada"], "a fresh snapshot", LIMIT_S)
    assert joined.mismatches == 1
    assert "fetching them again" in caplog.text


# --- failures


def test_stale_gives_the_reason_of_the_server(joined: Connection, shown: RunningServer) -> None:
    joined.table("final_ui").to_arrow()
    until(lambda: joined.heartbeat_age_s is not None, "a heartbeat", LIMIT_S)
    assert joined.stale is None
    shown.run_on_loop(lambda host: host.set_trouble("no broker"))
    until(lambda: joined.stale == "no broker", "the reason", LIMIT_S)


def test_it_reconnects_to_a_restarted_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_socket, "HEARTBEAT_S", 0.05)
    with contextlib.ExitStack() as ending:
        with run_server(filled()) as shown:
            one = ending.enter_context(connect(url(shown)))
            table = one.table("final_ui")
            kinds: list[str] = []
            thread = threading.Thread(
                target=lambda: kinds.extend(change.kind for change in table.changes())
            )
            thread.start()
            ending.callback(thread.join, LIMIT_S)
            ending.callback(one.close)
            assert names(table.to_arrow()) == ["Ada"]
        until(lambda: str(one.stale).startswith("not connected"), "it is missed", LIMIT_S)
        assert names(table.to_arrow()) == ["Ada"]
        with run_server(port=shown.port) as again:  # it has just started, and shows nothing yet
            until(lambda: "last rows are kept" in str(one.stale), "it is back", LIMIT_S)
            assert names(table.to_arrow()) == ["Ada"]
            again.follow(building(2))
            again.apply(2, 1, final(0, "Grace"))
            again.follow(live(2, ready_at=1))
            until(lambda: names(table.to_arrow()) == ["Grace"], "new rows", LIMIT_S)
            assert (one.reconnects, one.mismatches) == (1, 0)
            until(lambda: kinds == ["snapshot", "cutover"], "the iterator", LIMIT_S)


def test_a_lost_socket_is_resumed(joined: Connection, shown: RunningServer) -> None:
    shown.apply(
        1, 52, *(final(n, "Bob", 1) for n in range(50))
    )  # so that a change is less than all
    table = joined.table("final_ui")
    kinds = []
    for change in table.changes():
        kinds.append(change.kind)
        if change.kind == "snapshot":
            until(lambda: joined.heartbeat_age_s is not None, "a heartbeat", LIMIT_S)
            assert joined._socket is not None
            joined._socket.close()
            shown.apply(1, 54, final(0, None, 2), final(1, "Alan", 2))
        if "Alan" in names(table.to_arrow()) and len(table.to_arrow()) == 49:
            break
    assert (kinds[0], set(kinds[1:])) == ("snapshot", {"upsert"})
    assert (joined.reconnects, joined.mismatches) == (1, 0)


def test_a_silent_server_causes_a_reconnect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_socket, "HEARTBEAT_S", 3600)
    monkeypatch.setattr(protocol, "SILENCE_S", 0.1)
    with run_server(filled()) as shown, connect(url(shown)) as one:
        table = one.table("final_ui")
        until(lambda: one.reconnects >= 2, "another try", LIMIT_S)
        assert names(table.to_arrow()) == ["Ada"]


def test_an_unknown_table_is_named(joined: Connection) -> None:
    with pytest.raises(AskError, match=r"no table 'finalui'.*accounts_ui"):
        joined.table("finalui")


def test_an_unreachable_server_is_an_error_at_once() -> None:
    with run_server() as shown:
        pass
    with pytest.raises(Unreachable, match="no livejoin responds"):
        connect(url(shown))
    with pytest.raises(AskError, match="not an HTTP URL"):
        connect("127.0.0.1:10000")


def test_waiting_times_out_with_a_reason(joined: Connection) -> None:
    with pytest.raises(TookTooLong, match="waited 0 s for a generation after 1"):
        joined.wait_for_swap(after=1, timeout_s=0.2)


def test_close_is_idempotent_and_leaves_no_thread(joined: Connection) -> None:
    table = joined.table("final_ui")
    table.to_arrow()
    joined.close()
    joined.close()
    assert [one for one in threading.enumerate() if one.name == "livejoin"] == []
    assert list(table.changes())[1:] == []
    with pytest.raises(AskError, match="closed"):
        joined.table("users_ui")


def test_an_internal_error_is_raised(joined: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(protocol.ClientSession, "_apply", broken)
    with pytest.raises(AskError, match="internal error") as raised:
        joined.table("final_ui").to_arrow()
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


# --- tokens


TABLES = json.dumps({"tables": [{"name": "final_ui"}]})


def test_every_request_has_the_token_and_a_401_is_final() -> None:
    def answer(request: Request) -> tuple[int, str]:
        return (200, TABLES) if request.path.endswith("tables") else (401, "")

    with pretender(answer) as (address, asked), connect(address, token="s3cret") as one:
        with pytest.raises(AskError, match="denied access: 401"):
            one.table("final_ui").to_arrow()
        assert "s3cret" not in repr(one._endpoint)
    assert [request.path for request in asked] == ["/api/v1/tables", "/api/v1/live"]
    assert {request.headers["Authorization"] for request in asked} == {"Bearer s3cret"}


def test_redirects_are_not_followed() -> None:
    with (
        pretender(lambda _: (302, "")) as (address, asked),
        pytest.raises(Unreachable, match="302"),
    ):
        connect(address, token="s3cret")
    assert len(asked) == 1


@pytest.mark.parametrize("body", ["<html>", "[]", "{}"])
def test_another_server_is_unreachable(body: str) -> None:
    with pretender(lambda _: (200, body)) as (address, _), pytest.raises(Unreachable):
        connect(address)


# --- requests


@pytest.fixture
def leader(shown: RunningServer, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """A fake leader: an inner join goes live, a left join fails."""
    sent: list[bytes] = []

    async def send(_: ControlProducer, raw: bytes, by: str) -> dict[str, Any]:
        assert by == "python 127.0.0.1"
        sent.append(raw)
        message = json.loads(raw)
        answer = {"offset": len(sent), "outcome": "accepted", "reason": None, "generation": 2}
        if "id" in message:
            return {**answer, "outcome": "repeated", "reason": "seen before", "generation": None}
        if message.get("joinType") == "nope":
            return {**answer, "outcome": "rejected", "reason": "unknown join"}
        if message.get("action") == "rollback":
            back = replace(live(1), standby=live(2).live)
            threading.Thread(target=shown.follow, args=(back,)).start()
            return {**answer, "outcome": "live", "generation": 1}
        end = "failed" if message["joinType"] == "left" else "live"
        threading.Thread(target=decide, args=(end,)).start()
        return answer

    def decide(end: str) -> None:
        row = {"generation": 2, "message": "boom" if end == "failed" else ""}
        shown.run_on_loop(
            lambda host: host.system.put_generations({2: {**row, "state": "building"}})
        )
        shown.run_on_loop(lambda host: host.system.put_generations({2: {**row, "state": end}}))
        if end == "live":
            swap(shown, "Grace")

    monkeypatch.setattr(ControlProducer, "send", send)
    return sent


def test_control_waits_for_the_swap(joined: Connection, leader: list[bytes]) -> None:
    table = joined.table("final_ui")
    assert names(table.to_arrow()) == ["Ada"]
    outcome = joined.control(joinType="inner", wait=True, timeout_s=LIMIT_S)
    assert outcome == Outcome("live", "", 2, 1)
    assert names(table.to_arrow()) == ["Grace"]  # at once: the tables here have moved
    assert json.loads(leader[0]) == {"joinType": "inner"}
    assert joined.rollback(wait=True, timeout_s=LIMIT_S).generation == 1
    assert names(table.to_arrow()) == ["Ada"]


def test_control_without_wait_returns_at_once(joined: Connection, leader: list[bytes]) -> None:
    assert joined.control(joinType="inner").outcome == "accepted"
    assert joined.wait_for_swap(after=1, timeout_s=LIMIT_S) == 2


def test_control_does_not_wait_if_nothing_goes_live(
    joined: Connection, leader: list[bytes]
) -> None:
    joined.table("final_ui").to_arrow()
    assert joined.control(id="again", wait=True, timeout_s=LIMIT_S).outcome == "repeated"


def test_failures_and_rejections_are_raised(joined: Connection, leader: list[bytes]) -> None:
    with pytest.raises(NotLive, match="failed, boom"):
        joined.control(joinType="left", wait=True, timeout_s=LIMIT_S)
    with pytest.raises(Rejected, match="unknown join"):
        joined.control(joinType="nope")


def test_preview_and_status_return_the_response(
    joined: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def preview(_: ControlProducer, raw: bytes) -> dict[str, Any]:
        return {"outcome": "accepted", "asked": json.loads(raw)}

    monkeypatch.setattr(ControlProducer, "preview", preview)
    assert joined.preview(joinType="inner")["asked"] == {"joinType": "inner"}
    assert joined.status()["sources"]["users"]["rows"] == 1


def test_without_kafka_the_reason_is_raised(
    joined: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def send(*_: object) -> dict[str, Any]:
        raise KafkaUnavailable("control topic cannot be written")

    monkeypatch.setattr(ControlProducer, "send", send)
    with pytest.raises(AskError, match="cannot be written"):
        joined.control(joinType="inner")


# --- asyncio


def test_tables_changes_and_swaps_with_asyncio(shown: RunningServer, leader: list[bytes]) -> None:
    async def follow() -> list[tuple[str, int | None]]:
        found: list[tuple[str, int | None]] = []
        async with aconnect(url(shown)) as one:
            table = await one.table("final_ui")
            assert names(await table.to_arrow()) == ["Ada"]
            assert (await one.status())["viewers"] == 1
            async for change in table.changes():
                found.append((change.kind, change.generation))
                if change.kind == "snapshot":
                    await asyncio.to_thread(shown.apply, 1, 3, final(1, "Alan"))
                elif change.kind == "upsert":
                    outcome = await one.control(joinType="inner", wait=True, timeout_s=LIMIT_S)
                    assert outcome.generation == 2
                    assert names(await table.to_arrow()) == ["Grace"]
                elif change.generation == 2:
                    await one.rollback(wait=True, timeout_s=LIMIT_S)
                else:
                    break
            assert await one.wait_for_swap(after=2) == 1
            assert (one.mismatches, one.reconnects, table.total) == (0, 0, 2)
            with pytest.raises(Rejected):
                await one.control(joinType="nope")
        return found

    assert asyncio.run(follow()) == [
        ("snapshot", 1),
        ("upsert", 1),
        ("cutover", 2),
        ("cutover", 1),
    ]


def test_an_awaited_connection_is_closed_explicitly(shown: RunningServer) -> None:
    async def follow() -> list[str]:
        one = await aconnect(url(shown))
        users, finals = await one.table("users_ui"), await one.table("final_ui")
        assert (await users.to_arrow()).num_rows == 1

        async def iterate() -> list[str]:
            return [change.kind async for change in finals.changes()]

        task = asyncio.create_task(iterate())
        await finals.to_arrow()
        with pytest.raises(TookTooLong, match="a generation after 1"):
            await one.wait_for_swap(after=1, timeout_s=0.2)
        assert one.stale is None
        await one.close()
        await one.close()
        with pytest.raises(AskError, match="closed"):
            await one.table("rejects_ui")
        return await task

    kinds = asyncio.run(follow())
    assert set(kinds) == {"snapshot"}


def test_it_reconnects_with_asyncio(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_socket, "HEARTBEAT_S", 0.05)

    async def follow() -> None:
        first = run_server(filled())  # on threads of their own: they bring a loop
        shown = await asyncio.to_thread(first.__enter__)
        one = await aconnect(url(shown))
        table = await one.table("final_ui")
        await table.to_arrow()
        await asyncio.to_thread(first.__exit__, None, None, None)
        second = run_server(filled(), port=shown.port)
        again = await asyncio.to_thread(second.__enter__)
        await asyncio.to_thread(again.apply, 1, 3, final(1, "Alan"))
        async for _ in table.changes():
            if names(await table.to_arrow()) == ["Ada", "Alan"]:
                break
        assert one.reconnects == 1
        await one.close()
        await asyncio.to_thread(second.__exit__, None, None, None)

    asyncio.run(follow())


def test_a_403_is_final_with_asyncio() -> None:
    def answer(request: Request) -> tuple[int, str]:
        return (200, TABLES) if request.path.endswith("tables") else (403, "")

    async def follow(address: str) -> None:
        async with aconnect(address) as one:
            table = await one.table("final_ui")
            with pytest.raises(AskError, match=r"denied access: 403.*token"):
                await table.to_arrow()

    with pretender(answer) as (address, _):
        asyncio.run(follow(address))


# --- other libraries


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_missing_library_is_named(
    name: str, joined: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MachineError, match=f"pip install {name}"):
        getattr(joined.table("users_ui"), f"to_{name}")()


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_integers_stay_integers_in(name: str, joined: Connection, shown: RunningServer) -> None:
    shown.apply(1, 3, user(1, age=None))
    table = joined.table("users_ui")
    until(lambda: len(table.to_arrow()) == 2, "both", LIMIT_S)
    frame = getattr(table, f"to_{name}")()
    assert str(frame["age"].dtype) == "Int64"  # both have such a type, with nulls
    assert frame["age"].max() == 2**53 + 1


def test_the_client_imports_no_heavy_modules() -> None:
    heavy = "pyspark confluent_kafka starlette uvicorn perspective pandas polars pydantic typer"
    code = f"import sys, livejoin.client; print([n for n in {heavy.split()!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_the_client_is_typed() -> None:
    assert Path(livejoin.__file__).with_name("py.typed").exists()
