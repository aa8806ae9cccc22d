"""The file of results, docs/reliability.json: what each test of a case came to, when, on what.

Each test's result carries its own commit, date and machine, so that cases may be run one by one.
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
    """The case that a test's name says it belongs to."""
    named = _NAMED.match(test)
    if named is None:
        return None
    return "storm" if named[1] == "storm" else named[1].upper()


def load() -> Results:
    """All that was kept."""
    found: Results = json.loads(DATA.read_text()) if DATA.exists() else {}
    return found


def keep(case: str, test: str, result: Result) -> None:
    """Put a test's newest result in the place of the one before."""
    folder = os.open(DATA.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # another part of the cases may be running
        kept = load()
        kept.setdefault(case, {})[test] = result
        beside = DATA.with_suffix(".new")  # somebody may stop us in mid-write
        beside.write_text(_text(kept))
        beside.replace(DATA)
    finally:
        os.close(folder)


def _text(kept: Results) -> str:
    """One test, one line: a run that changes one changes one line."""
    cases = []
    for case, tests in sorted(kept.items()):
        lines = [f"  {_json(test)}: {_json(of)}" for test, of in sorted(tests.items())]
        cases.append(f" {_json(case)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(cases) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def result(outcome: str, why: str, seconds: float, figures: Figures) -> Result:
    """A test's result as it is kept."""
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
    """What is checked out, as of the first call; with a + if code was changed since."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        return "unknown"
    head = _git("rev-parse", "--short=9", "HEAD")
    changed = _git("status", "--porcelain", "--", "src", "tests", "web")
    return head + ("+" if changed else "")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def machine() -> str:
    """As far as it matters for figures."""
    told = Path("/proc/meminfo").read_text()
    kib = int(told.partition("MemTotal:")[2].split()[0])
    return f"{os.cpu_count()} cores, {kib / (1 << 20):.0f} GiB"
