"""In a real browser, with Spark: a hot swap is one step and undone; hostile text is text."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from browser import chrome
from browser.looking import arrange, columns, says
from livejoin.kafka.cluster import Kafka
from rig.produce import Producers
from rig.running import START_S, running, until

A = {"users": "gridswap.users.a", "accounts": "gridswap.accounts.a"}
B = {"users": "gridswap.users.b", "accounts": "gridswap.accounts.b"}
ROWS = 150
SCROLL = 700
RICH = {"sort": [["balance", "desc"]], "filter": [["accountType", "==", "gold"]]}
DATA = ("users_ui", "accounts_ui", "final_ui")

# Records what the data grids show, frame by frame: the first letters of the userIds drawn.
WATCH = """(tables) => {
    const cells = (table) => [...document.querySelector(`perspective-viewer[data-table=${table}]`)
        .querySelector("perspective-viewer-datagrid").shadowRoot.querySelectorAll("tbody tr")]
        .map((row) => row.querySelector("td")?.textContent?.[0] ?? "-");
    const look = () => {
        const now = tables.map((table) => [...new Set(cells(table))].sort().join("")).join(" ");
        if (seen.at(-1) !== now) seen.push(now);
        requestAnimationFrame(look);
    };
    const seen = (window.seen = []);
    look();
}"""
GRID = """(table) => document.querySelector(`perspective-viewer[data-table=${table}]`)
    .querySelector("perspective-viewer-datagrid")?.shadowRoot.querySelector("regular-table")"""
PREPARE = """async (config) => {
    for (const viewer of document.querySelectorAll("perspective-viewer")) {
        viewer.dataset.same = "yes";
    }
    await document.querySelector("[data-table=final_ui]").restore(config);
}"""


def fill(kafka: Kafka, pair: str, topics: dict[str, str]) -> None:
    """Produce users and accounts of one pair; the pairs share no userId."""
    to = Producers(kafka, topics)
    for topic in topics.values():
        kafka.create_topic(topic)
    for n in range(ROWS):
        user = f"{pair}-{n:03d}"
        kind = "gold" if n % 3 else "plain"
        to.send("users", {"userId": user, "name": f"Name {n}", "age": n})
        to.send("accounts", {"userId": user, "accountType": kind, "balance": n})
    to.flush()


def recorded(page: Page) -> list[str]:
    """Return what was recorded since the last call."""
    found: list[str] = page.evaluate("() => window.seen.splice(0, window.seen.length - 1)")
    return [*found, page.evaluate("() => window.seen[0]")]


def newest_recorded(page: Page) -> str:
    found: str = page.evaluate("() => window.seen.at(-1)")
    return found


def scroll_top(page: Page) -> float:
    found: float = page.evaluate(f"() => ({GRID})('final_ui').scrollTop")
    return found


def drawn(page: Page, table: str) -> str:
    """The text of a grid's rows, as far as they are drawn."""
    found: str = page.evaluate(
        f"(table) => [...(({GRID})(table)?.querySelectorAll('tbody td') ?? [])]"
        ".map((cell) => cell.textContent).join(' ')",
        table,
    )
    return found


def wait_for_response(page: Page, kind: str, *texts: str) -> None:
    """Wait for a response beside the form."""
    page.wait_for_selector(f"#answer[data-kind='{kind}']", timeout=30_000)
    until(lambda: all(text in page.inner_text("#answer") for text in texts), str(texts), 30)


def submit(page: Page, button: str, **fields: str) -> None:
    for name, value in fields.items():
        page.fill(f"#ask [name={name}]", value)
    page.click(f"#ask button:text-is('{button}')")


def test_a_swap_is_one_step_in_the_same_grids(kafka: Kafka, tmp_path: Path) -> None:
    fill(kafka, "a", A)
    fill(kafka, "b", B)
    with running(kafka, tmp_path, name="gridswap", topics=A) as live:
        live.wait_live()
        with chrome.page(live.url) as (page, trouble):
            page.wait_for_selector("#strip[data-state=live]")
            _watch(page)
            page.click("#change")
            _expect_refused(page)
            _expect_previewed(page)
            assert recorded(page) == ["a a a"]
            _swap(page)
            _roll_back(page)
            _expect_same_viewers(page)
            _tabs(page)
            # the browser itself logs every response that is not 2xx
            assert [line for line in trouble if "status of 422" not in line] == []


