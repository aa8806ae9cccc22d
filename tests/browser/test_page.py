"""The page over the real pipeline: a sorted, filtered grid survives a killed server."""

from pathlib import Path

from playwright.sync_api import Page

from browser import chrome
from browser.looking import rows
from livejoin.kafka.cluster import Kafka
from rig.produce import Producers
from rig.running import START_S, Running, running, until

TOPICS = {"users": "page.users", "accounts": "page.accounts"}
FEWEST = """() => {
    const viewer = document.querySelector("[data-table=final_ui]");
    const grid = viewer.querySelector("perspective-viewer-datagrid").shadowRoot;
    const look = () => {
        window.fewest = Math.min(window.fewest, grid.querySelectorAll("tbody tr").length);
        requestAnimationFrame(look);
    };
    window.fewest = Infinity;
    look();
}"""
RICH = {"sort": [["balance", "desc"]], "filter": [["accountType", "==", "gold"]]}


def names(page: Page) -> list[str]:
    return [row["name"] for row in rows(page, "final_ui")]


def gold(to: Producers, user: str, balance: float) -> None:
    to.send("accounts", {"userId": user, "accountType": "gold", "balance": balance})
    to.flush()


def test_the_same_grid_stays_live_through_a_kill(kafka: Kafka, tmp_path: Path) -> None:
    for topic in TOPICS.values():
        kafka.create_topic(topic)
    to = Producers(kafka, TOPICS)
    for user in ("Ada", "Bob", "Cy"):
        to.send("users", {"userId": user, "name": user, "age": 9007199254740993})
    to.send("users", {"userId": "x", "name": "<img src=x onerror=alert(1)>"})
    to.send("users", b"broken")
    gold(to, "Ada", 1)
    gold(to, "Bob", 2)
    with running(kafka, tmp_path, name="page", topics=TOPICS) as live:
        live.wait_live()
        with chrome.page(live.url) as (page, trouble):
            page.wait_for_selector("#strip[data-state=live]")
            page.wait_for_selector("#connection[data-connected=true]")
            until(lambda: len(rows(page, "final_ui")) == 4, "rows appear")
            assert "live" in page.inner_text("#strip")
            page.click("#tab-rejects")
            grid = page.locator("perspective-viewer[data-table=rejects_ui] tbody td")
            until(lambda: "value: not valid JSON, got broken" in grid.all_inner_texts(), "rejects")
            page.evaluate(
                """async (config) => {
                    const viewer = document.querySelector("[data-table=final_ui]");
                    viewer.dataset.same = "yes";
                    await viewer.restore(config);
                }""",
                RICH,
            )
            assert names(page) == ["Bob", "Ada"]
            gold(to, "Ada", 3)
            until(lambda: names(page) == ["Ada", "Bob"], "a change arrives in the sorted grid")
            _kill_and_restart(live, page)
            gold(to, "Cy", 4)
            until(lambda: names(page) == ["Cy", "Ada", "Bob"], "the same grid continues", START_S)
            _assert_same(page)
            page.reload()
            until(lambda: _names_or_none(page) == ["Cy", "Ada", "Bob"], "the layout is restored")
            assert [line for line in trouble if "WebSocket" not in line] == []


def _kill_and_restart(live: Running, page: Page) -> None:
    page.evaluate(FEWEST)
    live.kill(live.pid)
    page.wait_for_selector("#connection[data-connected=false]")
    assert "reconnecting" in page.inner_text("#connection")
    live.start()
    live.wait_live()
    page.wait_for_selector("#connection[data-connected=true]", timeout=30_000)
    page.wait_for_selector("#strip[data-state=live]", timeout=30_000)
    assert page.evaluate("() => window.fewest") == len(names(page)) == 2


def _assert_same(page: Page) -> None:
    viewer = "perspective-viewer[data-table=final_ui]"
    assert page.get_attribute(viewer, "data-same") == "yes"
    config = page.evaluate("async (viewer) => document.querySelector(viewer).save()", viewer)
    assert {name: config[name] for name in RICH} == RICH
    assert not [name for name in config["columns"] if name and name.startswith("_")]


def _names_or_none(page: Page) -> list[str] | None:
    if page.get_attribute("#strip", "data-state") != "live":
        return None
    return names(page)
