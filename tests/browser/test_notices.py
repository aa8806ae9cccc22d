"""Notices of the page: tables at their row limit, a server newer than the page."""

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page

from browser.chrome import ZONE
from browser.looking import LIMIT_S, hold_sockets, rows, says, staged_page, tamper
from browser.ordering import VIEWER, Row, served
from browser.staged import Stage
from livejoin.core import format_versions
from rig.running import until

MOST = 50
FULL = ("users_ui", "accounts_ui", "final_ui")
NEWER = format_versions.LIVE + 1
# a wall clock that runs ten times too fast
FAST_CLOCK = """() => {
    const [now, pill] = [Date.now, document.getElementById("connection")];
    Date.now = () => now() + 10 * performance.now();
    window.late = [];
    const seen = new MutationObserver(() => window.late.push(pill.dataset.late));
    seen.observe(pill, { attributes: true, attributeFilter: ["data-late"] });
    window.calm = () => { Date.now = now; seen.disconnect(); };
}"""
# a prepared table was never shown, and the next one cannot be created
FAILED_TABLE = f"""async () => {{
    const {{ GridTable }} = await import("/static/page/grid/grid_table.js");
    const engine = await {VIEWER}.getClient();
    const {{ table: shown }} = await {VIEWER}.save();
    const view = await (await engine.open_table(shown)).view();
    const part = {{ kind: "snapshot", payload: await view.to_arrow() }};
    let room = true;
    const table = async (...given) => {{
        if (!room) throw new Error("no room");
        return engine.table(...given);
    }};
    const unseen = document.createElement("perspective-viewer");
    unseen.dataset.table = "unseen";
    const gridTable = new GridTable({{ table }}, unseen, {{ defaults: {{}} }});
    await gridTable.prepare([part]);
    room = false;
    const failed = await gridTable.prepare([part]).catch((error) => error.message);
    await gridTable.apply([]);
    return {{ failed, size: await gridTable.size() }};
}}"""


@pytest.fixture(scope="module")
def stage_and_page() -> Iterator[tuple[Stage, Page]]:
    with staged_page(80, max_rows=MOST) as (stage, page, _trouble):
        hold_sockets(page)
        yield stage, page


@pytest.fixture
def stage(stage_and_page: tuple[Stage, Page]) -> Stage:
    return stage_and_page[0]


@pytest.fixture
def page(stage_and_page: tuple[Stage, Page]) -> Page:
    return stage_and_page[1]


def notices(stage: Stage) -> list[str]:
    capped = stage.serving.request("/api/v1/status").json()["capped"]
    assert set(capped) == set(FULL)
    made = []
    for table, limit in capped.items():
        since = datetime.fromtimestamp(limit["from"] / 1000, ZoneInfo(ZONE))
        text = since.isoformat(timespec="milliseconds")
        made.append(f"{table} is full: {MOST} rows, oldest from {text}")
    return made


def users(shown: list[Row]) -> list[str]:
    return sorted(row["userId"] for row in shown)


def test_full_tables_are_reported_with_their_oldest_time(stage: Stage, page: Page) -> None:
    before = notices(stage)
    says(page, "#message", *before)
    assert {table: len(rows(page, table)) for table in FULL} == dict.fromkeys(FULL, MOST)
    for n in range(100, 120):
        stage.change(n)
    after = notices(stage)
    assert set(before).isdisjoint(after), "the oldest rows are gone"
    says(page, "#message", *after)
    until(lambda: users(rows(page, "final_ui")) == users(served(stage)), "the newest", LIMIT_S)


def test_heartbeat_age_does_not_depend_on_the_wall_clock(page: Page) -> None:
    page.evaluate(FAST_CLOCK)
    until(lambda: page.evaluate("late.length") >= 6, "checked every second", LIMIT_S)
    page.evaluate("calm()")
    assert set(page.evaluate("late")) == {"false"}


def test_a_failed_table_does_not_leave_a_deleted_one_in_use(page: Page) -> None:
    found = page.evaluate(FAILED_TABLE)
    assert found == {"failed": "no room", "size": 0}


def test_an_outdated_page_says_so_and_stops(page: Page) -> None:
    before = page.evaluate("sockets.length")
    shown = rows(page, "final_ui")
    tamper(page, f'"format":{format_versions.LIVE}', f'"format":{NEWER}')
    says(page, "#connection", "stopped, stale since")
    why = f"a frame has format {NEWER}, this page knows up to {format_versions.LIVE}"
    says(page, "#message", f"{why}: the server is newer, reload the page")
    assert page.get_attribute("#message", "data-kind") == "bad"
    until(lambda: page.evaluate("sockets.at(-1).readyState") == 3, "the socket is closed", LIMIT_S)
    page.wait_for_timeout(800)  # the first retry would come within 375 ms
    assert page.evaluate("sockets.length") == before
    page.keyboard.press("p")
    says(page, "#message", why, "paused: rows as of")
    assert rows(page, "final_ui") == shown, "the last rows are kept"
