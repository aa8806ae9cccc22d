"""Signing in with a real browser: by code, by token, after revocation, from another site."""

import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from browser import chrome
from browser.looking import says
from livejoin.tables.auth.audit import audit_row
from livejoin.tables.auth.sessions_and_codes import CONSOLE
from livejoin.tables.ingest.catalog import Catalog
from rig.running import until
from tables.auth_fixture import AuthFixture
from tables.fake_kafka import FakeKafka
from tables.live_server import LIMIT_S, run_server
from tables.samples import chunk, final, live

NAMES = """async () => {
    const viewer = document.querySelector("perspective-viewer[data-table=final_ui]");
    if (!viewer.querySelector("perspective-viewer-datagrid")) return [];
    const view = await viewer.getView().catch(() => null); // it has none yet
    return view ? (await view.to_json()).map(({ name }) => name) : [];
}"""
FOREIGN = """<!doctype html><title>elsewhere</title><p id=said>nothing</p><script type=module>
const [livejoin, token] = decodeURIComponent(location.hash.slice(1)).split(" ");
const said = document.getElementById("said");
try {
  const { connect } = await import(`${livejoin}static/livejoin.js`);
  const table = connect(livejoin, { token }).table("final_ui");
  table.subscribe(() => { said.textContent = table.rows().map(({ name }) => name).join(); },
                  ({ state, stale }) => { if (state === "refused") said.textContent = stale; });
} catch (error) {
  said.textContent = `failed: ${error}`;
}
</script>"""


@pytest.fixture
def door() -> AuthFixture:
    return AuthFixture()


def filled(*names: str) -> Catalog:
    host = Catalog()
    host.apply_state(live(1))
    host.apply(chunk(1, len(names), *(final(n, name) for n, name in enumerate(names))))
    host.set_status({"state": "live", "generation": 1, "progress": 100, "message": ""})
    return host


def shows(page: Page, *names: str) -> None:
    until(lambda: sorted(page.evaluate(NAMES)) == sorted(names), f"{names} are shown", LIMIT_S)


def role(page: Page) -> str:
    return str(page.evaluate("document.documentElement.dataset.role"))


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_the_printed_address_signs_in_once_and_leaves_no_secret(door: AuthFixture) -> None:
    code = door.identities.codes.issue(CONSOLE)
    with run_server(filled("Ada"), access=door.access()) as server:
        url = f"http://127.0.0.1:{server.port}/"
        with chrome.page(url, path=f"#code={code}&other=kept") as (page, trouble):
            shows(page, "Ada")
            assert page.url == f"{url}#other=kept"
            assert role(page) == "operator"
            assert page.evaluate("document.cookie") == ""
            assert code not in str(page.evaluate("JSON.stringify(localStorage)"))
            page.reload()
            shows(page, "Ada")
            assert trouble == []
        with chrome.page(url, path=f"#code={code}") as (page, _):
            page.get_by_text("this code is unknown, already used or expired").wait_for()
            assert page.evaluate(NAMES) == []


def test_viewers_are_told_which_role_reads_the_records_of_a_topic(door: AuthFixture) -> None:
    kafka = FakeKafka({"users": {0: []}})
    with (
        run_server(filled("Ada"), kafka=kafka, access=door.access()) as server,
        chrome.page(f"http://127.0.0.1:{server.port}/") as (page, trouble),
    ):
        sign_in(page, door.texts["viewer"])
        page.wait_for_selector("#user-role:has-text('viewer')")
        page.keyboard.press("b")
        says(page, "#browser-note", "Choose a topic.")
        page.fill("#browser-topic", "users")
        page.keyboard.press("Enter")
        says(page, "#browser-note", "Your role is viewer", "requires the role operator")
        assert (kafka.readers, trouble) == ([], [])


def test_viewers_see_why_the_form_is_disabled(door: AuthFixture) -> None:
    door.token("wall screen", "viewer")
    with (
        run_server(filled("Ada"), access=door.access()) as server,
        chrome.page(f"http://127.0.0.1:{server.port}/") as (page, trouble),
    ):
        sign_in(page, door.texts["wall screen"])
        shows(page, "Ada")
        page.keyboard.press("s")
        says(page, "#read-only-note", "Read-only: your role is viewer", "wall screen", "operator")
        for control in ("#usersTopic", "#joinType", "#ask button:text-is('Apply')", "#rollback"):
            assert page.is_disabled(control), control
        assert "Read-only" in (page.get_attribute("#change", "title") or "")
        assert trouble == []


