"""The page over a table server alone: restarts, limited tables, empty tables."""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from playwright.sync_api import Page, WebSocket

from browser import chrome
from browser.looking import arrange, rows, says
from browser.ordering import EVERY, all_in_order, change, in_order
from browser.staged import staged
from livejoin.tables.ingest.catalog import Catalog
from rig.running import until
from tables.live_server import LIMIT_S, run_server
from tables.samples import chunk, final, live

BEFORE = [f"name {n}" for n in range(10)]


def filled(names: list[str], **limits: Any) -> Catalog:
    host = Catalog(logs_kept=100, rejects_kept=100, **limits)
    host.apply_state(live(1))
    made = [final(n, name, 0) for n, name in enumerate(names)]
    host.apply(chunk(1, len(BEFORE), *made[: len(BEFORE)]))
    for end, row in enumerate(made[len(BEFORE) :], len(BEFORE) + 1):
        host.apply(chunk(1, end, row))
    return host


def shows(page: Page, names: list[str]) -> None:
    page.wait_for_selector("perspective-viewer[data-table=final_ui] perspective-viewer-datagrid")

    def same() -> bool:
        return sorted(row["name"] for row in rows(page, "final_ui")) == sorted(names)

    until(same, f"{names[-1]} is shown", LIMIT_S)


def test_the_page_resumes_after_a_restart_and_reports_limited_tables() -> None:
    sent: list[Any] = []

    def listen(socket: WebSocket) -> None:
        socket.on("framesent", lambda message: sent.append(json.loads(message)))

    with contextlib.ExitStack() as stack:
        first = stack.enter_context(contextlib.ExitStack())
        port = first.enter_context(run_server(filled(BEFORE))).port
        page, trouble = stack.enter_context(chrome.page(f"http://127.0.0.1:{port}/"))
        page.on("websocket", listen)
        shows(page, BEFORE)
        first.close()
        with run_server(filled([*BEFORE, "new"]), port=port):
            shows(page, [*BEFORE, "new"])
            assert sent[-1]["resume"] == {"generation": 1, "seq": len(BEFORE)}
        with run_server(filled([*BEFORE, "new", "newest"], viewer_rows=5), port=port):
            shows(page, [*BEFORE[-3:], "new", "newest"])
            message = page.locator("#message")
            until(lambda: "of 12 rows" in message.inner_text(), "the limit is reported", LIMIT_S)
            assert "final_ui: the newest 5 of 12 rows" in message.inner_text()
        # the browser logs the lost sockets, and nothing else
        assert [line for line in trouble if "WebSocket" not in line] == []


def test_empty_tables_give_the_reason_and_a_lost_server_since_when() -> None:
    with chrome_over(0) as (page, trouble, gone):
        says(page, "section[data-area=users] .empty", "No records yet. Reading from users_a")
        says(page, "section[data-area=final] .empty", "No joined rows yet")
        page.click("#tab-control")
        says(page, "#panel-control .empty", "No control messages yet")
        assert trouble == []
        gone()
        says(page, "#connection", "reconnecting, stale since")
        assert page.get_attribute("#strip", "data-late") == "true"


CLOCK = r"\d\d:\d\d:\d\d"


def test_while_disconnected_nothing_in_the_strip_looks_current() -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(contextlib.ExitStack())
        stage = server.enter_context(staged(5))
        page, _trouble = stack.enter_context(chrome.page(stage.url))
        says(page, "#connection", "connected")
        until(lambda: page.is_visible("#rates"), "the rates", LIMIT_S)
        page.click("#change")
        says(page, "#current", "Live")
        server.close()
        page.wait_for_selector("#strip[data-state=stale]")
        strip = page.inner_text("#strip")
        assert not re.search(r"\blive\b|newest|\bin\b|\bout\b|viewers|%", strip), strip
        assert page.inner_text("#state") == "stale"
        since = re.search(rf"reconnecting, stale since ({CLOCK})", strip)
        assert since, strip
        says(page, "#message", f"stale since {since[1]}: no word from livejoin", "as of then")
        assert page.get_attribute("#message", "data-kind") == "bad"
        assert page.title() == "livejoin: stale"
        says(page, "#current", f"Live\nat {since[1]}", f"Being built\nat {since[1]}")
        port = stage.serving.port
        with run_server(stage.host, port=port):
            page.wait_for_selector("#strip[data-state=live]")
            until(lambda: page.is_visible("#rates"), "the rates again", LIMIT_S)
            assert page.inner_text("#state") == "live"
            assert page.title() == "livejoin: live"
            assert "stale" not in page.inner_text("#strip")
            assert page.inner_text("#current dt >> nth=0") == "Live"


def test_rows_that_the_server_calls_stale_are_not_called_live() -> None:
    with staged(5) as stage, chrome.page(stage.url) as (page, trouble):
        page.wait_for_selector("#strip[data-state=live]")
        stage.serving.run_on_loop(lambda catalog: catalog.liveness.set_trouble("Kafka is gone"))
        page.wait_for_selector("#strip[data-state=stale]")
        assert re.search(rf"stale since {CLOCK}: Kafka is gone", page.inner_text("#message"))
        assert page.is_hidden("#rates")
        assert "live" not in page.inner_text("#strip").replace("livejoin", "")
        stage.serving.run_on_loop(lambda catalog: catalog.liveness.set_trouble(""))
        page.wait_for_selector("#strip[data-state=live]")
        assert page.is_visible("#rates")
        assert trouble == []


@contextlib.contextmanager
def chrome_over(count: int) -> Iterator[tuple[Page, chrome.Trouble, Callable[[], None]]]:
    """A page, and a function that stops its server."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(contextlib.ExitStack())
        stage = server.enter_context(staged(count))
        page, trouble = stack.enter_context(chrome.page(stage.url))
        yield page, trouble, server.close


def test_rows_added_to_an_empty_table_are_in_order() -> None:
    with staged(0) as stage, chrome.page(stage.url) as (page, trouble):
        says(page, "section[data-area=final] .empty", "No joined rows yet")
        config = EVERY[11]
        arrange(page, "final_ui", **config)
        for first in range(0, 40, 10):
            change(stage, first, 10, at_once=15)
            in_order(stage, page, config, f"row {first}")
        all_in_order(stage, page, "an empty table that was filled")
        assert trouble == []


WIDEST = """() => Math.max(...[...document.querySelector("[data-table=final_ui]")
    .querySelector("perspective-viewer-datagrid").shadowRoot.querySelectorAll("td, th")]
    .map((cell) => cell.getBoundingClientRect().width))"""


def test_a_long_cell_in_the_first_rows_does_not_widen_its_column_without_limit() -> None:
    names = [*BEFORE, "M" * 100_000]
    with (
        run_server(filled(names)) as serving,
        chrome.page(f"http://127.0.0.1:{serving.port}/") as (page, _trouble),
    ):
        shows(page, names)
        page.wait_for_selector("[data-table=final_ui] td:has-text('MMMM')")
        assert page.evaluate(WIDEST) <= 900
