"""Seconds from `make demo`, with everything cached, to the first row of `final_ui` on the page."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from browser import chrome
from browser.pictures import wait_for

ROOT = Path(__file__).parents[1]
OUT = Path(__file__).parent / "out" / "first_row.json"
SHOWN = """async () => { // none yet, or none while the first rows come
    const view = await document.querySelector('[data-table=final_ui]').getView().catch(() => null);
    return view ? view.num_rows() : 0;
}"""


def main() -> None:
    """Start the demo in an empty folder, open its page, print the time."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        demo = subprocess.Popen(
            ["make", "demo"],
            cwd=ROOT,
            env={**os.environ, "XDG_STATE_HOME": folder, "LIVEJOIN_HTTP__INSECURE": "true"},
            start_new_session=True,
        )
        try:
            wait_for(10000)
            served = time.monotonic() - started
            with chrome.page("http://127.0.0.1:10000/") as (page, _):
                page.wait_for_selector("#strip[data-state=live]", timeout=120_000)
                while not page.evaluate(SHOWN):
                    page.wait_for_timeout(20)
                took = time.monotonic() - started
        finally:
            os.killpg(demo.pid, signal.SIGINT)
            demo.wait(30)
    print(f"page served after {served:.1f} s, first row after {took:.1f} s")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"served_s": served, "first_row_s": took}) + "\n")


if __name__ == "__main__":
    main()
