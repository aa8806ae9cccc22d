"""Timeline and Health in a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from browser.looking import (
    LIMIT_S,
    says,
    staged_page,
    swap,
)
from browser.staged import Stage
from rig.running import until


@pytest.fixture(scope="module")
def stage_and_page() -> Iterator[tuple[Stage, Page]]:
    with staged_page() as (stage, page, _trouble):
        yield stage, page


@pytest.fixture
def page(stage_and_page: tuple[Stage, Page]) -> Page:
    return stage_and_page[1]


def test_health_shows_sources_matches_latency_and_bytes_of_rejects(
    stage: Stage, page: Page
) -> None:
    page.keyboard.press("3")
    for n in range(300, 320):
        stage.change(n)
    says(page, "[data-source=users]", "users_a", "223", "Unread records (lag)")
    says(page, "[data-source=users]", "unknown: not asked yet")
    assert page.locator("[data-source=users] .plot").count() == 2
    says(page, "#matched", "With an account", "198")
    says(page, "#latency-facts", "p50", "p99", "38")
    assert page.locator("#latency-chart rect").count() > 20
    says(page, "#checks", "live generation is fine")
    says(page, "#no-spark-ui", "no address is set")
    page.click("#rejects-list .row:has-text('not UTF-8')")
    says(page, "#reject-detail", "users_a 0/1000002", "bro\\xff", "62 72 6f ff")
    stage.serving.run_on_loop(lambda host: setattr(host, "spark_ui", "http://127.0.0.1:4040/"))
    link = page.locator("#spark-ui")
    until(link.is_visible, "the Spark UI is linked", LIMIT_S)
    assert link.get_attribute("href") == "http://127.0.0.1:4040/"


def test_timeline_shows_events_with_stages_and_details(stage: Stage, page: Page) -> None:
    swap(stage, b'{"usersTopic": "users_b", "accountsTopic": "accounts_b"}')
    swap(stage, b'{"usersTopic": "nowhere"}')
    swap(stage, b"<i>rubbish</i>")
    swap(stage, b'{"action": "rollback"}')
    page.keyboard.press("2")
    events = page.locator("#events .event")
    until(lambda: events.count() == 5, "one entry per event", LIMIT_S)
    texts = events.all_inner_texts()
    assert "users_b left accounts_b → users_a left accounts_a" in texts[0]
    assert "back to generation 1" in texts[0]
    assert "rejected" in texts[1]
    assert "<i>rubbish</i>" in texts[1]
    assert "rejected" in texts[2]
    assert 'topic "nowhere" does not exist' in texts[2]
    assert "users_a left accounts_a → users_b left accounts_b" in texts[3]
    assert "by kafka" in texts[3]
    stages = page.locator("#events .event >> nth=3").locator(".stage").all_inner_texts()
    starts = ("build ", "was live ", "standby ")
    assert all(text.startswith(start) for text, start in zip(stages, starts, strict=True))
    _detail(page)


def _detail(page: Page) -> None:
    """The selected event: message, log lines, counts."""
    page.click("#events .event >> nth=2")
    says(page, "#event-detail", 'topic "nowhere" does not exist', '{"usersTopic": "nowhere"}')
    says(page, "#event-detail", "control 0/1 rejected")
    page.focus("#events .event >> nth=2")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    says(page, "#event-detail", "Generation 2, standby", "Records read", "caught up: generation 2")


def test_rates_quantiles_and_clock_offset(page: Page) -> None:
    found = page.evaluate(
        """async () => {
            const { ClockOffset, Histogram } = await import("/static/page/health/latency.js");
            const { Rate } = await import("/static/page/health/rates.js");
            const [rate, histogram, offset] = [new Rate(), new Histogram(), new ClockOffset()];
            const rates = [[0, 100], [1000, 110], [2000, 140], [30000, 140], [31000, 5]].map(
                ([at, count]) => (rate.add(at, count), rate.perSecond));
            for (let ms = -1; ms < 99; ms++) histogram.add(ms);
            const quantiles = [0, 0.5, 0.99].map((share) => histogram.quantile(share));
            // livejoin's clock is 500 ms ahead, and frames take 3 to 40 ms
            for (const transit of [40, 3, 12]) offset.add(10000 + 500, 10000 + transit);
            return { rates, quantiles, negative: histogram.negative, offset: offset.ms };
        }"""
    )
    assert found["rates"] == [None, 10, 20, 0, None]
    assert found["quantiles"] == [0, 49, 98]
    assert found["negative"] == 1
    assert found["offset"] == 497
