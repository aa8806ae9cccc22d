"""The Health view: charts, time ranges, cutovers, partitions, rejects by reason."""

import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import pytest
from playwright.sync_api import Locator, Page

from browser.looking import LIMIT_S, says, staged_page, swap
from browser.staged import Stage
from livejoin.core.changelog import ChangelogRecord
from livejoin.tables.ingest.catalog import Catalog
from livejoin.tables.live import socket
from rig.running import until

CLOCK = re.compile(r"\d\d:\d\d:\d\d")
RATES = "[data-source=users] .plot >> nth=0"
UNREAD = "[data-source=users] .plot >> nth=1"
LATENCY = "#latency-chart .plot"


@pytest.fixture(scope="module")
def stage_and_page() -> Iterator[tuple[Stage, Page]]:
    """The page with the Health view open, and a few points in its charts."""
    with staged_page(20) as (stage, page, _trouble):
        page.set_viewport_size({"width": 1360, "height": 800})
        page.keyboard.press("3")
        until(lambda: points(page) > 2, "the charts have points", LIMIT_S)
        yield stage, page


@pytest.fixture
def page(stage_and_page: tuple[Stage, Page]) -> Page:
    stage_and_page[1].mouse.move(0, 0)
    return stage_and_page[1]


def points(page: Page) -> int:
    return (page.locator(f"{RATES} >> .line").first.get_attribute("d") or "").count("L")


def texts(page: Page, selector: str) -> list[str]:
    return page.locator(selector).all_text_contents()


def marked(labels: Locator) -> bool:
    """Whether the second generation has a label; it is short beside the line of the first."""
    return bool({"generation 2 live", "2"} & set(labels.all_text_contents()))


def middle(place: Locator, share: float = 0.5) -> tuple[float, float]:
    """A point at half the height of an element, in the page's coordinates."""
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    assert box is not None
    return box["x"] + share * box["width"], box["y"] + box["height"] / 2


def test_charts_have_a_time_axis_and_a_value_axis_with_its_unit(page: Page) -> None:
    times = texts(page, f"{RATES} >> .tick-label")
    assert len(times) > 2
    assert all(CLOCK.fullmatch(time) for time in times)
    assert all(earlier < later for earlier, later in pairwise(times)) or "00:00:00" in times
    assert texts(page, f"{RATES} >> .unit") == ["records/s"]
    assert texts(page, f"{UNREAD} >> .unit") == ["records"]
    values = texts(page, f"{RATES} >> .value-tick")
    assert values[0] == "0"
    assert len(values) > 1
    page.keyboard.press("u")
    until(lambda: all(t.endswith("Z") for t in texts(page, f"{RATES} >> .tick-label")), "UTC")
    page.keyboard.press("u")


def test_the_histogram_has_axes_and_a_readout(stage: Stage, page: Page) -> None:
    for n in range(300, 310):
        stage.change(n)
    says(page, "#latency-facts", "Half within (p50)", "99 % within (p99)", "19")
    assert texts(page, f"{LATENCY} >> .unit") == ["records"]
    assert {"10 ms", "1 s"} & set(texts(page, f"{LATENCY} >> .tick-label"))
    page.focus(LATENCY)
    page.keyboard.press("Home")
    says(page, f"{LATENCY} >> .readout", "up to 1 ms · ", "of 19")
    page.keyboard.press("ArrowRight")
    says(page, f"{LATENCY} >> .readout", "1 ms to 2 ms · ")
    until(lambda: page.locator("#latency-trend .line").count() > 0, "a trend", LIMIT_S)
    assert texts(page, "#latency-trend .unit") == ["ms"]


def test_the_value_under_the_pointer_is_read_out_and_stays(page: Page) -> None:
    readout = page.locator(f"{RATES} >> .readout")
    page.mouse.move(*middle(page.locator(RATES), 0.98))
    until(readout.is_visible, "a readout", LIMIT_S)
    assert re.fullmatch(r"\d\d:\d\d:\d\d · [\d.]+/s.*", readout.text_content() or "")
    before = points(page)
    until(lambda: points(page) > before, "the chart is drawn anew", LIMIT_S)
    assert readout.is_visible()
    page.mouse.move(0, 0)
    until(lambda: not readout.count(), "the readout goes with the pointer", LIMIT_S)


def test_arrow_keys_move_the_readout(page: Page) -> None:
    plot, readout = page.locator(RATES), page.locator(f"{RATES} >> .readout")
    page.focus(RATES)
    page.keyboard.press("End")
    newest = readout.text_content() or ""
    page.keyboard.press("ArrowLeft")
    earlier = readout.text_content() or ""
    assert CLOCK.findall(earlier) != CLOCK.findall(newest)
    assert plot.get_attribute("aria-valuetext") == earlier
    before = points(page)
    until(lambda: points(page) > before, "the chart is drawn anew", LIMIT_S)
    assert readout.text_content() == earlier, "the same value is selected"
    assert page.evaluate("document.activeElement.getAttribute('role')") == "slider"
    page.keyboard.press("Escape")
    assert readout.count() == 0


