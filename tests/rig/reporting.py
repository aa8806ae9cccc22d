"""Hooks of pytest that store the results of the fault cases; imported by `tests/conftest.py`.

With `FAULTS_REPORT=1`, which `make faults REPORT=1` sets, results are written to
docs/reliability.json and the page after every test, so an interrupted run keeps its results.
"""

import os
from collections.abc import Generator

import pytest

from rig import figures, reliability, results

REPORT = os.environ.get("FAULTS_REPORT", "") == "1"
_outcomes = pytest.StashKey[dict[str, pytest.TestReport]]()


@pytest.fixture
def case() -> figures.Figures:
    """The figures of this test, for those that only the test knows."""
    return figures.now()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    figures.begin()
    results.commit()  # at the start of the test, since somebody may commit while it runs
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
    """Failed if any phase failed; skipped only if nothing was run."""
    seconds = sum(phase_report.duration for phase_report in reports.values())
    for outcome in ("failed", "skipped"):
        for phase_report in reports.values():
            if phase_report.outcome == outcome:
                return results.result(outcome, _why(phase_report), seconds, now)
    return results.result("passed", "", seconds, now)


def _why(report: pytest.TestReport) -> str:
    """Return the first line of the failure."""
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else report.longreprtext).splitlines()[0][:200]
