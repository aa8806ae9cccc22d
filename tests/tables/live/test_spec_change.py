"""Viewers while the served generation changes to one with other sources and columns."""

from collections.abc import Iterator

import pytest

from livejoin.errors import RequestError
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.live import broadcast
from livejoin.tables.live import socket as live_socket
from livejoin.tables.live.viewer import parse_subscription
from tables import orders
from tables.live_server import RunningServer, Viewer, run_server
from tables.samples import DATA_TABLES, chunk, final, line, live, user


@pytest.fixture(params=[2000, 0], ids=["small", "large"])
def server(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunningServer]:
    """Generation 1 with the default tables; `large` cutovers are sent viewer by viewer."""
    monkeypatch.setattr(broadcast, "_SMALL_CUTOVER_ROWS", request.param)
    monkeypatch.setattr(live_socket, "HEARTBEAT_S", 0.05)
    catalog = Catalog()
    catalog.apply_state(live(1))
    catalog.set_status({"usersTopic": "u", "state": "live"})
    catalog.system.add_log_lines([line(1)])
    catalog.apply(chunk(1, 2, user(0, ts=9000), final(0, "Ada")))
    with run_server(catalog) as server:
        yield server


def cut_over(server: RunningServer) -> None:
    """Show generation 2, of the other spec, with one row."""

    def change(catalog: Catalog) -> None:
        catalog.set_status({"usersTopic": "changed just before", "state": "live"})
        catalog.apply_state(orders.live(2, ready_at=1))
        catalog.apply(orders.chunk(2, 1, orders.order(0)))
        catalog.set_status({"ordersTopic": "o", "state": "live"})

    server.run_on_loop(change)


def test_one_cutover_frame_has_the_new_columns_also_of_the_system_tables(
    server: RunningServer,
) -> None:
    tables = ("final_ui", "orchestrator_status", "orchestrator_logs")
    with server.viewer(*tables) as viewer:
        viewer.next_frame()
        cut_over(server)
        frame = viewer.next_frame("cutover")
        assert ("final_ui", "snapshot") in frame.kinds
        assert ("orchestrator_status", "snapshot") in frame.kinds
        assert "gone" not in frame.header
        (status,) = viewer.view["orchestrator_status"].values()
        assert (status["ordersTopic"], "usersTopic" in status) == ("o", False)
        assert len(viewer.view["orchestrator_logs"]) == 1


def test_a_viewer_of_system_tables_alone_gets_their_new_columns(server: RunningServer) -> None:
    with server.viewer("orchestrator_status") as viewer:
        viewer.next_frame()
        cut_over(server)
        assert ("orchestrator_status", "snapshot") in viewer.next_frame("cutover").kinds


def test_a_table_that_no_longer_exists_is_gone_and_one_that_is_waited_for_starts(
    server: RunningServer,
) -> None:
    with server.viewer("final_ui") as viewer, server.viewer("users_ui") as plain:
        viewer.next_frame()
        plain.next_frame()
        viewer.subscribe("users_ui", "orders_ui", wait=True)
        frame = viewer.next_frame("data")
        assert (frame.kinds, frame.header["gone"]) == ([("users_ui", "snapshot")], ["orders_ui"])
        cut_over(server)
        frame = viewer.next_frame("cutover")
        assert (frame.kinds, frame.header["gone"]) == ([("orders_ui", "snapshot")], ["users_ui"])
        assert [row["orderId"] for row in frame.rows("orders_ui")] == ["o1"]
        assert plain.next_frame("cutover").header["gone"] == ["users_ui"]
        heartbeat = viewer.next_frame("heartbeat")
        assert "users_ui" not in heartbeat.header["tables"]
        assert heartbeat.header["tables"]["orders_ui"]["rows"] == 1


def test_a_viewer_that_resumes_is_told_what_is_gone(server: RunningServer) -> None:
    cut_over(server)
    with server.viewer("final_ui") as viewer:
        viewer.next_frame()
        viewer.subscribe("users_ui", "orders_ui", resume=(1, 2), wait=True)
        frame = viewer.next_frame("cutover")
        assert (frame.kinds, frame.header["gone"]) == ([("orders_ui", "snapshot")], ["users_ui"])


def _error(viewer: Viewer) -> str:
    message: str = viewer.next_frame("error").header["message"]
    return message


def test_without_waiting_an_unknown_table_is_an_error(server: RunningServer) -> None:
    with server.viewer("orders_ui") as viewer:
        assert "there is no table 'orders_ui'" in _error(viewer)


def test_waiting_does_not_open_restricted_tables_to_viewers() -> None:
    with pytest.raises(RequestError, match="there is no table 'audit'"):
        parse_subscription('{"subscribe": ["audit"], "wait": true}', DATA_TABLES)
