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
_RETRY_S = 2.0  # for what could not be removed
_WORKERS = 4


class PipelineControl(Protocol):
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

    def made_progress(self, generation: int) -> bool:
        """Whether its last run got further than every run before it."""

    def reachable(self) -> bool:
        """Whether Kafka answers now."""


class Executor:
    """Makes plans true. What takes time runs on threads and comes back as facts."""

    def __init__(self, inbox: Inbox, pipeline: PipelineControl) -> None:
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
        self._create_step = plan.CreateTopics(())
        self._run_step = plan.RunQueries(())
        self._keep_step: plan.KeepOnly | None = None
        # Tried, until they are not asked for any more: made twice, they would have other ids than
        # those that were told first.
        self._topics_tried: set[int] = set()
        self._with_topics: set[int] = set()  # whose topics were made here, and not removed since
        self._started: dict[int, Generation] = {}  # as they were started
        self._interrupted: set[int] = set()  # of those, for a moment at least: each starts again
        self._stop_signals: dict[int, threading.Event] = {}  # set when one should not run any more
        self._runner = threading.Thread(target=self._run_loop, name="runner")
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
            case plan.ResolveSources(generation):
                with self._lock:
                    if generation.number == self._resolving or generation == self._to_resolve:
                        return
                    self._to_resolve = generation
                self._resolver.submit(self._resolve_newest)
            case plan.CreateTopics() | plan.RunQueries() | plan.KeepOnly():
                with self._lock:
                    if isinstance(step, plan.CreateTopics):
                        self._create_step = step
                        # here, not by the runner: busy, it may miss that one was not asked for
                        self._topics_tried &= {generation.number for generation in step.generations}
                    elif isinstance(step, plan.RunQueries):
                        self._run_step = step
                        wanted = {generation.number for generation in step.generations}
                        self._interrupted |= set(self._started) - wanted
                    else:
                        self._keep_step = step
                        if self._to_resolve and self._to_resolve.number not in step.numbers:
                            self._to_resolve = None  # nobody wants it any more
                self._wake.set()
            case _:
                assert_never(step)

    # --- told by those who watch

    def query_died(self, generation: int, why: str) -> None:
        """A query ended by itself."""
        try:
            counts = self._pipeline.reachable() and not self._pipeline.made_progress(generation)
        except LivejoinError as error:  # Kafka went away between the two
            log.warning("cannot tell how far a query came", generation=generation, why=str(error))
            counts = False
        self._inbox.put(facts.QueryDied(generation, why, counts))

    def restart_required(self, generation: int, why: str) -> None:
        """A query has to be started again, through no fault of its own."""
        self._inbox.put(facts.QueryDied(generation, why, counts_as_failure=False))

    def unrecoverable(self, generation: int, why: str) -> None:
        """A generation can never run again."""
        self._inbox.put(facts.Unrecoverable(generation, why))

    def sources_checked(self, generation: int, why: str) -> None:
        """The topics of a generation were looked at."""
        self._inbox.put(facts.SourcesChecked(generation, why))

    def partitions_added(self, generation: int, sources: Mapping[str, Reading]) -> None:
        """A topic has more partitions than a generation reads."""
        self._inbox.put(facts.PartitionsAdded(generation, sources))

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
            self._inbox.put(facts.SourcesResolved(number, sources, fingerprint))
        except Exception as error:  # noqa: BLE001 - whatever a step dies of becomes a fact
            missing = isinstance(error, TopicUnusable)
            self._inbox.put(facts.ResolutionFailed(number, str(error), missing))
        finally:
            with self._lock:
                self._resolving = 0

    def _run_loop(self) -> None:
        """Make true what was last asked for; one thing at a time, so that slots suffice."""
        kept: plan.KeepOnly | None = None
        while not self._stop.is_set():
            self._wake.wait(_RETRY_S)
            self._wake.clear()
            with self._lock:
                run, keep, unwanted = self._run_step, self._keep_step, self._interrupted
                self._interrupted = set()
            wanted = {generation.number: generation for generation in run.generations}
            self._stop_others(wanted, unwanted)
            if keep is not None and not self._with_topics <= keep.numbers:
                # in a burst, what superseded builds have left goes before there is more of it
                kept = keep if self._remove_others(keep) else None
            self._make_topics()
            self._start_missing(wanted)
            if keep is not None and keep != kept and not self._wake.is_set():
                kept = keep if self._remove_others(keep) else None

    def _stop_others(self, wanted: Mapping[int, Generation], unwanted: Container[int]) -> None:
        changed = [
            number
            for number, started in self._started.items()
            if number not in wanted
            or number in unwanted
            or wanted[number].sources != started.sources
        ]
        for number in changed:
            self._stop_signals.pop(number).set()
            self._stop_query(number)
            del self._started[number]

    def _start_missing(self, wanted: Mapping[int, Generation]) -> None:
        for number, generation in wanted.items():
            # what was asked for meanwhile comes first
            if number not in self._started and not self._stop.is_set():
                self._start_query(generation)

    def _make_topics(self) -> None:
        with self._lock:  # what was asked for last: others may have their ids recorded by now
            new = [g for g in self._create_step.generations if g.number not in self._topics_tried]
            self._topics_tried |= {generation.number for generation in new}
        for generation in new:
            number = generation.number
            self._with_topics.add(number)
            try:
                changelog_id, feed_id = self._pipeline.make_topics(generation)
            except Exception as error:  # noqa: BLE001 - whatever a step dies of becomes a fact
                self._report_failure(number, error)
            else:
                self._inbox.put(facts.TopicsCreated(number, changelog_id, feed_id))

    def _report_failure(self, number: int, error: Exception) -> None:
        if isinstance(error, GenerationUnrecoverable):
            self.unrecoverable(number, error.message)
        elif isinstance(error, TopicUnusable):  # it is waited for
            self.restart_required(number, error.message)
        else:
            self.query_died(number, str(error))

    def _start_query(self, generation: Generation) -> None:
        number = generation.number
        self._started[number] = generation
        ended = self._stop_signals[number] = threading.Event()
        try:
            more = self._pipeline.start(generation)
        except Exception as error:  # noqa: BLE001 - whatever a step dies of becomes a fact
            self._report_failure(number, error)
        else:
            if more:
                self.partitions_added(number, more)
            else:
                self._workers.submit(self._follow_run, generation, ended)

    def _follow_run(self, generation: Generation, ended: threading.Event) -> None:
        number = generation.number
        try:
            ready_at = self._pipeline.catch_up(
                generation,
                progressed=lambda done, total: self._inbox.put(
                    facts.BuildProgressed(number, done, total)
                ),
                stopped=lambda: ended.is_set() or self._stop.is_set(),
            )
            if ready_at is None:
                return
            if generation.ready_at is None:
                self._inbox.put(facts.CaughtUp(number, ready_at))
            else:
                self._inbox.put(facts.QueryResumed(number))
        except Exception as error:  # noqa: BLE001 - whatever a step dies of becomes a fact
            if not ended.is_set():  # else it is about a run that is over
                self.query_died(number, str(error))

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

    def _remove_others(self, keep: plan.KeepOnly) -> bool:
        try:
            self._pipeline.keep(keep.numbers, keep.last_number)
        except LivejoinError as error:
            log.warning("could not remove what is left over, trying again", why=str(error))
            return False
        except Exception:
            log.exception("could not remove what is left over, trying again")
            return False
        self._with_topics &= keep.numbers
        return True
