"""Cells of a grid in a real browser: nulls, zero, cells that just changed."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from browser.looking import LIMIT_S, address, arrange, cell, staged_page
from browser.staged import Stage, pair
from browser.test_views import swap
from livejoin.core.changelog import ChangelogRecord
from rig.running import until

COUNT = 200
# cells of the first row, by column: text, and colour and content of what is shown for null
FIRST_ROW = """(table) => {
    const grid = document.querySelector(`perspective-viewer[data-table=${table}]`)
        .querySelector("perspective-viewer-datagrid").regular_table;
    const names = [...grid.querySelectorAll("thead tr:first-child th")].map((th) => th.innerText);
    const cells = [...(grid.querySelector("tbody tr")?.children ?? [])].map((cell) => {
        const after = getComputedStyle(cell, "::after");
        return { text: cell.textContent, color: getComputedStyle(cell).color,
            null: [after.content, after.color, after.fontStyle, after.fontSize].join(" ") };
    });
    return Object.fromEntries(names.map((name, at) => [name.trim(), cells[at]]));
}"""


@pytest.fixture(scope="module")
def stage_and_page() -> Iterator[tuple[Stage, Page]]:
    with staged_page(COUNT) as (stage, page, _trouble):
        yield stage, page


@pytest.fixture
def stage(stage_and_page: tuple[Stage, Page]) -> Stage:
    return stage_and_page[0]


@pytest.fixture
def page(stage_and_page: tuple[Stage, Page]) -> Iterator[Page]:
    """The page; its layout is reset after the test."""
    yield stage_and_page[1]
    stage_and_page[1].click("#reset")
    until(lambda: "layout" not in address(stage_and_page[1]), "the layout is reset", LIMIT_S)


def put(stage: Stage, n: int, **cells: Any) -> None:
    """A joined row."""
    assert stage.state.live is not None
    now = int(time.time() * 1000)
    row = {**(pair(stage.state.live.choice, n)[-1].row or {}), **cells}
    stage.put(
        stage.state.live.number, ChangelogRecord("final_ui", f"0-{n}", row, now, (now, 0, n))
    )


def first_row(page: Page, table: str = "final_ui") -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(FIRST_ROW, table)
    return found


def test_nulls_look_alike_in_every_type_of_column(stage: Stage, page: Page) -> None:
    put(stage, 500, userId="nulls", name=None, age=None, balance=None)
    until(lambda: first_row(page)["userId"]["text"] == "nulls", "drawn", LIMIT_S)
    cells = first_row(page)
    signs = {cells[name]["null"] for name in ("name", "age", "balance")}
    page.click("#tab-generations")
    arrange(page, "generations", columns=["retiredAt", "catchUpSeconds", "message"])
    # a time
    until(lambda: "retiredAt" in first_row(page, "generations"), "drawn", LIMIT_S)
    signs.add(first_row(page, "generations")["retiredAt"]["null"])
    assert len(signs) == 1, signs
    assert '"null"' in signs.pop()
    arrange(page, "final_ui", group_by=["name"], sort=[])
    group = page.locator("section[data-area=final] tbody tr:nth-child(2) th").last
    until(lambda: group.evaluate("(th) => th.className").find("psp-null") > 0, "group", LIMIT_S)
    assert group.evaluate("(th) => getComputedStyle(th, '::after').content") == '"null"'


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_zero_has_the_colour_of_numbers(stage: Stage, page: Page, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    put(stage, 501, userId=f"zero {scheme}", age=0, balance=0.0)
    until(lambda: first_row(page)["userId"]["text"] == f"zero {scheme}", "drawn", LIMIT_S)
    zero = first_row(page)
    assert (zero["age"]["text"], zero["balance"]["text"]) == ("0", "0.00")
    put(stage, 502, userId=f"more {scheme}", age=5, balance=7.5)
    until(lambda: first_row(page)["userId"]["text"] == f"more {scheme}", "drawn", LIMIT_S)
    more = first_row(page)
    until(lambda: first_row(page)["age"]["color"] != more["userId"]["color"], "styled", LIMIT_S)
    for name in ("age", "balance"):
        assert zero[name]["color"] == first_row(page)[name]["color"], name
    page.emulate_media(color_scheme="light")
