"""The order of rows in a real browser: as they arrived, as the user sorts, following the newest."""

from functools import partial
from typing import Any

from playwright.sync_api import Page

from browser.looking import LIMIT_S, address, arrange, cell, config, drawn, rows, swap
from browser.staged import Stage
from rig.running import until

COUNT = 200
FINAL = "section[data-area=final]"
GRID = """document.querySelector("[data-table=final_ui]")
    .querySelector("perspective-viewer-datagrid").regular_table"""
NEWEST_FIRST = [["_ts", "desc"]]
NEWEST_LAST = [["_ts", "asc"]]
# the user ids that are drawn inside the grid, from top to bottom
VISIBLE = f"""() => {{
    const frame = {GRID}.getBoundingClientRect();
    return [...{GRID}.querySelectorAll("tbody tr")].filter((row) => {{
        const {{ top, bottom }} = row.getBoundingClientRect();
        return top < frame.top + {GRID}.clientHeight - 2 && bottom > frame.top;
    }}).map((row) => row.querySelector("td").textContent);
}}"""


def order(page: Page) -> str:
    return page.inner_text(f"{FINAL} .order").strip()


def choose(page: Page, item: str) -> None:
    page.click(f"{FINAL} .order")
    page.locator(".menu [role=menuitem]", has_text=item).first.click()


def ids(page: Page) -> list[str]:
    return [row["userId"] for row in rows(page, "final_ui")]


def visible(page: Page) -> list[str]:
    found: list[str] = page.evaluate(VISIBLE)
    return found


def test_rows_are_in_the_order_of_arrival_newest_first(stage: Stage, page: Page) -> None:
    assert order(page) == "Newest first"
    arrived = [f"a-{n:04}" for n in range(COUNT)]
    assert ids(page)[:COUNT] == ["x", *reversed(arrived)][:COUNT]
    until(lambda: visible(page)[:2] == ["x", "a-0199"], "drawn", LIMIT_S)
    users = [row["userId"] for row in rows(page, "users_ui")]
    assert users[:3] == ["x", "a-0199", "a-0198"]
    stage.join(800, userId="first")
    until(lambda: visible(page)[0] == "first", "a new row is on top", LIMIT_S)
    stage.join(7, balance=1.25)
    until(lambda: visible(page)[:2] == ["a-0007", "first"], "a changed row as well", LIMIT_S)
    swap(stage, b'{"usersTopic": "users_b", "accountsTopic": "accounts_b"}')
    until(lambda: ids(page)[:2] == ["x", "b-0199"], "so it is after a swap", LIMIT_S)
    assert ids(page)[-1] == "b-0000"
    swap(stage, b'{"action": "rollback"}')
    until(lambda: ids(page)[:2] == ["a-0007", "first"], "and after a rollback", LIMIT_S)


def test_the_newest_row_is_last_by_choice_and_after_a_reload(stage: Stage, page: Page) -> None:
    choose(page, "Newest last")
    until(lambda: order(page) == "Newest last", "chosen", LIMIT_S)
    assert ids(page)[:2] == ["a-0000", "a-0001"]
    stage.join(801, userId="last")
    until(lambda: ids(page)[-1] == "last", "a new row is last", LIMIT_S)
    until(lambda: "layout" in address(page), "the layout is in the address", LIMIT_S)
    page.wait_for_timeout(500)  # saving is delayed
    page.reload()
    drawn(page)
    until(lambda: order(page) == "Newest last", "kept", LIMIT_S)
    assert ids(page)[-1] == "last"


def test_following_keeps_the_newest_row_in_view_until_the_user_scrolls_up(
    stage: Stage, page: Page
) -> None:
    choose(page, "Following")
    until(lambda: order(page) == "Following", "chosen", LIMIT_S)
    for n in range(810, 822):
        stage.join(n, userId=f"tail-{n}")
        until(partial(_ends_with, page, f"tail-{n}"), f"row {n} is in view", LIMIT_S)
    page.locator(f"{FINAL} tbody").hover()
    page.mouse.wheel(0, -1500)
    until(lambda: visible(page)[-1] != "tail-821", "scrolled up", LIMIT_S)
    before = visible(page)
    stage.join(822, userId="tail-822")
    until(lambda: ids(page)[-1] == "tail-822", "it came", LIMIT_S)
    page.wait_for_timeout(300)
    assert visible(page) == before, "the user reads here"
    page.mouse.wheel(0, 9000)
    until(lambda: visible(page)[-1] == "tail-822", "at the end again", LIMIT_S)
    stage.join(823, userId="tail-823")
    until(lambda: visible(page)[-1] == "tail-823", "it follows again", LIMIT_S)


