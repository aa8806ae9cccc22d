"""What a check found, and calls that have no time limit of their own."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Literal, NamedTuple, TypeVar

from livejoin.errors import LivejoinError

Severity = Literal["ok", "warning", "BAD", "skipped"]

Returned = TypeVar("Returned")


class Finding(NamedTuple):
    """One line of the report."""

    check: str
    severity: Severity
    found: str
    advice: str = ""  # what to do next
    cluster: str = ""  # the sections of the settings that name it; empty: not about a cluster


def ok(check: str, found: str) -> Finding:
    """Nothing to do."""
    return Finding(check, "ok", found)


def warning(check: str, found: str, advice: str = "") -> Finding:
    """A start works, but perhaps not as expected."""
    return Finding(check, "warning", found, advice)


def bad(check: str, found: str, advice: str = "") -> Finding:
    """A start fails."""
    return Finding(check, "BAD", found, advice)


def failed(check: str, error: LivejoinError) -> Finding:
    """A start fails with this error."""
    return Finding(check, "BAD", error.message, error.hint)


def skipped(check: str, why: str, advice: str = "") -> Finding:
    """Not checked."""
    return Finding(check, "skipped", why, advice)


def in_background(call: Callable[[], Returned]) -> "Future[Returned]":
    """The future of a call on a thread of its own, which nobody joins: the caller waits no longer.

    Name resolution, for example, cannot be interrupted.
    """
    future: Future[Returned] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised by `result`
            future.set_exception(error)

    threading.Thread(target=run, name="doctor", daemon=True).start()
    return future
