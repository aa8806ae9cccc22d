"""Compares the tables of a viewer and of the HTTP API with the acknowledged records, cell by cell.

`expect_equal` is for the time without traffic: the tables must be equal to the expected ones.
`expect_consistent` is for the time under traffic: everything acknowledged earlier is present, each
row has the cells of its record, and `final_ui` is the join of the other two tables.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from rig import figures, oracle, underway
from rig.oracle import Difference, Sent
from rig.running import SAME_S, Running, until
from rig.watching import DATA, OF_A_GENERATION, Tables, Watcher, join_errors

_USER, _ACCOUNT = oracle.FIELDS["users"], oracle.FIELDS["accounts"]
COLUMNS = {  # columns known to the oracle
    "users_ui": (*_USER, "_ts"),
    "accounts_ui": (*_ACCOUNT, "_ts"),
    "final_ui": (*_USER, "accountType", "balance", "_ts"),
}
Found = Mapping[str, Mapping[str, Mapping[str, Any]]]


class Acknowledged(Protocol):
    """Producers that remember the acknowledged records."""

    @property
    def acknowledged(self) -> dict[str, list[Sent]]: ...


def expect_equal(
    live: Running, watcher: Watcher, sent: Acknowledged, join: str, limit_s: float = SAME_S
) -> None:
    """Check O1, O2 and O5 once all records are read; a heartbeat confirms the viewer's rows."""
    count = sum(map(len, sent.acknowledged.values()))
    until(lambda: live.records_read() == count, f"all {count} records are read", limit_s)
    truth = oracle.expected(sent.acknowledged, join)
    _expect_counts(live, sent, truth)
    found_tables = {name: live.table(name) for name in truth.tables}
    _record_and_assert("over HTTP", oracle.differences(found_tables, truth), truth.tables)
    expect_seen(watcher, truth)


def expect_seen(watcher: Watcher, truth: oracle.Expected, limit_s: float = SAME_S) -> None:
    """Check that the viewer holds exactly these rows and that the next heartbeat has their hash."""
    wrong: list[Difference] = []

    def same() -> bool:
        _, tables = watcher.snapshot()
        wrong[:] = oracle.differences({name: tables[name] for name in OF_A_GENERATION}, truth)
        return not wrong

    with contextlib.suppress(AssertionError):  # reported below, with the differences
        until(same, "the viewer has the same", limit_s)
    _record_and_assert("at the viewer", wrong, truth.tables)
    before = watcher.hashed
    until(lambda: watcher.hashed > before, "a heartbeat with hashes", 30)


def expect_consistent(
    watcher: Watcher, sent: Acknowledged, join: str, generation: int, limit_s: float = SAME_S
) -> None:
    """Check O1 and O2 of a generation at the viewer, under traffic."""
    known = {source: list(records) for source, records in list(sent.acknowledged.items())}
    least = oracle.expected(known, join)
    wrong: list[Difference] = []
    errors: list[str] = []
    compared: list[tuple[Tables, Mapping[str, list[Sent]]]] = []  # the last comparison

    def holds() -> bool:
        number, tables = watcher.snapshot()
        if number != generation:
            errors[:] = [f"generation {number} is shown"]
            return False
        later = {source: list(records) for source, records in list(sent.acknowledged.items())}
        wrong[:] = [*_missing(tables, least), *underway.rows_unlike_records(tables, later)]
        errors[:] = [] if wrong else _row_errors(tables, later, join)
        compared[:] = [(tables, later)]
        return not wrong and not errors

    with contextlib.suppress(AssertionError):  # reported below, with the differences
        until(holds, "the viewer has it", limit_s)
    _record_and_assert(
        "at the viewer", wrong, _compared_cells(*compared[0], least) if compared else {}
    )
    assert not errors, f"{len(errors)} at the viewer: {errors[:3]}"


def _row_errors(tables: Tables, sent: Mapping[str, list[Sent]], join: str) -> list[str]:
    users, accounts, final = (tables[name] for name in DATA)
    # a row may arrive before the acknowledgement of its record; the next attempt then knows it
    unknown = underway.unknown_rows(tables, sent)
    return [
        *join_errors(users, accounts, final, join),
        *underway.rows_unlike_pairs(tables, sent, join),
        *(f"{table} {row_id} is of no record that was acknowledged" for table, row_id in unknown),
    ]


def _compared_cells(
    tables: Tables, sent: Mapping[str, list[Sent]], least: oracle.Expected
) -> Tables:
    """Return the compared cells: columns known to the oracle, of rows with known records.

    Missing rows are included, since they were looked for.
    """
    unknown = set(underway.unknown_rows(tables, sent))
    found: Tables = {}
    for name, columns in COLUMNS.items():
        found_tables = {i: row for i, row in tables[name].items() if (name, i) not in unknown}
        missing = least.tables[name] if name != "final_ui" else {}
        found[name] = {
            row_id: {column: row[column] for column in columns}
            for row_id, row in {**missing, **found_tables}.items()
        }
    return found


def _missing(tables: Found, least: oracle.Expected) -> Iterator[Difference]:
    for name in ("users_ui", "accounts_ui"):
        for row_id, row in least.tables[name].items():
            if row_id not in tables[name]:
                yield Difference(name, row_id, None, row)


def _expect_counts(live: Running, sent: Acknowledged, truth: oracle.Expected) -> None:
    """Records read = rows + rejects + tombstones, for each source."""
    rejects = [row["source"] for row in truth.tables["rejects_ui"].values()]
    counts = live.request("api/v1/status")["sources"]
    for source, found in counts.items():
        assert found == {
            "read": len(sent.acknowledged[source]),
            "rows": len(truth.tables[f"{source}_ui"]),
            "rejected": rejects.count(source),
            "tombstones": truth.tombstones[source],
        }, source


def _record_and_assert(where: str, wrong: list[Difference], compared: Found) -> None:
    """Record the number of compared cells, and fail on differences."""
    rows, cells = figures.cells_of(compared)
    lost, cells_wrong = oracle.lost(wrong), oracle.wrong_cells(wrong)
    figures.now().checked(rows, cells, lost, cells_wrong)
    message = f"{lost} rows lost and {cells_wrong} cells wrong {where}: {str(wrong[:3])[:2000]}"
    assert not wrong, message
