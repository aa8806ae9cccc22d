"""Carries out steps: the dull place where the plan meets Kafka and Spark. Nothing here decides."""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, assert_never

import structlog

from livejoin.control.ledger import Ledger
from livejoin.core import facts, plan
from livejoin.core.generation import Generation, Line, Reading
from livejoin.core.spec import Choice
from livejoin.errors import LivejoinError

log = structlog.get_logger()

Inbox = queue.Queue[facts.Fact]
_SETTLED_S = 60  # a query that ran this long had moved on
_WORKERS = 4


class Pipeline(Protocol):
    """What runs generations."""

    def resolve(self, choice: Choice) -> Mapping[str, Reading]:
        """Where a new generation would read."""

    def start(self, generation: Generation) -> None:
        """Have its query running."""

    def stop(self, generation: int) -> None:
        """Have its query not running."""

    def catch_up(
        self, generation: Generation, progressed: Callable[[int], None], stopped: Callable[[], bool]
    ) -> int | None:
        """Where in the changelog its tables are complete, once they are."""

    def reachable(self) -> bool:
        """Whether Kafka answers now."""


class Executor:
    """Makes plans true. Long work runs on workers and comes back as facts."""

    def __init__(self, inbox: Inbox, ledger: Ledger, pipeline: Pipeline) -> None:
        self._inbox = inbox
        self._ledger = ledger
        self._pipeline = pipeline
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="executor")
        self._stop = threading.Event()
        self._resolving: set[int] = set()
        self._started: dict[int, float] = {}  # generations that should run, and since when
        self._ended: dict[int, threading.Event] = {}  # set when one should not run any more

    def close(self) -> None:
        """Stop everything that runs here."""
        self._stop.set()
        self._workers.shutdown(wait=True, cancel_futures=True)

    def carry_out(self, step: plan.Step) -> None:
        """Do one step."""
        match step:
            case plan.Tell(lines):
                self._ledger.tell(lines)
                for line in lines:
                    _to_console(line)
                self._inbox.put(facts.Told(lines[-1].id))
            case plan.Show(status):
                self._ledger.show(status)
            case plan.Resolve(generation):
                if generation.number not in self._resolving:
                    self._resolving.add(generation.number)
                    self._workers.submit(self._resolve, generation)
            case plan.Run(generations):
                self._run(generations)
            case _:
                assert_never(step)

    # --- told by the queries

    def ran(self, generation: int) -> None:
        """A query is at work."""
        self._inbox.put(facts.Ran(generation))

    def died(self, generation: int, why: str) -> None:
        """A query ended by itself."""
        settled = time.monotonic() - self._started.get(generation, 0.0) > _SETTLED_S
        counts = not settled and self._pipeline.reachable()
        self._inbox.put(facts.Died(generation, why, counts))

    # --- inside

    def _resolve(self, generation: Generation) -> None:
        try:
            sources = self._pipeline.resolve(generation.choice)
            self._inbox.put(facts.Resolved(generation.number, sources))
        except Exception as error:  # noqa: BLE001 - whatever a step dies of becomes a fact
            self._inbox.put(facts.NotResolved(generation.number, str(error)))
        finally:
            self._resolving.discard(generation.number)

    def _run(self, generations: tuple[Generation, ...]) -> None:
        wanted = {generation.number: generation for generation in generations}
        for number in self._started.keys() - wanted.keys():
            del self._started[number]
            self._ended.pop(number).set()
            self._workers.submit(self._stop_query, number)
        for number in wanted.keys() - self._started.keys():
            self._started[number] = time.monotonic()
            ended = self._ended[number] = threading.Event()
            self._workers.submit(self._start_query, wanted[number], ended)

    def _start_query(self, generation: Generation, ended: threading.Event) -> None:
        number = generation.number
        try:
            self._pipeline.start(generation)
            if generation.ready_at is None:
                ready_at = self._pipeline.catch_up(
                    generation,
                    progressed=lambda percent: self._inbox.put(facts.Progressed(number, percent)),
                    stopped=lambda: ended.is_set() or self._stop.is_set(),
                )
                if ready_at is not None:
                    self._inbox.put(facts.CaughtUp(number, ready_at))
        except Exception as error:  # noqa: BLE001 - whatever a step dies of becomes a fact
            self.died(number, str(error))

    def _stop_query(self, number: int) -> None:
        try:
            self._pipeline.stop(number)
        except LivejoinError as error:
            why = str(error)
            log.error("could not stop a query", generation=number, why=why)  # noqa: TRY400 - no trace for people


def _to_console(line: Line) -> None:
    {"INFO": log.info, "WARN": log.warning, "ERROR": log.error}[line.level](line.msg)
