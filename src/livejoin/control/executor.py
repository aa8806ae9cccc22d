"""Carries out the steps of a plan with Kafka and Spark. Nothing is decided here."""

import queue
import threading
import time
from collections.abc import Callable, Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, assert_never

import structlog

from livejoin.core import facts, plan
from livejoin.core.generation import Generation, Reading
from livejoin.errors import GenerationUnrecoverable, LivejoinError, TopicError
from livejoin.runtime import failpoints

log = structlog.get_logger()

Inbox = queue.Queue[facts.Fact]
_RETRY_S = 2.0  # for topics and checkpoints that could not be removed
# A broker with auto.create.topics.enable recreates a deleted topic when a client that still knows
# it refreshes its metadata.
_SWEEP_S = 30.0
_WORKERS = 4


class PipelineControl(Protocol):
    """The pipeline as the executor uses it."""

    def resolve(self, generation: Generation) -> tuple[Mapping[str, Reading], str]:
        """What a new generation reads, and the fingerprint of its query."""

    def make_topics(self, generation: Generation) -> tuple[str, str]:
        """Create new topics for it, replacing existing ones; ids of changelog and bootstrap."""

    def start(self, generation: Generation) -> Mapping[str, Reading] | None:
        """Run its query; GenerationUnrecoverable if it can never run again.

        If its topics have more partitions than it reads, nothing runs, and the result is what to
        read.
        """

    def stop(self, generation: int) -> None:
        """Stop its query if it runs."""

    def catch_up(
        self,
        generation: Generation,
        progressed: Callable[[int, int], None],
        stopped: Callable[[], bool],
    ) -> int | None:
        """Wait until its tables are complete; the changelog offset, or None if stopped.

        If they were complete before: wait until the last batch is reprocessed.
        """

    def keep(self, numbers: frozenset[int], last: int) -> None:
        """Remove topics and checkpoints of all other generations up to the last."""

    def made_progress(self, generation: int) -> bool:
        """Whether its last run read further than every earlier run."""

    def reachable(self) -> bool:
        """Whether Kafka responds now."""


