"""Places where a test may end the process: `LIVEJOIN_FAIL=name:2` kills it at the second visit.

At those of `REPEATED` something is done again instead. Off, as always outside of tests, a visit is
one comparison of a constant.
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
REPEATED = ("read-control",)

_ARMED = os.environ.get(VARIABLE, "")
_visits: Counter[str] = Counter()


def visit(name: str) -> None:
    """Die here, as by kill -9, if a test asked for it."""
    if _ARMED and _matches(name, NAMES):
        os.kill(os.getpid(), signal.SIGKILL)


def should_repeat(name: str) -> bool:
    """Whether a test asked for this to be done again."""
    return bool(_ARMED) and _matches(name, REPEATED)


def _matches(name: str, names: tuple[str, ...]) -> bool:
    assert name in names, name
    _visits[name] += 1
    return f"{name}:{_visits[name]}" == _ARMED
