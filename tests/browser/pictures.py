"""Take screenshots of the page, light and dark, from the demo with live rows."""

import contextlib
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page

sys.path.insert(0, str(Path(__file__).parents[1]))

from browser import chrome
from livejoin.runtime.broker import free_port
from rig.running import LIVEJOIN, until

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SIZE = {"width": 1360, "height": 800}
START_S = 400  # with twenty busy threads; 15 on an idle machine
SWAP_S = 240
SETTLE_MS = 3000
SHOW_REJECTS = "document.getElementById('rejects').scrollIntoView({ block: 'end' })"
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def main() -> None:
    """Run the demo, swap, and take a screenshot of each view."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with demo() as url:
        for theme in THEMES:
            with chrome.page(url, scheme=theme) as (page, trouble):
                page.set_viewport_size(SIZE)  # type: ignore[arg-type]
                page.wait_for_selector("#strip[data-state=live]", timeout=START_S * 1000)
                page.wait_for_timeout(5000)  # a few records trickle in
                take(page, "page", theme)
                charts(page, theme)
                swap(page, theme)
                page.keyboard.press("2")
                page.wait_for_timeout(500)
                take(page, "timeline", theme)
                page.keyboard.press("3")
                page.click("#latency-reset")  # the first records waited for the build
                page.wait_for_timeout(15_000)  # collect rates and latencies
                take(page, "health", theme)
                page.click("#rejects-list .row >> nth=0")
                page.wait_for_selector(".record .hex")
                page.evaluate(SHOW_REJECTS)
                take(page, "rejects", theme)
                # the browser logs the rejected message
                assert [line for line in trouble if "status of 422" not in line] == []


def charts(page: Page, theme: str) -> None:
    page.locator("section[data-area=final] .tools button[title^='Widen']").click()
    page.locator("section[data-area=final] .tools button[title^='Sort, filter']").click()
    page.wait_for_timeout(SETTLE_MS)
    page.select_option("section[data-area=final] select", "Y Bar")
    page.wait_for_selector("section[data-area=final] canvas", state="attached")
    page.wait_for_timeout(SETTLE_MS)
    take(page, "chart", theme)
    page.click("#arrange [aria-label=Close]")
    page.click("#reset")
    page.wait_for_selector("section[data-area=final] tbody td")
    page.wait_for_selector("#toast:not(.shown)", state="attached")  # the toast has disappeared
    page.wait_for_timeout(SETTLE_MS)


def swap(page: Page, theme: str) -> None:
    """Swap to the other pair of topics, with preview; look at the records of one."""
    page.click("#change")
    other = "b" if page.get_attribute("#usersTopic", "placeholder") == "users_a" else "a"
    page.fill("#usersTopic", f"users_{other}")
    page.fill("#accountsTopic", f"accounts_{other}")
    page.select_option("#joinType", "inner" if other == "b" else "left")
    page.click("[data-peek=usersTopic]")
    page.wait_for_selector(".topic-records td")
    page.click(".topic-records summary >> nth=1")
    take(page, "topics", theme)
    page.click("#browser [aria-label=Close]")
    page.click("#ask button:text-is('Preview')")
    page.wait_for_selector("#answer .facts")
    take(page, "swap", theme)
    page.click("#ask button:text-is('Apply')")
    page.wait_for_selector("#answer[data-kind=good]", timeout=SWAP_S * 1000)
    page.wait_for_timeout(SETTLE_MS)
    take(page, "swapped", theme)
    page.fill("#usersTopic", "users_c")
    page.click("#ask button:text-is('Apply')")
    page.wait_for_selector("#answer[data-kind=bad]")
    page.click("#rollback")
    page.wait_for_selector("#answer[data-kind=good]", timeout=SWAP_S * 1000)
    page.click("#close")
    page.wait_for_timeout(SETTLE_MS)


def take(page: Page, name: str, theme: str) -> None:
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement?.blur()")
    suffix = "" if theme == "light" else "-dark"
    page.screenshot(path=PICTURES / f"{name}{suffix}.png")


@contextlib.contextmanager
def demo() -> Iterator[str]:
    """An empty demo, until the block ends."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [LIVEJOIN, "demo", "--insecure", "--data", folder, "--port", str(port)]
        )
        try:
            wait_for(port)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def wait_for(port: int) -> None:
    """Wait until the demo answers."""

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=5):
                return True
        except OSError:
            return False

    until(answers, "the demo answers", START_S)


if __name__ == "__main__":
    main()
