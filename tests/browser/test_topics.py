"""The topic browser in a real browser: seek, page, search, parsed and raw, reasons of rejects."""

import json
import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page

from browser.looking import LIMIT_S, says, staged_page
from browser.staged import HOSTILE, Stage
from livejoin.core.changelog import ChangelogRecord
from livejoin.kafka.range_reader import ScanLimits
from livejoin.tables.http import topic_browser
from rig.running import until
from tables.fake_kafka import Message

COUNT = 40
TOPIC = "shop.events"
FIRST, LAST = 100, 159  # offsets of each of its two partitions
HEADERS = (("by", b"ada"), ("trace", b"\xff\x00"))
MINUTE_MS = 60_000
NOTE, RECORDS = "#browser-note", "#browser-records"


def _events(now: int) -> dict[int, list[Message]]:
    """A record per minute in partition 0, and one 20 s after each in partition 1."""
    return {
        partition: [
            Message(
                partition,
                offset,
                _value(partition, offset),
                now - (LAST + 1 - offset) * MINUTE_MS + partition * 20_000,
                raw_key=None if offset == 150 else b"k-%d" % offset,
                raw_headers=HEADERS if offset == 158 else (),
            )
            for offset in range(FIRST, LAST + 1)
        ]
        for partition in range(2)
    }


def _value(partition: int, offset: int) -> bytes | None:
    odd = {157: None, 156: b'{"orderId": ', 155: b"\xff<i>", 154: b'{"text": "%s"}' % (b"x" * 5000)}
    if partition == 0 and offset in odd:
        return odd[offset]
    who = HOSTILE if offset == 153 else "Ada" if offset == 103 else "Bela"
    return json.dumps({"orderId": f"{partition}-{offset}", "who": who, "note": None}).encode()


@pytest.fixture(scope="module")
def stage_and_page() -> Iterator[tuple[Stage, Page]]:
    with staged_page(COUNT) as (stage, page, trouble):
        stage.kafka.add_topic(TOPIC, _events(int(time.time() * 1000)))
        yield stage, page
        trouble[:] = [line for line in trouble if not re.search("status of 40[04]", line)]


@pytest.fixture
def page(stage_and_page: tuple[Stage, Page]) -> Iterator[Page]:
    """The page with the newest records of the topic, opened from the swap panel."""
    page = stage_and_page[1]
    page.click("#change")
    page.fill("#usersTopic", TOPIC)
    page.click("[data-peek=usersTopic]")
    says(page, NOTE, "50 records, newest first")
    yield page
    page.set_viewport_size({"width": 1500, "height": 900})
    while page.query_selector("dialog[open]"):
        page.keyboard.press("Escape")
    page.click("#close")


@pytest.fixture
def stage(stage_and_page: tuple[Stage, Page]) -> Stage:
    return stage_and_page[0]


def positions(page: Page) -> list[str]:
    found: list[str] = page.eval_on_selector_all(
        f"{RECORDS} tbody tr[data-position]", "rows => rows.map((row) => row.dataset.position)"
    )
    return found


def shows(page: Page, *expected: str) -> None:
    """Wait until the first records are these."""
    until(lambda: positions(page)[: len(expected)] == list(expected), str(expected), LIMIT_S)


def cell(page: Page, position: str, column: str) -> Locator:
    return page.locator(f"tr[data-position='{position}'] > td[data-column='{column}']")


def search(page: Page, text: str) -> None:
    page.fill("#browser-search", text)
    page.keyboard.press("Enter")


# --- what is shown