def _watch(page: Page) -> None:
    page.evaluate(PREPARE, RICH)
    until(lambda: "a-" in drawn(page, "final_ui"), "rows are drawn")
    page.evaluate(f"(scroll) => {{ ({GRID})('final_ui').scrollTop = scroll }}", SCROLL)
    until(lambda: all("a-" in drawn(page, table) for table in DATA), "all grids are drawn")
    page.evaluate(WATCH, DATA)


def _expect_refused(page: Page) -> None:
    assert page.get_attribute("#ask [name=usersTopic]", "placeholder") == A["users"]
    assert page.is_disabled("#rollback")
    submit(page, "Apply")
    wait_for_response(page, "bad", "Nothing is filled in")
    submit(page, "Apply", usersTopic="gridswap.users.bb")
    wait_for_response(page, "bad", 'topic "gridswap.users.bb" does not exist')
    submit(page, "Apply", usersTopic="<i>b</i>")
    wait_for_response(page, "bad", '"<i>b</i>" is not a topic name')
    assert page.query_selector("#answer i") is None


def _expect_previewed(page: Page) -> None:
    submit(page, "Preview", usersTopic=B["users"], accountsTopic=B["accounts"])
    wait_for_response(
        page,
        "",
        "Nothing is changed yet",
        f"generation 2, {B['users']} left {B['accounts']}",
        f"{ROWS} records in 1 partition",
        "task slots",
        f"generation 1, {A['users']} left {A['accounts']}",
    )


def _swap(page: Page) -> None:
    page.select_option("#ask [name=joinType]", "inner")
    submit(page, "Apply")
    wait_for_response(page, "good", "Generation 2 is live")
    until(lambda: newest_recorded(page) == "b b b", "the new rows are shown")
    page.wait_for_timeout(500)
    assert recorded(page) == ["a a a", "b b b"]
    assert scroll_top(page) == SCROLL
    notice = f"now showing generation 2: {B['users']} inner {B['accounts']}"
    assert page.text_content("#said") == notice
    assert page.inner_text("#generation") == "generation 2"
    assert page.is_hidden("#progress")


def _roll_back(page: Page) -> None:
    until(lambda: page.is_enabled("#rollback"), "a rollback is possible")
    assert page.inner_text("#rollback") == "Roll back to generation 1"
    assert f"{A['users']} left {A['accounts']}" in page.inner_text("#rollback-to")
    page.click("#rollback")
    wait_for_response(page, "good", "Generation 1 is live", "rolled back")
    until(lambda: newest_recorded(page) == "a a a", "the old rows are back")
    assert recorded(page) == ["b b b", "a a a"]
    assert scroll_top(page) == SCROLL
    until(lambda: page.inner_text("#rollback") == "Roll back to generation 2", "and forth")


def _expect_same_viewers(page: Page) -> None:
    viewers = page.query_selector_all("perspective-viewer")
    assert [viewer.get_attribute("data-same") for viewer in viewers] == ["yes"] * 8
    config: dict[str, Any] = page.evaluate(
        "() => document.querySelector('[data-table=final_ui]').save()"
    )
    assert {name: config[name] for name in RICH} == RICH


def _tabs(page: Page) -> None:
    assert "rolled back" in drawn(page, "orchestrator_logs")
    page.focus("#tab-logs")
    page.keyboard.press("ArrowRight")
    until(lambda: "page 127.0.0.1 rejected" in drawn(page, "control_raw"), "messages are drawn")
    page.keyboard.press("ArrowRight")
    until(lambda: "standby" in drawn(page, "generations"), "generations are drawn")
    page.keyboard.press("End")
    until(lambda: A["users"] in drawn(page, "orchestrator_status"), "the status is drawn")
    page.keyboard.press("Home")
    until(lambda: page.is_visible("#panel-logs"), "round again")


