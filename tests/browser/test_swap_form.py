"""What the swap panel says around its form: topics that change, what was meant, what is built."""

import json
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from browser.looking import LIMIT_S, answer, fill, press, says, staged_page
from browser.staged import Stage
from rig.running import until
from tables.fake_kafka import Message

COUNT = 40


@pytest.fixture(scope="module")
def stage_and_page() -> Iterator[tuple[Stage, Page]]:
    with staged_page(COUNT, at_once=False) as (stage, page, _trouble):
        yield stage, page


@pytest.fixture
def page(stage_and_page: tuple[Stage, Page]) -> Page:
    """The page with an open panel and an empty form."""
    page = stage_and_page[1]
    if page.is_hidden("#control"):
        page.click("#change")
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


def test_facts_about_topics_are_refreshed_while_the_panel_is_open(stage: Stage, page: Page) -> None:
    says(page, "#usersTopic-info", f"1 partition, {COUNT} records, newest")
    page.click("#accountsTopic")
    says(page, "#accountsTopic-options [data-name=users_a]", f"{COUNT} records")
    now = int(time.time() * 1000)
    stage.kafka.append("users_a", *(Message(0, COUNT + n, b"{}", now) for n in range(5)))
    says(page, "#usersTopic-info", f"1 partition, {COUNT + 5} records, newest")
    says(page, "#accountsTopic-options [data-name=users_a]", f"{COUNT + 5} records")


def test_labels_are_words_with_the_json_name_beside_them(page: Page) -> None:
    for words, name in (
        ("Users topic", "usersTopic"),
        ("Accounts topic", "accountsTopic"),
        ("Join", "joinType"),
    ):
        label = page.locator(f"#control label[for={name}]")
        assert label.inner_text().split("\n") == [f"{words} {name}"]
        assert label.locator("code").inner_text() == name


def test_what_was_meant_is_one_click_away(stage: Stage, page: Page) -> None:
    page.fill("#usersTopic", "userz_b")
    says(page, "#usersTopic-info", "there is no topic userz_b; did you mean users_b?")
    page.click("#usersTopic-info button")
    assert page.input_value("#usersTopic") == "users_b"
    says(page, "#usersTopic-info", "records, newest")
    fill(page, usersTopic="users_b", accountsTopic="acounts_b")
    for button in ("Preview", "Apply"):
        press(page, button)
        answer(page, "bad", 'topic "acounts_b" does not exist')
        assert page.locator("#answer button").all_inner_texts() == ["Use accounts_b"]
    page.click("#answer button")
    assert page.input_value("#accountsTopic") == "accounts_b"
    press(page, "Apply")
    answer(page, "busy", "is being built")


def test_what_was_meant_in_a_json_message_is_one_click_away(stage: Stage, page: Page) -> None:
    def message() -> object:
        return json.loads(page.input_value("#message-json"))

    page.click("#edit-json")
    written = {"joinType": "inner", "usersTopics": "userz_b", "accountsTopic": "accounts_b"}
    page.fill("#message-json", json.dumps(written))
    says(page, "#schema-findings", '"usersTopics" is unknown', "did you mean usersTopic?")
    page.click("#schema-findings button")
    renamed = {"joinType": "inner", "usersTopic": "userz_b", "accountsTopic": "accounts_b"}
    assert list(message().items()) == list(renamed.items())  # type: ignore[attr-defined]
    says(page, "#schema-findings", "Matches the schema")
    press(page, "Apply")
    answer(page, "bad", 'topic "userz_b" does not exist')
    page.click("#answer [data-correct=usersTopic]")
    assert message() == {**renamed, "usersTopic": "users_b"}
    page.fill("#message-json", json.dumps({"joinType": "iner", "join": "x"}))
    press(page, "Apply")
    answer(page, "bad", "unknown join")
    page.click("#answer [data-correct=joinType]")
    press(page, "Apply")
    answer(page, "busy", "is being built", 'unknown field "join"', "it is ignored")
    assert page.locator("#answer .warning").count() == 1
    stage.finish()
    answer(page, "good", "is live", 'unknown field "join"')


def test_during_a_build_the_form_shows_what_is_live_and_what_is_built(
    stage: Stage, page: Page
) -> None:
    live = stage.state.live
    assert live is not None
    is_live = f"{live.choice}\ngeneration {live.number}"
    says(page, "#current-building", "nothing")
    says(page, "#blank-note", "keep the live ones")
    before = page.locator("#usersTopic").bounding_box()
    fill(page, usersTopic="users_b", accountsTopic="accounts_b")
    page.select_option("#joinType", "left_outer")
    press(page, "Apply")
    answer(page, "busy", "is being built")
    stage.progress(30)
    number = stage.state.last_number
    built = f"users_b left_outer accounts_b\ngeneration {number}, 30 %"
    until(lambda: page.inner_text("#current-building") == built, "what is built", LIMIT_S)
    assert page.inner_text("#current-live") == is_live
    says(page, "#blank-note", "keep the build's")
    assert page.locator("#usersTopic").bounding_box() == before, "nothing has moved"
    stage.finish()
    until(lambda: page.inner_text("#current-building") == "nothing", "it is live", LIMIT_S)
    says(page, "#current-live", f"generation {number}")


def test_escape_closes_the_panel_wherever_the_focus_is(page: Page) -> None:
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Escape")
    assert page.is_hidden("#control")
    assert page.evaluate("document.activeElement.id") == "change"
    page.keyboard.press("s")
    page.click("#theme")
    page.keyboard.press("?")
    page.keyboard.press("Escape")  # closes the dialog
    assert page.is_hidden("#help")
    assert page.is_visible("#control")
    page.focus("#usersTopic")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")  # closes the list
    assert page.is_hidden("#usersTopic-options")
    assert page.is_visible("#control")
    page.keyboard.press("Escape")
    assert page.is_hidden("#control")