def test_a_record_has_position_time_key_headers_and_fields(page: Page) -> None:
    shows(page, "1/159", "0/159", "1/158", "0/158")
    time_text = cell(page, "1/159", "Time").inner_text()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}-0\d:00", time_text)
    assert cell(page, "0/158", "Key").inner_text() == "k-158"
    assert cell(page, "0/150", "Key").inner_text() == "–"
    assert cell(page, "0/158", "Headers").inner_text() == "by=ada, trace=base64:/wA="
    fields = cell(page, "0/158", "Value").locator(".field").all_inner_texts()
    assert fields == ["orderId\xa00-158", "who\xa0Bela", "note\xa0–"]
    page.keyboard.press("Escape")
    page.click("#timezone")
    page.click("[data-peek=usersTopic]")
    until(lambda: cell(page, "1/159", "Time").inner_text().endswith("Z"), "in UTC", LIMIT_S)
    page.keyboard.press("Escape")
    page.click("#timezone")


def test_values_are_parsed_or_raw_with_the_reason_in_place(page: Page) -> None:
    for mode in ("Parsed", "Raw"):
        page.click(f"#browser-bar button:text-is('{mode}')")
        assert (
            page.get_attribute(f"#browser-bar button:text-is('{mode}')", "aria-pressed") == "true"
        )
        says(page, "tr[data-position='0/156'] .reason", "value: not valid JSON")
        says(page, "tr[data-position='0/155'] .reason", "value: not UTF-8")
        assert r"\xff<i>" in cell(page, "0/155", "Value").inner_text()
        tombstone = cell(page, "0/157", "Value")
        assert "null: a tombstone, which is counted and ignored" in tombstone.inner_text()
        assert tombstone.locator(".reason").count() == 0, "it is no reject"
        assert cell(page, "0/159", "Value").locator(".reason").count() == 0
    assert cell(page, "0/159", "Value").inner_text().endswith('"who": "Bela", "note": null}')
    page.click("#browser-bar button:text-is('Parsed')")
    assert page.query_selector(f"{RECORDS} img") is None
    assert HOSTILE in cell(page, "0/153", "Value").inner_text()


def test_a_value_opens_to_all_of_it_with_its_headers(page: Page) -> None:
    cell(page, "0/158", "Value").locator("summary").focus()
    page.keyboard.press("Enter")
    whole = cell(page, "0/158", "Value").locator(".whole")
    whole.locator("tr").first.wait_for()
    rows = [row.split("\t") for row in whole.locator("tr").all_inner_texts()]
    assert rows == [
        *(["orderId", "0-158"], ["who", "Bela"], ["note", "–"]),
        *(["by", "ada"], ["trace", "base64:/wA="]),
    ]
    cell(page, "0/154", "Value").locator("summary").click()
    page.click("#browser-bar button:text-is('Raw')")
    cut = cell(page, "0/154", "Value").locator(".whole")
    assert cut.locator("p").inner_text() == "4.9 KiB, the first 4 KiB"
    assert len(cut.locator("pre").inner_text()) == 4096
    page.click("#browser-bar button:text-is('Parsed')")
    assert "x" * 5000 in cell(page, "0/154", "Value").locator(".whole").inner_text()


def test_a_rejected_record_has_the_reason_of_the_pipeline(stage: Stage, page: Page) -> None:
    reason = 'age: expected int64, got "x"'
    at = {"source": "users", "topic": "users_a", "partition": 0, "offset": 7, "ts": 1}
    row = {**at, "reason": reason, "raw": "{}"}
    assert stage.state.live is not None
    stage.put(stage.state.live.number, ChangelogRecord("rejects_ui", "users/0-7", row, 1))
    page.fill("#browser-topic", "users_a")
    page.keyboard.press("Enter")
    says(page, NOTE, "40 records")
    says(page, "tr[data-position='0/7'] .reason", reason)
    assert cell(page, "0/7", "Value").locator(".field").count() == 4


# --- from where


