"""Cells of a grid in a real browser: nulls, zero, cells that just changed."""

import time
from typing import Any

import pytest
from playwright.sync_api import Page

from browser.looking import LIMIT_S, arrange, cell, swap
from browser.staged import Stage
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


def first_row(page: Page, table: str = "final_ui") -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(FIRST_ROW, table)
    return found


def test_nulls_look_alike_in_every_type_of_column(stage: Stage, page: Page) -> None:
    stage.join(500, userId="nulls", name=None, age=None, balance=None)
    until(lambda: first_row(page)["userId"]["text"] == "nulls", "drawn", LIMIT_S)
    cells = first_row(page)
    signs = {cells[name]["null"] for name in ("name", "age", "balance")}
    page.click("#tab-generations")
    arrange(page, "generations", columns=["retiredAt", "catchUpSeconds", "message"])
    # a time
    until(lambda: "retiredAt" in first_row(page, "generations"), "drawn", LIMIT_S)
    signs.add(first_row(page, "generations")["retiredAt"]["null"])
    assert len(signs) == 1, signs
    assert '"–"' in signs.pop()
    arrange(page, "final_ui", group_by=["name"], sort=[])
    group = page.locator("section[data-area=final] tbody tr:nth-child(2) th").last
    until(lambda: group.evaluate("(th) => th.className").find("psp-null") > 0, "group", LIMIT_S)
    assert group.evaluate("(th) => getComputedStyle(th, '::after').content") == '"–"'


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_zero_has_the_colour_of_numbers(stage: Stage, page: Page, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    stage.join(501, userId=f"zero {scheme}", age=0, balance=0.0)
    until(lambda: first_row(page)["userId"]["text"] == f"zero {scheme}", "drawn", LIMIT_S)
    zero = first_row(page)
    assert (zero["age"]["text"], zero["balance"]["text"]) == ("0", "0.00")
    stage.join(502, userId=f"more {scheme}", age=5, balance=7.5)
    until(lambda: first_row(page)["userId"]["text"] == f"more {scheme}", "drawn", LIMIT_S)
    more = first_row(page)
    until(lambda: first_row(page)["age"]["color"] != more["userId"]["color"], "styled", LIMIT_S)
    for name in ("age", "balance"):
        assert zero[name]["color"] == first_row(page)[name]["color"], name
    page.emulate_media(color_scheme="light")


MARKED = """() => [...document.querySelector("[data-table=final_ui]")
    .querySelector("perspective-viewer-datagrid").regular_table.querySelectorAll("tbody tr")]
    .map((row) => [row.children[0].textContent, [...row.children].flatMap((cell, at) =>
        cell.classList.contains("changed") ? [at] : [])]).filter(([, marked]) => marked.length)"""


def marked(page: Page) -> dict[str, list[int]]:
    """Columns of the marked cells, by user id."""
    return dict(page.evaluate(MARKED))


def test_cells_that_just_changed_are_marked_for_a_second(stage: Stage, page: Page) -> None:
    arrange(page, "final_ui", sort=[["userId", "asc"]])
    until(lambda: cell(page, "final", 1, 1).inner_text() == "a-0000", "drawn", LIMIT_S)
    until(lambda: marked(page) == {}, "nothing is marked", LIMIT_S)
    background = "(cell) => getComputedStyle(cell).backgroundColor"
    before = cell(page, "final", 2, 6).evaluate(background)
    stage.join(1, balance=77.25)
    started = time.monotonic()
    until(lambda: marked(page) == {"a-0001": [5]}, "the balance", LIMIT_S)
    assert cell(page, "final", 2, 6).inner_text() == "77.25"
    assert cell(page, "final", 2, 6).evaluate(background) != before
    until(lambda: marked(page) == {}, "for a second", 5)
    assert 0.5 < time.monotonic() - started < 3
    assert cell(page, "final", 2, 6).evaluate(background) == before
    stage.join(2, age=None)  # a null is a change too
    stage.join(600, userId="a-0000+", name="New")  # a row that comes is marked whole
    until(
        lambda: marked(page) == {"a-0000+": [0, 1, 2, 3, 4, 5], "a-0002": [3]},
        "a cell and a row",
        LIMIT_S,
    )
    until(lambda: marked(page) == {}, "for a second", 5)


def test_a_mark_moves_with_its_row(stage: Stage, page: Page) -> None:
    until(lambda: marked(page) == {}, "nothing is marked", LIMIT_S)
    stage.join(3, balance=3.25)
    until(lambda: "a-0003" in marked(page), "marked", LIMIT_S)
    stage.join(4, balance=4.25)
    until(lambda: cell(page, "final", 1, 1).inner_text() == "a-0004", "another on top", LIMIT_S)
    assert set(marked(page)) <= {"a-0003", "a-0004"}
    until(lambda: marked(page) == {}, "for a second", 5)


def test_arrangements_and_swaps_mark_nothing(stage: Stage, page: Page) -> None:
    until(lambda: marked(page) == {}, "nothing is marked", LIMIT_S)
    page.evaluate(
        f"""() => {{
            window.marks = 0;
            const look = () => {{ marks += ({MARKED})().length; requestAnimationFrame(look); }};
            look();
        }}"""
    )
    arrange(page, "final_ui", sort=[["balance", "desc"]])
    arrange(page, "final_ui", sort=[["name", "asc"]], filter=[["age", ">", 40]])
    swap(stage, b'{"usersTopic": "users_b", "accountsTopic": "accounts_b"}')
    until(lambda: cell(page, "final", 1, 1).inner_text().startswith("b-"), "swapped", LIMIT_S)
    swap(stage, b'{"action": "rollback"}')
    until(lambda: cell(page, "final", 1, 1).inner_text().startswith("a-"), "back", LIMIT_S)
    assert page.evaluate("marks") == 0
    arrange(page, "final_ui", filter=[])


def test_nothing_is_marked_if_the_system_asks_for_less_motion(stage: Stage, page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    arrange(page, "final_ui", filter=[["userId", "==", "a-0005"]])
    until(lambda: cell(page, "final", 1, 1).inner_text() == "a-0005", "drawn", LIMIT_S)
    stage.join(5, balance=99.75)
    until(lambda: cell(page, "final", 1, 6).inner_text() == "99.75", "changed", LIMIT_S)
    assert marked(page) == {}
    arrange(page, "final_ui", filter=[])
    page.emulate_media(reduced_motion="no-preference")
