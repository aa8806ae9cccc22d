"""The client while the tables change to those of other sources."""

import asyncio
from typing import Any

import pyarrow as pa
import pytest

from livejoin.client import aconnect, connect, requests
from livejoin.errors import RequestError
from livejoin.tables.ingest.catalog import Catalog
from rig.running import until
from tables import orders
from tables.live_server import LIMIT_S, RunningServer, run_server
from tables.samples import live


def url(server: RunningServer) -> str:
    return f"http://127.0.0.1:{server.port}/"


def to_orders(server: RunningServer) -> None:
    """Show generation 2, whose sources are others."""

    def change(catalog: Catalog) -> None:
        catalog.apply_state(orders.live(2, ready_at=1))
        catalog.apply(orders.chunk(2, 1, orders.order(0)))

    server.run_on_loop(change)


def test_tables_appear_go_and_change_their_columns_at_a_cutover(server: RunningServer) -> None:
    with connect(url(server)) as connection:
        users, final = connection.table("users_ui"), connection.table("final_ui")
        assert users.to_arrow().num_rows == 1
        changes = users.changes()
        assert next(changes).kind == "snapshot"
        with pytest.raises(RequestError, match="there is no table 'orders_ui'"):
            connection.table("orders_ui")
        to_orders(server)
        gone = next(changes)
        assert (gone.kind, gone.rows.num_rows, gone.generation) == ("gone", 0, 2)
        with pytest.raises(RequestError, match="there is no table 'users_ui' any more"):
            users.to_arrow()
        assert "payments_paid" in final.to_arrow().column_names
        rows = connection.table("orders_ui").to_arrow()
        assert rows.schema.field("total").type == pa.decimal128(12, 2)
        until(lambda: connection.stale is None, "fresh again", LIMIT_S)
        server.follow(live(3))
        back = next(changes)
        assert (back.kind, back.generation) == ("cutover", 3)
        assert connection.mismatches == 0


def test_a_table_that_went_while_the_client_was_away_is_gone() -> None:
    with run_server(Catalog()) as server, connect(url(server)) as connection:
        server.follow(live(1))
        users = connection.table("users_ui")
        until(lambda: connection.generation == 1, "shown", LIMIT_S)
        assert users.to_arrow().num_rows == 0
        assert connection._socket is not None
        to_orders(server)
        connection._socket.close()
        until(lambda: connection.generation == 2, "shown again", LIMIT_S)
        with pytest.raises(RequestError, match="any more"):
            users.to_arrow()


def test_a_client_with_an_event_loop_finds_tables_that_appeared(server: RunningServer) -> None:
    async def scenario() -> tuple[list[str], pa.Table]:
        async with aconnect(url(server)) as connection:
            await (await connection.table("final_ui")).to_arrow()
            to_orders(server)
            orders_table = await connection.table("orders_ui")
            return (await connection.spec())["lookups"], await orders_table.to_arrow()

    lookups, rows = asyncio.run(scenario())
    assert lookups == ["customers", "payments"]
    assert rows.column("orderId").to_pylist() == ["o1"]


SPEC = {"control": {"sources": [{"name": "orders", "field": "ordersTopic"}], "joins": ["left"]}}


@pytest.mark.parametrize(
    ("message", "sent"),
    [
        ({"orders": "o2"}, {"ordersTopic": "o2"}),
        ({"ordersTopic": "o2", "joinType": "left"}, {"ordersTopic": "o2", "joinType": "left"}),
        ({"orders": "o2", "id": "7", "other": 1}, {"ordersTopic": "o2", "id": "7", "other": 1}),
    ],
)
def test_topics_are_named_by_source_or_by_field(
    message: dict[str, Any], sent: dict[str, Any]
) -> None:
    steps = requests.preview(message)
    call: Any = next(steps)
    if call.path == "api/v1/spec":
        call = steps.send(SPEC)
    assert (call.path, call.message) == ("api/v1/preview", sent)
