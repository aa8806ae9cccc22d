"""Hooks of pytest that keep what a test of a case came to; `tests/conftest.py` takes them in.

With `FAULTS_REPORT=1`, as `make faults REPORT=1` sets it, results go to docs/reliability.json and
the page is drawn anew after every test: a long run that is stopped leaves what it has.
"""

import os
from collections.abc import Generator

import pytest

from rig import figures, reliability, results

REPORT = os.environ.get("FAULTS_REPORT", "") == "1"
_outcomes = pytest.StashKey[dict[str, pytest.TestReport]]()


@pytest.fixture
def case() -> figures.Figures:
    """The figures of this test, for what only it knows."""
    return figures.now()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    figures.begin()
    results.commit()  # as the test begins: somebody may commit while it runs
    item.stash[_outcomes] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    case = reliability.case_of(item.nodeid)
    if case is None:
        return report
    reports = item.stash[_outcomes]
    reports[report.when or ""] = report
    if report.when == "teardown":
        now = figures.now()
        report.sections.append(("Figures at teardown", str(now.as_json())))
        if REPORT:
            results.keep(case, item.name, _result(reports, now))
            reliability.write()
    return report


def _result(reports: dict[str, pytest.TestReport], now: figures.Figures) -> results.Result:
    """Failed if any phase did; skipped only if nothing was done."""
    seconds = sum(one.duration for one in reports.values())
    for outcome in ("failed", "skipped"):
        for one in reports.values():
            if one.outcome == outcome:
                return results.result(outcome, _why(one), seconds, now)
    return results.result("passed", "", seconds, now)


def _why(report: pytest.TestReport) -> str:
    """The first line that says what was wrong."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else report.longreprtext).splitlines()[0][:200]
