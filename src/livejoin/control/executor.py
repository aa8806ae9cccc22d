"""Carries out steps: the dull place where the plan meets Kafka and Spark. Nothing here decides."""

import queue
import threading
from collections.abc import Callable, Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, assert_never

import structlog

from livejoin.core import facts, plan
from livejoin.core.generation import Generation, Reading
from livejoin.errors import GenerationUnrecoverable, LivejoinError, TopicUnusable
from livejoin.runtime import failpoints

log = structlog.get_logger()

Inbox = queue.Queue[facts.Fact]
_AGAIN_S = 2.0  # for what could not be removed
_WORKERS = 4


class Pipeline(Protocol):
    """What runs generations."""

    def resolve(self, generation: Generation) -> tuple[Mapping[str, Reading], str]:
        """Where a new generation would read, and what else its checkpoint will depend on."""

    def make_topics(self, generation: Generation) -> tuple[str, str]:
        """Have new topics for it, none that was there before; the ids of changelog and feed."""

    def start(self, generation: Generation) -> Mapping[str, Reading] | None:
        """Have its query running; Spoilt where it can never run again.

        Where there is more to read than it was made for: what it has to read, and nothing runs.
        """

    def stop(self, generation: int) -> None:
        """Have its query not running."""

    def catch_up(
        self,
        generation: Generation,
        progressed: Callable[[int, int], None],
        stopped: Callable[[], bool],
    ) -> int | None:
        """Where in the changelog its tables are complete, once they are.

        For one that was complete before: once what its new run reads again is through.
        """

    def keep(self, numbers: frozenset[int], last: int) -> None:
        """Have nothing of any other generation up to the last."""

    def read_on(self, generation: int) -> bool:
        """Whether its last run got further than every run before it."""

    def reachable(self) -> bool:
        """Whether Kafka answers now."""


