"""Rows of `control_raw`: one per partition and offset, the newest by the order of reading."""

from collections.abc import Mapping
from typing import Any

from livejoin.core import spec
from livejoin.core.generation import Origin
from livejoin.core.spec import DEFAULT
from livejoin.core.state import Outcome, Reply
from livejoin.tables.ingest.store import Delta
from livejoin.tables.ingest.system_tables import ControlPosition, LeaderRecordParser, SystemTables

KEPT = 5


class Viewer:
    """The ids that a viewer has."""

    def __init__(self) -> None:
        self.ids: set[str] = set()

    def on_change(self, table: str, delta: Delta) -> None:
        if table == "control_raw":
            self.ids |= set(delta.upserts.column("_id").to_pylist())
            self.ids -= set(delta.removed)


def _tables(viewer: Viewer | None = None) -> SystemTables:
    on_change = (viewer or Viewer()).on_change
    return SystemTables(DEFAULT, on_change, logs_kept=KEPT, control_kept=KEPT)


def row(
    partition: int, offset: int, read_order: int | None, outcome: Outcome = "accepted"
) -> Mapping[str, Any]:
    """A row as the ledger's log has it."""
    origin = Origin(offset, 1.0, "kafka", "{}", partition=partition, read_order=read_order)
    reply = Reply(origin, outcome, 1.0)
    return {**reply.control_raw_row(spec.DEFAULT), "_id": reply.row_id}


def _positions(tables: SystemTables) -> list[tuple[int, int]]:
    """In the order of the ids."""
    rows = sorted(tables._control.rows.values(), key=lambda one: str(one["_id"]))
    return [(one["partition"], one["offset"]) for one in rows]


def test_the_newest_rows_stay_whatever_their_offsets_are() -> None:
    viewer = Viewer()
    tables = _tables(viewer)
    read = [(0, 900), (1, 3), (0, 901), (2, 0), (1, 4), (2, 1), (0, 902)]
    for order, (partition, offset) in enumerate(read):
        tables.put_control_messages([row(partition, offset, 1_000 + order)])
    assert _positions(tables) == read[-KEPT:]
    assert viewer.ids == tables._control.rows.keys()
    # a late outcome of a message whose row is gone does not bring it back
    tables.put_control_messages([row(0, 900, 1_000, "retired")])
    assert _positions(tables) == read[-KEPT:]


def test_the_same_offset_of_two_partitions_is_two_rows() -> None:
    tables = _tables()
    tables.put_control_messages([row(0, 7, 1), row(1, 7, 2)])
    assert _positions(tables) == [(0, 7), (1, 7)]


def test_an_outcome_is_that_of_its_partition_and_offset() -> None:
    tables, found = _tables(), list[Any]()
    tables.put_control_messages([row(0, 7, 1, "live"), row(1, 7, 2, "rejected")])
    tables.on_outcome(ControlPosition(1, 7), found.append)
    tables.on_outcome(ControlPosition(2, 7), found.append)
    assert [one["outcome"] for one in found] == ["rejected"]
    tables.put_control_messages([row(2, 8, 3, "live")])
    tables.put_control_messages([row(2, 7, 4, "failed")])
    assert [one["outcome"] for one in found] == ["rejected", "failed"]


def test_messages_of_a_topic_that_was_made_again_take_the_place_of_those_before() -> None:
    viewer = Viewer()
    tables = _tables(viewer)
    old = [row(0, 0, None, "live"), row(0, 1, 900, "rejected")]
    new = [row(0, 0, 1_000, "history"), row(1, 0, 1_001, "history")]
    tables.put_control_messages([*old, *new])
    expected = [(0, 1), (0, 0), (1, 0)]
    assert _positions(tables) == expected
    assert viewer.ids == tables._control.rows.keys()
    found: list[Any] = []
    tables.on_outcome(ControlPosition(0, 0), found.append)
    assert found[0]["outcome"] == "history"
    # a follower that starts again reads the old rows before the new ones
    tables.put_control_messages(old)
    assert _positions(tables) == expected


def test_positions_of_rows_that_are_gone_are_not_kept() -> None:
    tables = _tables()
    for offset in range(100 * KEPT):
        tables.put_control_messages([row(offset % 3, offset, 1 + offset)])
    assert len(tables._control_ids) <= 2 * KEPT


def test_a_row_without_its_partition_is_skipped() -> None:
    value = b'{"offset": 3, "outcome": "live"}'
    assert LeaderRecordParser().parse_logs("logs", [(b"control_raw/0000000000003", value)]) == {}
