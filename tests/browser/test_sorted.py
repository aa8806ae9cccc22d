"""The rows on screen have the order of the server's rows, whatever happened to the table."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import Page

from browser.looking import (
    LIMIT_S,
    arrange,
    columns,
    config,
    hold_sockets,
    says,
    staged_page,
    swap,
    tamper,
    tool,
)
from browser.ordering import (
    COLUMNS,
    COUNT,
    EVERY,
    PLAIN,
    VIEWER,
    all_in_order,
    change,
    in_order,
    served,
    shown_rows,
)
from browser.staged import Stage, pair
from livejoin.core.changelog import ChangelogRecord
from rig.running import until

TO_A = b'{"usersTopic": "users_a", "accountsTopic": "accounts_a"}'
TO_B = b'{"usersTopic": "users_b", "accountsTopic": "accounts_b"}'
BACK = b'{"action": "rollback"}'
LONGER = (EVERY[11], EVERY[8], EVERY[22], EVERY[7], EVERY[34], EVERY[9])
DRAWN = f"""() => [...{VIEWER}.querySelector("perspective-viewer-datagrid").shadowRoot
    .querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td")]
    .map((cell) => cell.textContent))"""


@pytest.fixture(scope="module")
def stage_and_page() -> Iterator[tuple[Stage, Page]]:
    with staged_page(COUNT) as (stage, page, _trouble):
        hold_sockets(page)
        yield stage, page


@pytest.fixture
def stage(stage_and_page: tuple[Stage, Page]) -> Stage:
    return stage_and_page[0]


@pytest.fixture
def page(stage_and_page: tuple[Stage, Page]) -> Page:
    return stage_and_page[1]


class Swaps:
    """Swaps to the other pair of topics by a new generation, and rollbacks."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._live = TO_A

    def swap(self) -> None:
        self._move(TO_A if self._live == TO_B else TO_B)

    def roll_back(self) -> None:
        self._move(BACK)

    def _move(self, message: bytes) -> None:
        before = self._stage.state.live
        swap(self._stage, message)
        assert self._stage.state.live != before
        self._live = TO_A if self._live == TO_B else TO_B


def test_every_order_holds_through_swaps_rollbacks_reconnects_and_changes(
    stage: Stage, page: Page
) -> None:
    swaps = Swaps(stage)
    all_in_order(stage, page, "at first")
    for arranged in EVERY:  # configured before the swap, compared after it
        arrange(page, "final_ui", **arranged)
        swaps.swap()
        in_order(stage, page, arranged, "swap")
    changed = 0
    for arranged in LONGER:
        arrange(page, "final_ui", **arranged)
        for when, move in (("swap", swaps.swap), ("rollback", swaps.roll_back)):
            move()
            in_order(stage, page, arranged, when)
            change(stage, changed, 6, at_once=3)
            changed += 6
            in_order(stage, page, arranged, f"{when}, and changes")
    arrange(page, "final_ui", **EVERY[11])
    for when, move in (("a rollback", swaps.roll_back), ("a swap", swaps.swap)):
        move()
        in_order(stage, page, EVERY[11], when)
        _is_drawn(page)
        all_in_order(stage, page, f"after {when}")
        arrange(page, "final_ui", **EVERY[11])
    _reconnects(stage, page)
    change(stage, changed, 500, at_once=40)
    in_order(stage, page, EVERY[11], "500 changes")
    _is_drawn(page)
    all_in_order(stage, page, "after 500 changes")
    names = page.evaluate(f"async () => (await {VIEWER}.getClient()).get_hosted_table_names()")
    assert len(names) == 9, "replaced engine tables are deleted"


def _reconnects(stage: Stage, page: Page) -> None:
    """By a new socket, which resumes; and after a pause, with new snapshots."""
    before = page.evaluate("sockets.length")
    page.evaluate("sockets.at(-1).close()")
    change(stage, 900, 5, at_once=2)
    until(lambda: page.evaluate("sockets.length") > before, "a new socket", LIMIT_S)
    in_order(stage, page, EVERY[11], "a new socket")
    all_in_order(stage, page, "after a new socket")
    arrange(page, "final_ui", **EVERY[11])
    for message in ("paused: rows as of", ""):
        page.keyboard.press("p")
        says(page, "#message", message)
        change(stage, 910 + len(message), 5, at_once=2)
    in_order(stage, page, EVERY[11], "after a pause")
    all_in_order(stage, page, "after a pause")
    arrange(page, "final_ui", **EVERY[11])


