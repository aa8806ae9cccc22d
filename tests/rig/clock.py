"""A wall clock that can be set, for Python processes started with its `env`."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

# Python runs this at startup, before anything else. Reading a file of a few bytes takes 10 µs.
_CLOCK = """
import pathlib, time
ahead, real = pathlib.Path({file!r}), time.time
time.time = lambda: real() + float(ahead.read_text() or 0)
"""


class ClockStep(NamedTuple):
    """From this real time on, the clock was so far ahead."""

    since: datetime
    ahead_s: float


def started_right() -> list[ClockStep]:
    """The steps of a clock that is right, from now on."""
    return [ClockStep(datetime.now(UTC), 0)]


def real_time(shown: datetime, steps: Sequence[ClockStep], now: datetime) -> datetime:
    """The real time, before now, at which a clock with these steps has shown a time."""
    ends = [*(step.since for step in steps[1:]), now]
    reals = [shown - timedelta(seconds=step.ahead_s) for step in steps]
    # the one within its step, or next to it: a step is not recorded at the very moment
    spans = zip(reals, steps, ends, strict=True)
    return min(
        spans, key=lambda span: max(timedelta(), span[1].since - span[0], span[0] - span[2])
    )[0]


class Clock:
    """A clock that is ahead of the real one by some seconds, or behind it."""

    def __init__(self, folder: Path) -> None:
        site = folder / "site"
        site.mkdir(parents=True)
        self._file = folder / "ahead"
        self.set(0)
        (site / "sitecustomize.py").write_text(_CLOCK.format(file=str(self._file)))
        path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
        self.env = {"PYTHONPATH": path}

    def set(self, ahead_s: float) -> None:
        """Step the clock of all running and future processes."""
        temporary_file = self._file.with_suffix(".new")
        temporary_file.write_text(str(ahead_s))
        temporary_file.replace(self._file)
