"""The swap panel in a real browser, over real decisions: swap, preview, rejection, rollback."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from browser.looking import (
    LIMIT_S,
    answer,
    arrange,
    cell,
    config,
    fill,
    press,
    rows,
    says,
    staged_page,
)
from browser.staged import Stage
from rig.running import until

RICH = {"sort": [["userId", "asc"]], "filter": [["accountType", "==", "gold"]]}
SCROLL = 230  # ten rows
GRID = """document.querySelector("perspective-viewer[data-table=final_ui]")
    .querySelector("perspective-viewer-datagrid")"""


@pytest.fixture(scope="module")
def stage_and_page() -> Iterator[tuple[Stage, Page]]:
    with staged_page(300, at_once=False) as (stage, page, _trouble):
        page.click("#change")
        yield stage, page


@pytest.fixture
def page(stage_and_page: tuple[Stage, Page]) -> Page:
    """The page with an empty form."""
    page = stage_and_page[1]
    page.click("#edit-form")
    page.evaluate("document.getElementById('ask').reset()")
    return page


@pytest.fixture
def stage(stage_and_page: tuple[Stage, Page]) -> Iterator[Stage]:
    """The stage; nothing is building when the test is over."""
    stage = stage_and_page[0]
    yield stage
    if stage.state.building:
        stage.fail("the test is over")


def selection(page: Page) -> Any:
    return page.evaluate('document.querySelector("[data-table=final_ui]").getSelection()')


def top(page: Page) -> float:
    found: float = page.evaluate(f"{GRID}.regular_table.scrollTop")
    return found


def test_a_swap_is_followed_to_its_cutover_and_rolled_back(stage: Stage, page: Page) -> None:
    arrange(page, "final_ui", **RICH)
    until(lambda: cell(page, "final", 1, 5).inner_text() == "gold", "the grid is filtered", LIMIT_S)
    _select(page)
    page.evaluate(f"{GRID}.regular_table.scrollTop = {SCROLL}")
    page.evaluate('document.querySelector("[data-table=final_ui]").same = true')
    selected = selection(page)
    assert selected
    _chooses(page)
    _previews(page)
    press(page, "Apply")
    answer(page, "busy", "Generation 2 is being built")
    stage.progress(40)
    says(page, "#build-title", "40 %")
    says(page, "#state", "building 40 %")
    assert page.is_visible("#progress")
    assert page.inner_text("#generation") == "generation 1"
    stage.finish()
    answer(page, "good", "Generation 2 is live", "Cut over at", "after the request")
    _shows(page, 2, "b-", selected)
    _rolls_back(page)
    _shows(page, 1, "a-", selected)


def _select(page: Page) -> None:
    boxes = [cell(page, "final", *at).bounding_box() for at in ((12, 1), (14, 2))]
    (first, last) = [box for box in boxes if box]
    page.mouse.move(first["x"] + 5, first["y"] + 5)
    page.mouse.down()
    page.mouse.move(last["x"] + 5, last["y"] + 5, steps=3)
    page.mouse.up()


def _chooses(page: Page) -> None:
    """Topics are found by typing and described; their records can be shown."""
    page.locator("#usersTopic").press_sequentially("ERS_B")
    option = page.locator("#usersTopic-options [role=option]")
    assert option.all_inner_texts()[0].startswith("users_b")
    assert "1 partition, 300 records, newest" in option.first.inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.input_value("#usersTopic") == "users_b"
    assert page.is_hidden("#usersTopic-options")
    page.click("[data-peek=usersTopic]")
    assert page.input_value("#browser-topic") == "users_b"
    says(page, "#browser", "newest first", "b-0299", "userId")
    page.click("#browser button:text-is('Raw')")
    says(page, "#browser", '{"userId": "b-0299"')
    page.click("#browser [aria-label=Close]")
    fill(page, accountsTopic="accounts_b")
    page.select_option("#joinType", "inner")
    says(page, "#join-description", "users without an account are left out")


def _previews(page: Page) -> None:
    press(page, "Preview")
    builds = "generation 2, users_b inner accounts_b"
    answer(page, "", "Nothing is changed yet", builds, "300 records in 1 partition", "task slots")
    assert page.inner_text("#generation") == "generation 1"


def _shows(page: Page, number: int, letter: str, selected: Any) -> None:
    """Another generation in the same grid, with the same configuration."""
    says(page, "#generation", f"generation {number}")
    until(lambda: rows(page, "final_ui")[0]["userId"].startswith(letter), "its rows", LIMIT_S)
    until(lambda: cell(page, "final", 1, 1).inner_text().startswith(letter), "drawn", LIMIT_S)
    assert page.evaluate('document.querySelector("[data-table=final_ui]").same')
    assert {name: config(page, "final_ui")[name] for name in RICH} == RICH
    assert top(page) == SCROLL
    assert selection(page) == selected


def _rolls_back(page: Page) -> None:
    says(page, "#rollback-to", "users_a left accounts_a, on standby for another 14 min")
    page.click("#rollback")
    answer(page, "good", "Generation 1 is live", "rolled back")


def test_a_failed_build_leaves_the_live_generation_and_gives_the_reason(
    stage: Stage, page: Page
) -> None:
    fill(page, usersTopic="users_b")
    press(page, "Apply")
    answer(page, "busy", "is being built")
    before = page.inner_text("#generation")
    stage.fail("the disk is full")
    answer(page, "bad", "failed", "the disk is full")
    says(page, "#state", "live")
    assert page.inner_text("#generation") == before


def test_invalid_requests_are_rejected_with_the_reason(stage: Stage, page: Page) -> None:
    press(page, "Apply")
    answer(page, "bad", "Nothing is filled in")
    fill(page, usersTopic="users_c")
    press(page, "Apply")
    answer(page, "bad", 'topic "users_c" does not exist')
    says(page, "#usersTopic-info", "there is no topic users_c")
    fill(page, usersTopic="<i>b</i>")
    press(page, "Apply")
    answer(page, "bad", '"<i>b</i>" is not a topic name')
    assert page.query_selector("#answer i") is None


def test_apply_works_at_the_first_click_after_a_long_unknown_topic(page: Page) -> None:
    """What is said of a topic must not move the button between mouse down and mouse up."""
    for name in ("nowhere", f"{'nowhere_at_all_' * 4}1"):
        page.fill("#ask [name=usersTopic]", name)
        press(page, "Apply")
        says(page, "#answer", f'topic "{name}" does not exist')


def test_a_json_message_is_validated_while_typing(stage: Stage, page: Page) -> None:
    fill(page, usersTopic="users_b")
    page.click("#edit-json")
    says(page, "#schema-findings", "Matches the schema")
    assert json.loads(page.input_value("#message-json")) == {"usersTopic": "users_b"}
    for text, finding in (
        ('{"usersTopic": ', "not valid JSON"),
        ('{"usersTopic": 7}', "usersTopic: expected string or null, got integer"),
        ('{"usersTopic": "a b"}', '"a b" is not valid'),
        ("[]", "expected object, got array"),
        ("{}", "is empty"),
        ('{"start": {"userz": "1h"}}', "where reading starts"),
        ('{"userstopic": "a"}', "did you mean usersTopic?"),
    ):
        page.fill("#message-json", text)
        says(page, "#schema-findings", finding)
        press(page, "Apply")
        answer(page, "bad", "does not match the schema")
    page.fill("#message-json", '{"accountsTopic": "accounts_b", "id": "mine", "colour": 1}')
    says(page, "#schema-findings", '"colour" is unknown and will be ignored')
    press(page, "Apply")
    answer(page, "busy", "is being built")
    assert stage.state.building is not None
    assert stage.state.building.choice.topics["accounts"] == "accounts_b"
