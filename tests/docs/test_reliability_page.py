"""docs/reliability.md is generated from its data; run this file to regenerate it."""

import re

from rig import reliability, results
from rig.cases import CASES, ELSEWHERE, REASONS
from rig.figures import Figures
from rig.results import ROOT


def _tests() -> set[str]:
    files = [*ROOT.glob("tests/faults/test_*.py"), *(ROOT / _file(nodeid) for nodeid in ELSEWHERE)]
    return {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())}


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def test_the_page_is_up_to_date() -> None:
    page = reliability.page(results.load())
    hint = "regenerate it: python tests/docs/test_reliability_page.py"
    assert reliability.PAGE.read_text() == page, hint


def test_every_case_has_tests_or_a_reason() -> None:
    tested = {results.case_of(test) for test in _tests()} | set(ELSEWHERE.values())
    missing = [case for case in CASES if case not in tested and case not in REASONS]
    assert missing == []
    assert [case for case in REASONS if case in tested] == [], (
        "the case has tests now: remove the reason"
    )


def test_results_belong_to_existing_tests_and_cases() -> None:
    recorded, tests = results.load(), _tests()
    assert set(recorded) <= {*CASES, reliability.OTHER}
    unknown = [
        test
        for case_results in recorded.values()
        for test in case_results
        if test.partition("[")[0] not in tests
    ]
    assert unknown == []


def test_tests_in_other_folders_exist() -> None:
    for nodeid in ELSEWHERE:
        name = nodeid.partition("::")[2]
        assert not name or f"def {name}(" in (ROOT / _file(nodeid)).read_text(), nodeid


def test_a_note_of_several_tests_stands_once() -> None:
    one, other = Figures().note("brokers as they are"), Figures().note("brokers as they are")
    recorded = {
        "A1": {
            "test_a1_one": results.result("passed", "", 1, one),
            "test_a1_two": results.result("passed", "", 1, other.note("only here")),
        },
    }
    lines = [line for line in reliability.page(recorded).splitlines() if line.startswith("- A1")]
    assert lines == ["- A1: brokers as they are (2 tests)", "- A1: only here"]


def test_a_line_sums_up_its_tests() -> None:
    passed = Figures().seeded(7).landed(kills=2, swaps=1).checked(rows=10, cells=40).recovered(3)
    failed = Figures().seeded(7).landed(kills=3).checked(5, 20, lost=1, wrong=2).recovered(9.25)
    recorded = {
        "A1": {
            "test_a1_one": results.result("passed", "", 1.5, passed),
            "test_a1_two": results.result("failed", "a | b", 2, failed.note("a figure")),
        },
        "A2": {"test_a2_one": results.result("skipped", "no strace", 0, Figures())},
    }
    page = reliability.page(recorded)
    (line,) = [line for line in page.splitlines() if line.startswith("| A1 ")]
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    assert cells[2:12] == [
        *("1 passed, 1 failed; a \\| b", "7", "5 kills, 1 swaps", "15", "60", "1", "2", "0"),
        *("9.2 s", "4 s"),
    ]
    assert "- A1: a figure" in page
    totals = ("cases run", "passed", "failed", "skipped", "kills", "swaps", "rows compared")
    assert f"| {' | '.join(totals)} |" in page
    # totals leave out what failed tests did, but include lost and wrong rows
    assert "| 1 of 47 | 1 | 1 | 1 | 2 | 1 | 10 | 40 | 1 | 2 | 0 |" in page


def test_a_case_without_a_run_has_a_reason() -> None:
    lines = reliability.page({}).splitlines()
    assert [line for line in lines if line.startswith("| C8 ") and REASONS["C8"] in line]
    assert [line for line in lines if line.startswith("| A6 ") and "no run of it" in line]


if __name__ == "__main__":
    reliability.write()
    print(f"wrote {reliability.PAGE}")
