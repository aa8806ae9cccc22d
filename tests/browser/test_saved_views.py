"""Saved views in a real browser: save, rename, update, delete, share; links; damaged storage."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page

from browser.looking import LIMIT_S, address, arrange, config, drawn, rows, says, swap, tool
from browser.staged import Stage
from rig.running import until

COUNT = 120
VIEWS = "livejoin.views.v1"
LAYOUT = "livejoin.layout.v2"
GOLD: dict[str, Any] = {"sort": [["balance", "desc"]], "filter": [["accountType", "==", "gold"]]}
OLD: dict[str, Any] = {"sort": [["age", "desc"]], "filter": [["age", ">", 60]]}
STORED = "() => JSON.stringify(Object.entries(localStorage).sort())"
CONFIG = """async (table) => {
    const viewer = document.querySelector(`perspective-viewer[data-table=${table}]`);
    try { return await viewer.save(); } catch { return {}; } // it is not loaded yet
}"""


@pytest.fixture
def page(stage_and_page: tuple[Stage, Page]) -> Iterator[Page]:
    """The page without saved views; its layout is reset after the test."""
    page = stage_and_page[1]
    yield page
    page.set_viewport_size({"width": 1500, "height": 900})
    page.evaluate("key => localStorage.removeItem(key)", VIEWS)
    page.click("#reset")
    until(lambda: "layout" not in address(page), "the layout is reset", LIMIT_S)


def name(page: Page) -> str:
    """What the button says is shown."""
    return page.inner_text("#views .name")


def changed(page: Page) -> bool:
    return page.locator("#views .mark").is_visible()


def menu(page: Page) -> Locator:
    page.click("#views")
    return page.locator(".menu:popover-open")


def choose(page: Page, item: str) -> None:
    menu(page).locator("[role=menuitem]").filter(has_text=item).first.click()


def items(page: Page) -> list[str]:
    """What the menu offers."""
    found = menu(page).locator("[role=menuitem]").all_inner_texts()
    page.keyboard.press("Escape")
    return [text.split("\n")[0] for text in found]


def answer(page: Page, text: str) -> None:
    """Type a name into the dialog, and press Enter."""
    page.fill("dialog.question input", text)
    page.keyboard.press("Enter")


def save(page: Page, called: str) -> None:
    choose(page, "Save as…")
    answer(page, called)
    until(lambda: name(page) == called, f"saved as {called}", LIMIT_S)
    assert page.locator("dialog.question").count() == 0


def becomes(page: Page, table: str = "final_ui", **expected: Any) -> None:
    def same() -> bool:
        now = page.evaluate(CONFIG, table)
        return {key: now.get(key) for key in expected} == expected

    until(same, f"{table} is arranged so: {expected}", LIMIT_S)


def layout_in(link: str) -> dict[str, Any]:
    """The layout that an address carries."""
    encoded = link.split("layout=")[1].split("&", maxsplit=1)[0]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(encoded + "=="))
    return found


def link_to(stage: Stage, layout: Any, called: str = "") -> str:
    encoded = base64.urlsafe_b64encode(json.dumps(layout).encode()).decode().rstrip("=")
    return f"{stage.url}#{f'view={called}&' if called else ''}layout={encoded}"


def carries(page: Page, **tables: Any) -> None:
    """Wait until the address carries these arrangements of tables."""

    def same() -> bool:
        link = address(page)
        found = layout_in(link)["tables"] if "layout=" in link else {}
        return all(
            {key: found.get(table, {}).get(key) for key in arranged} == arranged
            for table, arranged in tables.items()
        )

    until(same, f"the address carries {tables}", LIMIT_S)


def visit(page: Page, url: str) -> None:
    """Open an address as a link from elsewhere is opened."""
    page.goto("about:blank")
    page.goto(url)
    page.wait_for_selector("section[data-area=final] perspective-viewer-datagrid tbody td")


def test_views_are_saved_opened_and_updated_and_changes_are_marked(page: Page) -> None:
    assert name(page) == "Views"
    arrange(page, "final_ui", **GOLD)
    carries(page, final_ui=GOLD)
    save(page, "Gold only")
    assert not changed(page)
    arrange(page, "final_ui", **OLD)
    until(lambda: changed(page), "the change is marked", LIMIT_S)
    assert "changed" in (page.get_attribute("#views", "aria-label") or "")
    save(page, "Over 60")
    assert not changed(page)
    choose(page, "Gold only")
    becomes(page, **GOLD)
    assert {row["accountType"] for row in rows(page, "final_ui")} == {"gold"}
    until(lambda: (name(page), changed(page)) == ("Gold only", False), "shown", LIMIT_S)
    choose(page, "Default view")
    becomes(page, filter=[], sort=[["_ts", "desc"]])
    until(lambda: "layout" not in address(page), "a short address", LIMIT_S)
    assert name(page) == "Views"
    choose(page, "Over 60")
    becomes(page, **OLD)
    arrange(page, "final_ui", sort=[["name", "asc"]])
    until(lambda: changed(page), "marked", LIMIT_S)
    choose(page, "Over 60")  # as it was saved
    becomes(page, **OLD)
    until(lambda: not changed(page), "nothing is changed any more", LIMIT_S)
    arrange(page, "final_ui", sort=[["name", "asc"]])
    until(lambda: changed(page), "marked", LIMIT_S)
    choose(page, "Update")
    until(lambda: not changed(page), "saved", LIMIT_S)
    choose(page, "Default view")
    becomes(page, filter=[])
    choose(page, "Over 60")
    becomes(page, filter=OLD["filter"], sort=[["name", "asc"]])
    page.reload()
    drawn(page)
    assert (name(page), changed(page)) == ("Over 60", False)
    becomes(page, filter=OLD["filter"], sort=[["name", "asc"]])


def test_a_view_has_every_part_of_the_arrangement(page: Page) -> None:
    """Charts, groups, order, folds, separators, tabs, a widened table, the width of a column."""
    page.select_option("section[data-area=users] select", "Y Bar")
    becomes(page, "users_ui", plugin="Y Bar")
    arrange(page, "accounts_ui", group_by=["accountType"], columns=["balance"], sort=[])
    columns = {"name": {"column_size_override": 222}}
    arrange(page, "final_ui", columns=["name", "userId"], columns_config=columns)
    page.click("section[data-area=final] .order")
    page.locator(".menu [role=menuitem]", has_text="Following").click()
    carries(page, final_ui={"columns": ["name", "userId"]})
    until(lambda: layout_in(address(page)).get("following") == ["final_ui"], "followed", LIMIT_S)
    page.fill("section[data-area=final] .quick", "ada")
    page.focus("[data-between='users accounts']")
    page.keyboard.press("ArrowRight")
    page.click("#tab-control")
    tool(page, "users", "Fold").or_(page.locator("[title='Fold users_ui']")).first.click()
    carries(page, users_ui={"plugin": "Y Bar"}, final_ui={"columns": ["name", "userId"]})
    filtered = "the quick filter, which waits for more letters, is carried"
    until(
        lambda: bool(layout_in(address(page))["tables"]["final_ui"].get("filter")),
        filtered,
        LIMIT_S,
    )
    save(page, "Everything")
    until(lambda: "view=Everything" in address(page), "in the address", LIMIT_S)
    before = layout_in(address(page))
    assert before["folded"] == ["users"]
    assert before["following"] == ["final_ui"]
    assert before["tab"] == "tab-control"
    assert before["tables"]["final_ui"]["columns_config"]["name"] == columns["name"]
    assert before["tables"]["final_ui"]["filter"]
    choose(page, "Default view")
    becomes(page, "users_ui", plugin="Datagrid")
    until(lambda: "layout" not in address(page), "the default", LIMIT_S)
    assert page.is_visible("#panel-logs")
    choose(page, "Everything")
    becomes(page, "users_ui", plugin="Y Bar", group_by=["age"])
    becomes(page, columns=["name", "userId"])
    until(lambda: page.is_visible("#panel-control"), "the tab", LIMIT_S)
    page.wait_for_timeout(600)  # saving is delayed
    assert layout_in(address(page)) == before
    assert not changed(page)
    page.reload()
    drawn_charts = page.locator("section[data-area=users] select")
    until(lambda: drawn_charts.input_value() == "Y Bar", "the chart is shown as chosen", LIMIT_S)
    page.wait_for_timeout(600)
    assert layout_in(address(page)) == before
    assert not changed(page)


def test_names_are_kept_apart_and_views_are_renamed_and_deleted(page: Page) -> None:
    arrange(page, "final_ui", **GOLD)
    carries(page, final_ui=GOLD)
    choose(page, "Save as…")
    answer(page, "  Gold   only ")
    until(lambda: name(page) == "Gold only", "one blank between words", LIMIT_S)
    save(page, "Other")
    choose(page, "Save as…")
    for taken, why in (("Other", "There is a view"), (" ", "needs a name"), ("Default view", "")):
        answer(page, taken)
        says(page, "dialog.question [role=alert]", why)
    page.keyboard.press("Escape")
    choose(page, "Rename…")
    assert page.input_value("dialog.question input") == "Other"
    answer(page, "Zzz")
    until(lambda: name(page) == "Zzz", "renamed", LIMIT_S)
    assert items(page)[:3] == ["Default view", "Gold only", "Zzz"]
    choose(page, "Delete…")
    page.click("dialog.question button:text-is('Cancel')")
    assert "Zzz" in items(page)
    choose(page, "Delete…")
    page.click("dialog.question button:text-is('Delete')")
    until(lambda: name(page) == "Views", "deleted", LIMIT_S)
    assert items(page)[:3] == ["Default view", "Gold only", "Save as…"]
    becomes(page, **GOLD)  # what is shown stays


def test_a_link_shows_exactly_one_view_and_leaves_the_readers_own_alone(
    stage: Stage, page: Page
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    arrange(page, "final_ui", **GOLD)
    arrange(page, "users_ui", sort=[["age", "asc"]])
    carries(page, final_ui=GOLD, users_ui={"sort": [["age", "asc"]]})
    save(page, "Gold only")
    choose(page, "Copy link")
    says(page, "#toast", "copied")
    link = page.evaluate("navigator.clipboard.readText()")
    assert "view=Gold+only" in link
    # somebody else, with another view of that name, and a layout of their own
    page.evaluate("localStorage.clear()")
    visit(page, stage.url)
    arrange(page, "final_ui", **OLD)
    carries(page, final_ui=OLD)
    save(page, "Gold only")
    page.wait_for_timeout(600)
    before = page.evaluate(STORED)
    visit(page, link)
    becomes(page, **GOLD)
    becomes(page, "users_ui", sort=[["age", "asc"]])
    assert (name(page), changed(page)) == ("Gold only", False)
    assert "opened by a link" in (page.get_attribute("#views", "title") or "")
    arrange(page, "final_ui", sort=[["name", "asc"]])
    page.click("#tab-control")
    until(lambda: changed(page), "marked", LIMIT_S)
    carries(page, final_ui={"sort": [["name", "asc"]]})
    visit(page, address(page))
    becomes(page, sort=[["name", "asc"]])
    assert page.evaluate(STORED) == before, "until they save"
    assert "Rename…" not in items(page)
    choose(page, "Back to my own")
    becomes(page, **OLD)
    until(lambda: (name(page), changed(page)) == ("Gold only", False), "their own", LIMIT_S)
    assert page.evaluate(STORED) == before
    visit(page, link)
    becomes(page, **GOLD)
    save(page, "Gold of others")
    visit(page, stage.url)
    becomes(page, **GOLD)
    assert items(page)[:3] == ["Default view", "Gold of others", "Gold only"]


def test_a_link_is_followed_on_the_open_page_too(stage: Stage, page: Page) -> None:
    link = link_to(stage, {"tables": {"final_ui": GOLD}, "view": "health"}, "Gold")
    arrange(page, "final_ui", **OLD)
    carries(page, final_ui=OLD)
    before = page.evaluate(STORED)
    page.evaluate("link => { location.href = link }", link)
    becomes(page, **GOLD)
    until(lambda: page.is_visible("#view-health"), "the view of the link", LIMIT_S)
    assert name(page) == "Gold"
    page.wait_for_timeout(600)
    assert page.evaluate(STORED) == before
    page.go_back()
    becomes(page, **OLD)
    until(lambda: (name(page), page.is_visible("#view-tables")) == ("Views", True), "back", LIMIT_S)


def test_what_is_not_here_is_left_out_and_named(stage: Stage, page: Page) -> None:
    arranged = {
        "columns": ["userId", "total", "age"],
        "sort": [["total", "desc"], ["age", "asc"]],
        "filter": [["city", "==", "x"], ["age", ">", 40], ["age", "=="]],
        "aggregates": {"total": "sum"},
        "expressions": {"twice": '"age" * 2', "lost": '"total" * 2', "odd": 7},
        "group_by": "age",
    }
    layout = {
        "tab": "tab-orders",
        "wide": "orders_ui",
        "following": ["orders_ui"],
        "split": {"final": "x", "users": -1, "nonsense": 4},
        "folded": 7,
        "tables": {
            "final_ui": arranged,
            "orders_ui": {"sort": []},
            "users_ui": {"plugin": "Nothing", "columns": ["name"]},
            "accounts_ui": "x",
        },
    }
    visit(page, link_to(stage, layout, "From elsewhere"))
    becomes(page, columns=["userId", "age"], sort=[["age", "asc"]], filter=[["age", ">", 40]])
    assert config(page, "final_ui")["expressions"] == {"twice": '"age" * 2'}
    says(
        page, "#toast", "“orders_ui”", "tab-orders", "“total”", "“city”", "in final_ui", "users_ui"
    )
    assert name(page) == "From elsewhere"
    assert page.is_visible("#panel-logs")
    assert page.evaluate("document.documentElement.style.getPropertyValue('--nonsense')") == ""
    until(lambda: "orders" not in json.dumps(layout_in(address(page))), "and forgotten", LIMIT_S)
    assert len(rows(page, "users_ui")) > COUNT / 2, "a table that cannot be arranged is as usual"


@pytest.mark.parametrize(
    "damaged",
    [
        "{",
        "null",
        '"x"',
        "[1, null, {}, []]",
        json.dumps([{"name": "  ", "layout": {}}, {"name": "a", "layout": 7}, {"name": 7}]),
        json.dumps([{"name": "x" * 999, "layout": {"tables": [], "split": 7, "following": "x"}}]),
    ],
)
def test_damaged_storage_does_no_harm(stage: Stage, page: Page, damaged: str) -> None:
    page.evaluate(
        "([a, b, text]) => { localStorage[a] = localStorage[b] = text }", [VIEWS, LAYOUT, damaged]
    )
    visit(page, stage.url)
    assert len(rows(page, "final_ui")) > COUNT / 2
    assert len(items(page)) <= 4
    save(page, "After all")
    assert "After all" in items(page)
    visit(page, stage.url)
    assert "After all" in items(page)


def test_number_and_size_of_views_are_limited(page: Page) -> None:
    page.evaluate(
        "key => localStorage.setItem(key, JSON.stringify(Array.from({ length: 60 }, (_, n) =>"
        " ({ name: `view ${n}`, layout: {} }))))",
        VIEWS,
    )
    entries = menu(page)
    assert entries.locator("[role=menuitem]").count() == 1 + 50 + 2
    box = entries.bounding_box()
    assert box is not None
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 900, "a long menu scrolls"
    page.keyboard.press("Escape")
    choose(page, "Save as…")
    answer(page, "one more")
    says(page, "dialog.question [role=alert]", "There are 50 views")
    page.keyboard.press("Escape")
    page.evaluate("key => localStorage.removeItem(key)", VIEWS)
    arrange(page, "final_ui", filter=[["name", "==", "x" * 21_000]])
    until(lambda: len(address(page)) > 20_000, "a long filter", LIMIT_S)
    choose(page, "Save as…")
    answer(page, "large")
    says(page, "dialog.question [role=alert]", "too large", "20,000")
    page.keyboard.press("Escape")
    assert page.evaluate("key => localStorage.getItem(key)", VIEWS) is None


def test_another_page_of_the_browser_has_the_same_views(stage: Stage, page: Page) -> None:
    save(page, "Shared")
    with page.expect_popup() as opening:
        page.evaluate("url => { window.open(url) }", stage.url)
    other = opening.value
    try:
        drawn(other)
        until(lambda: name(other) == "Shared", "the last one shown", LIMIT_S)
        choose(other, "Delete…")
        other.click("dialog.question button:text-is('Delete')")
        until(lambda: name(other) == "Views", "deleted", LIMIT_S)
        until(lambda: changed(page), "nobody has it saved any more", LIMIT_S)
        assert items(page) == ["Default view", "Save as…", "Copy link"]
    finally:
        other.close()


def test_a_view_outlives_a_swap(stage: Stage, page: Page) -> None:
    arrange(page, "final_ui", **GOLD)
    carries(page, final_ui=GOLD)
    save(page, "Gold only")
    swap(stage, b'{"usersTopic": "users_b", "accountsTopic": "accounts_b"}')
    until(lambda: rows(page, "final_ui")[0]["userId"].startswith("b-"), "swapped", LIMIT_S)
    becomes(page, **GOLD)
    assert (name(page), changed(page)) == ("Gold only", False)
    swap(stage, b'{"action": "rollback"}')
    until(lambda: rows(page, "final_ui")[0]["userId"].startswith("a-"), "back", LIMIT_S)


@pytest.mark.parametrize(("width", "height"), [(1360, 800), (390, 844)])
def test_views_are_within_reach_by_keyboard_alone(page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    box = page.locator("#views").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    page.keyboard.press("v")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")  # Save as…
    page.keyboard.type("By keyboard")
    page.keyboard.press("Enter")
    until(lambda: name(page) == "By keyboard", "saved", LIMIT_S)
    dialogs = page.locator("dialog.question")
    until(lambda: page.evaluate("document.activeElement.id") == "views", "focus is back", LIMIT_S)
    assert dialogs.count() == 0
    page.keyboard.press("Enter")
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    within = page.locator(".menu").bounding_box()
    assert within is not None
    assert within["x"] >= 0
    assert within["x"] + within["width"] <= width
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
