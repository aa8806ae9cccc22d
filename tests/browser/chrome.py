"""Headless Chromium, with a page whose errors are recorded."""

import contextlib
from collections.abc import Iterator
from typing import Literal

from playwright.sync_api import ConsoleMessage, Page, sync_playwright

from browser.install import installed

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--lang=en-US",
]
ZONE = "America/New_York"  # not UTC, so that local time differs from it
LOCALE: dict[str, str | float | bool] = {"LC_ALL": "en_US.UTF-8", "LANG": "en_US.UTF-8"}


class Trouble(list[str]):
    """Console errors, exceptions and requests to other hosts."""


@contextlib.contextmanager
def page(
    url: str,
    *,
    scheme: Literal["light", "dark"] = "light",
    path: str = "",
    locale: str = "en-US",
) -> Iterator[tuple[Page, Trouble]]:
    """Open the page, or another path of the server, in a new browser."""
    trouble = Trouble()
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=installed(), args=FLAGS, env=LOCALE)
        try:
            opened = browser.new_page(
                viewport={"width": 1500, "height": 900},
                color_scheme=scheme,
                timezone_id=ZONE,
                locale=locale,
            )
            opened.on("console", lambda m: trouble.append(m.text) if _matters(m) else None)
            opened.on("pageerror", lambda error: trouble.append(error.stack or str(error)))
            opened.on("request", lambda r: None if _ours(r.url, url) else trouble.append(r.url))
            opened.goto(url + path)
            yield opened, trouble
        finally:
            browser.close()


def _matters(message: ConsoleMessage) -> bool:
    """Every error except the 401 of /whoami before signing in."""
    return message.type == "error" and not message.location["url"].endswith("/api/v1/whoami")


def _ours(address: str, url: str) -> bool:
    return address.startswith((url, "data:", "blob:" + url))
