"""How the page writes times and positions: alike everywhere, in every language of the browser."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page

from browser import chrome
from browser.looking import LIMIT_S, arrange, drawn, rows, says, tool
from browser.staged import Stage, staged
from rig.running import until

TEXTS = """([table, cells]) => [...document.querySelector(`perspective-viewer[data-table=${table}]`)
    .querySelector("perspective-viewer-datagrid").regular_table.querySelectorAll(cells)]
    .map((cell) => cell.textContent.trim())"""
A_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)")
ANY_TIME = re.compile(r"\d+:\d\d:\d\d")


@pytest.fixture(scope="module", params=["en-US", "de-DE"])
def stage_and_page(request: pytest.FixtureRequest) -> Iterator[tuple[Stage, Page]]:
    with staged(40) as stage, chrome.page(stage.url, locale=request.param) as (page, trouble):
        assert page.evaluate("navigator.language") == request.param
        drawn(page)
        yield stage, page
        assert trouble == []


def texts(page: Page, table: str, cells: str = "tbody td:first-child") -> list[str]:
    """What is written in cells of a grid."""
    found: list[str] = page.evaluate(TEXTS, [table, cells])
    return found


def written(ms: int, *, utc: bool = False) -> str:
    """A time as the page should write it."""
    when = datetime.fromtimestamp(ms / 1000, UTC if utc else ZoneInfo(chrome.ZONE))
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown(page: Page, table: str, expected: list[str], cells: str = "tbody td:first-child") -> None:
    seen: list[str] = []

    def same() -> bool:
        seen[:] = texts(page, table, cells)[: len(expected)]
        return seen == expected

    try:
        until(same, f"{cells} of {table}", LIMIT_S)
    except AssertionError as error:
        raise AssertionError(f"{error}: {seen}, not {expected}") from error


def test_grids_write_times_as_everywhere_local_and_utc(page: Page) -> None:
    times = [row["ts"] for row in rows(page, "orchestrator_logs")][:3]
    shown(page, "orchestrator_logs", [written(ms) for ms in times])
    page.keyboard.press("u")
    shown(page, "orchestrator_logs", [written(ms, utc=True) for ms in times])
    page.keyboard.press("u")
    shown(page, "orchestrator_logs", [written(ms) for ms in times])


def test_numbers_are_written_as_filters_read_them(page: Page) -> None:
    arrange(page, "accounts_ui", sort=[["balance", "desc"]], columns=["balance"])
    most = max(row["balance"] for row in rows(page, "accounts_ui"))
    shown(page, "accounts_ui", [f"{most:,.2f}"])
    page.fill("section[data-area=accounts] .quick", f"{most:,.2f}")
    until(lambda: len(rows(page, "accounts_ui")) == 1, "found as it is written", LIMIT_S)
    page.fill("section[data-area=accounts] .quick", "")


def test_groups_and_pivots_by_time_write_them_so_as_well(page: Page) -> None:
    arrange(page, "final_ui", columns=["userId", "_ts"])
    two = [row["_ts"] for row in rows(page, "final_ui")][:2]
    filters = [["_ts", ">=", min(two)], ["_ts", "<=", max(two)]]
    columns = ["balance"]
    by_time = {"columns": columns, "filter": filters, "sort": [], "group_rollup_mode": "rollup"}
    arrange(page, "final_ui", **by_time, group_by=["_ts"], split_by=[])
    groups = "tbody th:last-of-type"
    shown(page, "final_ui", ["TOTAL", *map(written, sorted(set(two)))], groups)
    arrange(page, "final_ui", **by_time, group_by=["accountType", "_ts"], split_by=[])
    until(lambda: any(map(A_TIME.fullmatch, texts(page, "final_ui", groups))), "deeper", LIMIT_S)
    flat = {**by_time, "group_rollup_mode": "flat"}
    arrange(page, "final_ui", **flat, group_by=["_ts"], split_by=[])
    shown(page, "final_ui", [*map(written, sorted(set(two)))], "tbody th")
    arrange(page, "final_ui", **by_time, group_by=[], split_by=["_ts"])
    shown(page, "final_ui", [*map(written, sorted(set(two)))], "thead tr:first-child th")
    latest = {**by_time, "columns": ["_ts"], "aggregates": {"_ts": "last"}}
    arrange(page, "final_ui", **latest, group_by=["accountType"], split_by=[])
    until(lambda: A_TIME.fullmatch(texts(page, "final_ui", "tbody td")[0]), "aggregates", LIMIT_S)


def test_chips_copies_and_menus_write_the_time_of_the_cell(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    logs = "#panel-logs"
    cell = page.locator(f"{logs} perspective-viewer-datagrid tbody tr:nth-child(2) td").first
    text = cell.inner_text().strip()
    cell.click(button="right")
    assert f"ts = {text}" in page.locator(".menu").inner_text()
    page.locator(".menu [role=menuitem]", has_text="Copy the value").click()
    until(lambda: page.evaluate("navigator.clipboard.readText()") == text, "copied", LIMIT_S)
    cell.click(button="right")
    page.locator(".menu [role=menuitem]", has_text=f"ts = {text}").click()
    says(page, f"{logs} .chips", text)
    tool(page, "system", "Copy").click()
    says(page, "#toast", "Copied")
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert {line.split("\t")[0] for line in lines[1:]} == {text}, "as it is shown"


def test_timeline_and_log_lines_write_times_and_positions_so(stage: Stage, page: Page) -> None:
    message = json.dumps({"usersTopic": "nowhere"}).encode()
    stage.handle_message(12, message, "kafka")
    page.keyboard.press("2")
    says(page, "#events", "message 0/12")
    page.click("#events .event:has-text('rejected')")
    says(page, "#event-detail", "Message 0/12", "control 0/12 rejected")
    places = ("#events .when", "#event-detail dd", "#event-detail .log-lines .muted")
    found = [text for place in places for text in page.locator(place).all_inner_texts()]
    times = [text for text in found if ANY_TIME.search(text)]
    assert len(times) > 3
    assert [text for text in times if not A_TIME.fullmatch(text)] == []
    assert "0-12" not in page.inner_text("#view-timeline")


def test_rejects_name_their_place_and_time_so(page: Page) -> None:
    page.keyboard.press("3")
    page.click("#rejects-list .row:has-text('UTF-8')")
    rejects = rows(page, "rejects_ui")
    reject: dict[str, Any] = next(row for row in rejects if "UTF-8" in row["reason"])
    place = f"{reject['partition']}/{reject['offset']}"
    says(page, "#reject-detail .records", place, written(reject["ts"]))
    says(page, "#reject-detail .record", f"users_a {place}", written(reject["ts"]))
    page.keyboard.press("1")
