"""The executor survives every error of a step."""

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from fakes import FakePipeline, FakeWorld, topics
from livejoin.control import executor as executor_module
from livejoin.control.executor import Executor, Inbox
from livejoin.core import facts, plan
from livejoin.core.generation import Generation, Reading
from livejoin.core.spec import DEFAULT
from livejoin.errors import NotAuthorized
from rig.running import until

LIMIT_S = 20
ONE, TWO, *MORE = (Generation(n, DEFAULT.choice("users", "accounts"), 0.0) for n in range(1, 21))
ERRORS = [ConnectionRefusedError("the JVM is gone"), KeyError("unexpected")]


class FailingPipeline(FakePipeline):
    """A pipeline whose next stop or cleanup can fail, and whose steps can block."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self.stopping: list[Exception] = []
        self.cleaning: list[Exception] = []
        self.catch_up_unblocked = threading.Event()  # lets the catch-up of generation 1 return
        self.following = threading.Event()
        # by generation: lets resolve return
        self.resolve_unblocked: dict[int, threading.Event] = {}
        self.resolving: list[int] = []

    def resolve(self, generation: Generation) -> tuple[Mapping[str, Reading], str]:
        self.resolving.append(generation.number)
        if generation.number in self.resolve_unblocked:
            assert self.resolve_unblocked[generation.number].wait(LIMIT_S)
        return super().resolve(generation)

    def stop(self, generation: int) -> None:
        if self.stopping:
            raise self.stopping.pop()
        super().stop(generation)

    def keep(self, numbers: frozenset[int], last: int) -> None:
        if self.cleaning:
            raise self.cleaning.pop()
        super().keep(numbers, last)

    def catch_up(
        self,
        generation: Generation,
        progressed: Callable[[int, int], None],
        stopped: Callable[[], bool],
    ) -> int | None:
        if generation.number == 1:
            self.following.set()
            assert self.catch_up_unblocked.wait(LIMIT_S)
            raise OSError("too late")
        return super().catch_up(generation, progressed, stopped)


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld(topics=topics("users", "accounts"))


@pytest.fixture
def pipeline(world: FakeWorld) -> FailingPipeline:
    return FailingPipeline(world)


@contextmanager
def run_executor(pipeline: FailingPipeline) -> Iterator[tuple[Executor, Inbox]]:
    inbox: Inbox = queue.Queue()
    executor = Executor(inbox, pipeline)
    try:
        yield executor, inbox
    finally:
        pipeline.catch_up_unblocked.set()
        executor.close()


@pytest.mark.parametrize("error", ERRORS)
def test_a_query_that_cannot_be_stopped_does_not_block_others(
    world: FakeWorld, pipeline: FailingPipeline, error: Exception
) -> None:
    pipeline.stopping = [error]
    with run_executor(pipeline) as (executor, _):
        executor.carry_out(plan.RunQueries((ONE,)))
        until(lambda: 1 in world.running, "the first runs", LIMIT_S)
        executor.carry_out(plan.RunQueries((TWO,)))
        until(lambda: 2 in world.running, "the second runs", LIMIT_S)


@pytest.mark.parametrize("error", ERRORS)
def test_a_failed_cleanup_is_retried(
    world: FakeWorld, pipeline: FailingPipeline, error: Exception
) -> None:
    pipeline.cleaning = [error]
    world.changelogs.add(1)
    with run_executor(pipeline) as (executor, _):
        executor.carry_out(plan.KeepOnly(frozenset(), 1))
        until(lambda: not world.changelogs, "the changelog is removed", LIMIT_S)


def test_a_topic_recreated_by_a_late_client_is_removed(
    world: FakeWorld, pipeline: FailingPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is unchanged, so only the periodic sweep can find the topic."""
    monkeypatch.setattr(executor_module, "_SWEEP_S", 0.1)
    world.changelogs.add(1)
    with run_executor(pipeline) as (executor, _):
        executor.carry_out(plan.KeepOnly(frozenset(), 1))
        until(lambda: not world.changelogs, "the changelog is removed", LIMIT_S)
        world.changelogs.add(1)
        until(lambda: not world.changelogs, "the recreated changelog is removed", LIMIT_S)


def test_errors_after_the_end_of_a_run_are_ignored(
    world: FakeWorld, pipeline: FailingPipeline
) -> None:
    with run_executor(pipeline) as (executor, inbox):
        executor.carry_out(plan.RunQueries((ONE,)))
        assert pipeline.following.wait(LIMIT_S)
        executor.carry_out(plan.RunQueries((TWO,)))
        until(lambda: 1 not in world.running, "the first is stopped", LIMIT_S)
        pipeline.catch_up_unblocked.set()
    received = [inbox.get_nowait() for _ in range(inbox.qsize())]
    assert not any(isinstance(fact, facts.QueryDied) for fact in received)


