"""The page with sources of random names: from the form to the grid, and a cutover to others."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from browser.looking import (
    LIMIT_S,
    answer,
    arrange,
    cell,
    columns,
    config,
    drawn,
    press,
    rows,
    says,
    staged_page,
    tool,
)
from browser.other_sources import BASE_MS, OtherSources
from browser.staged import Stage
from rig.running import until

COUNT = 14
FOLDED_PX = 220
SOURCES = OtherSources(20)
A, B = SOURCES.chosen("a"), SOURCES.chosen("b")


@pytest.fixture(scope="module")
def stage_and_page() -> Iterator[tuple[Stage, Page]]:
    with staged_page(COUNT, content=SOURCES) as (stage, page, _trouble):
        yield stage, page


@pytest.fixture
def page(stage_and_page: tuple[Stage, Page]) -> Page:
    return stage_and_page[1]


@pytest.fixture
def stage(stage_and_page: tuple[Stage, Page]) -> Stage:
    return stage_and_page[0]


def width(page: Page, area: str) -> float:
    box = page.locator(f"section[data-area={area}]").bounding_box()
    assert box
    return box["width"]


def _open_form(page: Page) -> None:
    if page.is_hidden("#control"):
        page.click("#change")
    page.wait_for_selector("#topic-fields input")


def test_the_form_has_a_field_for_the_topic_of_each_source(page: Page) -> None:
    _open_form(page)
    fields = page.locator("#topic-fields input")
    assert [one.get_attribute("name") for one in fields.all()] == SOURCES.fields
    kept = "els => els.map(e => e.placeholder)"
    until(
        lambda: fields.evaluate_all(kept) == list(A.topics.values()),
        "what blank fields keep",
        LIMIT_S,
    )
    labels = page.locator("#topic-fields label").all_inner_texts()
    names = [name[:1].upper() + name[1:] for name in SOURCES.names]
    assert labels == [
        f"{name} topic {field}" for name, field in zip(names, SOURCES.fields, strict=True)
    ]


def test_only_joins_that_these_sources_can_have_are_offered(page: Page) -> None:
    _open_form(page)
    assert page.locator("#joinType option").all_inner_texts() == ["keep left", "left"]
    driver, *lookups = (re.sub("s$", "", name) for name in SOURCES.names)
    page.select_option("#joinType", "left")
    says(page, "#join-description", f"Every {driver} once, with the newest ", *lookups)
    page.select_option("#joinType", "")


def test_a_swap_from_the_form_is_told_by_all_its_topics(page: Page) -> None:
    _open_form(page)
    for field, topic in zip(SOURCES.fields, B.topics.values(), strict=True):
        page.fill(f"#{field}", topic)
    press(page, "Preview")
    answer(page, "", *(f"{topic}: {COUNT} records" for topic in B.topics.values()))
    press(page, "Apply")
    answer(page, "good", "Generation 2 is live")
    says(page, "#choice", str(B))
    says(page, "#current-live", str(B))
    says(page, "#rollback-to", str(A))
    page.keyboard.press("Escape")
    page.click("#to-timeline")
    says(page, "#events .event >> nth=0", f"{A} → {B}")
    page.click("#to-tables")


def test_health_shows_the_matches_of_each_lookup(page: Page) -> None:
    page.click("#to-health")
    half = COUNT // 2
    for name in SOURCES.names[1:]:
        article = "an" if name[0] in "aeio" else "a"
        says(page, "#matched", f"With {article} {name}{half} (50.0 %)Without{half}")
    page.click("#to-tables")


def test_each_source_has_a_grid_below_the_join(page: Page) -> None:
    sections = page.locator("#view-tables > section[data-area]")
    labels = [one.get_attribute("aria-label") for one in sections.all()]
    assert labels == ["final_ui", *SOURCES.tables, "livejoin's own tables"]
    join, *sources, _ = (one.bounding_box() for one in sections.all())
    assert join
    boxes = [box for box in sources if box]
    assert [box["y"] for box in boxes] == [boxes[0]["y"]] * 3, "side by side"
    assert boxes[0]["x"] == join["x"]
    assert boxes[-1]["x"] + boxes[-1]["width"] == pytest.approx(join["x"] + join["width"], abs=1)


def test_booleans_times_and_decimals_are_shown_and_sorted_as_such(page: Page) -> None:
    driver = SOURCES.tables[0]
    shown = columns(page, driver)
    assert list(shown) == [SOURCES.key, SOURCES.flag, SOURCES.at, SOURCES.total]
    assert set(shown[SOURCES.flag]) == {True, False, None}
    assert BASE_MS in shown[SOURCES.at]
    arrange(page, driver, sort=[[SOURCES.total, "asc"]])
    expected = sorted(SOURCES.totals(COUNT), key=lambda text: (text is not None, float(text or 0)))
    read = [
        None if cell is None else f"{cell:.2f}" for cell in columns(page, driver)[SOURCES.total]
    ]
    assert read == expected
    arrange(page, driver, sort=[[SOURCES.total, "desc"]])
    place = cell(page, SOURCES.names[0], 1, 4)
    until(lambda: place.inner_text() == "10,000,000,000.10", "all places", LIMIT_S)


def test_a_boolean_and_a_decimal_are_filtered_by_the_input_of_their_type(page: Page) -> None:
    name, driver = SOURCES.names[0], SOURCES.tables[0]
    tool(page, name, "Sort, filter").click()
    for at, (column, value) in enumerate(((SOURCES.flag, "true"), (SOURCES.total, "100"))):
        page.click("#arrange [data-key=filter-add]")
        page.select_option(f"#arrange [data-key=filter-{at}]", column)
        place = page.locator(f"#arrange [data-key=value-{at}]")
        if column == SOURCES.flag:
            place.select_option(value)
        else:
            assert place.get_attribute("type") == "number"
            place.fill(value)
            place.press("Tab")
    wanted = [t for t in SOURCES.totals(COUNT) if t is not None and float(t) > 100]
    until(lambda: len(rows(page, driver)) == len(wanted), "filtered", LIMIT_S)
    page.keyboard.press("Escape")
    page.click("#reset")


def test_separators_and_folds_of_any_sources(page: Page) -> None:
    first, second, third = SOURCES.names
    before = width(page, second)
    page.focus(f"[data-between='{second} {third}']")
    page.keyboard.press("ArrowRight")
    until(lambda: width(page, second) > before, "wider", LIMIT_S)
    tool(page, first, "Widen").click()
    until(lambda: width(page, first) == width(page, "final"), "over the full width", LIMIT_S)
    tool(page, first, "Widen").click()
    page.click(f"section[data-area={third}] header button[title^=Fold]")
    until(lambda: width(page, third) == FOLDED_PX, "folded", LIMIT_S)
    stored = "localStorage['livejoin.layout.v2'] ?? ''"
    until(lambda: f'"folded":["{third}"]' in page.evaluate(stored), "saved", LIMIT_S)
    page.reload()
    drawn(page, (first, second, "final", "system"))
    assert width(page, third) == FOLDED_PX, "the layout is saved by the names of the tables"
    page.click("#reset")
    until(lambda: width(page, third) > FOLDED_PX, "as at first", LIMIT_S)


def test_a_cutover_to_other_sources_keeps_what_it_can(stage: Stage, page: Page) -> None:
    """The driver loses its decimal and gets a text; the other sources are replaced."""
    driver = SOURCES.tables[0]
    arrange(
        page,
        driver,
        sort=[[SOURCES.at, "desc"]],
        filter=[[SOURCES.total, ">", 5], [SOURCES.flag, "==", True]],
    )
    others = SOURCES.changed("note")
    stage.show(others)
    until(lambda: list(columns(page, driver)) == others.columns, "the new columns", LIMIT_S)
    kept = config(page, driver)
    assert kept["sort"] == [[SOURCES.at, "desc"]]
    assert kept["filter"] == [[SOURCES.flag, "==", True]]
    says(page, "#toast", "gone", *SOURCES.tables[1:], f"“{SOURCES.total}” in {driver}")
    for name in SOURCES.names[1:]:
        assert page.locator(f"section[data-area={name}]").count() == 0
    (lookup,) = others.names[1:]
    page.wait_for_selector(f"section[data-area={lookup}] perspective-viewer-datagrid tbody td")
    assert len(rows(page, others.tables[1])) == COUNT // 2
    says(page, "#choice", str(others.choice))
    until(lambda: "note" in columns(page, "final_ui"), "the join", LIMIT_S)