def test_older_and_newer_lead_through_the_topic(stage: Stage, page: Page) -> None:
    page.click("text=‹ Older")
    shows(page, "1/134", "0/134")
    page.click("text=‹ Older")
    shows(page, "1/109")
    says(page, NOTE, "20 records, newest first")
    assert page.is_disabled("text=‹ Older"), "that was the first record"
    page.click("text=Newer ›")
    shows(page, "1/134", "0/134")
    page.click("text=Newer ›")
    shows(page, "1/159", "0/159")
    page.click("text=Newer ›")
    says(page, NOTE, "Nothing newer yet.")
    assert positions(page)[0] == "1/159", "what was there is still shown"
    events = _events(int(time.time() * 1000))
    events[0].append(Message(0, LAST + 1, b"{}", int(time.time() * 1000)))
    stage.kafka.add_topic(TOPIC, events)
    page.click("text=Newer ›")
    shows(page, f"0/{LAST + 1}")
    stage.kafka.add_topic(TOPIC, _events(int(time.time() * 1000)))


def test_the_oldest_records_come_first_from_a_position_on(page: Page) -> None:
    page.select_option("#browser-seek", "oldest")
    shows(page, "0/100", "1/100", "0/101")
    says(page, NOTE, "50 records, oldest first")
    page.click("text=Newer ›")
    shows(page, "0/125", "1/125")
    page.click("text=‹ Older")
    shows(page, "0/100", "1/100")
    page.select_option("#browser-seek", "5m")
    until(lambda: len(positions(page)) == 9, "of the last five minutes", LIMIT_S)
    assert positions(page)[0] == "1/155"


def test_a_time_is_sought_in_the_zone_of_the_page(stage: Stage, page: Page) -> None:
    """New York's: the field has no zone."""
    sought = cell(page, "0/140", "Time").inner_text()
    page.select_option("#browser-seek", "time")
    assert page.evaluate("document.activeElement.id") == "browser-time"
    page.fill("#browser-time", sought.removesuffix("-05:00").removesuffix("-04:00"))
    page.keyboard.press("Enter")
    shows(page, "0/140", "1/140", "0/141")


def test_an_offset_is_sought_in_one_partition(page: Page) -> None:
    assert page.locator("#browser-partition option").all_inner_texts() == [
        "all",
        "0: offsets 100 to 159",
        "1: offsets 100 to 159",
    ]
    page.select_option("#browser-partition", "1")
    shows(page, "1/159", "1/158", "1/157")
    page.select_option("#browser-seek", "offset")
    page.fill("#browser-offset", "120")
    page.keyboard.press("Enter")
    shows(page, "1/120", "1/121")
    page.fill("#browser-offset", "99")
    page.keyboard.press("Enter")
    says(page, NOTE, 'offset 99 is not in partition 1 of topic "shop.events"', "100 to 159")
    assert positions(page) == []
    page.select_option("#browser-seek", "newest")
    page.select_option("#browser-partition", "")
    shows(page, "1/159", "0/159")


def test_a_reject_leads_to_its_record_and_a_source_to_its_topic(page: Page, stage: Stage) -> None:
    assert stage.state.live is not None
    at = {"source": "users", "topic": TOPIC, "partition": 1, "offset": 130, "ts": 2**41}
    row = {**at, "reason": 'who: expected int64, got "Bela"', "raw": "{}"}
    stage.put(stage.state.live.number, ChangelogRecord("rejects_ui", "users/1-130", row, 1))
    page.keyboard.press("Escape")
    page.click("#to-health")
    page.click("#rejects-list .row:has-text('who: expected int64')")
    page.click("#reject-detail .link")
    shows(page, "1/130", "1/131")
    says(page, "tr[data-position='1/130'] .whole", "1-130")
    page.keyboard.press("Escape")
    page.click("[data-source=users] .topic")
    says(page, NOTE, f"{COUNT} records, newest first")
    assert page.input_value("#browser-topic") == "users_a"
    page.keyboard.press("Escape")
    page.click("#to-tables")


# --- by what


