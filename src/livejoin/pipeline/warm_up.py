"""Has batches end a few times in a fresh JVM, in a query that reads nothing.

The first end of a batch takes two to three times as long as the next ones: what it needs has never
run, and is compiled while rows wait for it. Here nobody waits.
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
_BATCHES = 3  # of batches: after two of them the next one took 1.2 s, after three 0.8


class _Due(NamedTuple):
    at: float
    generation: Generation


class BatchWarmUp:
    """Once for each JVM, a while after something is live; over as soon as a query is to start."""

    def __init__(self, queries: Queries, after_s: float) -> None:
        self._queries = queries
        self._after_s = after_s
        self._due: _Due | None = None
        self._busy = threading.Lock()

    def schedule(self, generation: Generation) -> None:
        """Have it in a while, with a query like this generation's."""
        if self._queries.needs_warm_up:
            self._due = _Due(time.monotonic() + self._after_s, generation)

    def cancel(self) -> None:
        """Have it over, and not begin: its slots are needed."""
        self._due = None
        if not self._busy.acquire(timeout=_CANCEL_S):
            raise QueryFailed(
                f"a rehearsal did not end within {_CANCEL_S:.0f} s", hint="Spark's log says why."
            )
        self._busy.release()

    def run(self, running: dict[int, Generation], stop: threading.Event) -> None:
        """Have it when it is due, until told to stop."""
        while not stop.wait(_POLL_S):
            due = self._due
            if due is None or time.monotonic() < due.at:
                continue
            with self._busy:
                # nobody needed its slots just now, and there are enough
                if self._due is due and self._queries.has_free_slots(list(running.values())):
                    self._run_batches(due, stop)

    def _run_batches(self, due: _Due, stop: threading.Event) -> None:
        began = time.monotonic()
        try:
            with self._queries.idle_query(due.generation) as ends:
                while self._due is due and ends() < _BATCHES and not stop.wait(_POLL_S):
                    pass
                log.debug("rehearsed", ends=ends(), took_s=round(time.monotonic() - began, 1))
        except (LivejoinError, PySparkException, Py4JError, OSError) as error:
            # nothing depends on it: the first end of a batch takes longer
            log.info("ends of batches were not rehearsed", why=first_line(error))
        gc.collect()  # as after any query: the JVM keeps what stands for its objects here
        if self._due is due:
            self._due = None
