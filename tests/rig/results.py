"""The file of results, docs/reliability.json: outcome, date, commit and machine of each test.

Each result has its own commit, date and machine, so that cases can be run one by one.
"""

import fcntl
import functools
import json
import os
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rig.figures import Figures

ROOT = Path(__file__).parents[2]
DATA = ROOT / "docs" / "reliability.json"
_NAMED = re.compile(r"test_(storm|[abcd]\d+)_")

Result = dict[str, Any]
Results = dict[str, dict[str, Result]]  # by case, then by test


def case_of(test: str) -> str | None:
    """Return the case in the name of a test."""
    named = _NAMED.match(test)
    if named is None:
        return None
    return "storm" if named[1] == "storm" else named[1].upper()


def load() -> Results:
    """Return all stored results."""
    found: Results = json.loads(DATA.read_text()) if DATA.exists() else {}
    return found


def keep(case: str, test: str, result: Result) -> None:
    """Replace the stored result of a test."""
    folder = os.open(DATA.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # other cases may be running in parallel
        stored = load()
        stored.setdefault(case, {})[test] = result
        temporary_file = DATA.with_suffix(".new")  # in case of an interrupted write
        temporary_file.write_text(_text(stored))
        temporary_file.replace(DATA)
    finally:
        os.close(folder)


def _text(stored: Results) -> str:
    """One line per test, so that a run of one test changes one line."""
    cases = []
    for case, tests in sorted(stored.items()):
        lines = [
            f"  {_json(test)}: {_json(test_result)}" for test, test_result in sorted(tests.items())
        ]
        cases.append(f" {_json(case)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(cases) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def result(outcome: str, why: str, seconds: float, figures: Figures) -> Result:
    """Return the result of a test as it is stored."""
    return {
        "outcome": outcome,
        "why": why,
        "seconds": round(seconds, 1),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "machine": machine(),
        **figures.as_json(),
    }


@functools.cache
def commit() -> str:
    """Return the commit as of the first call, with a + if code was changed since."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        return "unknown"
    head = _git("rev-parse", "--short=9", "HEAD")
    changed = _git("status", "--porcelain", "--", "src", "tests", "web")
    return head + ("+" if changed else "")


def _git(*words: str) -> str:
    test_result = subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return test_result.stdout.strip()


def machine() -> str:
    """Return cores and memory."""
    meminfo = Path("/proc/meminfo").read_text()
    kib = int(meminfo.partition("MemTotal:")[2].split()[0])
    return f"{os.cpu_count()} cores, {kib / (1 << 20):.0f} GiB"