class Executor:
    """Makes plans true. What takes time runs on threads and comes back as facts."""

    def __init__(self, inbox: Inbox, pipeline: Pipeline) -> None:
        self._inbox = inbox
        self._pipeline = pipeline
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="executor")
        self._stop = threading.Event()
        # apart from those who follow runs: a burst of messages must not keep a live run waiting
        self._resolver = ThreadPoolExecutor(1, thread_name_prefix="resolver")
        self._to_resolve: Generation | None = None  # the newest that is asked for
        self._resolving = 0  # the number of the one that is being resolved
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._make = plan.MakeTopics(())
        self._run = plan.Run(())
        self._keep: plan.Keep | None = None
        # Tried, until they are not asked for any more: made twice, they would have other ids than
        # those that were told first.
        self._made: set[int] = set()
        self._exist: set[int] = set()  # whose topics were made here, and not removed since
        self._started: dict[int, Generation] = {}  # as they were started
        self._unwanted: set[int] = set()  # of those, for a moment at least: each starts again
        self._ended: dict[int, threading.Event] = {}  # set when one should not run any more
        self._runner = threading.Thread(target=self._work, name="runner")
        self._runner.start()

    def close(self) -> None:
        """Stop everything that runs here."""
        self._stop.set()
        self._wake.set()
        self._runner.join()
        for pool in (self._resolver, self._workers):
            pool.shutdown(wait=True, cancel_futures=True)

    def carry_out(self, step: plan.Step) -> None:
        """Have one step done, soon."""
        match step:
            case plan.Resolve(generation):
                with self._lock:
                    if generation.number == self._resolving or generation == self._to_resolve:
                        return
                    self._to_resolve = generation
                self._resolver.submit(self._resolve_newest)
            case plan.MakeTopics() | plan.Run() | plan.Keep():
                with self._lock:
                    if isinstance(step, plan.MakeTopics):
                        self._make = step
                        # here, not by the runner: busy, it may miss that one was not asked for
                        self._made &= {generation.number for generation in step.generations}
                    elif isinstance(step, plan.Run):
                        self._run = step
                        wanted = {generation.number for generation in step.generations}
                        self._unwanted |= set(self._started) - wanted
                    else:
                        self._keep = step
                        if self._to_resolve and self._to_resolve.number not in step.numbers:
                            self._to_resolve = None  # nobody wants it any more
                self._wake.set()
            case _:
                assert_never(step)

    # --- told by those who watch

    def died(self, generation: int, why: str) -> None:
        """A query ended by itself."""
        try:
            counts = self._pipeline.reachable() and not self._pipeline.read_on(generation)
        except LivejoinError as error:  # Kafka went away between the two
            log.warning("cannot tell how far a query came", generation=generation, why=str(error))
            counts = False
        self._inbox.put(facts.Died(generation, why, counts))

    def outdated(self, generation: int, why: str) -> None:
        """A query has to be started again, through no fault of its own."""
        self._inbox.put(facts.Died(generation, why, counts=False))

    def spoilt(self, generation: int, why: str) -> None:
        """A generation can never run again."""
        self._inbox.put(facts.Spoilt(generation, why))

    def looked(self, generation: int, why: str) -> None:
        """The topics of a generation were looked at."""
        self._inbox.put(facts.Looked(generation, why))

    def grew(self, generation: int, sources: Mapping[str, Reading]) -> None:
        """A topic has more partitions than a generation reads."""
        self._inbox.put(facts.Grew(generation, sources))

    # --- inside

    def _resolve_newest(self) -> None:
        """Resolve what was asked for last; one that was superseded while it waited is skipped."""
        with self._lock:
            generation, self._to_resolve = self._to_resolve, None
            if generation is None:
                return
            number = self._resolving = generation.number
        try:
            failpoints.visit("before-resolve")
            sources, fingerprint = self._pipeline.resolve(generation)
            self._inbox.put(facts.Resolved(number, sources, fingerprint))
        except Exception as error:  # noqa: BLE001 - whatever a step dies of becomes a fact
            missing = isinstance(error, TopicUnusable)
            self._inbox.put(facts.NotResolved(number, str(error), missing))
        finally:
            with self._lock:
                self._resolving = 0

    def _work(self) -> None:
        """Make true what was last asked for; one thing at a time, so that slots suffice."""
        kept: plan.Keep | None = None
        while not self._stop.is_set():
            self._wake.wait(_AGAIN_S)
            self._wake.clear()
            with self._lock:
                run, keep, unwanted = self._run, self._keep, self._unwanted
                self._unwanted = set()
            wanted = {generation.number: generation for generation in run.generations}
            self._stop_others(wanted, unwanted)
            if keep is not None and not self._exist <= keep.numbers:
                # in a burst, what superseded builds have left goes before there is more of it
                kept = keep if self._clean(keep) else None
            self._make_topics()
            self._start(wanted)
            if keep is not None and keep != kept and not self._wake.is_set():
                kept = keep if self._clean(keep) else None

    def _stop_others(self, wanted: Mapping[int, Generation], unwanted: Container[int]) -> None:
        changed = [
            number
            for number, started in self._started.items()
            if number not in wanted
            or number in unwanted
            or wanted[number].sources != started.sources
        ]
        for number in changed:
            self._ended.pop(number).set()
            self._stop_query(number)
            del self._started[number]

    def _start(self, wanted: Mapping[int, Generation]) -> None:
        for number, generation in wanted.items():
            # what was asked for meanwhile comes first
            if number not in self._started and not self._stop.is_set():
                self._start_query(generation)

    def _make_topics(self) -> None:
        with self._lock:  # what was asked for last: others may have their ids recorded by now
            new = [g for g in self._make.generations if g.number not in self._made]
            self._made |= {generation.number for generation in new}
        for generation in new:
            number = generation.number
            self._exist.add(number)
            try:
                changelog_id, feed_id = self._pipeline.make_topics(generation)
            except Exception as error:  # noqa: BLE001 - whatever a step dies of becomes a fact
                self._failed(number, error)
            else:
                self._inbox.put(facts.TopicsMade(number, changelog_id, feed_id))

    def _failed(self, number: int, error: Exception) -> None:
        if isinstance(error, GenerationUnrecoverable):
            self.spoilt(number, error.message)
        elif isinstance(error, TopicUnusable):  # it is waited for
            self.outdated(number, error.message)
        else:
            self.died(number, str(error))

    def _start_query(self, generation: Generation) -> None:
        number = generation.number
        self._started[number] = generation
        ended = self._ended[number] = threading.Event()
        try:
            more = self._pipeline.start(generation)
        except Exception as error:  # noqa: BLE001 - whatever a step dies of becomes a fact
            self._failed(number, error)
        else:
            if more:
                self.grew(number, more)
            else:
                self._workers.submit(self._follow, generation, ended)

    def _follow(self, generation: Generation, ended: threading.Event) -> None:
        number = generation.number
        try:
            ready_at = self._pipeline.catch_up(
                generation,
                progressed=lambda done, total: self._inbox.put(
                    facts.Progressed(number, done, total)
                ),
                stopped=lambda: ended.is_set() or self._stop.is_set(),
            )
            if ready_at is None:
                return
            if generation.ready_at is None:
                self._inbox.put(facts.CaughtUp(number, ready_at))
            else:
                self._inbox.put(facts.Ran(number))
        except Exception as error:  # noqa: BLE001 - whatever a step dies of becomes a fact
            if not ended.is_set():  # else it is about a run that is over
                self.died(number, str(error))

    def _stop_query(self, number: int) -> None:
        try:
            failpoints.visit("before-stop")
            self._pipeline.stop(number)
            failpoints.visit("after-stop")
        except LivejoinError as error:
            why = str(error)
            log.error("could not stop a query", generation=number, why=why)  # noqa: TRY400 - no trace for people
        except Exception:
            log.exception("could not stop a query", generation=number)  # whatever it is, we go on

    def _clean(self, keep: plan.Keep) -> bool:
        try:
            self._pipeline.keep(keep.numbers, keep.last)
        except LivejoinError as error:
            log.warning("could not remove what is left over, trying again", why=str(error))
            return False
        except Exception:
            log.exception("could not remove what is left over, trying again")
            return False
        self._exist &= keep.numbers
        return True
