"""clients/plain in a real browser, over the real table server alone, behind a proxy."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from browser import chrome
from browser.portal import portal
from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest.catalog import Catalog
from rig.running import until
from tables.live_server import LIMIT_S, RunningServer, run_server
from tables.samples import chunk, final, live

PLAIN = Path(__file__).parents[2] / "clients" / "plain"
HOSTILE = "<img src=x onerror=alert(1)>"
MANY = 2000
SHOWN = """() => {
    const root = document.querySelector("live-table").shadowRoot; // null before it is defined
    const rows = [...(root?.querySelectorAll("tbody tr:not(.spacer)") ?? [])];
    return rows.map((row) => [...row.cells].map((cell) => cell.textContent));
}"""
AFTER = """() => [...document.querySelector("live-table").shadowRoot
    .querySelectorAll("tbody tr:not(.spacer) td:nth-child(2)")]
    .map((cell) => getComputedStyle(cell, "::after").content)"""
SCROLL = 'document.querySelector("live-table").shadowRoot.getElementById("scroll")'


@pytest.fixture
def plain() -> Iterator[tuple[str, RunningServer]]:
    """Generation 1: many users, one with a hostile name, and an account; with clients/plain."""
    host = Catalog(logs_kept=100, rejects_kept=100)
    host.apply_state(live(1))
    people = [final(n, f"name {n:04}") for n in range(MANY)]
    host.apply(chunk(1, MANY + 2, *people, final(MANY, HOSTILE), account(0, 10.5)))
    with portal(PLAIN, "/") as site, run_server(host, access=site.access()) as serving:
        site.serve(serving.port)
        yield site.url, serving


def account(offset: int, balance: float) -> ChangelogRecord:
    row = {"userId": f"u{offset}", "accountType": "gold", "balance": balance}
    return ChangelogRecord("accounts_ui", f"0-{offset}", row, 1000)


def nameless(offset: int) -> ChangelogRecord:
    return ChangelogRecord("final_ui", f"0-{offset}", {"userId": f"u{offset}"}, 1000)


def rows(page: Page) -> list[list[str]]:
    found: list[list[str]] = page.evaluate(SHOWN)
    return found


def names(page: Page) -> list[str]:
    return [row[1] for row in rows(page)]


def first(page: Page, name: str) -> None:
    until(lambda: names(page)[:1] == [name], f"{name} is first", LIMIT_S)


def heading(page: Page, column: str) -> Any:
    return page.locator("live-table th", has=page.get_by_role("button", name=column, exact=True))


def test_a_plain_page_follows_a_cutover(plain: tuple[str, RunningServer]) -> None:
    url, plain_server = plain
    with chrome.page(url) as (page, trouble):
        first(page, "name 0000")
        assert page.locator("live-table th button").all_inner_texts() == [
            *("userId", "name", "email", "age", "accountType", "balance")
        ]
        assert page.locator("live-table table").get_attribute("aria-rowcount") == str(MANY + 2)
        assert len(rows(page)) < 100  # only the visible ones
        page.evaluate('document.querySelector("live-table").same = true')
        _sorts(page)
        _changes(page, plain_server)
        _own_grid(page, plain_server)
        _cuts_over(page, plain_server)
        _shows_why_it_is_stale(page, plain_server)
        assert trouble == []


def _sorts(page: Page) -> None:
    """By a click on a header; hostile text stays text, and `<` sorts before letters."""
    heading(page, "name").get_by_role("button").click()
    first(page, HOSTILE)
    assert heading(page, "name").get_attribute("aria-sort") == "ascending"
    assert page.locator("live-table img").count() == 0
    heading(page, "name").get_by_role("button").press("Enter")
    first(page, f"name {MANY - 1:04}")
    assert heading(page, "name").get_attribute("aria-sort") == "descending"


def _changes(page: Page, plain_server: RunningServer) -> None:
    plain_server.apply(1, MANY + 3, final(0, "zoe", 1))
    first(page, "zoe")
    plain_server.apply(1, MANY + 4, final(0, None, 2))
    first(page, f"name {MANY - 1:04}")


def _own_grid(page: Page, plain_server: RunningServer) -> None:
    page.get_by_text("1 accounts hold 10.5").wait_for()
    plain_server.apply(1, MANY + 5, account(1, 20.0))
    page.get_by_text("2 accounts hold 30.5").wait_for()
    assert page.locator("#changes li").all_inner_texts() == [
        "upsert of 1, generation 1",
        "snapshot of 1, generation 1",
    ]
    assert page.inner_text("#status") == "following"


def _cuts_over(page: Page, plain_server: RunningServer) -> None:
    page.evaluate(f"{SCROLL}.scrollTop = 5000")
    until(lambda: f"name {MANY - 1:04}" not in names(page), "other rows are visible", LIMIT_S)
    before = names(page)
    people = [final(n, f"name {n:04} of 2") for n in range(MANY)]
    people += [nameless(MANY + n) for n in range(3)]
    plain_server.follow(live(1, next_one=2))
    plain_server.apply(2, len(people), *people)
    plain_server.follow(replace(live(2, ready_at=len(people)), standby=live(1).live))
    until(lambda: all(name.endswith("of 2") for name in names(page)), "generation 2", LIMIT_S)
    assert page.evaluate('document.querySelector("live-table").same')
    assert page.evaluate(f"{SCROLL}.scrollTop") == 5000
    assert heading(page, "name").get_attribute("aria-sort") == "descending"
    assert names(page) == sorted(names(page), reverse=True)
    assert {f"{name} of 2" for name in before[10:20]} <= set(names(page))
    page.get_by_text("cutover of 0, generation 2").wait_for()
    _nulls_are_last(page, plain_server)


def _nulls_are_last(page: Page, plain_server: RunningServer) -> None:
    """In both directions, including rows that arrive later."""
    heading(page, "name").get_by_role("button").click()  # unsorted
    for nulls, way in enumerate(("ascending", "descending"), 4):
        heading(page, "name").get_by_role("button").click()
        assert heading(page, "name").get_attribute("aria-sort") == way
        end = 10_000 * nulls
        plain_server.apply(2, end, nameless(end), final(end + 1, f"name {end} of 2"))
        page.evaluate(f"{SCROLL}.scrollTop = 1e9")

        def last(count: int = nulls) -> bool:
            named = [name for name in names(page) if name]
            return len(named) > 5 and names(page) == named + [""] * count

        until(last, f"nulls are last, {way}", LIMIT_S)
        named = [name for name in names(page) if name]
        assert named == sorted(named, reverse=way == "descending")
        written = [dash == '"–"' for dash in page.evaluate(AFTER)]
        assert written == [not name for name in names(page)], "of nulls and of nothing else"


def _shows_why_it_is_stale(page: Page, plain_server: RunningServer) -> None:
    assert page.locator("live-table #notice").inner_text() == ""
    plain_server.run_on_loop(lambda host: host.set_trouble("no broker"))
    page.locator("live-table[data-state=stale]").wait_for()
    assert page.locator("live-table #notice").inner_text() == "Stale: no broker"
