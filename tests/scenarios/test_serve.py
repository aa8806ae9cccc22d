"""Further table servers on one Kafka wait for a ledger, serve equal tables, outlive `run`."""

import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from livejoin.kafka.cluster import Kafka
from rig.heartbeats import frames, heartbeat, stale
from rig.protocol import Part
from rig.running import Running, until
from rig.watching import DATA
from rig.world import ExpectOracle, KillDash9, Produce, World, play, run_world, start_second

STALE_S = 15  # O6
RECEIVE_S = 10


def at_same_position(servers: Sequence[Running], generation: int) -> bool:
    """Whether all servers are at one position. Tables at the same position must be equal."""
    heartbeats = [heartbeat(server) for server in servers]
    places = [(beat["generation"], beat["seq"]) for beat in heartbeats]
    for place, beat in zip(places, heartbeats, strict=True):
        assert place != places[0] or beat["tables"] == heartbeats[0]["tables"], heartbeats
    return set(places) == {places[0]} and heartbeats[0]["generation"] == generation


def reports_missing_ledger(server: Running) -> bool:
    """Whether it reports a missing ledger; false while it is starting."""
    try:
        return "there is no ledger serve.ledger" in server.request("api/v1/status")["message"]
    except AssertionError:
        return False


def fresh(server: Running) -> bool:
    return not stale(server)


def test_servers_show_equal_tables_and_outlive_the_orchestrator(
    kafka: Kafka, tmp_path: Path
) -> None:
    with run_world(kafka, tmp_path / "one", "serve", start=False) as world:
        servers = [start_second(world, tmp_path / f"server-{n}", "serve") for n in (1, 2)]
        try:
            _wait_for_a_ledger(servers)
            world.live.start()
            world.stack.enter_context(world.watcher)
            world.live.wait_live()
            for server in servers:
                server.wait_live()
                assert not server.jvms()
            all_servers = [world.live, *servers]
            play(world, [Produce("a", 40), ExpectOracle("a")])
            until(partial(at_same_position, all_servers, 1), "all show generation 1, equal")
            _expect_resume_elsewhere(world, servers, all_servers)
            _swap_by_a_server(world, servers, all_servers)
            _expect_outlived(world, servers)
            _expect_new_leader_followed(world, servers, all_servers)
        finally:
            for server in servers:
                assert server.stop(signal.SIGTERM) == 0, server.log.read_text()[-3000:]


def _wait_for_a_ledger(servers: Sequence[Running]) -> None:
    for server in servers:
        until(partial(reports_missing_ledger, server), "it reports that it is waiting")
        assert "waiting for a ledger" in server.log.read_text()
        assert server.request("livez")["status"] == "alive"


def _expect_resume_elsewhere(
    world: World, servers: Sequence[Running], all_servers: Sequence[Running]
) -> None:
    """Check that a viewer can resume at another server and gets exactly what it missed."""
    rows_before = {table: servers[0].table(table).keys() for table in DATA}
    header, _ = next(frames(servers[0]))
    play(world, [Produce("a", 20), ExpectOracle("a")])  # the first server has caught up
    until(partial(at_same_position, all_servers, 1), "the others have too")
    rows_after = {table: servers[1].table(table).keys() for table in DATA}
    resume = {name: header[name] for name in ("generation", "seq")}
    resumed_header, parts = next(frames(servers[1], resume=resume))
    assert resumed_header["resumed"]
    assert {part.kind for part in parts} == {"upsert"}
    received = {part.table: _ids(part) for part in parts}
    for table in DATA:
        assert rows_after[table] - rows_before[table] <= received[table] < rows_after[table]


def _ids(part: Part) -> set[str]:
    with pa.ipc.open_stream(part.payload) as stream:
        return set(stream.read_all()["_id"].to_pylist())


def _swap_by_a_server(
    world: World, servers: Sequence[Running], all_servers: Sequence[Running]
) -> None:
    """Check that a swap requested at one server reaches all of them."""
    topics = world.topics("b")
    request = {"usersTopic": topics["users"], "accountsTopic": topics["accounts"]}
    answer = servers[0].request("api/v1/control", request)
    assert answer["generation"] == 2, answer
    assert answer["outcome"] in ("accepted", "building", "caught-up", "live"), answer
    until(partial(at_same_position, all_servers, 2), "all show generation 2, equal")
    for server in servers:
        play(World(**{**vars(world), "live": server}), [ExpectOracle("b")])
    rows = servers[1].table("control_raw").values()
    assert [row["by"].split()[0] for row in rows] == ["http"]


def _expect_outlived(world: World, servers: Sequence[Running]) -> None:
    """Check that servers without an orchestrator go on serving, and report stale rows in time."""
    before = [server.table("final_ui") for server in servers]
    for server in servers:
        until(partial(fresh, server), "an orchestrator leads")
    play(world, [KillDash9(restart=False)])
    killed = time.monotonic()
    for server in servers:
        limit_s = STALE_S - (time.monotonic() - killed)
        until(partial(stale, server), "the rows are reported as stale", limit_s)
        assert stale(server).startswith("no orchestrator leads since ")
        assert heartbeat(server)["stale"].startswith("no orchestrator leads since ")
        checks = {check["name"]: check for check in server.request("readyz?verbose")["checks"]}
        assert not checks["leader"]["ok"]
        assert checks["kafka"]["ok"]
    assert [server.table("final_ui") for server in servers] == before


def _expect_new_leader_followed(
    world: World, servers: Sequence[Running], all_servers: Sequence[Running]
) -> None:
    """Check that servers follow the next orchestrator by themselves."""
    world.live.start()
    play(world, [Produce("b", 30)])
    for server in servers:
        until(partial(fresh, server), "no longer stale")
        play(World(**{**vars(world), "live": server}), [ExpectOracle("b")])
    until(partial(at_same_position, all_servers, 2), "all are equal again")
