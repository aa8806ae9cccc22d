"""What the Timeline says of each event: a word, colour and icon per kind, what was ignored."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from browser.looking import LIMIT_S, says, staged_page
from browser.staged import Stage
from rig.running import until

BY = ("livejoin-by", b"kafka")
KINDS = {"live", "failed", "rolled-back", "no-change", "retired"}
# of each kind of event: the word, its colour and its icon
LABELS = """() => Object.fromEntries(
    [...document.querySelectorAll("#events .outcome")].map((label) => [label.dataset.kind, [
        label.textContent, getComputedStyle(label).color,
        label.querySelector("path").getAttribute("d"),
    ]]))"""
# parts of entries that stick out of the list
OVERFLOWING = """() => {
    const list = document.getElementById("events").getBoundingClientRect();
    return [...document.querySelectorAll("#events .event *")]
        .filter((part) => {
            const { left, right } = part.getBoundingClientRect();
            return left < list.left || right > list.right + 1;
        }).map((part) => part.className);
}"""


@pytest.fixture(scope="module")
def stage_and_page() -> Iterator[tuple[Stage, Page]]:
    """A page that shows an event of every kind."""
    with staged_page(20) as (stage, page, _trouble):
        page.set_viewport_size({"width": 1360, "height": 800})
        for message in (
            b'{"usersTopic": "users_b", "accountsTopic": "accounts_b"}',
            b'{"joinType": "inner"}',  # retires generation 1
            b'{"joinType": "inner", "jointype": "x", "colour": 1}',
            b'{"usersTopic": "nowhere"}',
            b'{"action": "rollback"}',
        ):
            write(stage, message)
        page.keyboard.press("2")
        until(lambda: page.locator("#events .event").count() == 6, "every event", LIMIT_S)
        yield stage, page


@pytest.fixture
def page(stage_and_page: tuple[Stage, Page]) -> Page:
    return stage_and_page[1]


def write(stage: Stage, message: bytes) -> None:
    """Write a message to the control topic."""
    stage.kafka.produce("control", message, partition=0, on_delivery=lambda *_: None, headers=[BY])


def statuses(page: Page) -> list[str]:
    """What the entries say, newest first."""
    return page.locator("#events .outcome").all_inner_texts()


def live_entries(page: Page) -> list[str]:
    """The entries of which any part says that something is live now."""
    texts = page.locator("#events .event").all_inner_texts()
    return [text for text in texts if re.search(r"(?<!was )\blive\b", text)]


def test_at_most_one_entry_says_live(stage: Stage, page: Page) -> None:
    until(lambda: statuses(page)[0] == "rolled back", "the rollback", LIMIT_S)
    earlier = ["rejected", "no change", "rolled back", "live", "retired"]
    assert statuses(page) == ["rolled back", *earlier]
    (live,) = live_entries(page)
    assert "generation 2" in live
    write(stage, b'{"action": "rollback"}')  # and forward again
    until(lambda: len(statuses(page)) == 7, "one more event", LIMIT_S)
    until(lambda: statuses(page)[4:6] == ["live", "rolled back"], "another is live", LIMIT_S)
    (live,) = live_entries(page)
    assert "generation 3" in live
    write(stage, b'{"action": "rollback"}')
    until(lambda: statuses(page)[5:7] == ["rolled back", "live"], "as before", LIMIT_S)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_kinds_differ_by_colour_word_and_icon(page: Page, theme: str) -> None:
    page.emulate_media(color_scheme="light" if theme == "light" else "dark")
    labels: dict[str, list[str]] = page.evaluate(LABELS)
    assert labels.keys() >= KINDS
    for part, what in enumerate(("word", "colour", "icon")):
        assert len({labels[kind][part] for kind in KINDS}) == len(KINDS), what


def test_an_unknown_field_is_a_warning_in_the_entry_and_its_details(page: Page) -> None:
    entry = page.locator("#events .event:has-text('no change')")
    expected = (
        'unknown field "jointype", did you mean joinType?; it is ignored',
        'unknown field "colour"; it is ignored',
    )
    assert tuple(entry.locator(".warning").all_inner_texts()) == expected
    assert page.locator("#events .warning").count() == len(expected), "of the others none"
    entry.click()
    says(page, "#event-detail", "Warnings", *expected)


def test_stages_wrap_inside_the_list(stage: Stage, page: Page) -> None:
    for _ in range(8):
        write(stage, b'{"action": "rollback"}')
    most = "#events .event:has-text('generation 3, by') .stage"
    until(lambda: page.locator(most).count() > 8, "many stages", LIMIT_S)
    for width in (1360, 1000):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(OVERFLOWING) == [], width
    tops = {box["y"] for one in page.locator(most).all() if (box := one.bounding_box())}
    assert len(tops) > 1, "they take several lines"


def test_the_outcome_of_the_log_that_was_cut_is_not_taken_for_live(page: Page) -> None:
    """Without log lines nothing tells which generation a message was about."""
    found = page.evaluate(
        """async () => {
            const { historyEvents } = await import("/static/page/timeline/history_events.js");
            const message = (offset, outcome, reason = null) => ({
                _id: String(offset), partition: 0, offset, ts: offset, outcome, reason,
                raw: "{}", by: null,
            });
            const row = (generation, state, more = {}) => ({
                generation, state, requestedAt: 10 * generation, catchUpSeconds: 0.001,
                liveAt: 10 * generation + 5, retiredAt: null, ...more,
            });
            const cut = { catchUpSeconds: null, retiredAt: 40 };
            const messages = [message(1, "live"), message(2, "live", "no change"),
                              message(3, "superseded"), message(4, "previewed", "x")];
            const generations = [row(1, "standby"), row(2, "live"), row(3, "superseded", cut)];
            return historyEvents(messages, generations, []).map(({ id, status, stages }) => [
                id, status.label, stages.filter(({ to }) => to === null).map(({ name }) => name)]);
        }"""
    )
    assert {name: (label, current) for name, label, current in found} == {
        "m0-1": ("went live", []),
        "m0-2": ("no change", []),
        "m0-3": ("superseded", []),
        "m0-4": ("preview", []),
        "g1": ("standby", ["standby"]),
        "g2": ("live", ["live"]),
        "g3": ("superseded", []),
    }