PAGE = "#top, #strip, #middle"


def test_the_sign_in_shows_nothing_of_the_page(door: AuthFixture) -> None:
    with (
        run_server(filled("Ada"), access=door.access()) as server,
        chrome.page(f"http://127.0.0.1:{server.port}/") as (page, _trouble),
    ):
        page.get_by_label("Token").wait_for()
        assert [part.is_visible() for part in page.locator(PAGE).all()] == [False] * 3
        assert page.locator("body").inner_text().splitlines()[0] == "Sign in to livejoin"
        assert page.get_by_role("button").all_inner_texts() == ["Sign in"]
        sign_in(page, door.texts["operator"])
        page.wait_for_selector("body[data-ready]")
        assert [part.is_visible() for part in page.locator(PAGE).all()] == [True] * 3
        for button in page.locator("#top button:visible").all():
            assert button.inner_text() or button.locator("svg").count(), button
        shows(page, "Ada")


def test_a_page_that_connects_is_not_red(door: AuthFixture) -> None:
    with (
        run_server(filled("Ada"), access=door.access()) as server,
        chrome.page(f"http://127.0.0.1:{server.port}/") as (page, _trouble),
    ):
        page.evaluate("() => { window.WebSocket = class { close() {} } }")  # it never opens
        sign_in(page, door.texts["viewer"])
        says(page, "#connection", "connecting")
        colour = "(id) => getComputedStyle(document.getElementById(id)).color"
        assert page.evaluate(colour, "connection") == page.evaluate(colour, "state")  # amber


def test_the_header_says_who_is_signed_in_and_lets_them_out(door: AuthFixture) -> None:
    with (
        run_server(filled("Ada"), access=door.access()) as server,
        chrome.page(f"http://127.0.0.1:{server.port}/") as (page, trouble),
    ):
        door.token("Grace on call", "operator")
        sign_in(page, door.texts["Grace on call"])
        shows(page, "Ada")
        assert page.inner_text("#user-name") == "Grace on call"
        assert page.inner_text("#user-role") == "operator"
        page.get_by_role("button", name="Sign out").click()
        page.get_by_text("You are signed out.").wait_for()
        assert page.evaluate(NAMES) == [], "the rows are gone from the page"
        assert len(door.sign_outs.sessions) == 1
        page.reload()
        page.get_by_label("Token").wait_for()
        door.sign_outs.why = "Kafka is gone"
        sign_in(page, door.texts["Grace on call"])
        shows(page, "Ada")
        page.get_by_role("button", name="Sign out").click()
        page.get_by_text("other servers were not notified yet: Kafka is gone").wait_for()
        # the browser logs the refused requests, and the socket that the reload closes
        expected = ("401", "503", "WebSocket")
        assert [text for text in trouble if not any(part in text for part in expected)] == []


def test_without_sign_in_there_is_none_to_leave() -> None:
    with (
        run_server(filled("Ada")) as server,
        chrome.page(f"http://127.0.0.1:{server.port}/") as (page, _trouble),
    ):
        shows(page, "Ada")
        assert page.inner_text("#user").split("\n") == ["no sign-in", "operator"]
        assert page.is_hidden("#sign-out")


def test_the_audit_is_for_operators_and_the_swap_of_viewers_does_not_shout(
    door: AuthFixture,
) -> None:
    host = filled("Ada")
    row = audit_row("Grace", "operator", "10.0.0.7", "roll back", "live: generation 1")
    host.system.add_audit_rows([{**row, "_id": "000000000001"}])
    with (
        run_server(host, access=door.access()) as server,
        chrome.page(f"http://127.0.0.1:{server.port}/") as (page, trouble),
    ):
        colour = "getComputedStyle(document.getElementById('change')).backgroundColor"
        sign_in(page, door.texts["viewer"])
        shows(page, "Ada")
        assert page.is_hidden("#tab-audit")
        plain = page.evaluate(colour)
        assert plain == page.evaluate(colour.replace("change", "pause"))
        page.focus("#tab-rejects")
        page.keyboard.press("ArrowRight")  # over the audit
        assert page.evaluate("document.activeElement.id") == "tab-status"
        page.keyboard.press("s")
        assert page.is_visible("#control")
        page.keyboard.press("Escape")
        assert page.is_hidden("#control")
        page.get_by_role("button", name="Sign out").click()
        page.get_by_text("You are signed out.").wait_for()
        sign_in(page, door.texts["operator"])
        shows(page, "Ada")
        assert page.evaluate(colour) != plain
        page.click("#tab-audit")
        cells = page.locator("#panel-audit tbody td")
        until(lambda: "roll back" in cells.all_inner_texts(), "the audit", LIMIT_S)
        assert [text for text in trouble if "401" not in text and "WebSocket" not in text] == []