def test_a_cutover_is_a_line_with_a_label_in_every_time_chart(stage: Stage, page: Page) -> None:
    first = page.locator(f"{RATES} >> .mark-label")
    until(lambda: first.all_text_contents() == ["generation 1 live"], "the first", LIMIT_S)
    swap(stage, b'{"usersTopic": "users_b", "accountsTopic": "accounts_b"}')
    for chart in (RATES, UNREAD, "#latency-trend .plot"):
        labels = page.locator(f"{chart} >> .mark-label")
        until(partial(marked, labels), chart, LIMIT_S)
        assert page.locator(f"{chart} >> .mark").count() == 2
    swap(stage, b'{"action": "rollback"}')
    until(lambda: page.locator(f"{RATES} >> .mark").count() == 3, "the way back", LIMIT_S)
    assert points(page) > 2, "the values from before the swap stay"
    page.focus(RATES)
    page.keyboard.press("End")
    for _ in range(points(page)):
        if "generation 1 live" in (page.locator(f"{RATES} >> .readout").text_content() or ""):
            break
        page.keyboard.press("ArrowLeft")
    says(page, f"{RATES} >> .readout", "/s · ", "generation 1 live")


MARKS = """async () => {
    const { timeChart } = await import("/static/page/health/time_chart.js");
    const { TIME_RANGES, TimeSeries } = await import("/static/page/health/time_series.js");
    const at = { 30: 1, 50: 2, 100: 3, 105: 4, 130: 5 };
    const marks = Object.entries(at).map(([s, number]) => ({
        at: 1000 * s, label: `generation ${number} live`, short: String(number) }));
    const axis = () => ({ range: TIME_RANGES[0], end: 120_000, marks });
    const chart = timeChart({ label: "x", unit: "x", format: String }, new TimeSeries(), axis);
    chart.element.style.width = "600px";
    document.getElementById("view-health").append(chart.element);
    chart.draw();
    const all = (selector) => [...chart.element.querySelectorAll(selector)];
    const found = {
        labels: all(".mark-label").map((label) => label.textContent),
        places: all(".mark").map((mark) => Number(mark.getAttribute("x1"))),
    };
    chart.element.remove();
    return found;
}"""


def test_marks_stand_at_their_time_and_labels_cover_nothing(page: Page) -> None:
    found = page.evaluate(MARKS)
    assert found["labels"] == ["4", "3", "generation 2 live", "1"]
    assert found["places"] == sorted(found["places"], reverse=True)
    _fourth, third, second, first = found["places"]
    assert (third - second) / (second - first) == pytest.approx(50 / 20)


def test_a_time_range_is_chosen_for_all_charts(page: Page) -> None:
    chosen = page.locator("#time-range [aria-pressed=true]")
    assert chosen.all_text_contents() == ["2 min"]
    page.click("#time-range button:text-is('1 h')")
    assert chosen.all_text_contents() == ["1 h"]
    for chart in (RATES, UNREAD, "#latency-trend .plot"):
        labels = texts(page, f"{chart} >> .tick-label")
        assert len(labels) > 2
        assert all(re.fullmatch(r"\d\d:\d[05]", label) for label in labels), labels
    assert page.locator(f"{RATES} >> .mark").count() > 0
    page.click("#time-range button:text-is('2 min')")
    says(page, "#history-note", "This page has kept them since")


SERIES = """async () => {
    const module = await import("/static/page/health/time_series.js");
    const { TIME_RANGES, TimeSeries, unbroken } = module;
    const series = new TimeSeries();
    for (let s = 0; s < 7200; s++) series.add(1000 * s, s === 5000 ? 900 : 1);
    const kept = TIME_RANGES.map((range) => {
        const points = series.points(range);
        const highest = Math.max(...points.map(({ max }) => max));
        return [points.length, points.at(-1).at - points[0].at, highest];
    });
    series.add(7_300_000, 5);  // after a silence of 100 s
    series.add(7_301_000, null);
    const [shortest, , longest] = TIME_RANGES;
    const parts = unbroken(series.points(shortest), shortest).map((part) => part.length);
    const bridged = unbroken(series.points(longest), longest).length;
    series.add(10_000, 7);  // the clock was set back
    return { kept, parts, bridged, after: series.points(shortest).map((p) => p.mean) };
}"""


def test_history_is_bounded_and_decimated_and_keeps_extremes(page: Page) -> None:
    found = page.evaluate(SERIES)
    (short, _, _), (middling, _, _), (long, span, highest) = found["kept"]
    assert short == 121
    assert middling <= 181
    assert long <= 181
    assert 3_500_000 < span <= 3_600_000
    assert highest == 900, "the step that it was in has it as its highest"
    assert found["parts"][-1] == 1, "a silence is a gap"
    assert found["bridged"] == 2
    assert found["after"] == [7]


