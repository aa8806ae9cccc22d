"""The fault cases: what each does, where its tests are, and why some have none.

The tests of a case are those named after it, `test_a6_…` in tests/faults, and those in `ELSEWHERE`.
`python -m rig.cases A6` prints them as arguments for pytest.
"""

import re
import sys
from pathlib import Path

_FAULTS = Path("tests/faults")

CASES = {
    "A1": "kill -9 of Python, of the JVM and of both under traffic, half of them during a swap",
    "A2": "the process dies at each fail point, before and after every effect of the control plane",
    "A3": "10,000 seeds of 200 facts each through the pure core, with a simulated clock",
    "A4": "one query killed 50 times; a JVM that stands still",
    "A5": "a fault that never goes away kills the query again and again",
    "A6": "200 control messages in 10 s, a good part of them broken",
    "A7": "the same control records delivered again and out of order, the same id sent again",
    "A8": "topics that are missing, empty or may not be read, before, during and after a build",
    "A9": "rollback a second after the cutover, ten times under traffic",
    "A10": "the broker killed 10 times for 5 to 60 s, then stopped for 90 s",
    "A11": "a source topic deleted and made again, with fewer and with more records",
    "A12": "partitions added under load, while livejoin is down, and more than there are slots for",
    "A13": "retention deletes records before they were read",
    "A14": "two orchestrators of one name, the leader frozen",
    "A15": "a checkpoint cut, emptied, deleted or unusable; a full disk",
    "A16": "SIGTERM in the middle of a swap",
    "A17": "a leader elsewhere, with shared checkpoints, frozen and woken; then compaction",
    "A18": "livejoin's own topics deleted, while it runs and while it is down; with auto-creation",
    "A19": "clock steps of an hour and of a day, both ways",
    "A20": "each of three clusters (own, data, control) away for 60 s",
    "A21": "a server started while the ledger has rolled over many segments",
    "storm": "a seeded mixture of faults, swaps, rollbacks and viewers, 30 min by default",
    "B1": "100,000 broken records among as many good ones",
    "B2": "null, blank, huge, Unicode and numeric keys",
    "B3": "50,000 tombstones among the records",
    "B4": "fields added, removed and retyped in mid-stream",
    "B5": "one user with 10,000 rows that gets 10 records/s",
    "B6": "100,000 mutated control messages, with names that are none",
    "B7": "markup, formulas, right-to-left marks and 1 MB cells in data, topic names and errors",
    "C1": "50 new users/s and 1,950 accounts/s over 100,000 users",
    "C2": "ten times that rate for 60 s",
    "C3": "1,000 viewers",
    "C4": "200 viewers, of which 50 are slow and 20 stopped; ten readers of a million rows",
    "C5": "10,000 viewers that come and go, also half-open",
    "C6": "200 viewers through 50 swaps",
    "C7": "200 swaps in one process",
    "C8": "100 viewers with different windows over 2,000,000 rows",
    "C9": "2,000 records/s with a table at its cap, and two servers",
    "C10": "ten catch-ups of 1,000,000 × 1,000,000 in one process",
    "D1": "no, malformed, wrong, expired, revoked token, wrong role: every route and the socket",
    "D2": "foreign and null Origin, rebound Host, cross-site POST",
    "D3": "a viewer that tries to write: 100,000 fuzzed frames",
    "D4": "OIDC tokens that expire, an identity provider that goes away, a change of its keys",
    "D5": "wrong CA, wrong host name, expired certificate, plaintext",
    "D6": "canary secrets in settings and data, with everything at DEBUG",
    "D7": "only the documented rights; then each one removed",
    "D8": "floods of handshakes, slow requests, huge frames, many subscriptions",
}

# Tests outside tests/faults that are a case or part of one. `make test` runs them as well.
_SECRETS = "tests/scenarios/test_secure_kafka.py"
ELSEWHERE = {
    "tests/core/test_simulation.py::test_invariants_hold_for_every_seed": "A3",
    "tests/tables/auth/test_rights.py": "D1",
    "tests/tables/auth/test_origin_check.py": "D2",
    "tests/pipeline/test_certificates.py": "D5",
    f"{_SECRETS}::test_a_swap_over_oauthbearer_shows_no_secret_anywhere": "D6",
}

# Cases that cannot be run, or not yet.
REASONS = {
    "C8": "windows that the server computes do not exist yet",
}
NO_RUN = "no run of it has been recorded yet"


def tests_of(case: str) -> list[str]:
    """Return the pytest arguments for a case, or for all cases."""
    if not case:
        return [str(_FAULTS), *ELSEWHERE]
    named = re.compile(rf"^def (test_{re.escape(case.lower())}_\w+)", re.MULTILINE)
    found = [
        f"{file}::{test}"
        for file in sorted(_FAULTS.glob("test_*.py"))
        for test in named.findall(file.read_text())
    ]
    return found + [test for test, its in ELSEWHERE.items() if its == case.upper()]


if __name__ == "__main__":
    case = sys.argv[1] if len(sys.argv) > 1 else ""
    tests = tests_of(case)
    if not tests:
        known = ", ".join(CASES)
        sys.exit(f"livejoin: there is no test of case {case}; the cases are {known}")
    print(" ".join(tests))