def _ends_with(page: Page, user: str) -> bool:
    return visible(page)[-1] == user


def test_a_sort_that_is_taken_away_leaves_the_order_of_arrival(page: Page) -> None:
    arrange(page, "final_ui", sort=[["balance", "desc"]])
    until(lambda: order(page) == "By balance", "said", LIMIT_S)
    arrange(page, "final_ui", sort=[])  # as the engine's panel does
    until(lambda: config(page, "final_ui")["sort"] == NEWEST_FIRST, "arrival", LIMIT_S)
    choose(page, "Newest last")
    until(lambda: config(page, "final_ui")["sort"] == NEWEST_LAST, "newest last", LIMIT_S)
    arrange(page, "final_ui", group_by=["accountType"])
    until(lambda: config(page, "final_ui")["sort"] == [], "groups have their own", LIMIT_S)
    names = [row["__ROW_PATH__"] for row in rows(page, "final_ui")]
    assert names == [[], [None], ["checking"], ["gold"], ["savings"]]
    arrange(page, "final_ui", group_by=[])
    until(lambda: config(page, "final_ui")["sort"] == NEWEST_LAST, "as before", LIMIT_S)
    until(lambda: cell(page, "final", 1, 1).inner_text() == "a-0000", "drawn", LIMIT_S)


def heading(page: Page, name: str) -> Any:
    return page.locator(f"{FINAL} thead tr:first-child th", has_text=name).first


def sort(page: Page) -> Any:
    return config(page, "final_ui")["sort"]


def sorts(page: Page, *expected: list[str]) -> None:
    until(lambda: sort(page) == list(expected), str(expected), LIMIT_S)


def test_headings_sort_by_clicks_and_by_several_columns_with_shift(page: Page) -> None:
    heading(page, "balance").click()
    sorts(page, ["balance", "desc"])
    balances = [row["balance"] for row in rows(page, "final_ui")]
    known = [balance for balance in balances if balance is not None]
    assert known == sorted(known, reverse=True)
    heading(page, "balance").click()
    sorts(page, ["balance", "asc"])
    assert order(page) == "By balance"
    heading(page, "balance").click()
    sorts(page, *NEWEST_FIRST)
    heading(page, "accountType").click()
    heading(page, "age").click(modifiers=["Shift"])
    sorts(page, ["accountType", "desc"], ["age", "desc"])
    pairs = [(r["accountType"], r["age"]) for r in rows(page, "final_ui") if r["accountType"]]
    assert pairs == sorted(pairs, reverse=True)
    heading(page, "name").click()
    sorts(page, ["name", "desc"])


def test_headings_sort_with_the_keyboard_alone(page: Page) -> None:
    page.locator(f"{FINAL} button[title^=Widen]").focus()
    for _ in range(4):  # from the tools into the grid
        page.keyboard.press("Tab")
        if _focused(page) == "userId":
            break
    assert _focused(page) == "userId"
    page.keyboard.press("ArrowRight")
    assert _focused(page) == "name"
    page.keyboard.press("End")
    assert _focused(page) == "balance"
    page.keyboard.press("Enter")
    sorts(page, ["balance", "desc"])
    until(lambda: heading(page, "balance").get_attribute("aria-sort") == "descending", "", LIMIT_S)
    assert _focused(page) == "balance", "the focus stays"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+Enter")
    sorts(page, ["balance", "desc"], ["accountType", "desc"])
    page.keyboard.press("Space")
    sorts(page, ["accountType", "asc"])
    until(lambda: heading(page, "balance").get_attribute("aria-sort") == "none", "", LIMIT_S)
    page.keyboard.press("Enter")
    sorts(page, *NEWEST_FIRST)


def _focused(page: Page) -> str:
    found: str = page.evaluate(
        """() => {
            let at = document.activeElement;
            while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
            return at?.tagName === "TH" ? at.innerText.trim() : "";
        }"""
    )
    return found
