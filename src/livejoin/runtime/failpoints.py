"""Points at which a test can kill the process: `LIVEJOIN_FAIL=name:2` kills at the second visit.

At the points of `REPEATED` an action is repeated instead. Outside of tests a visit costs one
comparison.
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
FIRST_START = ("in-history",)  # visited for each message of a control topic that is new to us
REPEATED = ("read-control",)

_ARMED = os.environ.get(VARIABLE, "")
_visits: Counter[str] = Counter()


def visit(name: str) -> None:
    """Kill the process, as kill -9 does, if a test requested it here."""
    if _ARMED and _matches(name, NAMES + FIRST_START):
        os.kill(os.getpid(), signal.SIGKILL)


def should_repeat(name: str) -> bool:
    """Whether a test requested to repeat the action here."""
    return bool(_ARMED) and _matches(name, REPEATED)


def _matches(name: str, names: tuple[str, ...]) -> bool:
    assert name in names, name
    _visits[name] += 1
    return f"{name}:{_visits[name]}" == _ARMED