def _is_drawn(page: Page) -> None:
    """The rendered cells: by balance, descending."""

    def same() -> bool:
        drawn = [cells[0] for cells in page.evaluate(DRAWN)]
        return drawn == [row["userId"] for row in shown_rows(page)][: len(drawn)] and len(drawn) > 5

    until(same, "the rows are drawn in their order", LIMIT_S)


def test_an_export_after_a_swap_has_the_order_of_the_grid(
    stage: Stage, page: Page, tmp_path: Path
) -> None:
    arrange(page, "final_ui", **EVERY[11])
    swap(stage, BACK)
    in_order(stage, page, EVERY[11], "swap")
    files = {}
    for name in ("CSV", "JSON", "Arrow"):
        tool(page, "final", "Export").click()
        with page.expect_download() as downloading:
            page.locator(".menu [role=menuitem]", has_text=name).first.click()
        downloading.value.save_as(tmp_path / name)
        files[name] = (tmp_path / name).read_bytes()
    expected_rows = shown_rows(page)
    as_json = page.evaluate("(rows) => JSON.stringify(rows, null, 1)", expected_rows)
    assert files["JSON"].decode() == as_json
    lines = csv.reader(io.StringIO(files["CSV"].decode(), newline=""))
    assert list(lines) == [
        list(COLUMNS),
        *([_text(row[name]) for name in COLUMNS] for row in expected_rows),
    ]
    with pa.ipc.open_stream(io.BytesIO(files["Arrow"])) as stream:
        assert stream.read_all().select(COLUMNS).to_pylist() == expected_rows


def _text(cell: Any) -> str:
    """A CSV cell: formulas are escaped with an apostrophe."""
    text = "" if cell is None else str(cell)
    return f"'{text}" if text.startswith("=") else text


def test_a_chart_after_a_swap_shows_the_new_rows(stage: Stage, page: Page) -> None:
    arrange(page, "final_ui", **PLAIN, sort=[])
    chart = page.locator("section[data-area=final] select")
    chart.select_option("Y Bar")
    until(lambda: config(page, "final_ui")["plugin"] == "Y Bar", "the chart is shown", LIMIT_S)
    before = _sums(page)
    swap(stage, BACK)
    change(stage, 2000, 10, at_once=5)
    sums: dict[str, float] = {}
    for row in served(stage):
        if row["accountType"] is not None:
            sums[row["accountType"]] = sums.get(row["accountType"], 0) + (row["balance"] or 0)
    assert sums != before
    until(lambda: _sums(page) == sums, "the sums of the new rows", LIMIT_S)
    chart.select_option("Datagrid")
    until(lambda: config(page, "final_ui")["plugin"] == "Datagrid", "a grid again", LIMIT_S)


def _sums(page: Page) -> dict[str, float]:
    """The sums in the chart, without the total."""
    cells = columns(page, "final_ui")
    both = zip(cells["__ROW_PATH__"], cells["balance"], strict=True)
    return {path[0]: balance for path, balance in both if path}


def test_a_cell_corrupted_in_transit_is_noticed_and_repaired(stage: Stage, page: Page) -> None:
    """The row count is right and one cell is wrong: only the hash shows it."""
    assert stage.state.live is not None
    arrange(page, "final_ui", **PLAIN, sort=[["name", "desc"]])
    tamper(page, "zoe of old", "zoe of new")
    row = {**pair(stage.state.live.choice, 5000)[0].row, "name": "zoe of old"}  # type: ignore[dict-item]
    stage.put(stage.state.live.number, ChangelogRecord("final_ui", "0-5000", row, 1, (1, 0, 1)))
    until(lambda: page.evaluate("window.tampered"), "a frame was corrupted", LIMIT_S)
    says(page, "#toast", "Rows differed from the server's")
    until(lambda: "zoe of old" in {row["name"] for row in shown_rows(page)}, "repaired", LIMIT_S)
    in_order(stage, page, {**PLAIN, "sort": [["name", "desc"]]}, "repaired")
    page.keyboard.press("3")
    says(page, "#checks", "this page differed from the server 1 time and was resynchronized")
    page.keyboard.press("1")