def test_superseded_generations_are_not_resolved_and_block_no_run(
    world: FakeWorld, pipeline: FailingPipeline
) -> None:
    pipeline.resolve_unblocked = {generation.number: threading.Event() for generation in MORE}
    *superseded, newest = MORE
    with run_executor(pipeline) as (executor, inbox):
        try:
            for generation in MORE:  # a burst of messages, each superseding the previous build
                executor.carry_out(plan.ResolveSources(generation))
            executor.carry_out(plan.RunQueries((TWO,)))
            until(lambda: _received(inbox, facts.CaughtUp), "a run catches up meanwhile", LIMIT_S)
            for unblock in pipeline.resolve_unblocked.values():
                unblock.set()
            until(
                lambda: _received(inbox, facts.SourcesResolved, newest.number),
                "the newest is resolved",
                LIMIT_S,
            )
        finally:
            for unblock in pipeline.resolve_unblocked.values():
                unblock.set()
    assert len([g for g in superseded if g.number in pipeline.resolving]) <= 1
    assert world.running == {2}


def _received(inbox: Inbox, kind: type[facts.GenerationFact], number: int = 2) -> bool:
    with inbox.mutex:
        return any(isinstance(f, kind) and f.generation == number for f in inbox.queue)


def test_a_failed_resolution_is_retried_on_request(
    pipeline: FailingPipeline,
) -> None:
    with run_executor(pipeline) as (executor, inbox):
        pipeline._world.topics.pop("users")
        executor.carry_out(plan.ResolveSources(ONE))
        until(lambda: _received(inbox, facts.ResolutionFailed, 1), "the topic is missing", LIMIT_S)
        pipeline._world.topics["users"] = "again"
        executor.carry_out(plan.ResolveSources(ONE))
        until(lambda: _received(inbox, facts.SourcesResolved, 1), "the topic is found", LIMIT_S)


def test_a_query_missing_from_the_plan_for_a_moment_is_restarted(world: FakeWorld) -> None:
    """It died and waits for its retry, while the thread that starts queries is busy."""
    busy, proceed = threading.Event(), threading.Event()

    class Busy(FailingPipeline):
        def start(self, generation: Generation) -> Mapping[str, Reading] | None:
            if generation.number == 2:
                busy.set()
                assert proceed.wait(LIMIT_S)
            return super().start(generation)

    pipeline = Busy(world)
    with run_executor(pipeline) as (executor, _):
        executor.carry_out(plan.RunQueries((ONE,)))
        assert pipeline.following.wait(LIMIT_S)
        executor.carry_out(plan.RunQueries((ONE, TWO)))
        assert busy.wait(LIMIT_S)
        before = world.effects.count("after start")
        executor.carry_out(plan.RunQueries((TWO,)))
        executor.carry_out(plan.RunQueries((ONE, TWO)))
        proceed.set()
        until(lambda: world.effects.count("after start") == before + 2, "both started", LIMIT_S)
        assert world.running == {1, 2}


def test_topics_are_created_once_for_repeated_requests(
    world: FakeWorld, pipeline: FailingPipeline
) -> None:
    with run_executor(pipeline) as (executor, inbox):
        for _ in range(20):
            executor.carry_out(plan.CreateTopics((ONE,)))
            executor.carry_out(plan.RunQueries(()))
        assert inbox.get(timeout=LIMIT_S) == facts.TopicsCreated(1, "made 1")
        executor.carry_out(plan.CreateTopics(()))
        executor.carry_out(plan.CreateTopics((TWO,)))
        assert inbox.get(timeout=LIMIT_S) == facts.TopicsCreated(2, "made 2")
    assert world.topics_created == 2


def test_a_failed_topic_creation_is_retried_on_request(
    world: FakeWorld,
) -> None:
    class Failing(FailingPipeline):
        def make_topics(self, generation: Generation) -> tuple[str, str]:
            if not world.topics_created:
                world.topics_created += 1
                raise NotAuthorized("may not be made")
            return super().make_topics(generation)

    with run_executor(Failing(world)) as (executor, inbox):
        executor.carry_out(plan.CreateTopics((ONE,)))
        assert inbox.get(timeout=LIMIT_S) == facts.QueryDied(
            1, "may not be made", counts_as_failure=False
        )
        executor.carry_out(plan.CreateTopics(()))  # until the retry is due
        executor.carry_out(plan.CreateTopics((ONE,)))
        assert inbox.get(timeout=LIMIT_S) == facts.TopicsCreated(1, "made 2")


def test_topics_of_superseded_builds_are_removed_during_a_burst(
    world: FakeWorld,
) -> None:
    class Burst(FailingPipeline):
        """Whenever topics are created, another message supersedes their generation."""

        max_changelogs = 0

        def make_topics(self, generation: Generation) -> tuple[str, str]:
            created = super().make_topics(generation)
            self.max_changelogs = max(self.max_changelogs, len(world.changelogs))
            request(generation.number + 1)
            return created

    def request(number: int) -> None:
        requested = [generation for generation in MORE if generation.number == number]
        executor.carry_out(plan.CreateTopics(tuple(requested)))
        executor.carry_out(plan.RunQueries(()))
        executor.carry_out(
            plan.KeepOnly(frozenset(generation.number for generation in requested), MORE[-1].number)
        )

    pipeline = Burst(world)
    with run_executor(pipeline) as (executor, _):
        request(MORE[0].number)
        until(
            lambda: world.topics_created == len(MORE) and not world.changelogs,
            "all changelogs are removed",
            LIMIT_S,
        )
    assert pipeline.max_changelogs <= 2
