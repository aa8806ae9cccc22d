"""Helpers of the page tests: a staged livejoin with its page, and queries on it."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from playwright.sync_api import Locator, Page

from browser import chrome
from browser.staged import Stage, staged
from rig.running import until

BY = ("livejoin-by", b"kafka")

LIMIT_S = 20
AREAS = ("users", "accounts", "final", "system")
_VIEWER = "document.querySelector(`perspective-viewer[data-table=${table}]`)"
# exposes the page's sockets, and lets a test modify frames in transit
_SOCKETS = """
window.sockets = [];
window.WebSocket = class extends WebSocket {
    constructor(...given) { super(...given); window.sockets.push(this); }
    set onmessage(listener) {
        super.onmessage = ({ data }) => listener({ data: window.tamper?.(data) ?? data });
    }
};"""
_TAMPER = """([before, after]) => {
    const text = new TextDecoder("latin1");
    window.tampered = 0;
    window.tamper = (data) => {
        const at = text.decode(data).indexOf(before);
        if (at < 0 || window.tampered) return data;
        window.tampered += 1;
        const bytes = new Uint8Array(data.slice(0));
        bytes.set(new TextEncoder().encode(after), at);
        return bytes.buffer;
    };
}"""


@contextlib.contextmanager
def staged_page(
    count: int = 200, path: str = "", **options: Any
) -> Iterator[tuple[Stage, Page, chrome.Trouble]]:
    """A stage and its page with rendered grids. Errors logged by the browser fail the test."""
    with contextlib.ExitStack() as stack:
        stage = stack.enter_context(staged(count, **options))
        page, trouble = stack.enter_context(chrome.page(stage.url, path=path))
        drawn(page, (*stage.content.join_spec.source_names, "final", "system"))
        yield stage, page, trouble
        # the browser logs every error response and every lost socket
        expected_errors = ("status of 422", "status of 503", "WebSocket")
        errors = [line for line in trouble if not any(text in line for text in expected_errors)]
        assert not errors, errors[:3]


def drawn(page: Page, areas: Sequence[str] = AREAS) -> None:
    """Wait until every visible grid has rows."""
    for area in areas:
        page.wait_for_selector(f"section[data-area={area}] perspective-viewer-datagrid tbody td")


def hold_sockets(page: Page) -> None:
    """Reload the page with its sockets exposed as `window.sockets`."""
    page.add_init_script(_SOCKETS)
    page.reload()
    drawn(page)


def tamper(page: Page, before: str, after: str) -> None:
    """Replace `before` in the next frame that contains it. `window.tampered` is then 1."""
    page.evaluate(_TAMPER, [before, after])


def rows(page: Page, table: str) -> list[dict[str, Any]]:
    """The rows that a viewer shows, in order."""
    found: list[dict[str, Any]] = page.evaluate(_read("to_json"), table)
    return found


def columns(page: Page, table: str) -> dict[str, list[Any]]:
    """The same by column."""
    found: dict[str, list[Any]] = page.evaluate(_read("to_columns"), table)
    return found


def _read(how: str) -> str:
    """Script that reads a view as it is on the screen.

    With retries: a viewer has no view while it switches tables, and until the view transition of a
    switch is over the screen still shows the old one.
    """
    return f"""async (table) => {{
        for (let tries = 1; ; tries++) {{
            try {{
                const read = await (await {_VIEWER}.getView()).{how}();
                if (!document.activeViewTransition) return read;
                if (tries === 100) throw new Error("a view transition does not end");
            }} catch (error) {{
                if (tries === 100) throw error;
            }}
            await new Promise((done) => setTimeout(done, 20));
        }}
    }}"""


def config(page: Page, table: str) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(f"async (table) => {_VIEWER}.save()", table)
    return found


def address(page: Page) -> str:
    """The current address; Playwright's own copy lags behind."""
    found: str = page.evaluate("location.href")
    return found


def arrange(page: Page, table: str, **given: Any) -> None:
    """Restore a viewer's configuration, once it is loaded: hidden ones wait for the visible ones.

    The page gives a viewer its title with its table.
    """
    page.evaluate(
        f"""async ([table, config]) => {{
            const loaded = async () => (await {_VIEWER}.save()).title === table;
            for (let tries = 1; !(await loaded().catch(() => false)); tries++) {{
                if (tries === 1000) throw new Error(`${{table}} is not loaded`);
                await new Promise((done) => setTimeout(done, 20));
            }}
            await {_VIEWER}.restore(config);
        }}""",
        [table, given],
    )


def cell(page: Page, area: str, row: int, column: int) -> Locator:
    """A rendered cell, counted from 1."""
    return page.locator(
        f"section[data-area={area}] perspective-viewer-datagrid"
        f" tbody tr:nth-child({row}) td:nth-child({column})"
    )


def tool(page: Page, area: str, name: str) -> Locator:
    return page.locator(f"section[data-area={area}] .tools:not([hidden]) button[title^='{name}']")


def says(page: Page, selector: str, *texts: str) -> None:
    """Wait until the element contains all of these texts."""
    place = page.locator(selector)
    try:
        until(lambda: all(t in (place.text_content() or "") for t in texts), str(texts), LIMIT_S)
    except AssertionError as error:
        raise AssertionError(f"{error}, but {place.text_content()!r}") from error


def answer(page: Page, kind: str, *texts: str) -> None:
    page.wait_for_selector(f"#answer[data-kind='{kind}']")
    says(page, "#answer", *texts)


def fill(page: Page, **fields: str) -> None:
    for name, value in fields.items():
        page.fill(f"#ask [name={name}]", value)


def press(page: Page, text: str) -> None:
    page.click(f"#ask button:text-is('{text}')")


def swap(stage: Stage, message: bytes) -> None:
    """Write a control message to the topic."""
    stage.kafka.produce("control", message, partition=0, on_delivery=lambda *_: None, headers=[BY])
