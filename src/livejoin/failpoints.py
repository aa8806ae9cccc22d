"""Places where a test may end the process: `LIVEJOIN_FAIL=name:2` kills it at the second visit.

Off, as always outside of tests, a visit is one comparison of a constant.
"""

import os
import signal
from collections import Counter

VARIABLE = "LIVEJOIN_FAIL"
NAMES = (
    "before-ledger",
    "in-ledger",
    "after-ledger",
    "before-resolve",
    "before-changelog",
    "after-changelog",
    "after-start",
    "before-stop",
    "after-stop",
    "before-delete",
    "after-delete",
    "after-checkpoint",
    "after-lead",
)

_ARMED = os.environ.get(VARIABLE, "")
_visits: Counter[str] = Counter()


def visit(name: str) -> None:
    """Die here, as by kill -9, if a test asked for it."""
    if _ARMED:
        assert name in NAMES, name
        _visits[name] += 1
        if f"{name}:{_visits[name]}" == _ARMED:
            os.kill(os.getpid(), signal.SIGKILL)
