"""Warms up a fresh JVM: runs a few short batches in a query that reads nothing.

The first end of a batch takes two to three times as long as later ones, since its code has never
run in this JVM. Without the warm-up, live rows would wait for it.
"""

import gc
import threading
import time
from typing import NamedTuple

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from livejoin.core.generation import Generation
from livejoin.errors import LivejoinError, QueryFailed, first_line
from livejoin.pipeline.queries import Queries

log = structlog.get_logger()

_POLL_S = 0.5
_CANCEL_S = 20.0
_BATCHES = 3  # after two, the end of the next batch took 1.2 s; after three, 0.8 s


class _Due(NamedTuple):
    at: float
    generation: Generation


class BatchWarmUp:
    """Runs once per JVM, some time after a generation is live; a starting query cancels it."""

    def __init__(self, queries: Queries, after_s: float) -> None:
        self._queries = queries
        self._after_s = after_s
        self._due: _Due | None = None
        self._busy = threading.Lock()

    def schedule(self, generation: Generation) -> None:
        """Run it after the delay, with a query like this generation's."""
        if self._queries.needs_warm_up:
            self._due = _Due(time.monotonic() + self._after_s, generation)

    def cancel(self) -> None:
        """Cancel it, and wait until its slots are free."""
        self._due = None
        if not self._busy.acquire(timeout=_CANCEL_S):
            raise QueryFailed(
                f"the warm-up query did not stop within {_CANCEL_S:.0f} s", hint="See Spark's log."
            )
        self._busy.release()

    def run(self, running: dict[int, Generation], stop: threading.Event) -> None:
        """Run it whenever it is due, until stopped."""
        while not stop.wait(_POLL_S):
            due = self._due
            if due is None or time.monotonic() < due.at:
                continue
            with self._busy:
                # not cancelled meanwhile, and there are enough slots
                if self._due is due and self._queries.has_free_slots(
                    list(running.values()), due.generation
                ):
                    self._run_batches(due, stop)

    def _run_batches(self, due: _Due, stop: threading.Event) -> None:
        began = time.monotonic()
        try:
            with self._queries.idle_query(due.generation) as completed:
                while self._due is due and completed() < _BATCHES and not stop.wait(_POLL_S):
                    pass
                took_s = round(time.monotonic() - began, 1)
                log.debug("warmed up", batches=completed(), took_s=took_s)
        except (LivejoinError, PySparkException, Py4JError, OSError) as error:
            # harmless: the first end of a batch takes longer
            log.info("warm-up failed", why=first_line(error))
        gc.collect()  # as in Queries.stop
        if self._due is due:
            self._due = None