C = {"users": "hostile.users", "accounts": "hostile.accounts"}
IMG = "<img src=x onerror=window.hit='{}'>"
FORMULA = '=HYPERLINK("http://example.org/","pay")'
TURNED = "\u202egnp.exe\u202c \u200fabc"
LARGE = IMG.format("large") + "M" * 1_000_000
WIDEST = """(table) => Math.max(...[...document.querySelector(`[data-table=${table}]`)
    .querySelector("perspective-viewer-datagrid").shadowRoot.querySelectorAll("td, th")]
    .map((cell) => cell.getBoundingClientRect().width))"""
# images created from data, in this document and in all shadow roots; the page has its own icon
MADE = """() => {
    const count = (root) => [...root.querySelectorAll("*")].reduce(
        (sum, element) => sum + element.matches("img:not([src='static/icon.svg'])")
            + (element.shadowRoot ? count(element.shadowRoot) : 0), 0);
    return [count(document), window.hit ?? ""];
}"""
PICTURES_MS = """async () => {
    const began = performance.now();
    for (let i = 0; i < 20; i++) await new Promise(requestAnimationFrame);
    return performance.now() - began;
}"""


def test_b7_hostile_texts_and_cells_of_a_megabyte_are_text(kafka: Kafka, tmp_path: Path) -> None:
    """Case B7."""
    for topic in C.values():
        kafka.create_topic(topic)
    to = Producers(kafka, C)
    to.send("users", {"userId": "1", "name": IMG.format("name"), "email": FORMULA, "age": 1})
    to.send("users", {"userId": "2", "name": TURNED, "email": "2", "age": 2})
    to.send("users", {"userId": "3", "name": LARGE, "email": "3", "age": 3})
    to.send("users", {"userId": "4", "name": "plain", "age": IMG.format("reject")})
    to.send("accounts", {"userId": "3", "accountType": IMG.format("kind"), "balance": 1.5})
    to.flush()
    with running(kafka, tmp_path, name="hostile", topics=C) as live:
        live.wait_live()
        with chrome.page(live.url) as (page, trouble):
            page.wait_for_selector("#strip[data-state=live]")
            page.wait_for_selector("[data-table=final_ui] perspective-viewer-datagrid tbody td")
            until(lambda: _ids(page) == ["1", "2", "3"], "rows appear", START_S)
            # the widest last: a grid draws only the visible columns
            first = ["userId", "accountType", "email", "name"]
            arrange(page, "final_ui", sort=[["userId", "asc"]], columns=first)
            arrange(page, "users_ui", sort=[["userId", "desc"]])
            for text in (IMG.format("name"), FORMULA, TURNED, LARGE[:100], IMG.format("kind")):
                _wait_drawn(page, "final_ui", text)
            _expect_usable(page, to)
            _expect_errors_as_text(page)
            assert page.evaluate(MADE) == [0, ""]
            assert [line for line in trouble if "status of 422" not in line] == []


def _wait_drawn(page: Page, table: str, text: str) -> None:
    until(lambda: text in drawn(page, table), f"{text} is drawn", 30)


def _ids(page: Page) -> list[str]:
    return sorted(columns(page, "final_ui")["userId"])


def _expect_usable(page: Page, to: Producers) -> None:
    """Check that columns are readable, the page still draws, and new rows arrive."""
    for table in ("users_ui", "final_ui"):
        assert page.evaluate(WIDEST, table) < 1000
    assert page.evaluate(PICTURES_MS) < 5000
    to.send("accounts", {"userId": "3", "accountType": "changed", "balance": 2.5})
    to.send("users", {"userId": "5", "name": "five"})
    to.flush()
    _wait_drawn(page, "final_ui", "changed")
    until(lambda: _ids(page) == ["1", "2", "3", "5"], "a further row", 30)


def _expect_errors_as_text(page: Page) -> None:
    """Check that rejects and invalid topic names are shown as text."""
    page.click("#tab-rejects")
    _wait_drawn(page, "rejects_ui", IMG.format("reject"))
    page.keyboard.press("3")
    says(page, "#rejects-list", "age: expected int64")
    page.keyboard.press("1")
    page.click("#change")
    for name in (IMG.format("topic"), TURNED, FORMULA):
        submit(page, "Apply", usersTopic=name)
        wait_for_response(page, "bad", "is not a topic name")
        # in JSON messages, quotes are escaped
        says(page, "#answer", name.replace('"', '\\"'))