def test_another_role_on_the_open_page(door: AuthFixture) -> None:
    """An operator whose token is revoked signs in as a viewer: the audit goes."""
    door.token("short", "operator")
    with (
        run_server(filled("Ada"), access=door.access()) as server,
        chrome.page(f"http://127.0.0.1:{server.port}/") as (page, _trouble),
    ):
        sign_in(page, door.texts["short"])
        shows(page, "Ada")
        assert page.is_visible("#tab-audit")
        door.revoke("short")
        page.get_by_text("You were signed out.").wait_for()
        sign_in(page, door.texts["viewer"])
        page.wait_for_selector("#user-role:has-text('viewer')")
        shows(page, "Ada")
        assert page.is_hidden("#tab-audit")


def test_a_user_signs_in_by_token_and_again_after_it_is_revoked(door: AuthFixture) -> None:
    door.token("short", "viewer")
    with run_server(filled("Ada"), access=door.access()) as server:
        url = f"http://127.0.0.1:{server.port}/"
        with chrome.page(url) as (page, trouble):
            sign_in(page, door.texts["wrong"])
            page.get_by_text("this token is unknown or revoked").wait_for()
            sign_in(page, door.texts["short"])
            shows(page, "Ada")
            assert role(page) == "viewer"
            assert page.get_by_role("dialog").count() == 0
            page.evaluate("document.querySelector('[data-table=final_ui]').same = true")
            door.revoke("short")
            page.get_by_text("You were signed out.").wait_for()
            sign_in(page, door.texts["operator"])
            server.apply(1, 2, final(1, "Grace"))
            shows(page, "Ada", "Grace")
            assert role(page) == "operator"
            assert page.inner_text("#user-role") == "operator"
            assert page.is_visible("#tab-audit")
            assert page.evaluate("document.querySelector('[data-table=final_ui]').same")
            # the browser logs responses with 401, and nothing else
            assert [text for text in trouble if "401" not in text and "WebSocket" not in text] == []


def test_a_session_outlives_a_restart_of_the_server(door: AuthFixture) -> None:
    code = door.identities.codes.issue(CONSOLE)
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(contextlib.ExitStack())
        port = first.enter_context(run_server(filled("Ada"), access=door.access())).port
        opened = chrome.page(f"http://127.0.0.1:{port}/", path=f"#code={code}")
        page, _ = stack.enter_context(opened)
        shows(page, "Ada")
        first.close()
        with run_server(filled("Ada", "Grace"), port=port, access=door.access()):
            shows(page, "Ada", "Grace")
            assert page.get_by_role("dialog").count() == 0


# --- pages of another site


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[str]:
    """Another site with its own page."""
    (tmp_path / "index.html").write_text(FOREIGN)
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("allowed", "token", "message"),
    [
        (True, "viewer", "Ada"),
        (True, "revoked", "this token is not valid: it was revoked"),
        (False, "viewer", "failed: TypeError"),
    ],
)
def test_an_allowed_site_connects_by_tickets(
    door: AuthFixture,
    elsewhere: str,
    allowed: bool,  # noqa: FBT001
    token: str,
    message: str,
) -> None:
    origins = [elsewhere] if allowed else []
    with run_server(filled("Ada"), access=door.access(origins=origins)) as server:
        fragment = f"#http://127.0.0.1:{server.port}/ {door.texts[token]}"
        addresses: list[str] = []
        with chrome.page(f"{elsewhere}/", path=fragment) as (page, _):
            page.on("websocket", lambda socket: addresses.append(socket.url))
            page.get_by_text(message).wait_for()
        assert not [url for url in addresses if door.texts[token] in url]