class Executor:
    """Executes plans. Long operations run on threads and report facts to the inbox."""

    def __init__(self, inbox: Inbox, pipeline: PipelineControl) -> None:
        self._inbox = inbox
        self._pipeline = pipeline
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="executor")
        self._stop = threading.Event()
        # separate from the workers: a burst of messages must not delay a live run
        self._resolver = ThreadPoolExecutor(1, thread_name_prefix="resolver")
        self._to_resolve: Generation | None = None  # only the newest request matters
        self._resolving = 0  # number of the generation being resolved
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._create_step = plan.CreateTopics(())
        self._run_step = plan.RunQueries(())
        self._keep_step: plan.KeepOnly | None = None
        # Attempted once per request: a second creation would change the ids already reported.
        self._topics_tried: set[int] = set()
        self._with_topics: set[int] = set()  # topics created here and not yet removed
        self._started: dict[int, Generation] = {}
        self._interrupted: set[int] = set()  # started ones that some plan left out: restarted
        self._stop_signals: dict[int, threading.Event] = {}  # by generation: set to end its run
        self._runner = threading.Thread(target=self._run_loop, name="runner")
        self._runner.start()

    def close(self) -> None:
        """Stop all threads."""
        self._stop.set()
        self._wake.set()
        self._runner.join()
        for pool in (self._resolver, self._workers):
            pool.shutdown(wait=True, cancel_futures=True)

    def carry_out(self, step: plan.Step) -> None:
        """Schedule one step."""
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
                        # here, as the runner may be busy and miss a plan that leaves one out
                        self._topics_tried &= {generation.number for generation in step.generations}
                    elif isinstance(step, plan.RunQueries):
                        self._run_step = step
                        desired = {generation.number for generation in step.generations}
                        self._interrupted |= set(self._started) - desired
                    else:
                        self._keep_step = step
                        if self._to_resolve and self._to_resolve.number not in step.numbers:
                            self._to_resolve = None  # superseded
                self._wake.set()
            case _:
                assert_never(step)

    # --- reports of the pipeline

    def query_died(self, generation: int, why: str) -> None:
        """A query ended unexpectedly."""
        try:
            failure = self._pipeline.reachable() and not self._pipeline.made_progress(generation)
        except LivejoinError as error:  # Kafka became unreachable between the two calls
            log.warning(
                "cannot determine the progress of a query", generation=generation, why=str(error)
            )
            failure = False
        self._inbox.put(facts.QueryDied(generation, why, failure))

    def restart_required(self, generation: int, why: str) -> None:
        """A query has to be restarted for an external reason."""
        self._inbox.put(facts.QueryDied(generation, why, counts_as_failure=False))

    def unrecoverable(self, generation: int, why: str) -> None:
        """A generation can never run again."""
        self._inbox.put(facts.Unrecoverable(generation, why))

    def sources_checked(self, generation: int, why: str) -> None:
        """The topics of a generation were checked."""
        self._inbox.put(facts.SourcesChecked(generation, why))

    def sources_unreachable(self) -> None:
        """The cluster of the sources does not answer."""
        self._inbox.put(facts.SourcesUnreachable())

    def partitions_added(self, generation: int, sources: Mapping[str, Reading]) -> None:
        """A topic has more partitions than a generation reads."""
        self._inbox.put(facts.PartitionsAdded(generation, sources))

    # --- internals

    def _resolve_newest(self) -> None:
        """Resolve the newest request; superseded ones are skipped."""
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
            missing = isinstance(error, TopicError)
            self._inbox.put(facts.ResolutionFailed(number, str(error), missing))
        finally:
            with self._lock:
                self._resolving = 0

    def _run_loop(self) -> None:
        """Carry out the newest steps, one at a time, so that task slots suffice."""
        kept: plan.KeepOnly | None = None
        sweep_at = time.monotonic() + _SWEEP_S
        while not self._stop.is_set():
            self._wake.wait(_RETRY_S)
            self._wake.clear()
            with self._lock:
                run, keep, interrupted = self._run_step, self._keep_step, self._interrupted
                self._interrupted = set()
            desired = {generation.number: generation for generation in run.generations}
            self._stop_others(desired, interrupted)
            if keep is not None and not self._with_topics <= keep.numbers:
                # in a burst, remove leftovers of superseded builds before creating more topics
                kept = keep if self._remove_others(keep) else None
            self._make_topics()
            self._start_missing(desired)
            if keep is None or self._wake.is_set():
                continue
            if keep != kept or time.monotonic() >= sweep_at:
                removed = self._remove_others(keep)
                # a sweep that fails waits for the next one: Kafka may be away for long
                kept = keep if removed or keep == kept else None
                sweep_at = time.monotonic() + _SWEEP_S

    def _stop_others(self, desired: Mapping[int, Generation], interrupted: Container[int]) -> None:
        changed = [
            number
            for number, started in self._started.items()
            if number not in desired
            or number in interrupted
            or desired[number].sources != started.sources
        ]
        for number in changed:
            self._stop_signals.pop(number).set()
            self._stop_query(number)
            del self._started[number]

    def _start_missing(self, desired: Mapping[int, Generation]) -> None:
        for number, generation in desired.items():
            if number not in self._started and not self._stop.is_set():
                self._start_query(generation)

    def _make_topics(self) -> None:
        with self._lock:  # the newest step: other ids may be recorded by now
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
        elif isinstance(error, TopicError):  # wait for it
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
            if not ended.is_set():  # otherwise the run was stopped on purpose
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
            log.exception(
                "could not stop a query", generation=number
            )  # the others must still be stopped

    def _remove_others(self, keep: plan.KeepOnly) -> bool:
        try:
            self._pipeline.keep(keep.numbers, keep.last_number)
        except LivejoinError as error:
            log.warning("could not remove old topics or checkpoints, retrying", why=str(error))
            return False
        except Exception:
            log.exception("could not remove old topics or checkpoints, retrying")
            return False
        self._with_topics &= keep.numbers
        return True
