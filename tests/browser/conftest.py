"""A staged page per test module. Processes started here are short-lived."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from browser.looking import LIMIT_S, address, staged_page
from browser.staged import Stage
from rig import running
from rig.running import until

running.conf.update(running.COLD)


@pytest.fixture(scope="module")
def stage_and_page(request: pytest.FixtureRequest) -> Iterator[tuple[Stage, Page]]:
    """A stage with as many users as the module's `COUNT` says, and a page that shows it."""
    with staged_page(request.module.COUNT) as (stage, page, _trouble):
        yield stage, page


@pytest.fixture
def stage(stage_and_page: tuple[Stage, Page]) -> Stage:
    return stage_and_page[0]


@pytest.fixture
def page(stage_and_page: tuple[Stage, Page]) -> Iterator[Page]:
    """The page; its layout is reset after the test."""
    yield stage_and_page[1]
    stage_and_page[1].click("#reset")
    until(lambda: "layout" not in address(stage_and_page[1]), "the layout is reset", LIMIT_S)
