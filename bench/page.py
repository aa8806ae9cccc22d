"""Speed of the page: from opening it to the first rows, and while many rows change.

With a real broker, a real `livejoin serve` and a real Chromium on one machine. Ledger and changelog
are written by the benchmark, so Spark is not part of the measurement.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from playwright.sync_api import Page

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bench import parts
from bench.parts import Figures

from browser import chrome
from livejoin.runtime import broker
from rig.ledgered import FakeLeader, row
from rig.running import memory_kib, until

NAME = "bench"
ROWS = 10_000
OPENINGS = 5

# ms from the start of the navigation until the joined rows are drawn and the main thread is idle
INTERACTIVE = """() => new Promise((done) => {
    const look = () => {
        const grid = document.querySelector("[data-table=final_ui] perspective-viewer-datagrid");
        if (!grid?.shadowRoot?.querySelector("tbody td")) return requestAnimationFrame(look);
        setTimeout(() => done(performance.now()), 0);
    };
    look();
})"""
# ms until a key opens the swap panel: the page responds, with or without rows
ANSWERS = """() => new Promise((done) => {
    const look = () => {
        if (!document.getElementById("control").hidden) return done(performance.now());
        document.dispatchEvent(new KeyboardEvent("keydown", { key: "s", bubbles: true }));
        setTimeout(look, 5);
    };
    look();
})"""
# the duration of each frame
FRAMES = """() => {
    window.frames_ms = [];
    let last = performance.now();
    const next = (now) => { frames_ms.push(now - last); last = now; requestAnimationFrame(next); };
    requestAnimationFrame(next);
}"""


def main() -> None:
    """Run the parts, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of the part updates")
    parser.add_argument("--updates", type=int, default=20_000, help="in that time")
    parts.run(parser, PARTS, _measured, "page")


def _measured(part: str, options: argparse.Namespace) -> Figures:
    with (
        tempfile.TemporaryDirectory() as folder,
        broker.embedded_broker(Path(folder) / "kafka") as kafka,
    ):
        leader = FakeLeader(kafka, Path(folder), NAME)
        leader.set_live(leader.write_generation(1, ROWS))
        return PARTS[part](options, leader)


def opening(_asked: argparse.Namespace, leader: FakeLeader) -> Figures:
    """From opening the page to a response and to drawn rows; three tables of 10,000 rows."""
    answers: list[float] = []
    again: list[float] = []
    with leader.server() as server, chrome.page(server.url) as (page, trouble):
        first = page.evaluate(INTERACTIVE)
        for _ in range(OPENINGS):
            _open(page, server.url)
            again.append(page.evaluate(INTERACTIVE))
            _open(page, server.url)
            answers.append(page.evaluate(ANSWERS))
            page.evaluate(INTERACTIVE)  # leaving the page during this would log an error
        assert not trouble, trouble
    return {
        "a fresh browser, ms until rows are drawn": first,
        "again, ms until it answers a key, median": statistics.median(answers),
        "again, ms until rows are drawn, median": statistics.median(again),
        "again, ms until rows are drawn, slowest": max(again),
    }


def _open(page: Page, url: str) -> None:
    """Open the page again, without waiting for its resources."""
    page.goto("about:blank")
    page.goto(url, wait_until="commit")


def updates(options: argparse.Namespace, leader: FakeLeader) -> Figures:
    """Many changes while the page is open: frames per second, and memory before and after."""
    with leader.server() as server, chrome.page(server.url) as (page, trouble):
        page.evaluate(INTERACTIVE)
        sending = threading.Thread(target=_send, args=(leader, options.updates, options.seconds))
        page.evaluate(FRAMES)
        sending.start()
        memory = []
        until_s = time.monotonic() + options.seconds
        while time.monotonic() < until_s:
            page.wait_for_timeout(options.seconds * 100)
            memory.append(_memory(page))
        sending.join()
        frames = page.evaluate("frames_ms.splice(0)")
        until(lambda: _changed(page, options.updates), "all changes are shown", 30)
        assert not trouble, trouble
    late = [took for took in frames if took > 1000 / 30]
    half = len(memory) // 2
    return {
        "frames per second": 1000 * len(frames) / sum(frames),
        "frames longer than 33 ms, %": 100 * len(late) / len(frames),
        "longest frame, ms": max(frames),
        "memory of the page, first half, MiB": statistics.mean(memory[:half]),
        "memory of the page, second half, MiB": statistics.mean(memory[half:]),
    }


def _send(leader: FakeLeader, count: int, seconds: float) -> None:
    started = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, started + number * seconds / count - time.monotonic()))
        leader.write(1, row("final_ui", number % ROWS, f"change {number}", number))
        if number % 10 == 0:
            leader.flush()
    leader.flush()


def _memory(page: Page) -> float:
    """MiB of the renderer processes, with JavaScript's heap and the engine's."""
    page.context.new_cdp_session(page).send("HeapProfiler.collectGarbage")
    assert page.context.browser is not None
    options = page.context.browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")
    drawing = [one["id"] for one in options["processInfo"] if one["type"] == "renderer"]
    return sum(memory_kib(pid) for pid in drawing) / 1024


def _changed(page: Page, count: int) -> bool:
    last = f"Name {(count - 1) % ROWS}, change {count - 1}"
    found: int = page.evaluate(
        """async (name) => {
            const viewer = document.querySelector("[data-table=final_ui]");
            const rows = await (await viewer.getView()).to_json();
            return rows.filter((row) => row.name === name).length;
        }""",
        last,
    )
    return found == 1


PARTS = {"opening": opening, "updates": updates}

if __name__ == "__main__":
    main()
