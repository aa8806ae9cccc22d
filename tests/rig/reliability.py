"""docs/reliability.md, generated from docs/reliability.json: one line per fault case.

`make faults REPORT=1` writes both. The page alone: `PYTHONPATH=tests python
tests/docs/test_reliability_page.py`.
"""

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence

from rig import results
from rig.cases import CASES, ELSEWHERE, NO_RUN, REASONS
from rig.results import ROOT, Result, Results

PAGE = ROOT / "docs" / "reliability.md"
OTHER = "other"

HEAD = """# What livejoin has been put through

Generated from [reliability.json](reliability.json), which `make faults REPORT=1` updates case by
case (`CASE=A6` runs one). Each line gives commit, machine and date of its run; a + after the
commit means uncommitted changes. *Landed* counts the faults and actions that were carried out; a
test that fails may have carried out fewer. *Rows* and *cells* were compared with the expected
ones: the result of a batch join over the acknowledged records or, where the table server is
tested alone, the records of its changelog; over HTTP, at a viewer's socket, or both. The totals
in the first table are of tests that passed, except rows lost, cells wrong and viewers dropped,
which are of all tests.
"""

NOT_PROMISED = """## What is not promised

- **No transaction across topics.** Tables show the records read from each source so far; a
  user and an account that were produced together may appear one after the other.
- **A frozen leader that writes late.** If nobody leads for longer than a changelog's
  `min.compaction.lag.ms` (an hour), compaction may keep the late write of a leader that was frozen.
- **The changelog is at least once.** After a restart records are repeated; readers must go by the
  version in each row, as livejoin's own table servers do.
- **Disk.** The state of a join on disk grows with the number of records read.
- **A rebuild reads what Kafka still has.** After retention or compaction of a source topic, a
  rebuilt generation has fewer rows than the previous one.
"""
_COLUMNS = (
    *("case", "what happens", "result", "seed", "landed", "rows", "cells", "lost", "wrong"),
    *("viewers dropped", "worst recovery", "took", "commit", "date", "machine"),
)
_GROUPS = {
    "Faults": ("A", "storm"),
    "Bad input": ("B",),
    "Load": ("C",),
    "Security": ("D",),
}


def case_of(nodeid: str) -> str | None:
    """Return the case of a test; tests in tests/faults without a case belong to OTHER."""
    named = next((case for start, case in ELSEWHERE.items() if nodeid.startswith(start)), None)
    if named is None and nodeid.startswith("tests/faults/"):
        return results.case_of(nodeid.rpartition("::")[2]) or OTHER
    return named


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(results.load()))


def page(kept: Results) -> str:
    """Return the whole page."""
    parts = [HEAD, _totals(kept)]
    for title, starts in _GROUPS.items():
        group_cases = [case for case in CASES if case.startswith(starts)]
        lines = [_line(case, CASES[case], kept.get(case, {})) for case in group_cases]
        parts.append(_section(title, lines, _notes(group_cases, kept)))
    if others := kept.get(OTHER, {}):
        lines = [_line("", f"`{test}`", {test: one}) for test, one in others.items()]
        parts.append(_section("Further fault tests", lines, _notes([OTHER], kept)))
    return "\n".join([*parts, NOT_PROMISED])


def _section(title: str, lines: Sequence[str], notes: Sequence[str]) -> str:
    head = [f"| {' | '.join(_COLUMNS)} |", "|" + "---|" * len(_COLUMNS)]
    return "\n".join([f"## {title}", "", *head, *lines, "", *notes, *([""] if notes else [])])


def _totals(kept: Results) -> str:
    """Totals of all recorded runs; actions count only where the test passed."""
    all_tests = [test for tests in kept.values() for test in tests.values()]
    outcomes = Counter(all_test["outcome"] for all_test in all_tests)
    passed = [all_test for all_test in all_tests if all_test["outcome"] == "passed"]
    landed = _landed(passed)
    sums = {what: sum(one[what] for one in passed) for what in ("rows", "cells")}
    # errors count in failed tests too
    sums |= {
        what: sum(all_test[what] for all_test in all_tests) for what in ("lost", "wrong", "dropped")
    }
    run = sum(
        any(one["outcome"] != "skipped" for one in kept.get(case, {}).values()) for case in CASES
    )
    figures = {
        "cases run": f"{run} of {len(CASES)}",
        **{outcome: f"{outcomes[outcome]:,}" for outcome in ("passed", "failed", "skipped")},
        "kills": f"{landed['kills']:,}",
        "swaps": f"{landed['swaps']:,}",
        "rows compared": f"{sums['rows']:,}",
        "cells compared": f"{sums['cells']:,}",
        "rows lost": f"{sums['lost']:,}",
        "cells wrong": f"{sums['wrong']:,}",
        "viewers dropped": f"{sums['dropped']:,}",
    }
    head = [f"| {' | '.join(figures)} |", "|" + "---|" * len(figures)]
    return "\n".join([*head, f"| {' | '.join(figures.values())} |", ""])


def _line(case: str, what: str, tests: dict[str, Result]) -> str:
    if not tests:
        why = REASONS.get(case, NO_RUN)
        return f"| {case} | {what} | {why} |" + " |" * (len(_COLUMNS) - 3)
    ran = list(tests.values())
    landed = ", ".join(f"{count:,} {kind}" for kind, count in sorted(_landed(ran).items()))
    recoveries = [one["worst_recovery_s"] for one in ran if one["worst_recovery_s"] is not None]
    cells = (
        *(case, what, _result(tests)),
        _each(one["seed"] for one in ran),
        landed,
        *(_sum(ran, what) for what in ("rows", "cells", "lost", "wrong", "dropped")),
        f"{max(recoveries):g} s" if recoveries else "",
        f"{sum(one['seconds'] for one in ran):.0f} s",
        *(_each(one[what] for one in ran) for what in ("commit", "date", "machine")),
    )
    return f"| {' | '.join(cells)} |"


def _landed(ran: Iterable[Result]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in ran:
        total.update(one["landed"])
    return total


def _sum(ran: Sequence[Result], what: str) -> str:
    """Blank if nothing was compared: a zero says that it was."""
    compared = any(one["rows"] or one["dropped"] or one["lost"] or one["wrong"] for one in ran)
    return f"{sum(one[what] for one in ran):,}" if compared else ""


def _result(tests: dict[str, Result]) -> str:
    counts = Counter(test["outcome"] for test in tests.values())
    text = ", ".join(f"{counts[o]} {o}" for o in ("passed", "failed", "skipped") if counts[o])
    whys = dict.fromkeys(test["why"] for test in tests.values() if test["why"])
    return "; ".join([text, *map(_escaped, whys)])


def _each(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(str(one) for one in values if one is not None))


def _notes(cases: Sequence[str], kept: Results) -> list[str]:
    """The notes of the tests; one that several tests of a case have stands once."""
    lines = []
    for case in cases:
        counts = Counter(note for one in kept.get(case, {}).values() for note in one["notes"])
        for note, count in counts.items():
            of = f" ({count} tests)" if count > 1 else ""
            text = f"- {case}: {_escaped(note)}{of}"
            lines += textwrap.wrap(text, 120, subsequent_indent="  ")
    return lines


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
