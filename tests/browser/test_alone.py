"""The page over a table server alone, which goes and comes back; and tables that are cut."""

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from playwright.sync_api import Page, WebSocket

from browser import chrome
from browser.looking import says
from browser.staged import staged
from livejoin.tables.host import Host
from rig.running import until
from tables.filled import chunk, final, live
from tables.serving import LIMIT_S, served

NAMES = """async () => {
    const view = await document.querySelector("perspective-viewer[data-table=final_ui]").getView();
    return (await view.to_json()).map(({ name }) => name);
}"""
BEFORE = [f"name {n}" for n in range(10)]


def filled(names: list[str], **limits: Any) -> Host:
    host = Host(logs_kept=100, rejects_kept=100, **limits)
    host.follow(live(1))
    rows = [final(n, name, 0) for n, name in enumerate(names)]
    host.apply(chunk(1, len(BEFORE), *rows[: len(BEFORE)]))
    for end, row in enumerate(rows[len(BEFORE) :], len(BEFORE) + 1):
        host.apply(chunk(1, end, row))
    return host


def shows(page: Page, names: list[str]) -> None:
    page.wait_for_selector("perspective-viewer[data-table=final_ui] perspective-viewer-datagrid")
    until(lambda: sorted(page.evaluate(NAMES)) == sorted(names), f"{names[-1]} is shown", LIMIT_S)


def test_the_page_goes_on_from_what_it_has_and_says_what_it_leaves_out() -> None:
    sent: list[Any] = []

    def listen(socket: WebSocket) -> None:
        socket.on("framesent", lambda said: sent.append(json.loads(said)))

    with contextlib.ExitStack() as stack:
        first = stack.enter_context(contextlib.ExitStack())
        port = first.enter_context(served(filled(BEFORE))).port
        page, trouble = stack.enter_context(chrome.page(f"http://127.0.0.1:{port}/"))
        page.on("websocket", listen)
        shows(page, BEFORE)
        first.close()
        with served(filled([*BEFORE, "new"]), port=port):
            shows(page, [*BEFORE, "new"])
            assert sent[-1]["resume"] == {"generation": 1, "seq": len(BEFORE)}
        with served(filled([*BEFORE, "new", "newest"], viewer_rows=5), port=port):
            shows(page, [*BEFORE[-3:], "new", "newest"])
            said = page.locator("#message")
            until(lambda: "of 12 rows" in said.inner_text(), "what is left out is said", LIMIT_S)
            assert "final_ui: the newest 5 of 12 rows" in said.inner_text()
        # that the server was away is all that the browser complains of
        assert [one for one in trouble if "WebSocket" not in one] == []


def test_an_empty_table_says_what_it_reads_and_a_lost_server_since_when() -> None:
    with chrome_over(0) as (page, trouble, gone):
        says(page, "section[data-area=users] .empty", "No records yet. Reading from users_a")
        says(page, "section[data-area=final] .empty", "No joined rows yet")
        page.click("#tab-control")
        says(page, "#panel-control .empty", "No control message has come yet")
        assert trouble == []
        gone()
        says(page, "#connection", "reconnecting, stale since")
        assert page.get_attribute("#strip", "data-late") == "true"


@contextlib.contextmanager
def chrome_over(count: int) -> Iterator[tuple[Page, chrome.Trouble, Callable[[], None]]]:
    """A page whose server can be taken away."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(contextlib.ExitStack())
        stage = server.enter_context(staged(count))
        page, trouble = stack.enter_context(chrome.page(stage.url))
        yield page, trouble, server.close
