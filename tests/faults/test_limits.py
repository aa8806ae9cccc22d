"""A table that exceeds `max_rows`: the newest rows stay, the same ones on every server."""

from pathlib import Path
from typing import Any

from livejoin.kafka.cluster import Kafka
from rig import oracle
from rig.figures import Figures, cells_of
from rig.running import COLD, Running, until
from rig.world import Produce, WaitOutcome, World, play, request_pair, run_world, start_second

MAX_ROWS = 100
TABLES = ("accounts_ui", "final_ui")
FULL = f"reached max_rows ({MAX_ROWS})"


def _highest_ranked(world: World, table: str) -> dict[str, dict[str, Any]]:
    """Return the rows that must stay, computed from the records."""
    sent = world.producers["a"].acknowledged
    truth = oracle.expected(sent, "left").tables
    users = {(s.partition, s.offset): s for s in sent["users"]}
    accounts = {(s.partition, s.offset): s for s in sent["accounts"]}
    newest: dict[str, int] = {}
    for row_id, row in truth["accounts_ui"].items():
        at = accounts[_place(row_id)].timestamp
        if row["userId"] is not None:
            newest[row["userId"]] = max(at, newest.get(row["userId"], at))

    def rank(row_id: str) -> tuple[int, tuple[int, int]]:
        place = _place(row_id)
        if table == "accounts_ui":
            return accounts[place].timestamp, place
        key = truth["users_ui"][row_id]["userId"]
        user_time = users[place].timestamp
        return (max(user_time, newest.get(key, user_time)) if key is not None else user_time), place

    return {i: truth[table][i] for i in sorted(truth[table], key=rank)[-MAX_ROWS:]}


def _place(row_id: str) -> tuple[int, int]:
    partition, _, offset = row_id.partition("-")
    return int(partition), int(offset)


def _has_expected_tables(server: Running, world: World) -> bool:
    return not oracle.differences(_capped(server), _truth(world))


def _capped(server: Running) -> dict[str, dict[str, Any]]:
    return {table: server.table(table) for table in TABLES}


def _truth(world: World) -> oracle.Expected:
    return oracle.Expected({table: _highest_ranked(world, table) for table in TABLES}, {})


def _logged(world: World, words: str) -> bool:
    return any(words in line["msg"] for line in world.live.table("orchestrator_logs").values())


def test_more_rows_than_the_limit_leave_by_rank_and_nothing_stops(
    kafka: Kafka, tmp_path: Path, case: Figures
) -> None:
    with run_world(kafka, tmp_path, "limits", max_rows=MAX_ROWS, spark={"conf": COLD}) as world:
        world.watcher.replaying = True  # each table has its own newest rows, so some lack partners
        for count in (3 * MAX_ROWS, MAX_ROWS):  # up to the limit and beyond it
            play(world, [Produce("a", count)])
            until(
                lambda: _has_expected_tables(world.live, world),
                "the rows of the highest rank, cell by cell",
            )
            case.landed(records=count).checked(*cells_of(_truth(world).tables))
        status = world.status()
        assert (status["state"], status["stale"]) == ("live", None)
        capped = status["capped"]["accounts_ui"]
        assert capped["rows"] == MAX_ROWS
        assert capped["from"] > min(
            s.timestamp for s in world.producers["a"].acknowledged["accounts"]
        )
        assert world.live.records_read() == world.producers["a"].count
        until(lambda: _logged(world, FULL), "the log reports it")
        until(lambda: "only the newest" in world.status()["message"], "the status reports it")
        late_folder = tmp_path / "late"
        late_folder.mkdir()
        late = start_second(world, late_folder, "serve")
        world.stack.callback(late.stop)
        late.wait_live()
        until(
            lambda: _has_expected_tables(late, world),
            "a server that starts later shows the same rows",
        )
        case.checked(*cells_of(_truth(world).tables))
        play(world, [request_pair(world.name, "b"), WaitOutcome("live")])
        assert world.status()["state"] == "live"