def test_a_search_finds_what_keys_and_values_contain(page: Page) -> None:
    search(page, "ADA")
    shows(page, "1/103", "0/103")
    says(page, NOTE, "2 records with “ADA”, newest first; 120 searched.")
    assert cell(page, "0/103", "Value").locator("mark").all_inner_texts() == ["Ada"]
    search(page, "k-14")
    says(page, NOTE, "20 records with “k-14”")
    assert cell(page, "1/149", "Key").locator("mark").inner_text() == "k-14"
    search(page, "nobody")
    says(page, NOTE, "No records with “nobody”; 120 searched.")
    page.fill("#browser-search", "")
    shows(page, "1/159", "0/159")


def test_a_limited_search_says_how_far_it_got_and_goes_on(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ScanLimits(seconds=20, records=120, size=1 << 20)
    monkeypatch.setattr(topic_browser, "LIMITS", limits)
    search(page, "ada")
    says(page, NOTE, "No records with “ada”. Searched", "back to 20")
    until(lambda: not page.is_disabled(f"{NOTE} button"), "it can go on", LIMIT_S)
    page.click(f"{NOTE} button:text-is('Search on')")
    shows(page, "1/103", "0/103")


def test_reading_stops_when_nobody_needs_the_answer(
    stage: Stage, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Because something else is asked for, or the dialog was closed."""
    limits = ScanLimits(seconds=600, records=1000, size=1 << 20)
    monkeypatch.setattr(topic_browser, "LIMITS", limits)
    monkeypatch.setattr(stage.kafka, "silent", True)
    readers = stage.kafka.readers
    before = len(readers)
    page.select_option("#browser-seek", "oldest")
    until(lambda: len(readers) == before + 1, "it reads", LIMIT_S)
    says(page, NOTE, f"Reading {TOPIC}")
    page.select_option("#browser-seek", "1h")
    until(lambda: len(readers) == before + 2, "it reads something else", LIMIT_S)
    until(lambda: readers[-2].closed, "the first has stopped", LIMIT_S)
    assert not readers[-1].closed
    page.keyboard.press("Escape")
    until(lambda: readers[-1].closed, "the second has stopped", LIMIT_S)


# --- by keyboard, in little room


def test_another_topic_is_found_by_typing(page: Page) -> None:
    page.fill("#browser-topic", "")
    page.locator("#browser-topic").press_sequentially("RS_B")
    option = page.locator("#browser-topic-options [role=option]")
    assert "1 partition, 40 records, newest" in option.first.inner_text()
    page.keyboard.press("Escape")
    assert page.is_hidden("#browser-topic-options")
    assert page.is_visible("#browser"), "that Escape was for the list"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    says(page, NOTE, "40 records")
    assert page.input_value("#browser-topic") == "users_b"
    page.fill("#browser-topic", "userz_b")
    page.keyboard.press("Enter")
    says(page, NOTE, 'topic "userz_b" does not exist')
    page.click(f"{NOTE} button:text-is('Use users_b')")
    says(page, NOTE, "40 records")


def test_the_keyboard_opens_and_closes_it_and_the_page_behind_gets_no_keys(page: Page) -> None:
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.peek") == "usersTopic"
    assert page.is_visible("#control"), "one Escape closes one thing"
    page.keyboard.press("b")
    assert page.is_visible("#browser")
    assert page.evaluate("document.activeElement.id") == "browser-search"
    page.focus(RECORDS)
    page.keyboard.press("s")
    assert page.is_visible("#control")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Escape")
    assert page.is_hidden("#browser")


@pytest.mark.parametrize("width", [390, 800, 1000, 1360])
def test_nothing_is_cut_off_in_little_room(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    wide = page.evaluate(
        """() => [...document.querySelectorAll("#browser, #browser *")]
            .filter((each) => each.offsetParent && each.clientWidth)
            .filter((each) => each.getBoundingClientRect().right > innerWidth + 0.5
                || (each.matches("#browser, .scroll") && each.scrollWidth > each.clientWidth))
            .map((each) => each.id || each.className || each.tagName)"""
    )
    assert wide == []
    box = cell(page, "0/158", "Value").bounding_box()
    assert box is not None
    assert box["width"] > 300
