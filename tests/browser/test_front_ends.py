"""The examples of front ends, each driven through a swap in a real browser, behind a proxy."""

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Locator, Page

from browser import chrome
from browser.portal import Portal, portal
from browser.staged import Stage, staged
from tables.auth_fixture import AuthFixture

CLIENTS = Path(__file__).parents[2] / "clients"
COUNT = 30  # users, three of them without an account; the stage adds one
BUILD_S = 240  # the first build downloads 69 packages
FRONT_ENDS = ["example", "plain", "angular"]

EVERY_FRONT_END = pytest.mark.parametrize("front_end", FRONT_ENDS, indirect=True)
EVERY_FOLDER = pytest.mark.parametrize("folder", ["/", "/tools/"])


class FrontEnd(NamedTuple):
    """A front end: its files, its path, and selectors of what it shows."""

    files: Path
    path: str
    joined: Callable[[int], str]  # `final_ui` with this many rows
    other: str  # another table


@pytest.fixture(scope="module")
def angular() -> Path:
    """The example, compiled by Angular's own compiler."""
    if shutil.which("npm") is None:
        pytest.skip("Node.js is not installed")
    done = subprocess.run(
        ["make", "--silent", "angular"],
        cwd=CLIENTS.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return CLIENTS / "angular" / "dist"


def element(table: str, rows: int) -> str:
    """Select a `<live-table>` by the row count of its grid; one of them is the header."""
    return f"live-table[table={table}] table[aria-rowcount='{rows + 1}']"


@pytest.fixture
def front_end(request: pytest.FixtureRequest, tmp_path: Path) -> FrontEnd:
    joined, users = partial(element, "final_ui"), element("users_ui", COUNT + 1)
    match request.param:
        case "example":
            return FrontEnd(tmp_path, "livejoin/example", joined, users)
        case "plain":
            accounts = f"text={COUNT - 3} accounts hold"
            return FrontEnd(CLIENTS / "plain", "", joined, accounts)
        case _:
            files: Path = request.getfixturevalue("angular")
            return FrontEnd(files, "", "app-rows:has(caption:text('of {} rows'))".format, users)


@contextlib.contextmanager
def opened(
    front_end: FrontEnd, folder: str, door: AuthFixture | None = None
) -> Iterator[tuple[Stage, Page, Portal, chrome.Trouble]]:
    """A staged livejoin, and the front end in a browser."""
    with (
        portal(front_end.files, folder) as site,
        staged(COUNT, access=site.access(door.access() if door else None)) as stage,
    ):
        site.serve(stage.serving.port)
        with chrome.page(site.url, path=front_end.path) as (page, trouble):
            page.set_viewport_size({"width": 1500, "height": 1200})
            yield stage, page, site, trouble


def swap_button(page: Page, join: str) -> Locator:
    return page.get_by_role("button", name=f"Switch to {join} join", exact=True)


def shows(page: Page, front_end: FrontEnd, joined: int, text: str) -> None:
    """Wait until the text is shown, this many rows of `final_ui`, and the other table."""
    page.get_by_text(text).wait_for()
    page.wait_for_selector(front_end.joined(joined))
    page.wait_for_selector(front_end.other)


@EVERY_FOLDER
@EVERY_FRONT_END
def test_a_front_end_swaps(front_end: FrontEnd, folder: str) -> None:
    with opened(front_end, folder) as (stage, page, _, trouble):
        shows(page, front_end, COUNT + 1, "generation 1 is live")
        page.evaluate("document.body.same = true")
        stage.at_once = False
        swap_button(page, "inner").click()
        page.get_by_text("inner join: building").wait_for()
        shows(page, front_end, COUNT + 1, "building generation 2")
        stage.finish()
        shows(page, front_end, COUNT - 3, "generation 2 is live")
        page.get_by_text("inner join: live").wait_for()
        stage.at_once = True
        swap_button(page, "left").click()
        shows(page, front_end, COUNT + 1, "generation 3 is live")
        page.get_by_text("left join: live").wait_for()
        assert page.evaluate("document.body.same")
        assert trouble == []


def sign_in(page: Page, site: Portal, token: str) -> None:
    """Follow the link to livejoin's own page, and sign in there."""
    page.get_by_text("Not connected. Trying again …").first.wait_for()
    page.get_by_role("alert").get_by_role("link", name="sign in").click()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector("html:not([data-role=''])")
    assert page.url == f"{site.url}livejoin/"


def test_the_angular_example_is_compiled_ahead_of_time(angular: Path) -> None:
    """Neither templates nor packages are left for a compiler in the browser."""
    bundle = (angular / "main.js").read_text()
    assert "app-swap" in bundle
    assert "<app-swap" not in bundle
    assert "ɵɵngDeclare" not in bundle


@EVERY_FRONT_END
def test_a_viewer_sees_rows_and_cannot_swap(front_end: FrontEnd) -> None:
    door = AuthFixture()
    with opened(front_end, "/tools/", door) as (_, page, site, _):
        sign_in(page, site, door.texts["viewer"])
        page.goto(f"{site.url}{front_end.path}")
        shows(page, front_end, COUNT + 1, "generation 1 is live")
        page.get_by_text("Your role is viewer").wait_for()
        assert swap_button(page, "inner").is_disabled()
        assert not page.get_by_role("alert").filter(visible=True).count()


@EVERY_FRONT_END
def test_a_refused_swap_is_shown_with_its_reason(front_end: FrontEnd) -> None:
    door = AuthFixture()
    door.token("short", "operator")
    with opened(front_end, "/tools/", door) as (stage, page, site, _):
        sign_in(page, site, door.texts["short"])
        page.goto(f"{site.url}{front_end.path}")
        shows(page, front_end, COUNT + 1, "generation 1 is live")
        door.revoke("short")
        swap_button(page, "inner").click()
        page.get_by_text("Unauthorized: ").wait_for()
        assert stage.state.building is None
