"""O7: replaced generations leave nothing behind in a server's memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

TESTS = Path(__file__).parents[2]
ALLOWED = 1.1


def _rss_after_swaps(swaps: int, *more: str) -> list[int]:
    """Resident bytes after each swap."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    program = TESTS / "tables" / "swapping.py"
    result = subprocess.run(
        [sys.executable, str(program), str(swaps), *more],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        env=env,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["generation"] for line in lines] == list(range(1, swaps + 1))
    return [line["rss"] for line in lines]


def test_after_50_swaps_of_100_000_rows_a_server_is_as_large_as_after_5() -> None:
    rss = _rss_after_swaps(50)
    # one frame in flight more or less is some 8 %, hence medians
    settled, last = median(rss[3:13]), median(rss[-10:])
    assert last <= ALLOWED * settled, [size >> 20 for size in rss]


def test_a_leaked_generation_would_be_detected() -> None:
    rss = _rss_after_swaps(9, "keep")
    assert rss[-1] > ALLOWED * rss[4], [size >> 20 for size in rss]
