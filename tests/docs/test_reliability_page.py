"""docs/reliability.md is drawn from its data; run as a script, this draws it."""

import re

from rig import reliability, results
from rig.cases import CASES, ELSEWHERE, REASONS
from rig.figures import Figures
from rig.results import ROOT


def _tests() -> set[str]:
    files = [*ROOT.glob("tests/faults/test_*.py"), *(ROOT / _file(one) for one in ELSEWHERE)]
    return {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())}


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def test_the_page_is_what_the_data_give() -> None:
    drawn = reliability.page(results.load())
    said = "python tests/docs/test_reliability_page.py draws it anew"
    assert reliability.PAGE.read_text() == drawn, said


def test_every_case_has_tests_or_a_reason() -> None:
    named = {results.case_of(test) for test in _tests()} | set(ELSEWHERE.values())
    missing = [case for case in CASES if case not in named and case not in REASONS]
    assert missing == []
    assert [case for case in REASONS if case in named] == [], "it has tests now"


def test_what_is_recorded_is_of_tests_and_cases_that_exist() -> None:
    kept, tests = results.load(), _tests()
    assert set(kept) <= {*CASES, reliability.OTHER}
    gone = [test for ran in kept.values() for test in ran if test.partition("[")[0] not in tests]
    assert gone == []


def test_each_part_of_a_test_elsewhere_exists() -> None:
    for start in ELSEWHERE:
        name = start.partition("::")[2]
        assert not name or f"def {name}(" in (ROOT / _file(start)).read_text(), start


def test_a_line_adds_up_what_its_tests_have_done() -> None:
    one = Figures().seeded(7).landed(kills=2, swaps=1).checked(rows=10, cells=40).recovered(3)
    two = Figures().seeded(7).landed(kills=3).checked(5, 20, lost=1, wrong=2).recovered(9.25)
    kept = {
        "A1": {
            "test_a1_one": results.result("passed", "", 1.5, one),
            "test_a1_two": results.result("failed", "a | b", 2, two.note("a figure")),
        },
        "A2": {"test_a2_one": results.result("skipped", "no strace", 0, Figures())},
    }
    drawn = reliability.page(kept)
    (line,) = [line for line in drawn.splitlines() if line.startswith("| A1 ")]
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    assert cells[2:12] == [
        *("1 passed, 1 failed; a \\| b", "7", "5 kills, 1 swaps", "15", "60", "1", "2", "0"),
        *("9.2 s", "4 s"),
    ]
    assert "- A1: a figure" in drawn
    totals = ("cases run", "passed", "failed", "skipped", "kills", "swaps", "rows compared")
    assert f"| {' | '.join(totals)} |" in drawn
    # what a test did that failed is in its line, and not in the totals; what went wrong is
    assert "| 1 of 47 | 1 | 1 | 1 | 2 | 1 | 10 | 40 | 1 | 2 | 0 |" in drawn


def test_a_case_without_a_run_says_why() -> None:
    drawn = reliability.page({}).splitlines()
    assert [line for line in drawn if line.startswith("| A20 ") and REASONS["A20"] in line]
    assert [line for line in drawn if line.startswith("| A6 ") and "no run of it" in line]


if __name__ == "__main__":
    reliability.write()
    print(f"wrote {reliability.PAGE}")
