"""Compares the order of rows on screen with the server's rows.

Nulls are first in ascending order and last in descending order.
"""

import io
import itertools
import time
import urllib.request
from collections import Counter
from typing import Any

import pyarrow as pa
from playwright.sync_api import Page

from browser.looking import LIMIT_S, columns, rows
from browser.staged import Stage, pair
from livejoin.core.changelog import ChangelogRecord
from rig.running import until

COUNT = 120
COLUMNS = ("userId", "name", "email", "age", "accountType", "balance")
PLAIN: dict[str, Any] = {"group_by": [], "filter": []}
FILTERED = {**PLAIN, "filter": [["age", ">", 40]]}
GROUPED = {**PLAIN, "group_by": ["accountType"]}
EVERY = [
    {**how, "sort": [[column, way]]}
    for how, column, way in itertools.product((PLAIN, FILTERED, GROUPED), COLUMNS, ("asc", "desc"))
]
VIEWER = 'document.querySelector("perspective-viewer[data-table=final_ui]")'
ARRANGED = f"""async (configs) => {{
    const found = [];
    for (const config of configs) {{
        await {VIEWER}.restore(config);
        found.push(await (await {VIEWER}.getView()).to_columns());
    }}
    return found;
}}"""

Row = dict[str, Any]


def served(stage: Stage) -> list[Row]:
    """The server's rows."""
    with (
        urllib.request.urlopen(
            f"{stage.url}api/v1/tables/final_ui?format=arrow", timeout=LIMIT_S
        ) as answer,
        pa.ipc.open_stream(io.BytesIO(answer.read())) as stream,
    ):
        found: list[Row] = stream.read_all().select(COLUMNS).to_pylist()
        return found


def shown_rows(page: Page) -> list[Row]:
    """The rows of the grid as configured, without totals."""
    return [{name: row[name] for name in COLUMNS} for row in rows(page, "final_ui")]


def rank(cell: Any) -> tuple[bool, Any]:
    """Sort key: text by its bytes; null is lowest."""
    if cell is None:
        return (False, 0)
    return (True, cell.encode() if isinstance(cell, str) else cell)


def total(cells: list[Any]) -> Any:
    """A sum as Perspective computes it: null if all cells are null."""
    return None if set(cells) == {None} else sum(cell or 0 for cell in cells)


def expected(config: dict[str, Any], rows_served: list[Row]) -> tuple[list[Any], Counter[Any]]:
    """The cells of the sort column from top to bottom, and all rows in any order."""
    ((column, direction),) = config["sort"]
    passing = [row for row in rows_served if not config["filter"] or (row["age"] or 0) > 40]
    if config["group_by"]:
        groups: dict[str | None, list[Any]] = {}
        for row in passing:
            groups.setdefault(row["accountType"], []).append(row[column])
        text = column not in ("age", "balance")
        cells = {name: len(some) if text else total(some) for name, some in groups.items()}
        everything = Counter(cells.items())
        ranked: list[Any] = list(cells.values())
    else:
        everything = Counter(tuple(row.values()) for row in passing)
        ranked = [row[column] for row in passing]
    return sorted(ranked, key=rank, reverse=direction == "desc"), everything


def found(config: dict[str, Any], cells: dict[str, list[Any]]) -> tuple[list[Any], Counter[Any]]:
    ((column, _way),) = config["sort"]
    if config["group_by"]:
        names = [path[0] for path in cells["__ROW_PATH__"][1:]]  # the first row is the total
        ranked = cells[column][1:]
        return ranked, Counter(zip(names, ranked, strict=True))
    return cells[column], Counter(zip(*(cells[name] for name in COLUMNS), strict=True))


def in_order(stage: Stage, page: Page, config: dict[str, Any], when: str) -> None:
    """Wait until the grid shows the server's rows, then compare the order."""

    def same() -> bool:
        cells = columns(page, "final_ui")
        return found(config, cells)[1] == expected(config, served(stage))[1]

    until(same, f"{when}: the server's rows", LIMIT_S)
    assert found(config, columns(page, "final_ui")) == expected(config, served(stage)), (
        when,
        config,
    )


def all_in_order(stage: Stage, page: Page, when: str) -> None:
    """Every column in both directions, with and without filter and grouping."""
    rows_served = served(stage)
    everything = page.evaluate(ARRANGED, EVERY)
    wrong = [
        config["sort"]
        for config, cells in zip(EVERY, everything, strict=True)
        if found(config, cells) != expected(config, rows_served)
    ]
    assert wrong == [], when


def changes(stage: Stage, first: int, count: int) -> list[ChangelogRecord]:
    """New users with and without accounts, accounts for those without, accounts that lose cells."""
    assert stage.state.live is not None
    choice, now = stage.state.live.choice, int(time.time() * 1000)
    made: list[ChangelogRecord] = []
    for n in range(first, first + count):
        new = pair(choice, COUNT + n, now)
        made += new
        user = dict(new[0].row or {}) | {"userId": f"{choice.topics['users'][-1]}-{n % COUNT:04}"}
        account = {"accountType": "gold", "balance": n / 4}
        if n % 3:
            account = {"accountType": None, "balance": n / 4} if n % 2 else {}
        version = (now + n, 0, n)
        made.append(ChangelogRecord("final_ui", f"0-{n % COUNT}", user | account, now + n, version))
    return made


def change(stage: Stage, first: int, count: int, at_once: int) -> None:
    assert stage.state.live is not None
    made = changes(stage, first, count)
    for at in range(0, len(made), at_once):
        stage.put(stage.state.live.number, *made[at : at + at_once])
