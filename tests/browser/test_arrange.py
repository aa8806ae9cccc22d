"""The Arrange panel in a real browser, and Perspective's own panel behind it."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page

from browser.contrast import contrast
from browser.looking import (
    LIMIT_S,
    address,
    arrange,
    columns,
    config,
    rows,
    says,
    swap,
    tool,
)
from browser.staged import Stage
from rig.running import until

PANEL = "#arrange"
EXPERT = "perspective-viewer[data-table=final_ui] #settings_panel"
CHART = "section[data-area=final] .tools select"
FOCUSED = "document.activeElement.title"
COUNT = 120
TO_B = b'{"usersTopic": "users_b", "accountsTopic": "accounts_b"}'
# colours and opacity of the texts in the engine's panel, and the backgrounds behind each
SEEN = """() => {
    const parent = (element) => element.parentElement ?? element.getRootNode().host;
    const behind = (element) => {
        const colour = getComputedStyle(element).backgroundColor;
        return colour.startsWith("rgba") ? [colour, ...behind(parent(element))] : [colour];
    };
    const opacity = (element) =>
        element ? getComputedStyle(element).opacity * opacity(element.parentElement) : 1;
    const panel = document.querySelector("perspective-viewer[data-table=final_ui]")
        .shadowRoot.querySelector("#settings_panel");
    const seen = [];
    for (const element of panel.querySelectorAll("*")) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        for (const part of [undefined, "::before", "::after"]) {
            const style = getComputedStyle(element, part);
            const written = own || element.matches("select");
            const text = part ? /^"[^"]*[a-z]{3}/i.test(style.content) : written;
            const opaque = opacity(element) * (part ? style.opacity : 1);
            if (!text || !opaque || !element.offsetParent) continue; // some are seen on hover only
            seen.push([element.id || element.className, style.color, opaque, behind(element)]);
        }
    }
    return seen;
}"""


@pytest.fixture
def page(stage_and_page: tuple[Stage, Page]) -> Iterator[Page]:
    """The page with the panel open for the join; panel and layout are reset after the test."""
    page = stage_and_page[1]
    opener(page).click()
    page.wait_for_selector(PANEL)
    yield page
    page.set_viewport_size({"width": 1500, "height": 900})
    if page.is_visible(PANEL):
        page.click(f"{PANEL} [aria-label=Close]")
    page.click("#reset")
    until(lambda: "layout" not in address(page), "the layout is reset", LIMIT_S)


def opener(page: Page) -> Locator:
    return tool(page, "final", "Sort, filter")


def control(page: Page, key: str) -> Locator:
    return page.locator(f'{PANEL} [data-key="{key}"]')


def focused(page: Page) -> str:
    found: str = page.evaluate("document.activeElement.dataset.key ?? document.activeElement.id")
    return found


def becomes(page: Page, **expected: Any) -> None:
    """Wait until the viewer is configured so."""

    def same() -> bool:
        found = config(page, "final_ui")
        return {name: found[name] for name in expected} == expected

    until(same, f"{expected}, not {config(page, 'final_ui')}", LIMIT_S)


def test_arrange_opens_our_panel_and_escape_closes_it(page: Page) -> None:
    assert page.inner_text(f"{PANEL} h2 span") == "Arrange final_ui"
    assert page.locator(EXPERT).count() == 0
    for word in ("reset", "export", "theme"):
        assert word not in page.inner_text(PANEL).lower()
    assert focused(page) == "arrange"
    assert opener(page).get_attribute("aria-expanded") == "true"
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    assert page.is_hidden(PANEL)
    assert "Sort, filter" in page.evaluate("document.activeElement.title")
    page.keyboard.press("Enter")
    page.wait_for_selector(PANEL)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.ariaLabel") == "Close"


def test_keyboard_alone_reaches_every_control_in_order(page: Page) -> None:
    arrange(page, "final_ui", sort=[["age", "asc"]], filter=[["age", ">", 20]])
    control(page, "value-0").wait_for()
    every = page.evaluate(
        f"[...document.querySelectorAll('{PANEL} :is(button, input, select):enabled')]"
        ".map((each) => each.dataset.key ?? each.textContent)"
    )
    reached = []
    page.focus(PANEL)
    for _ in every:
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "document.activeElement.dataset.key ?? document.activeElement.textContent"
            )
        )
    assert reached == every
    unnamed = page.evaluate(
        f"[...document.querySelectorAll('{PANEL} :is(button, input, select)')].filter((each) => "
        "!each.ariaLabel && !each.labels?.length && !each.textContent).length"
    )
    assert unnamed == 0


def test_columns_are_chosen_and_ordered_by_keyboard(page: Page) -> None:
    control(page, "shown-email").focus()
    page.keyboard.press("Space")
    becomes(page, columns=["userId", "name", "age", "accountType", "balance"])
    control(page, "column-up-4").focus()
    for _ in range(4):
        page.keyboard.press("Enter")
    becomes(page, columns=["balance", "userId", "name", "age", "accountType"])
    assert focused(page) == "column-down-0", "it is first: the focus is on the other button"
    control(page, "shown-_ts").check()
    becomes(page, columns=["balance", "userId", "name", "age", "accountType", "_ts"])


def test_rows_are_sorted_by_several_columns(page: Page) -> None:
    control(page, "sort-add").click()
    control(page, "sort-0").select_option("accountType")
    control(page, "direction-0").select_option(label="Z to A")
    control(page, "sort-add").click()
    control(page, "sort-1").select_option("balance")
    control(page, "direction-1").select_option(label="highest first")
    becomes(page, sort=[["accountType", "desc"], ["balance", "desc"]])
    found = [(row["accountType"] or "", row["balance"] or 0) for row in rows(page, "final_ui")]
    assert found == sorted(found, reverse=True)
    control(page, "sort-up-1").click()
    becomes(page, sort=[["balance", "desc"], ["accountType", "desc"]])
    control(page, "sort-remove-0").click()
    becomes(page, sort=[["accountType", "desc"]])
    control(page, "sort-remove-0").click()
    becomes(page, sort=[["_ts", "desc"]])
    says(page, f"{PANEL} [data-part=sort]", "The order of arrival, newest first")


def test_a_filter_has_the_input_of_its_type_and_no_effect_before_it_has_a_value(page: Page) -> None:
    before = len(rows(page, "final_ui"))
    control(page, "filter-add").click()
    control(page, "filter-0").select_option("balance")
    page.wait_for_timeout(500)  # longer than typing is waited for
    assert config(page, "final_ui")["filter"] == []
    assert len(rows(page, "final_ui")) == before
    assert control(page, "value-0").get_attribute("type") == "number"
    control(page, "value-0").press_sequentially("20000.5")
    becomes(page, filter=[["balance", ">", 20000.5]])
    assert focused(page) == "value-0", "typing is not interrupted"
    assert all(row["balance"] > 20000.5 for row in rows(page, "final_ui"))
    assert 0 < len(rows(page, "final_ui")) < before
    control(page, "value-0").fill("")
    becomes(page, filter=[])
    control(page, "filter-0").select_option("accountType")
    control(page, "operator-0").select_option(label="is one of")
    control(page, "value-0").fill("gold\nsavings\n")
    becomes(page, filter=[["accountType", "in", ["gold", "savings"]]])
    until(
        lambda: {row["accountType"] for row in rows(page, "final_ui")} == {"gold", "savings"},
        "the rows are filtered",
        LIMIT_S,
    )
    control(page, "operator-0").select_option(label="has no value")
    becomes(page, filter=[["accountType", "is null", None]])
    control(page, "filter-remove-0").click()
    becomes(page, filter=[])


def test_a_time_is_chosen_with_the_browsers_own_input(page: Page) -> None:
    control(page, "filter-add").click()
    control(page, "filter-0").select_option("_ts")
    value = control(page, "value-0")
    assert value.get_attribute("type") == "datetime-local"
    value.fill("2026-01-01T07:00")
    noon_ms = 1_767_268_800_000  # 12:00 UTC is 07:00 in New York
    becomes(page, filter=[["_ts", ">=", noon_ms]])
    page.focus("#pause")
    page.keyboard.press("u")
    until(lambda: value.input_value().startswith("2026-01-01T12:00"), "it is UTC", LIMIT_S)
    page.keyboard.press("u")
    until(lambda: value.input_value().startswith("2026-01-01T07:00"), "it is local", LIMIT_S)
    assert config(page, "final_ui")["filter"] == [["_ts", ">=", noon_ms]]


def test_filters_of_others_are_shown_and_kept(page: Page) -> None:
    quick = ["adults", "==", 1]
    expressions = {"adults": 'if ("age" > 17) 1; else 0;'}
    arrange(page, "final_ui", expressions=expressions, filter=[quick, ["name", "contains", "a"]])
    control(page, "value-0").wait_for()
    assert control(page, "value-0").input_value() == "a"
    control(page, "value-0").fill("ad")
    becomes(page, filter=[quick, ["name", "contains", "ad"]])
    arrange(page, "final_ui", filter=[quick])
    until(lambda: control(page, "value-0").count() == 0, "the filter is gone", LIMIT_S)
    page.fill("section[data-area=final] input.quick", "ada")
    says(page, f"{PANEL} [data-part=filter]", "adults = 1", "any column contains ada")
    control(page, "other-1").click()
    becomes(page, filter=[quick])
    until(
        lambda: page.input_value("section[data-area=final] input.quick") == "", "in both", LIMIT_S
    )


def test_rows_are_grouped_with_the_chosen_aggregates(page: Page) -> None:
    control(page, "group_by-add").click()
    control(page, "group_by-0").select_option("accountType")
    control(page, "aggregate-balance").select_option(label="highest")
    control(page, "aggregate-age").select_option(label="average")
    becomes(page, group_by=["accountType"], aggregates={"balance": "high", "age": "avg"})
    arrange(page, "final_ui", group_by=[])
    plain = [row for row in rows(page, "final_ui") if row["accountType"]]
    arrange(page, "final_ui", group_by=["accountType"])
    cells = columns(page, "final_ui")
    for path, balance, age in zip(
        cells["__ROW_PATH__"], cells["balance"], cells["age"], strict=True
    ):
        if not path or path[0] is None:
            continue
        own = [row for row in plain if row["accountType"] == path[0]]
        assert balance == max(row["balance"] for row in own)
        assert age == pytest.approx(sum(row["age"] for row in own) / len(own))
    control(page, "group_by-remove-0").click()
    becomes(page, group_by=[])
    assert control(page, "aggregate-balance").count() == 0


def test_a_chart_its_axes_and_its_series_are_chosen(page: Page) -> None:
    control(page, "plugin").select_option("Y Bar")
    page.wait_for_selector("section[data-area=final] canvas", state="attached")
    becomes(page, plugin="Y Bar", group_by=["accountType"], columns=["balance"])
    until(lambda: page.input_value(CHART) == "Y Bar", "the list beside it agrees", LIMIT_S)
    assert "X axis" in page.inner_text(f"{PANEL} [data-part=group_by] h3")
    control(page, "group_by-0").select_option("age")
    control(page, "split_by-add").click()
    control(page, "split_by-0").select_option("accountType")
    becomes(page, plugin="Y Bar", group_by=["age"], split_by=["accountType"])
    control(page, "plugin").select_option("X/Y Scatter")
    becomes(page, plugin="X/Y Scatter")
    control(page, "role-0").select_option("age")
    control(page, "role-1").select_option("balance")
    control(page, "role-2").select_option("balance")
    becomes(page, columns=["age", "balance", "balance", None, None, None])
    control(page, "plugin").select_option(label="Grid")
    becomes(page, plugin="Datagrid", group_by=[], split_by=[])
    assert len(config(page, "final_ui")["columns"]) == 6


def test_a_chosen_chart_is_shown_as_chosen_after_a_reload_and_by_a_link(
    stage_and_page: tuple[Stage, Page], page: Page
) -> None:
    stage, _page = stage_and_page
    control(page, "plugin").select_option("Treemap")
    becomes(page, plugin="Treemap")
    page.wait_for_timeout(500)  # saving is delayed
    sent = address(page)
    page.reload()
    _is_treemap(page)
    page.evaluate("localStorage.clear()")
    page.goto("about:blank")
    page.goto(sent)
    _is_treemap(page)
    page.select_option(CHART, label="Grid")
    becomes(page, plugin="Datagrid", group_by=[], filter=[])
    assert len(config(page, "final_ui")["columns"]) == 6
    assert stage.url in address(page)


def _is_treemap(page: Page) -> None:
    page.wait_for_selector("section[data-area=final] canvas", state="attached")
    becomes(page, plugin="Treemap")
    until(lambda: page.input_value(CHART) == "Treemap", "the list shows the chart", LIMIT_S)
    opener(page).click()
    until(lambda: control(page, "plugin").count() == 1, "the panel is open", LIMIT_S)
    assert control(page, "plugin").input_value() == "Treemap"
    page.keyboard.press("Escape")


def test_the_expert_panel_is_one_click_away_legible_and_without_a_second_bar(page: Page) -> None:
    arrange(page, "final_ui", group_by=["accountType"], filter=[["age", ">", 20]])
    for theme in ("light", "dark"):
        if theme == "dark":
            opener(page).click()
            page.focus("#pause")
            page.keyboard.press("t")
            page.keyboard.press("t")
            page.wait_for_selector("perspective-viewer[data-table=final_ui][theme='Pro Dark']")
        page.click(f"{PANEL} button:text-is('Expert panel…')")
        page.wait_for_selector(EXPERT)
        assert page.is_hidden(PANEL)
        for second in ("#theme_selector", "#reset", "#export", "#new_panel"):
            assert page.is_hidden(f"perspective-viewer[data-table=final_ui] {second}"), second
        found = page.evaluate(SEEN)
        assert len(found) > 10
        pale = [
            (name, colour, opacity, layers)
            for name, colour, opacity, layers in found
            if opacity < 1 or contrast(_hex([colour]), _hex(layers)) < 4.5
        ]
        assert pale == [], theme
        page.keyboard.press("Escape")
        until(lambda: page.locator(EXPERT).count() == 0, "Escape closes it", LIMIT_S)
        until(lambda: "Sort, filter" in page.evaluate(FOCUSED), "the focus is back", LIMIT_S)
    page.keyboard.press("t")


def _hex(colours: list[str]) -> str:
    """Layers of `rgb(1, 2, 3)` and `rgba(1, 2, 3, 0.5)`, the lowest last, as `#010203`."""
    seen = [0.0, 0.0, 0.0]
    for colour in reversed(colours):
        *parts, alpha = [*map(float, re.findall(r"[\d.]+", colour)), 1.0][:4]
        seen = [part * alpha + below * (1 - alpha) for part, below in zip(parts, seen, strict=True)]
    return "#" + "".join(f"{round(part):02x}" for part in seen)


def test_the_panel_and_the_swap_panel_take_turns(page: Page) -> None:
    page.click("#change")
    assert page.is_hidden(PANEL)
    opener(page).click()
    page.wait_for_selector(PANEL)
    assert page.is_hidden("#control")
    page.focus("#to-timeline")
    page.keyboard.press("2")
    until(lambda: page.is_hidden(PANEL), "other views have no tables", LIMIT_S)
    page.keyboard.press("1")


@pytest.mark.parametrize(("width", "height"), [(1360, 800), (390, 844)])
def test_the_panel_leaves_room_for_the_table_and_is_within_the_window(
    page: Page, width: int, height: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    control(page, "filter-add").click()
    control(page, "sort-add").click()
    panel = page.locator(PANEL).bounding_box()
    table = page.locator("section[data-area=final]").bounding_box()
    assert panel is not None
    assert table is not None
    assert panel["x"] >= 0
    assert panel["x"] + panel["width"] <= width
    assert panel["y"] + panel["height"] <= height
    assert page.evaluate("document.getElementById('arrange').scrollWidth") <= panel["width"]
    beside = table["x"] + table["width"] <= panel["x"]
    assert beside or panel["y"] - table["y"] > 200, "rows are in sight while they are arranged"


def test_an_arrangement_outlives_a_swap_of_the_table(
    stage_and_page: tuple[Stage, Page], page: Page
) -> None:
    stage, _page = stage_and_page
    control(page, "sort-add").click()
    control(page, "sort-0").select_option("name")
    becomes(page, sort=[["name", "asc"]])
    swap(stage, TO_B)
    until(
        lambda: {row["userId"][0] for row in rows(page, "final_ui")} >= {"b"},
        "the other rows are shown",
        LIMIT_S,
    )
    control(page, "direction-0").select_option(label="Z to A")
    becomes(page, sort=[["name", "desc"]])
    names = [row["name"] for row in rows(page, "final_ui")]
    assert names == sorted(names, key=str.encode, reverse=True)
