"""The workspace in a real browser: layout, charts, pause, copy, export, preferences."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Page

from browser import chrome
from browser.looking import (
    LIMIT_S,
    address,
    arrange,
    cell,
    config,
    rows,
    says,
    staged_page,
    tool,
)
from browser.staged import HOSTILE, Stage
from rig.running import until

RICH = {"sort": [["balance", "desc"]], "filter": [["accountType", "==", "gold"]]}
CHARTS = ("Y Bar", "X Bar", "Y Line", "Y Area", "Y Scatter", "Treemap", "Sunburst", "Heatmap")
COUNT = 200


@pytest.fixture(scope="module")
def stage_and_page() -> Iterator[tuple[Stage, Page, chrome.Trouble]]:
    with staged_page(COUNT) as stage_and_page:
        yield stage_and_page


@pytest.fixture
def stage(stage_and_page: tuple[Stage, Page, chrome.Trouble]) -> Stage:
    return stage_and_page[0]


@pytest.fixture
def page(stage_and_page: tuple[Stage, Page, chrome.Trouble]) -> Iterator[Page]:
    """The page; its layout is reset after the test."""
    yield stage_and_page[1]
    stage_and_page[1].click("#reset")
    until(lambda: "layout" not in address(stage_and_page[1]), "the layout is reset", LIMIT_S)


def test_the_first_load_shows_live_rows_and_their_rates(stage: Stage, page: Page) -> None:
    assert page.inner_text("#state") == "live"
    assert page.inner_text("#generation") == "generation 1"
    assert page.inner_text("#choice") == "users_a left accounts_a"
    # it comes with a heartbeat
    until(lambda: page.inner_text("#viewers") == "1", "the viewer is counted", LIMIT_S)
    assert not [name for name in config(page, "final_ui")["columns"] if name.startswith("_")]
    before = len(rows(page, "final_ui"))
    stage.change(COUNT)
    until(lambda: len(rows(page, "final_ui")) == before + 1, "a row comes by itself", LIMIT_S)
    says(page, "#rate-in", "/s")
    until(lambda: page.inner_text("#rate-in") not in ("–", "0/s"), "records come in", LIMIT_S)
    until(lambda: page.inner_text("#rate-out") not in ("–", "0/s"), "rows go out", LIMIT_S)
    assert page.inner_text("#freshness").endswith("ago")


def test_a_draw_that_met_a_replaced_view_is_repeated(
    stage_and_page: tuple[Stage, Page, chrome.Trouble],
) -> None:
    """The engine leaves this error of its own draws to nobody; others are still reported."""
    _, page, trouble = stage_and_page
    assert not trouble
    page.evaluate("""() => {
        const viewer = document.querySelector("perspective-viewer[data-table=final_ui]");
        window.drawn = 0;
        const resize = viewer.resize; // not writable
        Object.defineProperty(viewer, "resize", {
            configurable: true,
            value(force) {
                window.drawn += 1;
                return resize.call(viewer, force);
            },
        });
        setTimeout(() => { Promise.reject(new Error("View not found")) });
        setTimeout(() => { Promise.reject(new Error("another failure")) });
    }""")
    # the call lets the browser's events in
    until(lambda: page.evaluate("drawn") and trouble, "the other error is reported", LIMIT_S)
    assert ["another failure" in text for text in trouble] == [True]
    assert page.evaluate("drawn") == 1
    trouble.clear()
    page.evaluate('delete document.querySelector("perspective-viewer[data-table=final_ui]").resize')


def test_hostile_cells_are_text(page: Page) -> None:
    arrange(page, "final_ui", filter=[["userId", "==", "x"]])
    until(
        lambda: cell(page, "final", 1, 2).inner_text() == HOSTILE, "the cell is rendered", LIMIT_S
    )
    assert page.locator("perspective-viewer img").count() == 0


def test_a_layout_is_saved_shared_by_link_and_reset(stage: Stage, page: Page) -> None:
    arrange(page, "final_ui", **RICH)
    page.focus("[data-between='users accounts']")
    page.keyboard.press("ArrowRight")
    page.click("#tab-control")
    until(lambda: "layout" in address(page), "the layout is in the address", LIMIT_S)
    before = page.evaluate("document.getElementById('view-tables').style.cssText")
    page.wait_for_timeout(500)  # saving is delayed
    sent = address(page)
    page.goto("about:blank")
    page.goto(stage.url)  # saved in the browser
    _arranged(page, before)
    page.evaluate("localStorage.clear()")
    page.goto("about:blank")
    page.goto(sent)  # the link of another user
    _arranged(page, before)
    page.click("#reset")
    until(lambda: "layout" not in address(page), "the address is short again", LIMIT_S)
    assert config(page, "final_ui")["sort"] == [["_ts", "desc"]]
    assert page.evaluate("localStorage.getItem('livejoin.layout.v2')") is None
    assert page.is_visible("#panel-logs")


def _arranged(page: Page, before: str) -> None:
    page.wait_for_selector("section[data-area=final] perspective-viewer-datagrid tbody td")
    until(
        lambda: config(page, "final_ui")["sort"] == RICH["sort"],
        "the viewer is configured",
        LIMIT_S,
    )
    assert config(page, "final_ui")["filter"] == RICH["filter"]
    assert page.is_visible("#panel-control")
    assert page.evaluate("document.getElementById('view-tables').style.cssText") == before


@pytest.mark.parametrize("chart", CHARTS)
def test_a_table_becomes_a_chart_and_a_grid_again(page: Page, chart: str) -> None:
    page.select_option("section[data-area=final] select", chart)
    page.wait_for_selector("section[data-area=final] canvas", state="attached")
    until(lambda: config(page, "final_ui")["plugin"] == chart, "the chart is shown", LIMIT_S)
    assert config(page, "final_ui")["group_by"] == ["accountType"]
    page.select_option("section[data-area=final] select", "Datagrid")
    until(lambda: config(page, "final_ui")["plugin"] == "Datagrid", "a grid again", LIMIT_S)
    assert config(page, "final_ui")["group_by"] == []
    assert len(config(page, "final_ui")["columns"]) == 6


def test_arrange_opens_beside_a_widened_table(page: Page) -> None:
    tool(page, "final", "Sort, filter").click()
    page.wait_for_selector("#arrange")
    tool(page, "final", "Widen").click()
    width = page.locator("section[data-area=final]").bounding_box()
    assert width is not None
    assert width["width"] > 1100, "the panel is beside it, not over it"
    page.keyboard.press("Escape")
    assert page.is_hidden("#arrange"), "also if the focus is elsewhere"
    page.keyboard.press("w")
    until(lambda: page.is_visible("[data-between='users accounts']"), "as before", LIMIT_S)


def test_pause_keeps_the_rows_and_resume_updates_them(stage: Stage, page: Page) -> None:
    arrange(page, "users_ui", sort=[["userId", "desc"]])
    before = rows(page, "users_ui")
    page.keyboard.press("p")
    says(page, "#message", "paused: rows as of")
    page.wait_for_timeout(200)
    stage.change(COUNT + 1)
    stage.change(COUNT + 2)
    page.wait_for_timeout(1200)
    assert rows(page, "users_ui") == before
    page.click("#pause")
    until(lambda: len(rows(page, "users_ui")) == len(before) + 2, "the new rows are shown", LIMIT_S)
    stage.change(COUNT + 3)
    until(lambda: len(rows(page, "users_ui")) == len(before) + 3, "and go on", LIMIT_S)
    assert "paused" not in page.inner_text("#message")


def test_exports_contain_what_is_shown(page: Page, tmp_path: Path) -> None:
    arrange(page, "final_ui", columns=["userId", "email", "age"], filter=[["userId", "==", "x"]])
    files = {}
    for name in ("CSV", "JSON", "Arrow"):
        tool(page, "final", "Export").click()
        with page.expect_download() as downloading:
            page.locator(".menu [role=menuitem]", has_text=name).first.click()
        file = tmp_path / downloading.value.suggested_filename
        downloading.value.save_as(file)
        files[file.name] = file.read_bytes()
    assert files["final_ui.csv"] == b"userId,email,age\nx,'=1+1,\n"
    row = {"userId": "x", "email": "=1+1", "age": None}
    assert json.loads(files["final_ui.json"]) == [row]
    with pa.ipc.open_stream(io.BytesIO(files["final_ui.arrow"])) as stream:
        assert stream.read_all().to_pylist() == [row]


def test_selected_cells_are_copied(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    arrange(page, "final_ui", sort=[["userId", "asc"]])
    until(lambda: cell(page, "final", 1, 1).inner_text() == "a-0000", "the grid is sorted", LIMIT_S)
    select(page, (2, 1), (3, 2))
    page.keyboard.press("Control+c")
    says(page, "#toast", "Copied 2 rows of final_ui")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "userId\tname\na-0001\tBela Arany\na-0002\tChen Arany\n"


def select(page: Page, first: tuple[int, int], last: tuple[int, int]) -> None:
    """Select cells with the mouse."""
    start = cell(page, "final", *first).bounding_box()
    end = cell(page, "final", *last).bounding_box()
    assert start is not None
    assert end is not None
    page.mouse.move(start["x"] + 5, start["y"] + 5)
    page.mouse.down()
    page.mouse.move(end["x"] + 5, end["y"] + 5, steps=3)
    page.mouse.up()


def test_times_are_local_or_utc(page: Page) -> None:
    def first() -> str:
        return cell(page, "system", 1, 1).inner_text()

    before = first()
    page.keyboard.press("u")
    assert page.inner_text("#timezone") == "UTC"
    zone = page.evaluate("new Date().getTimezoneOffset()")
    assert zone, "this test needs a time zone other than UTC"
    until(lambda: first() != before, "the times are other ones", LIMIT_S)
    page.keyboard.press("u")
    until(lambda: first() == before, "and the same again", LIMIT_S)


def test_shortcuts_are_listed_and_switch_the_theme(page: Page) -> None:
    page.keyboard.press("?")
    assert page.is_visible("#help")
    assert "pause or resume" in page.inner_text("#keys")
    page.keyboard.press("Escape")
    assert page.is_hidden("#help")
    back = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(back)
    page.keyboard.press("t")
    page.keyboard.press("t")
    assert page.evaluate(back) != light
    viewer = "perspective-viewer[data-table=final_ui]"
    until(lambda: page.get_attribute(viewer, "theme") == "Pro Dark", "the grids too", LIMIT_S)
    page.keyboard.press("t")
    until(lambda: page.get_attribute(viewer, "theme") == "Pro Light", "as the system", LIMIT_S)


def test_a_filter_without_matches_can_be_cleared(page: Page) -> None:
    arrange(page, "final_ui", filter=[["name", "==", "nobody"]])
    page.click("section[data-area=final] .empty button:text-is('Clear the filter')")
    until(lambda: config(page, "final_ui")["filter"] == [], "the filter is cleared", LIMIT_S)
