"""Columns in a real browser: whole numbers, the key in view, what is out of sight."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import FloatRect, Page

from browser.looking import LIMIT_S, address, arrange, cell, staged_page, swap, tool
from browser.staged import Stage
from rig.running import until

PICTURE = {"width": 1360, "height": 800}
# the cells of a column as they are drawn: text, and whether all of it is inside the grid
DRAWN = """([table, column]) => {
    const grid = document.querySelector(`perspective-viewer[data-table=${table}]`)
        .querySelector("perspective-viewer-datagrid").regular_table;
    const frame = grid.getBoundingClientRect();
    const headers = [...grid.querySelectorAll("thead tr:first-child th")];
    const at = headers.findIndex((th) => th.textContent.startsWith(column));
    const range = document.createRange();
    return [...grid.querySelectorAll("tbody tr")].map((row) => row.children[at]).filter(Boolean)
        .map((cell) => {
            range.selectNodeContents(cell);
            const [text, box] = [range.getBoundingClientRect(), cell.getBoundingClientRect()];
            const [left, right] = [Math.max(frame.left, box.left),
                Math.min(frame.left + grid.clientWidth, box.right)];
            return { text: cell.textContent, whole: text.left >= left && text.right <= right,
                inside: text.right > frame.left && text.left < frame.right,
                shown: getComputedStyle(cell).color !== "rgba(0, 0, 0, 0)" };
        });
}"""
WIDTH = """(column) => [...document.querySelector("[data-table=final_ui]")
    .querySelector("perspective-viewer-datagrid").regular_table.querySelectorAll("thead th")]
    .find((th) => th.textContent.startsWith(column)).getBoundingClientRect().width"""
# the column of the cell that is on top at a place
ON_TOP = """([x, y]) => {
    const grid = document.querySelector("[data-table=final_ui]")
        .querySelector("perspective-viewer-datagrid");
    const cell = grid.shadowRoot.elementFromPoint(x, y)?.closest("td");
    return cell && grid.regular_table.getMeta(cell).column_header[0];
}"""
# ms when the first cells of each table were in the page
DRAWN_AT = """
window.drawnAt = {};
const look = () => {
    for (const viewer of document.querySelectorAll("perspective-viewer")) {
        const grid = viewer.querySelector("perspective-viewer-datagrid");
        if (grid?.shadowRoot?.querySelector("tbody td"))
            drawnAt[viewer.dataset.table] ??= performance.now();
    }
    requestAnimationFrame(look);
};
addEventListener("DOMContentLoaded", look);"""
# until what follows a scroll is drawn
FRAMES = """async () => {
    for (let n = 0; n < 5; n++) await new Promise((done) => requestAnimationFrame(done));
}"""
SCROLL = """(by) => document.querySelector("[data-table=final_ui]")
    .querySelector("perspective-viewer-datagrid").regular_table.scrollLeft = by"""


@pytest.fixture(scope="module")
def stage_and_page() -> Iterator[tuple[Stage, Page]]:
    with staged_page() as (stage, page, _trouble):
        yield stage, page


@pytest.fixture
def page(stage_and_page: tuple[Stage, Page]) -> Iterator[Page]:
    """The page in the size of the pictures; its layout is reset after the test."""
    page = stage_and_page[1]
    page.set_viewport_size(PICTURE)  # type: ignore[arg-type]
    yield page
    page.set_viewport_size(PICTURE)  # type: ignore[arg-type]
    page.click("#reset")
    until(lambda: "layout" not in address(page), "the layout is reset", LIMIT_S)


def drawn(page: Page, column: str, table: str = "final_ui") -> list[dict[str, Any]]:
    """Its cells that are not null."""
    found: list[dict[str, Any]] = page.evaluate(DRAWN, [table, column])
    return [each for each in found if each["text"]]


def test_every_number_of_the_join_is_whole_at_the_size_of_the_pictures(
    stage: Stage, page: Page
) -> None:
    stage.join(900, userId="exact", balance=9265.41)
    arrange(page, "final_ui", filter=[["userId", "==", "exact"]])
    # no digit is missing
    until(lambda: [c["text"] for c in drawn(page, "balance")] == ["9,265.41"], "drawn", LIMIT_S)
    arrange(page, "final_ui", filter=[])
    until(lambda: len(drawn(page, "balance")) > 8, "all rows again", LIMIT_S)
    assert [c for c in drawn(page, "balance") if not (c["whole"] and c["shown"])] == []
    for name in ("age", "accountType", "email", "name", "userId"):
        assert [c for c in drawn(page, name) if not c["whole"]] == [], name
    assert page.locator("section[data-area=final] .more").is_hidden()


def test_the_join_is_on_top_over_the_full_width(page: Page) -> None:
    final, users, accounts, system = (
        _box(page, area) for area in ("final", "users", "accounts", "system")
    )
    assert final["width"] == system["width"] > 1300
    assert final["y"] < users["y"] == accounts["y"] < system["y"]
    assert final["height"] > max(users["height"], system["height"])


def test_the_join_is_drawn_before_the_other_tables(page: Page) -> None:
    page.add_init_script(DRAWN_AT)
    page.reload()
    for name in ("final_ui", "users_ui", "accounts_ui"):
        page.wait_for_function("(name) => window.drawnAt[name]", arg=name)
    at = page.evaluate("drawnAt")
    assert at["final_ui"] < min(at["users_ui"], at["accounts_ui"])


def _box(page: Page, area: str) -> FloatRect:
    box = page.locator(f"section[data-area={area}]").bounding_box()
    assert box is not None
    return box


def test_columns_fit_wide_values_that_come_later_and_the_rows_of_a_swap(
    stage: Stage, page: Page
) -> None:
    arrange(page, "final_ui", sort=[["balance", "desc"]])
    until(lambda: drawn(page, "balance")[0]["whole"], "at first", LIMIT_S)
    narrow, name = page.evaluate(WIDTH, "balance"), page.evaluate(WIDTH, "name")
    stage.join(901, balance=123_456_789_012.25, name="a name that is wider than all before it " * 2)

    def first() -> dict[str, Any]:
        return drawn(page, "balance")[0]

    until(lambda: first()["text"] == "123,456,789,012.25", "a wide number", LIMIT_S)
    until(lambda: first()["whole"], "all of it", LIMIT_S)
    assert page.evaluate(WIDTH, "balance") > narrow
    assert page.evaluate(WIDTH, "name") > name
    swap(stage, b'{"usersTopic": "users_b", "accountsTopic": "accounts_b"}')
    until(lambda: first()["text"] != "123,456,789,012.25", "other rows", LIMIT_S)
    until(lambda: page.evaluate(WIDTH, "balance") <= narrow, "as narrow as its rows", LIMIT_S)
    until(lambda: page.evaluate(WIDTH, "name") <= name, "the text as well", LIMIT_S)
    assert all(c["whole"] for c in drawn(page, "balance"))


def test_columns_out_of_sight_are_said_and_the_key_stays(page: Page) -> None:
    page.set_viewport_size({"width": 420, "height": 800})
    more = page.locator("section[data-area=final] .more")
    until(lambda: "more" in more.inner_text() and "→" in more.inner_text(), "said", LIMIT_S)
    assert "balance" in (more.get_attribute("title") or "")
    for left in (0, 40, 90, 150, 210):  # a number is shown with all its digits, or not at all
        page.evaluate(SCROLL, left)
        for name in ("age", "balance"):
            until(partial(_unambiguous, page, name), f"{name} at {left}", LIMIT_S)
    page.evaluate(SCROLL, 0)
    page.evaluate(FRAMES)
    for _ in range(5):
        if "→" in more.inner_text():
            more.click()
            page.evaluate(FRAMES)
    assert more.inner_text().startswith("←")
    assert "→" not in more.inner_text()
    until(lambda: drawn(page, "balance")[0]["whole"], "the last column", LIMIT_S)
    assert all(c["whole"] for c in drawn(page, "userId")), "the key is in view"
    key = cell(page, "final", 1, 1).bounding_box()
    assert key is not None
    assert key["x"] < 40
    more.click()
    until(lambda: "←" not in more.inner_text(), "back at the first columns", LIMIT_S)


def test_a_wide_first_column_does_not_cover_the_others(stage: Stage, page: Page) -> None:
    stage.join(930, userId="a key that is wider than a narrow table is " * 2)
    page.set_viewport_size({"width": 420, "height": 800})
    more = page.locator("section[data-area=final] .more")
    until(lambda: "→" in more.inner_text(), "there are more", LIMIT_S)
    page.evaluate(SCROLL, 9000)
    until(lambda: "→" not in more.inner_text(), "at the end", LIMIT_S)
    assert all(c["whole"] and c["shown"] for c in drawn(page, "balance"))
    last = page.locator("section[data-area=final] tbody tr:nth-child(2) td").last

    def on_top() -> str | None:
        box = last.bounding_box()
        assert box is not None
        at = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
        found: str | None = page.evaluate(ON_TOP, at)  # none while the grid is drawn again
        return found

    until(lambda: on_top() == "balance", "nothing covers it", LIMIT_S)


def _unambiguous(page: Page, name: str) -> bool:
    return not [c for c in drawn(page, name) if c["inside"] and c["shown"] and not c["whole"]]


def test_every_table_can_be_folded_and_stays_folded(page: Page) -> None:
    top = "section[data-area=users]"

    def height(area: str) -> float:
        return _box(page, area)["height"]

    before = height("final")
    for area in ("users", "accounts", "system"):
        page.click(f"section[data-area={area}] button[title^=Fold]")
    until(lambda: height("users") < 40, "only the headings are left", LIMIT_S)
    assert height("system") < 40
    assert height("final") > before + 200
    assert "users_ui" in page.inner_text(top), "with name and count"
    assert "201" in page.inner_text(top)
    until(lambda: "layout" in address(page), "the layout is in the address", LIMIT_S)
    page.wait_for_timeout(500)  # saving is delayed
    page.reload()
    page.wait_for_selector("section[data-area=final] tbody td")
    assert height("users") < 40
    tool(page, "final", "Widen").click()
    page.keyboard.press("w")
    page.click("section[data-area=final] button[title^=Fold]")
    until(lambda: height("final") < 40, "the join, too", LIMIT_S)
    page.click(f"{top} button[title^=Fold]")
    page.wait_for_selector(f"{top} tbody td")
    assert height("users") > 100
