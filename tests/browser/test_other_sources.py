"""The page with three sources of random names: form, preview, swap, and what is said of them."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from browser.looking import LIMIT_S, answer, press, says, staged_page
from browser.other_sources import OtherSources
from browser.staged import Stage
from rig.running import until

COUNT = 14
SOURCES = OtherSources(20)
A, B = SOURCES.chosen("a"), SOURCES.chosen("b")


@pytest.fixture(scope="module")
def stage_and_page() -> Iterator[tuple[Stage, Page]]:
    with staged_page(COUNT, content=SOURCES) as (stage, page, _trouble):
        yield stage, page


@pytest.fixture
def page(stage_and_page: tuple[Stage, Page]) -> Page:
    return stage_and_page[1]


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
