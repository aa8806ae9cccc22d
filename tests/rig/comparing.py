"""Tables at a viewer and over HTTP against what was acknowledged, cell by cell, with its figures.

`expect_equal` is for when no records come: all must be there and nothing else. `expect_consistent`
is for under traffic: what was acknowledged before is there, each row has the cells of its record,
and `final_ui` is the join of the other two.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from rig import figures, oracle, underway
from rig.oracle import Difference, Sent
from rig.running import SAME_S, Running, until
from rig.watching import DATA, OF_A_GENERATION, Tables, Watcher, unjoined

_USER, _ACCOUNT = oracle.FIELDS["users"], oracle.FIELDS["accounts"]
COLUMNS = {  # that the oracle knows
    "users_ui": (*_USER, "_ts"),
    "accounts_ui": (*_ACCOUNT, "_ts"),
    "final_ui": (*_USER, "accountType", "balance", "_ts"),
}
Found = Mapping[str, Mapping[str, Mapping[str, Any]]]


class Acknowledged(Protocol):
    """Producers that remember."""

    @property
    def acknowledged(self) -> dict[str, list[Sent]]: ...


def expect_equal(
    live: Running, watcher: Watcher, sent: Acknowledged, join: str, limit_s: float = SAME_S
) -> None:
    """O1, O2 and O5, once all records are read; a heartbeat then vouches for the viewer's rows."""
    count = sum(map(len, sent.acknowledged.values()))
    until(lambda: live.read() == count, f"all {count} records are read", limit_s)
    truth = oracle.expected(sent.acknowledged, join)
    _expect_counts(live, sent, truth)
    there = {name: live.table(name) for name in truth.tables}
    _settle("over HTTP", oracle.differences(there, truth), truth.tables)
    expect_seen(watcher, truth)


def expect_seen(watcher: Watcher, truth: oracle.Expected, limit_s: float = SAME_S) -> None:
    """The viewer holds just these rows, and the next heartbeat has their hash."""
    wrong: list[Difference] = []

    def same() -> bool:
        _, tables = watcher.snapshot()
        wrong[:] = oracle.differences({name: tables[name] for name in OF_A_GENERATION}, truth)
        return not wrong

    with contextlib.suppress(AssertionError):  # told with what differs, below
        until(same, "the viewer has the same", limit_s)
    _settle("at the viewer", wrong, truth.tables)
    before = watcher.hashed
    until(lambda: watcher.hashed > before, "a heartbeat with hashes", 30)


def expect_consistent(
    watcher: Watcher, sent: Acknowledged, join: str, generation: int, limit_s: float = SAME_S
) -> None:
    """O1 and O2 of a generation while records come, at the viewer."""
    known = {source: list(records) for source, records in list(sent.acknowledged.items())}
    least = oracle.expected(known, join)
    wrong: list[Difference] = []
    odd: list[str] = []
    looked: list[tuple[Tables, Mapping[str, list[Sent]]]] = []  # last

    def holds() -> bool:
        number, tables = watcher.snapshot()
        if number != generation:
            odd[:] = [f"generation {number} is shown"]
            return False
        later = {source: list(records) for source, records in list(sent.acknowledged.items())}
        wrong[:] = [*_missing(tables, least), *underway.unlike_their_records(tables, later)]
        odd[:] = [] if wrong else _odd(tables, later, join)
        looked[:] = [(tables, later)]
        return not wrong and not odd

    with contextlib.suppress(AssertionError):  # told with what differs, below
        until(holds, "the viewer has it", limit_s)
    _settle("at the viewer", wrong, _compared(*looked[0], least) if looked else {})
    assert not odd, f"{len(odd)} at the viewer: {odd[:3]}"


def _odd(tables: Tables, sent: Mapping[str, list[Sent]], join: str) -> list[str]:
    users, accounts, final = (tables[name] for name in DATA)
    # a row may be seen before its acknowledgement is: then the next look finds it known
    unknown = underway.without_records(tables, sent)
    return [
        *unjoined(users, accounts, final, join),
        *underway.unlike_their_pairs(tables, sent, join),
        *(f"{table} {row_id} is of no record that was acknowledged" for table, row_id in unknown),
    ]


def _compared(tables: Tables, sent: Mapping[str, list[Sent]], least: oracle.Expected) -> Tables:
    """The cells that were looked at: those that the oracle knows, of rows whose records it knows.

    A row that should be there and is not was looked for as well.
    """
    unknown = set(underway.without_records(tables, sent))
    found: Tables = {}
    for name, columns in COLUMNS.items():
        there = {i: row for i, row in tables[name].items() if (name, i) not in unknown}
        missed = least.tables[name] if name != "final_ui" else {}
        found[name] = {
            row_id: {column: row[column] for column in columns}
            for row_id, row in {**missed, **there}.items()
        }
    return found


def _missing(tables: Found, least: oracle.Expected) -> Iterator[Difference]:
    for name in ("users_ui", "accounts_ui"):
        for row_id, row in least.tables[name].items():
            if row_id not in tables[name]:
                yield Difference(name, row_id, None, row)


def _expect_counts(live: Running, sent: Acknowledged, truth: oracle.Expected) -> None:
    """Records read = rows + rejects + tombstones, of each source."""
    rejects = [row["source"] for row in truth.tables["rejects_ui"].values()]
    counts = live.ask("api/v1/status")["sources"]
    for source, found in counts.items():
        assert found == {
            "read": len(sent.acknowledged[source]),
            "rows": len(truth.tables[f"{source}_ui"]),
            "rejected": rejects.count(source),
            "tombstones": truth.tombstones[source],
        }, source


def _settle(where: str, wrong: list[Difference], compared: Found) -> None:
    """Count what was compared, and fail with what differs."""
    rows, cells = figures.cells_of(compared)
    lost, cells_wrong = oracle.lost(wrong), oracle.wrong_cells(wrong)
    figures.now().checked(rows, cells, lost, cells_wrong)
    said = f"{lost} rows lost and {cells_wrong} cells wrong {where}: {str(wrong[:3])[:2000]}"
    assert not wrong, said