def record_ends(catalog: Catalog) -> None:
    """What the thread that asks Kafka for the ends of topics would report."""
    assert catalog.served is not None
    ends = {"users": {p: 1000 * p for p in range(1, 31)}, "accounts": {0: 19}}
    catalog.lag.record_ends(catalog.served, ends)


def test_partitions_are_listed_worst_first(stage: Stage, page: Page) -> None:
    assert stage.state.live is not None
    topic = stage.state.live.choice.topics["users"]
    says(page, "[data-source=users]", topic, "Unread records (lag)", "unknown: not asked yet")
    stage.serving.run_on_loop(record_ends)
    table = "[data-source=users] .partitions"
    says(page, table, "and 11 partitions more")
    headings = texts(page, f"{table} thead th")
    assert headings[:4] == [
        "Partition",
        "Newest offset in Kafka",
        "Next offset to read",
        "Unread records",
    ]
    lines = page.locator(f"{table} tbody tr")
    assert lines.count() == 20
    cells = lines.first.locator("th, td").all_text_contents()
    assert cells[:4] == ["30", "29,999", "0", "30,000"]
    assert lines.nth(19).locator("th").text_content() == "11"
    says(page, "[data-source=users]", "465,000, the oldest waiting for")
    only = page.locator("[data-source=accounts] .partitions tbody tr")
    assert only.locator("th, td").all_text_contents()[:3] == ["0", "1,000,000", "1,000,001"]
    stage.serving.run_on_loop(lambda catalog: catalog.lag.record_failure("no broker"))
    says(page, "[data-source=users]", "unknown: no broker")


REASONS = """async (reasons) => {
    const { ruleOf } = await import("/static/page/health/reject_groups.js");
    return reasons.map(ruleOf);
}"""
LONG = '"' + "x" * 79  # as far as a value is shown
RULES = {
    'age: expected int64, got "abc"': "age: expected int64",
    "age: expected int64, got 30.5": "age: expected int64",
    'age: expected int64, got "a; b: expected x, got y"': "age: expected int64",
    'name: expected string, got [1]; age: expected int64, got "x"': (
        "name: expected string; age: expected int64"
    ),
    f"name: expected string, got {LONG}; age: expected int64, got []": (
        "name: expected string; age: expected int64"
    ),
    'name: expected string, got {"a":"; b","c":"\\""}; age: expected int64, got 1.5': (
        "name: expected string; age: expected int64"
    ),
    'value: not valid JSON, got 1; a: expected "b", got c': "value: not valid JSON",
    "value: expected an object, got [1]": "value: expected an object",
    "value: larger than 1 MiB, 1048589 bytes": "value: larger than 1 MiB",
    "value: larger than 504 KiB, 600000 bytes": "value: larger than 504 KiB",
    "value: not UTF-8": "value: not UTF-8",
    "value: empty": "value: empty",
}


def test_reasons_that_differ_by_the_value_have_one_rule(page: Page) -> None:
    assert dict(zip(RULES, page.evaluate(REASONS, list(RULES)), strict=True)) == RULES


def reject(offset: int, reason: str, raw: str = "e30=") -> ChangelogRecord:
    at = {"source": "users", "topic": "users_a", "partition": 0, "offset": offset}
    ts = 1_700_000_000_000 + offset
    row = {**at, "ts": ts, "reason": reason, "raw": raw}
    return ChangelogRecord("rejects_ui", f"users/0-{offset}", row, ts)


def test_rejects_are_grouped_by_reason_with_counts(stage: Stage, page: Page) -> None:
    groups = page.locator("#rejects-list .row")
    until(lambda: groups.count() == 2, "two reasons", LIMIT_S)
    assert stage.state.live is not None
    values = [reject(n, f"age: expected int64, got {n}.5") for n in range(5001, 5061)]
    stage.put(stage.state.live.number, *values)
    until(lambda: groups.first.inner_text().startswith("61"), "one group has more", LIMIT_S)
    assert groups.count() == 2
    assert groups.first.locator("span").all_text_contents() == [
        "61",
        "users",
        "age: expected int64",
    ]
    says(page, "#rejects-note", "62 of users, 0 of accounts", "the newest ones", "rejects_ui")
    groups.first.focus()
    page.keyboard.press("Enter")
    says(page, "#reject-detail", "age: expected int64 (61 records)", "and 11 older ones")
    says(page, ".record", 'age: expected int64, got "abc"', "0/1000001", "7b 22 61 67 65 22")
    page.click(".records .row:has-text('got 5060.5')")
    says(page, ".record", " 0/5060", "7b 7d")
    stage.put(stage.state.live.number, reject(5070, "age: expected int64, got true"))
    says(page, "#reject-detail", "(62 records)")
    says(page, ".record", " 0/5060")
    assert page.evaluate("document.activeElement.textContent").endswith("got 5060.5")


def test_without_heartbeats_nothing_is_called_current(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test: no more heartbeats come."""
    monkeypatch.setattr(socket, "HEARTBEAT_S", 600)
    says(page, "#history-note", "No word from livejoin since")
    assert texts(page, "[data-source=users] h4 b") == ["–", "–"]
